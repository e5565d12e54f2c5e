//! A text becomes a tree.

use sql::Pattern;
use sql::StatementClass;

use super::error::ConditionError;
use super::lexer::{Piece, Token, pieces};
use super::naming::{Place, allowed, example};
use super::quantity::{Kind, Name, Quantity, TextName, What};
use super::{Operator, Test, Tree, Unit, Value};

/// Brackets and `not` within each other.
const DEPTH_MAX: u32 = 64;

pub(super) fn parse(text: &str) -> Result<Tree, ConditionError> {
    let pieces = pieces(text)?;
    let mut parser = Parser {
        text,
        pieces: &pieces,
        depth: 0,
    };
    let tree = parser.any()?;
    match parser.pieces.first() {
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
    pieces: &'a [Piece],
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

    fn next(&mut self) -> Option<&'a Piece> {
        let (first, rest) = self.pieces.split_first()?;
        self.pieces = rest;
        Some(first)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let takes = self
            .pieces
            .first()
            .is_some_and(|piece| piece.token == *token);
        if takes {
            self.pieces = &self.pieces[1..];
        }
        takes
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = |piece: &Piece| matches!(&piece.token, Token::Word(found) if found == word);
        let takes = self.pieces.first().is_some_and(is);
        if takes {
            self.pieces = &self.pieces[1..];
        }
        takes
    }

    /// Behind the last piece.
    fn end(&self) -> (usize, usize) {
        let end = self.text.trim_end().len();
        (end, end)
    }

    fn any(&mut self) -> Result<Tree, ConditionError> {
        self.list("or", Parser::every, Tree::Any)
    }

    fn every(&mut self) -> Result<Tree, ConditionError> {
        self.list("and", Parser::one, Tree::Every)
    }

    fn list(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Result<Tree, ConditionError>,
        whole: impl Fn(Vec<Tree>) -> Tree,
    ) -> Result<Tree, ConditionError> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.takes_word(word) {
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => whole(parts),
        })
    }

    fn one(&mut self) -> Result<Tree, ConditionError> {
        let at = self.pieces.first().map_or(self.end(), |piece| piece.at);
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(
                at,
                format!("more than {DEPTH_MAX} brackets and nots stand within each other; say it in fewer"),
            ));
        }
        let tree = if self.takes_word("not") {
            Tree::Not(Box::new(self.one()?))
        } else if self.takes(&Token::Open) {
            let inner = self.any()?;
            if !self.takes(&Token::Close) {
                let place = self.pieces.first().map_or(self.end(), |piece| piece.at);
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
            Tree::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(tree)
    }

    fn test(&mut self) -> Result<Test, ConditionError> {
        let Some(piece) = self.next() else {
            return Err(self.fault(
                self.end(),
                "a test is missing here, such as p99 > 1.2x, new_errors > 0 or regression",
            ));
        };
        let Token::Word(word) = &piece.token else {
            return Err(self.fault(
                piece.at,
                "a test begins with the name of a quantity, such as p99, calls or errors; the value stands behind",
            ));
        };
        let mut place = Place::default();
        let mut from = piece.at.0;
        for part in word.split('.') {
            let at = (from, from + part.len());
            from = at.1 + 1;
            place.add(part).map_err(|message| self.fault(at, message))?;
        }
        match place.what {
            None => Err(self.fault(
                piece.at,
                format!("the name of a quantity is missing behind this, such as {word}.p99"),
            )),
            Some((what @ (What::Flag(_) | What::Text(_)), word)) => {
                if place.subject.is_some() || place.side.is_some() || place.end.is_some() {
                    return Err(self.fault(piece.at, format!("{word} stands alone, without a dot")));
                }
                match what {
                    What::Text(name) => self.text_test(name),
                    What::Flag(flag) => match self.pieces.first() {
                        Some(Piece {
                            token: Token::Compare(_),
                            at,
                        }) => Err(self.fault(
                            *at,
                            format!("{word} holds or does not: write it alone, or 'not {word}'"),
                        )),
                        _ => Ok(Test::Flag(flag)),
                    },
                    What::Number(_) => unreachable!("matched above"),
                }
            }
            Some((What::Number(name), _)) => {
                let quantity = place
                    .quantity(name)
                    .map_err(|message| self.fault(piece.at, message))?;
                self.number_test(quantity, piece.at)
            }
        }
    }

    fn number_test(
        &mut self,
        quantity: Quantity,
        place: (usize, usize),
    ) -> Result<Test, ConditionError> {
        let name = quantity.name;
        let example = example(quantity);
        let operator = match self.pieces.first() {
            Some(Piece {
                token: Token::Compare(operator),
                ..
            }) => {
                self.next();
                *operator
            }
            Some(Piece {
                token: Token::Matches | Token::MatchesNot,
                at,
            }) => {
                return Err(self.fault(*at, format!("~ is for sql alone; write such as {example}")));
            }
            Some(Piece {
                token: Token::Number(..) | Token::Text(_),
                at,
            }) => {
                return Err(self.fault(
                    *at,
                    format!(
                        "one of > >= < <= = != is missing before this; write such as {example}"
                    ),
                ));
            }
            _ if name.may_stand_alone() => return Ok(Test::IsThere(quantity)),
            _ => {
                return Err(self.fault(
                    place,
                    format!("{quantity} is compared with something; write such as {example}"),
                ));
            }
        };
        let (value, at) = match self.next() {
            Some(Piece {
                token: Token::Number(number, unit),
                at,
            }) => (
                Value {
                    number: *number,
                    unit: *unit,
                },
                *at,
            ),
            Some(Piece {
                token: Token::Word(_),
                at,
            }) => {
                return Err(self.fault(*at, format!("{quantity} is compared with a number, not with another quantity; write such as {example}")));
            }
            Some(piece) => {
                return Err(self.fault(
                    piece.at,
                    format!("a number is missing here; write such as {example}"),
                ));
            }
            None => {
                return Err(self.fault(
                    self.end(),
                    format!("a number is missing here; write such as {example}"),
                ));
            }
        };
        let kind = value.kind(name);
        let Some(kind) = kind else {
            return Err(self.fault(
                at,
                format!(
                    "{} is {}; write such as {example}",
                    name.word(),
                    allowed(name)
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
            _ => Ok(Test::Number(quantity, operator, value)),
        }
    }

    fn text_test(&mut self, name: TextName) -> Result<Test, ConditionError> {
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
            // What is no other word may stand without quotes.
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
                    return Err(self.fault(place, "a fingerprint has 16 hexadecimal digits; reports show them beside each statement"));
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
    /// Which of what a quantity can be compared with this is.
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

    /// In the measure of its kind: a ratio as such, times in nanoseconds, shares from 0 to 1.
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
