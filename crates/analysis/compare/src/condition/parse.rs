//! Recursive-descent parser of conditions.

use sql::Pattern;
use sql::StatementClass;

use super::error::ConditionError;
use super::lexer::{SpannedToken, Token, tokenize};
use super::quantity::{Kind, Name, Quantity, QuantityKind, TextName};
use super::quantity_path::{QuantityPath, allowed_values, example_test};
use super::{Operator, Test, Tree, Unit, Value};

/// Maximum nesting depth of brackets and `not`.
const DEPTH_MAX: u32 = 64;

pub(super) fn parse(text: &str) -> Result<Tree, ConditionError> {
    let tokens = tokenize(text)?;
    let mut parser = Parser {
        text,
        tokens: &tokens,
        depth: 0,
    };
    let tree = parser.parse_disjunction()?;
    match parser.tokens.first() {
        None => Ok(tree),
        Some(piece) if piece.token == Token::Close => {
            Err(parser.fault(piece.at, "this bracket closes none; take it out"))
        }
        Some(piece) => Err(parser.fault(
            piece.at,
            "'and' or 'or' is missing before this; a test ends here",
        )),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [SpannedToken],
    depth: u32,
}

impl<'a> Parser<'a> {
    fn fault(&self, at: (usize, usize), message: impl Into<String>) -> ConditionError {
        ConditionError {
            text: self.text.to_owned(),
            at,
            message: message.into(),
        }
    }

    fn next(&mut self) -> Option<&'a SpannedToken> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn accept(&mut self, token: &Token) -> bool {
        let takes = self
            .tokens
            .first()
            .is_some_and(|piece| piece.token == *token);
        if takes {
            self.tokens = &self.tokens[1..];
        }
        takes
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is = |piece: &SpannedToken| matches!(&piece.token, Token::Word(found) if found == word);
        let takes = self.tokens.first().is_some_and(is);
        if takes {
            self.tokens = &self.tokens[1..];
        }
        takes
    }

    /// Returns the empty range after the last token.
    fn end(&self) -> (usize, usize) {
        let end = self.text.trim_end().len();
        (end, end)
    }

    fn parse_disjunction(&mut self) -> Result<Tree, ConditionError> {
        self.parse_list("or", Parser::parse_conjunction, Tree::Any)
    }

    fn parse_conjunction(&mut self) -> Result<Tree, ConditionError> {
        self.parse_list("and", Parser::parse_operand, Tree::Every)
    }

    fn parse_list(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<Tree, ConditionError>,
        whole: impl Fn(Vec<Tree>) -> Tree,
    ) -> Result<Tree, ConditionError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.accept_word(word) {
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => whole(parts),
        })
    }

    fn parse_operand(&mut self) -> Result<Tree, ConditionError> {
        let at = self.tokens.first().map_or(self.end(), |piece| piece.at);
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(
                at,
                format!("more than {DEPTH_MAX} brackets and nots stand within each other; say it in fewer"),
            ));
        }
        let tree = if self.accept_word("not") {
            Tree::Not(Box::new(self.parse_operand()?))
        } else if self.accept(&Token::Open) {
            let inner = self.parse_disjunction()?;
            if !self.accept(&Token::Close) {
                let place = self.tokens.first().map_or(self.end(), |piece| piece.at);
                return Err(self.fault(
                    place,
                    format!(
                        "no bracket closes the one at character {}; put ) here, or and, or or",
                        character(self.text, at.0)
                    ),
                ));
            }
            inner
        } else {
            Tree::Test(self.parse_test()?)
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn parse_test(&mut self) -> Result<Test, ConditionError> {
        let Some(piece) = self.next() else {
            return Err(self.fault(
                self.end(),
                "a test is missing here, such as p99 > 1.2x, new_errors > 0 or regression",
            ));
        };
        let Token::Word(word) = &piece.token else {
            return Err(self.fault(
                piece.at,
                "a test begins with the name of a quantity, such as p99, calls or errors; the value comes after it",
            ));
        };
        let mut place = QuantityPath::default();
        let mut from = piece.at.0;
        for part in word.split('.') {
            let at = (from, from + part.len());
            from = at.1 + 1;
            place.add(part).map_err(|message| self.fault(at, message))?;
        }
        match place.what {
            None => Err(self.fault(
                piece.at,
                format!("the name of a quantity is missing after this, such as {word}.p99"),
            )),
            Some((what @ (QuantityKind::Flag(_) | QuantityKind::Text(_)), word)) => {
                if place.subject.is_some() || place.side.is_some() || place.end.is_some() {
                    return Err(self.fault(piece.at, format!("{word} stands alone, without a dot")));
                }
                match what {
                    QuantityKind::Text(name) => self.parse_text_test(name),
                    QuantityKind::Flag(flag) => match self.tokens.first() {
                        Some(SpannedToken {
                            token: Token::Compare(_),
                            at,
                        }) => Err(self.fault(
                            *at,
                            format!("{word} holds or does not: write it alone, or 'not {word}'"),
                        )),
                        _ => Ok(Test::Flag(flag)),
                    },
                    QuantityKind::Number(_) => unreachable!("matched above"),
                }
            }
            Some((QuantityKind::Number(name), _)) => {
                let quantity = place
                    .quantity(name)
                    .map_err(|message| self.fault(piece.at, message))?;
                self.parse_number_test(quantity, piece.at)
            }
        }
    }

    fn parse_number_test(
        &mut self,
        quantity: Quantity,
        place: (usize, usize),
    ) -> Result<Test, ConditionError> {
        let name = quantity.name;
        let example = example_test(quantity);
        let Some(operator) = self.parse_operator(quantity, &example, place)? else {
            return Ok(Test::IsThere(quantity));
        };
        let (value, at) = self.parse_value(quantity, &example)?;
        let Some(kind) = value.kind(name) else {
            return Err(self.fault(
                at,
                format!(
                    "{} is {}; write such as {example}",
                    name.word(),
                    allowed_values(name)
                ),
            ));
        };
        match kind {
            Kind::Ratio if quantity.side.is_some() => Err(self.fault(
                at,
                format!("{quantity} is of one run and no ratio; write such as {example}, or {} {}{} without the run", name.word(), value.number, value.unit.word()),
            )),
            Kind::Time | Kind::Count | Kind::Share if quantity.end.is_some() => Err(self.fault(
                at,
                format!("{quantity} is an end of the ratio's interval; write such as {example}"),
            )),
            Kind::Ratio if value.ratio() < 0.0 => {
                Err(self.fault(at, "no ratio is below 0: -100% is 0x; give a greater one"))
            }
            Kind::Share if !(0.0..=1.0).contains(&value.measured(kind)) => Err(self.fault(
                at,
                format!("no share is below 0% or above 100%; write such as {example}"),
            )),
            _ => Ok(Test::Number(quantity, operator, value)),
        }
    }

    /// Parses the operator after a quantity; `None` if the quantity is a test on its own.
    fn parse_operator(
        &mut self,
        quantity: Quantity,
        example: &str,
        place: (usize, usize),
    ) -> Result<Option<Operator>, ConditionError> {
        match self.tokens.first() {
            Some(SpannedToken {
                token: Token::Compare(operator),
                ..
            }) => {
                self.next();
                Ok(Some(*operator))
            }
            Some(SpannedToken {
                token: Token::Matches | Token::MatchesNot,
                at,
            }) => Err(self.fault(*at, format!("~ is for sql alone; write such as {example}"))),
            Some(SpannedToken {
                token: Token::Number(..) | Token::Text(_),
                at,
            }) => Err(self.fault(
                *at,
                format!("one of > >= < <= = != is missing before this; write such as {example}"),
            )),
            _ if quantity.name.may_stand_alone() => Ok(None),
            _ => Err(self.fault(
                place,
                format!("{quantity} is compared with something; write such as {example}"),
            )),
        }
    }

    /// Parses the number that a quantity is compared with, and returns its byte range.
    fn parse_value(
        &mut self,
        quantity: Quantity,
        example: &str,
    ) -> Result<(Value, (usize, usize)), ConditionError> {
        match self.next() {
            Some(SpannedToken {
                token: Token::Number(number, unit),
                at,
            }) => {
                let value = Value {
                    number: *number,
                    unit: *unit,
                };
                Ok((value, *at))
            }
            Some(SpannedToken {
                token: Token::Word(_),
                at,
            }) => {
                Err(self.fault(*at, format!("{quantity} is compared with a number, not with another quantity; write such as {example}")))
            }
            Some(piece) => {
                Err(self.fault(
                    piece.at,
                    format!("a number is missing here; write such as {example}"),
                ))
            }
            None => {
                Err(self.fault(
                    self.end(),
                    format!("a number is missing here; write such as {example}"),
                ))
            }
        }
    }

    fn parse_text_test(&mut self, name: TextName) -> Result<Test, ConditionError> {
        let word = name.word();
        let example = match name {
            TextName::Sql => "sql ~ 'from orders'",
            TextName::Class => "class = 'select'",
            TextName::Fingerprint => "fingerprint = '0123456789abcdef'",
        };
        let operator = self.next();
        let place = operator.map_or(self.end(), |piece| piece.at);
        let says_yes = match (name, operator.map(|piece| &piece.token)) {
            (TextName::Sql, Some(Token::Matches)) => true,
            (TextName::Sql, Some(Token::MatchesNot)) => false,
            (TextName::Class | TextName::Fingerprint, Some(Token::Compare(Operator::Equal))) => {
                true
            }
            (TextName::Class | TextName::Fingerprint, Some(Token::Compare(Operator::Unequal))) => {
                false
            }
            (TextName::Sql, _) => return Err(self.fault(
                place,
                format!(
                    "sql takes ~ (has this text in it) and !~ (has not); write such as {example}"
                ),
            )),
            _ => {
                return Err(self.fault(
                    place,
                    format!("{word} takes = and !=; write such as {example}"),
                ));
            }
        };
        let content = self.next();
        let place = content.map_or(self.end(), |piece| piece.at);
        let text = match content.map(|piece| &piece.token) {
            Some(Token::Text(text)) => text.clone(),
            // A word that is not a keyword needs no quotes.
            Some(Token::Word(text)) if name != TextName::Sql => text.clone(),
            _ => {
                return Err(self.fault(
                    place,
                    format!("a text in quotes is missing here; write such as {example}"),
                ));
            }
        };
        match name {
            TextName::Sql => {
                let Some(pattern) = Pattern::statement(&text) else {
                    return Err(self.fault(
                        place,
                        "every statement has this in it; give a part of a statement's text",
                    ));
                };
                Ok(Test::Sql {
                    matches: says_yes,
                    pattern,
                })
            }
            TextName::Class => {
                let text = text.to_ascii_lowercase();
                let classes = StatementClass::ALL.map(StatementClass::name);
                if !classes.contains(&text.as_str()) {
                    return Err(self.fault(
                        place,
                        format!("there is no such class; there are {}", classes.join(", ")),
                    ));
                }
                Ok(Test::Is {
                    name,
                    equal: says_yes,
                    text,
                })
            }
            TextName::Fingerprint => {
                let text = text.to_ascii_lowercase();
                if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(self.fault(place, "a fingerprint has 16 hexadecimal digits; reports show it with each statement"));
                }
                Ok(Test::Is {
                    name,
                    equal: says_yes,
                    text,
                })
            }
        }
    }
}

fn character(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

impl Value {
    /// Returns which of the quantity's kinds this value has.
    pub(super) fn kind(self, name: Name) -> Option<Kind> {
        let kinds: &[Kind] = match self.unit {
            Unit::None => &[Kind::Count],
            Unit::Times => &[Kind::Ratio],
            Unit::Percent => &[Kind::Ratio, Kind::Share],
            _ => &[Kind::Time],
        };
        kinds
            .iter()
            .copied()
            .find(|kind| name.kinds().contains(kind))
    }

    fn ratio(self) -> f64 {
        match self.unit {
            Unit::Percent => 1.0 + self.number / 100.0,
            _ => self.number,
        }
    }

    /// Returns the value in the base unit of its kind: ratios unchanged, times in nanoseconds,
    /// shares from 0 to 1.
    pub(super) fn measured(self, kind: Kind) -> f64 {
        let of_unit = match self.unit {
            Unit::Nanoseconds => 1.0,
            Unit::Microseconds => 1e3,
            Unit::Milliseconds => 1e6,
            Unit::Seconds => 1e9,
            Unit::Minutes => 60e9,
            Unit::Percent => 0.01,
            Unit::None | Unit::Times => 1.0,
        };
        match kind {
            Kind::Ratio => self.ratio(),
            Kind::Time | Kind::Count | Kind::Share => self.number * of_unit,
        }
    }
}
