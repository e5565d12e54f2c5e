//! Literals in the text of a statement: found with the lexer of the fingerprints, so that a masked
//! statement has the fingerprint of the original (but where a backslash escapes, which fingerprints do not know).

mod backslashed;

use std::ops::Range;

use sql::{Lexer, Token};

use super::Mask;
use super::backslash::Backslash;
use super::became::Became;
use super::codes::mask_bits;
use super::number::Number;
use super::rules;
use super::rules::Statement;
use super::words::{Reading, mask_text};
use backslashed::literals_otherwise;
use sql::Spelling;
use workload::{Kept, MaskAccount};

/// A factor, position or modifier has at most so many digits.
const SMALL_DIGITS_MAX: usize = 4;
/// Code in code in code: deeper ones are masked as text.
const DEPTH_MAX: u32 = 4;

/// What an open bracket belongs to.
#[derive(Debug, Default)]
struct Frame<'a> {
    /// The word before it, of a function or type; empty for none.
    word: &'a str,
    /// How many commas there were.
    argument: u32,
    /// ORDER BY or GROUP BY goes on.
    ordering: bool,
    /// The option list of a COPY, or WITH (…) of a definition.
    options: bool,
    /// The name in a first argument of `set_config` has a dot.
    custom: bool,
    /// The name is this parameter.
    named_by: Option<usize>,
    /// FROM came in it: `extract(year from …)`.
    behind_from: bool,
    /// It is of square ones, and a subscript.
    subscript: bool,
}

struct Scan<'a> {
    sql: &'a str,
    tokens: Vec<Token>,
    /// A backslash in a plain literal escapes.
    escapes: bool,
    /// Where literals would be if it did, of a text that may be meant so: nothing there stays.
    either: Vec<Range<usize>>,
    frames: Vec<Frame<'a>>,
    /// `None` until the statement's first telling word.
    statement: Option<Statement>,
    /// The SET is of a name with a dot, or `application_name`.
    custom: bool,
    /// A definition with code: CREATE FUNCTION or PROCEDURE.
    has_code: bool,
    /// ALTER ROLE, DATABASE or SYSTEM, which may SET.
    has_settings: bool,
    /// COPY: its table or query, FROM or TO, came.
    behind_copied: bool,
    /// The last token that is no comment.
    previous: Option<usize>,
}

/// What a parameter is for, by where its `$1` stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Data,
    Expression,
    /// A path with filters.
    Path,
    /// The value of the setting that this parameter (from 1) names.
    SettingOf(usize),
    Kept(Kept),
}

/// What each parameter is for.
#[derive(Debug, Default)]
pub(super) struct Roles(Vec<Option<Role>>);

impl Roles {
    /// One that stands in several places is data where one of them says so.
    fn note(&mut self, number: usize, role: Role) {
        if self.0.len() < number {
            self.0.resize(number, None);
        }
        let known = &mut self.0[number - 1];
        *known = match *known {
            None => Some(role),
            Some(known) if known == role => Some(known),
            Some(_) => Some(Role::Data),
        };
    }

    /// Of the parameter at `index`, from 0.
    pub(super) fn of(&self, index: usize) -> Role {
        self.0.get(index).copied().flatten().unwrap_or(Role::Data)
    }
}

/// The number of a `$1`.
fn placeholder(token: &str) -> Option<usize> {
    let number = token.strip_prefix('$')?.parse().ok()?;
    (1..=usize::from(u16::MAX))
        .contains(&number)
        .then_some(number)
}

impl Mask {
    /// Masks the literals of one or several statements, and blanks out comments. `backslash`: what one is in
    /// a plain literal.
    pub(super) fn sql(
        &self,
        sql: &str,
        backslash: Backslash,
        account: &mut MaskAccount,
        roles: &mut Roles,
        out: &mut String,
    ) {
        roles.0.clear();
        self.sql_within(sql, (backslash, 0), account, roles, out);
    }

    fn sql_within(
        &self,
        sql: &str,
        (backslash, depth): (Backslash, u32),
        account: &mut MaskAccount,
        roles: &mut Roles,
        out: &mut String,
    ) {
        let tokens: Vec<Token> = match backslash {
            Backslash::Escapes => Lexer::with_escapes(sql).collect(),
            Backslash::Plain | Backslash::Unsure => Lexer::new(sql).collect(),
        };
        let either = match backslash {
            Backslash::Unsure => literals_otherwise(sql, &tokens),
            Backslash::Plain | Backslash::Escapes => Vec::new(),
        };
        let mut scan = Scan {
            sql,
            tokens,
            escapes: backslash == Backslash::Escapes,
            either,
            frames: vec![Frame::default()],
            statement: None,
            custom: false,
            has_code: false,
            has_settings: false,
            behind_copied: false,
            previous: None,
        };
        let mut copied = 0;
        for index in 0..scan.tokens.len() {
            let token = scan.tokens[index];
            out.push_str(&sql[copied..token.start()]);
            copied = token.end();
            let text = &sql[token.start()..token.end()];
            match token {
                Token::Comment { .. } => {
                    self.comment(text, account, out);
                    continue;
                }
                Token::Value { .. } if Spelling::of(text).0 == Spelling::Placeholder => {
                    out.push_str(text);
                    // `$0` and `$70000` are of no parameter.
                    if let Some(number) = placeholder(text).filter(|_| depth == 0) {
                        roles.note(number, scan.role(index));
                    }
                }
                Token::Value { .. } => self.literal(&scan, index, (backslash, depth), account, out),
                _ if scan.is_literal_otherwise(token) => {
                    mask_text(&self.key, text, Reading::Plain, out);
                    Became::Masked.count(&mut account.literals);
                }
                _ => out.push_str(text),
            }
            scan.pass(index);
        }
        out.push_str(&sql[copied..]);
    }

    /// What is left of a comment: a hint for a planner (`pg_hint_plan`) names tables and indexes.
    fn comment(&self, text: &str, account: &mut MaskAccount, out: &mut String) {
        if text.starts_with("/*+") {
            out.push_str(text);
            return;
        }
        account.comments += 1;
        out.push_str(if text.starts_with("--") { "--" } else { "/**/" });
    }

    fn literal(
        &self,
        scan: &Scan<'_>,
        index: usize,
        (backslash, depth): (Backslash, u32),
        account: &mut MaskAccount,
        out: &mut String,
    ) {
        let token = scan.tokens[index];
        let text = &scan.sql[token.start()..token.end()];
        let (spelling, inner) = scan.spelling(index, out);
        let escape = scan.escape(index);
        let value = spelling.read(inner, escape);
        let is_code = depth < DEPTH_MAX
            && scan.either.is_empty()
            && scan.is_code(index)
            && spelling != Spelling::Number;
        if is_code && self.stays(&value) != Some(Kept::Asked) {
            // Its literals are counted each for itself.
            let mut masked = String::with_capacity(value.len());
            self.sql_within(
                &value,
                (backslash, depth + 1),
                account,
                &mut Roles::default(),
                &mut masked,
            );
            spelling.write(&masked, escape, out);
            return;
        }
        let reason = match scan.either.is_empty() {
            true => scan.reason(index, spelling, &value),
            // What stands around it may be no words of the statement.
            false => None,
        };
        // What stays is read the same whatever the setting, too.
        let is_respelled = spelling != Spelling::of(text).0;
        let stays = |out: &mut String| match is_respelled {
            true => spelling.write(&value, escape, out),
            false => out.push_str(text),
        };
        if let Some(reason) = reason {
            stays(out);
            Became::Kept(reason).count(&mut account.literals);
            return;
        }
        let mut masked = String::with_capacity(value.len());
        let became = match spelling {
            Spelling::Number => self.number(&value, &mut masked),
            Spelling::Bits(_) if mask_bits(&self.key, &value, &mut masked) => Became::Masked,
            Spelling::HexBits(_) => self.hex_bits(&value, &mut masked),
            _ if scan.takes_an_expression() => match self.stays(&value) {
                Some(reason) => Became::Kept(reason),
                None => {
                    mask_text(&self.key, &value, Reading::Expression, &mut masked);
                    Became::Masked
                }
            },
            _ if scan.takes_a_path(&value) && self.stays(&value).is_none() => {
                self.path(&value, &mut masked)
            }
            _ => self.value(&value, &mut masked),
        };
        became.count(&mut account.literals);
        match became {
            Became::Kept(_) => stays(out),
            _ => spelling.write(&masked, escape, out),
        }
    }

    /// A number, also in the spellings with another base, which are written as decimal ones.
    fn number(&self, text: &str, out: &mut String) -> Became {
        let unsigned = text.trim_start_matches(['-', '+']);
        let radix = match unsigned.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ if Number::parse(unsigned).is_some() => return self.value(text, out),
            _ => return self.digits(text, out),
        };
        match u128::from_str_radix(&unsigned[2..], radix) {
            Ok(number) => {
                let sign = &text[..text.len() - unsigned.len()];
                self.value(&format!("{sign}{number}"), out)
            }
            Err(_) => self.digits(text, out),
        }
    }

    /// What begins as a number and is none: `5x` is 5 with a name behind it, up to PostgreSQL 14. Letters
    /// stay; others could make a longer number of it, as an `e` before a minus would.
    fn digits(&self, text: &str, out: &mut String) -> Became {
        let mut masked = false;
        let mut rest = text;
        while let Some(at) = rest.find(|character: char| character.is_ascii_digit()) {
            out.push_str(&rest[..at]);
            let behind =
                rest[at..].trim_start_matches(|character: char| character.is_ascii_digit());
            let run = &rest[at..rest.len() - behind.len()];
            masked |= mask_text(&self.key, run, Reading::Plain, out);
            rest = behind;
        }
        out.push_str(rest);
        match masked {
            true => Became::Masked,
            false => Became::Kept(Kept::Small),
        }
    }

    fn hex_bits(&self, digits: &str, out: &mut String) -> Became {
        let bits: Option<String> = digits
            .chars()
            .map(|digit| digit.to_digit(16).map(|digit| format!("{digit:04b}")))
            .collect();
        let mut masked = String::new();
        match bits {
            Some(bits) if mask_bits(&self.key, &bits, &mut masked) => {
                let digit = |bits: &[u8]| {
                    bits.iter()
                        .fold(0u32, |digit, bit| digit * 2 + u32::from(bit - b'0'))
                };
                out.extend(
                    masked
                        .as_bytes()
                        .chunks(4)
                        .filter_map(|bits| char::from_digit(digit(bits), 16)),
                );
                Became::Masked
            }
            _ => self.value(digits, out),
        }
    }
}

impl<'a> Scan<'a> {
    fn text(&self, index: usize) -> &'a str {
        let token = self.tokens[index];
        &self.sql[token.start()..token.end()]
    }

    fn word(&self, index: Option<usize>) -> &'a str {
        match index.map(|index| (index, self.tokens[index])) {
            Some((index, Token::Word { .. })) => self.text(index),
            _ => "",
        }
    }

    /// The next token that is no comment.
    fn next(&self, index: usize) -> Option<usize> {
        (index + 1..self.tokens.len())
            .find(|next| !matches!(self.tokens[*next], Token::Comment { .. }))
    }

    fn next_is(&self, index: usize, symbol: &str) -> bool {
        self.next(index)
            .is_some_and(|next| self.text(next) == symbol)
    }

    fn frame(&self) -> &Frame<'a> {
        self.frames.last().expect("the outermost is never closed")
    }

    /// Takes note of a token that was passed.
    fn pass(&mut self, index: usize) {
        let text = self.text(index);
        match self.tokens[index] {
            Token::Word { .. } => self.pass_word(text),
            Token::Quoted { .. } => {
                self.custom |= self.is_set() && rules::is_data_setting(text.trim_matches('"'));
            }
            Token::Value { .. } => {
                let frame = self
                    .frames
                    .last_mut()
                    .expect("the outermost is never closed");
                if frame.argument == 0 && frame.word.eq_ignore_ascii_case("set_config") {
                    match placeholder(text) {
                        // What stands in front says more: `'app.' || $1`.
                        Some(_) if frame.custom => {}
                        Some(number) => {
                            frame.named_by = Some(number);
                            frame.custom = true;
                        }
                        None => {
                            frame.custom |= text.contains('.') || text.contains("application_name");
                        }
                    }
                }
            }
            Token::Symbol { .. } => self.pass_symbol(text),
            Token::Comment { .. } => return,
        }
        self.previous = Some(index);
    }

    fn is_set(&self) -> bool {
        self.statement == Some(Statement::Setting)
    }

    fn pass_word(&mut self, word: &'a str) {
        if self.statement.is_none() {
            self.statement = Statement::of(word);
            return;
        }
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        match self.statement {
            // EXPLAIN ANALYZE SELECT: the options of EXPLAIN are no statement's.
            Some(Statement::NoData) if rules::begins_data(word) => {
                self.statement = Some(Statement::Plain);
            }
            Some(Statement::Setting) => self.custom |= is("application_name"),
            Some(Statement::Definition) => {
                self.has_code |= is("function") || is("procedure");
                self.has_settings |= self.word(self.previous).eq_ignore_ascii_case("alter")
                    && ["role", "user", "database", "system"]
                        .iter()
                        .any(|kind| is(kind));
                if is("atomic") && self.has_code {
                    // What stands between this and END are statements like any other.
                    self.statement = None;
                } else if is("set") && self.has_settings {
                    self.statement = Some(Statement::Setting);
                } else if is("select") && !self.has_code {
                    // CREATE TABLE … AS, CREATE VIEW.
                    self.statement = Some(Statement::Plain);
                }
            }
            Some(Statement::Copy) if self.frames.len() == 1 => {
                self.behind_copied |= is("from") || is("to");
                if is("where") {
                    self.statement = Some(Statement::Plain);
                }
            }
            _ => {}
        }
        let by = is("by")
            && matches!(self.word(self.previous), before if before.eq_ignore_ascii_case("order") || before.eq_ignore_ascii_case("group"));
        let ends = [
            "limit",
            "offset",
            "fetch",
            "having",
            "union",
            "intersect",
            "except",
            "window",
            "rows",
            "range",
            "for",
        ];
        let frame = self
            .frames
            .last_mut()
            .expect("the outermost is never closed");
        frame.behind_from |= is("from");
        if by {
            frame.ordering = true;
        } else if ends.iter().any(|known| is(known)) {
            frame.ordering = false;
        }
    }

    fn pass_symbol(&mut self, symbol: &str) {
        match symbol {
            "." => self.custom |= self.is_set(),
            "," => {
                let frame = self
                    .frames
                    .last_mut()
                    .expect("the outermost is never closed");
                frame.argument += 1;
            }
            "(" | "[" => {
                let word = self.word(self.previous);
                let definition = matches!(self.statement, Some(Statement::Definition));
                let options = self.behind_copied || definition && word.eq_ignore_ascii_case("with");
                let operand = self.previous.is_some_and(|previous| {
                    matches!(
                        self.tokens[previous],
                        Token::Word { .. } | Token::Quoted { .. }
                    ) || matches!(self.text(previous), ")" | "]")
                });
                self.frames.push(Frame {
                    word,
                    options: options || self.frame().options,
                    subscript: symbol == "[" && operand && !word.eq_ignore_ascii_case("array"),
                    ..Frame::default()
                });
            }
            ")" | "]" if self.frames.len() > 1 => {
                self.frames.pop();
            }
            ";" => {
                self.frames.clear();
                self.frames.push(Frame::default());
                self.statement = None;
                (self.custom, self.has_code) = (false, false);
                (self.has_settings, self.behind_copied) = (false, false);
            }
            _ => {}
        }
    }

    /// The operator that stands right before a token, all its characters together.
    fn operator(&self) -> &'a str {
        let Some(last) = self.previous else {
            return "";
        };
        let is_operator = |index: usize| {
            matches!(self.tokens[index], Token::Symbol { .. })
                && !matches!(self.text(index), "(" | ")" | "[" | "]" | "," | ";" | ".")
        };
        let mut first = last;
        if !is_operator(last) {
            return "";
        }
        while first > 0
            && is_operator(first - 1)
            && self.tokens[first - 1].end() == self.tokens[first].start()
        {
            first -= 1;
        }
        &self.sql[self.tokens[first].start()..self.tokens[last].end()]
    }

    /// The character that escapes in `U&'…'`.
    fn escape(&self, index: usize) -> char {
        let said = self
            .next(index)
            .filter(|next| self.text(*next).eq_ignore_ascii_case("uescape"));
        let literal = said
            .and_then(|word| self.next(word))
            .map(|index| self.text(index));
        literal
            .and_then(|literal| literal.chars().nth(1))
            .unwrap_or('\\')
    }

    /// The text is SQL, or a language much like it.
    fn is_code(&self, index: usize) -> bool {
        match self.statement {
            Some(Statement::Code) => !self.word(self.previous).eq_ignore_ascii_case("language"),
            Some(Statement::Definition) => {
                self.has_code
                    && self.frames.len() == 1
                    && self.word(self.previous).eq_ignore_ascii_case("as")
                    // The object file of a C function.
                    && !self.next_is(index, ",")
            }
            _ => false,
        }
    }

    fn takes_an_expression(&self) -> bool {
        let frame = self.frame();
        rules::takes_an_expression(self.operator())
            || rules::is_expression(frame.word, frame.argument)
            || self.word(self.previous).eq_ignore_ascii_case("to")
                && self
                    .previous
                    .is_some_and(|to| to > 0 && self.text(to - 1).eq_ignore_ascii_case("similar"))
    }

    /// It takes a path with filters.
    fn takes_a_path(&self, value: &str) -> bool {
        let frame = self.frame();
        let operator = self.operator();
        // `@@` takes a query for words, too, in which a path's sign does not stand.
        operator == "@?"
            || operator == "@@" && value.contains('$')
            || rules::is_path(frame.word, frame.argument)
    }

    /// What a parameter that stands here is for.
    fn role(&self, index: usize) -> Role {
        let counts = rules::counts_rows(self.word(self.previous))
            || rules::counted(self.word(self.next(index)));
        let frame = self.frame();
        let named_by = match frame.word.eq_ignore_ascii_case("set_config") {
            true if frame.argument == 1 => frame.named_by,
            _ => None,
        };
        match self.reason(index, Spelling::Placeholder, "") {
            _ if counts => Role::Kept(Kept::Position),
            None if named_by.is_some() => named_by.map_or(Role::Data, Role::SettingOf),
            Some(reason) => Role::Kept(reason),
            None if self.takes_an_expression() => Role::Expression,
            None if self.takes_a_path("$") => Role::Path,
            None => Role::Data,
        }
    }

    /// Why the literal stays as it is, by what stands around it.
    fn reason(&self, index: usize, spelling: Spelling<'_>, value: &str) -> Option<Kept> {
        let frame = self.frame();
        let before = self.word(self.previous);
        let next = self.next(index);
        match self.statement {
            Some(Statement::Setting) if !self.custom => return Some(Kept::Setting),
            Some(Statement::NoData) => return Some(Kept::Setting),
            Some(Statement::Copy)
                if frame.options || self.behind_copied && self.frames.len() == 1 =>
            {
                return Some(Kept::Instruction);
            }
            Some(Statement::Definition) if frame.options => return Some(Kept::Definition),
            _ => {}
        }
        if frame.word.eq_ignore_ascii_case("set_config") && (frame.argument != 1 || !frame.custom) {
            return Some(Kept::Setting);
        }
        let alone = frame.argument == 0 && next.is_some_and(|next| self.text(next) == ")");
        let extracted = frame.word.eq_ignore_ascii_case("extract") && frame.behind_from;
        if rules::instructs(frame.word, frame.argument, alone) && !extracted {
            return Some(Kept::Instruction);
        }
        let operator = self.operator();
        if rules::takes_a_path(operator) {
            return Some(Kept::Instruction);
        }
        if spelling == Spelling::Number {
            return self.number_reason(index, value, operator);
        }
        let casts = next.is_some_and(|next| {
            let is_cast = self.text(next) == "::"
                || frame.word.eq_ignore_ascii_case("cast")
                    && self.text(next).eq_ignore_ascii_case("as");
            is_cast
                && self
                    .next(next)
                    .is_some_and(|kind| rules::is_naming_type(self.text(kind)))
        });
        (casts || rules::announces(before)).then_some(Kept::Instruction)
    }

    fn number_reason(&self, index: usize, value: &str, operator: &str) -> Option<Kept> {
        let frame = self.frame();
        let before = self.word(self.previous);
        let next = self.next(index);
        if rules::counts_rows(before) || rules::counted(self.word(next)) {
            return Some(Kept::Position);
        }
        let number = Number::parse(value)?;
        if self.statement == Some(Statement::Definition) {
            return Some(Kept::Definition);
        }
        let small = number.whole_digits() <= SMALL_DIGITS_MAX;
        if !small {
            return None;
        }
        if frame.subscript {
            return Some(Kept::Position);
        }
        let begins_item = before.eq_ignore_ascii_case("by")
            || self
                .previous
                .is_some_and(|previous| self.text(previous) == ",");
        if frame.ordering && begins_item && number.is_integer() {
            return Some(Kept::Position);
        }
        if rules::has_modifiers(frame.word) && number.is_integer() {
            return Some(Kept::Definition);
        }
        let is_factor = |operator: &str| matches!(operator, "*" | "/" | "%");
        if is_factor(operator) || next.is_some_and(|next| is_factor(self.text(next))) {
            return Some(Kept::Factor);
        }
        None
    }
}
