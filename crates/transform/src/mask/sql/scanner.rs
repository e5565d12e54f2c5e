//! Tracks the context of the tokens of a statement, and decides which literals are kept because of
//! it.

use std::ops::Range;

use sql::{Spelling, Token};

use super::{ParameterRole, parameter_number};
use crate::mask::number::Number;
use crate::mask::rules;
use crate::mask::rules::StatementContext;
use workload::KeepReason;

/// Maximum number of digits of a factor, position or modifier.
const SMALL_DIGITS_MAX: usize = 4;

/// Context of an open bracket.
#[derive(Debug, Default)]
struct Frame<'a> {
    /// The word before it, of a function or type; empty if there is none.
    word: &'a str,
    /// Number of commas so far.
    argument: u32,
    /// ORDER BY or GROUP BY continues.
    ordering: bool,
    /// It is the option list of a COPY, or WITH (…) of a definition.
    options: bool,
    /// The name in the first argument of `set_config`.
    setting: SettingName,
    /// It contained FROM: `extract(year from …)`.
    after_from: bool,
    kind: BracketKind,
}

/// Name of a setting in the first argument of `set_config`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SettingName {
    /// A setting of the server, or no name so far.
    #[default]
    BuiltIn,
    /// A name with a dot, or `application_name`.
    Custom,
    /// This parameter.
    Parameter(usize),
}

/// Kind of an open bracket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum BracketKind {
    #[default]
    Plain,
    /// A square bracket of a subscript.
    Subscript,
}

/// Returns whether a text after this word of a COPY names a file or a program.
fn precedes_file(word: &str) -> bool {
    ["to", "from", "program"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
}

/// Properties of a definition.
#[derive(Debug, Clone, Copy, Default)]
struct Definition {
    /// It contains code: CREATE FUNCTION or PROCEDURE.
    has_code: bool,
    /// ALTER ROLE, DATABASE or SYSTEM, which may SET.
    has_settings: bool,
}

pub(super) struct SqlScanner<'a> {
    pub(super) sql: &'a str,
    pub(super) tokens: Vec<Token>,
    /// A backslash in a plain literal escapes.
    pub(super) escapes: bool,
    /// The literals under the reading that a backslash escapes, if that reading is possible:
    /// nothing in them is kept.
    pub(super) either: Vec<Range<usize>>,
    frames: Vec<Frame<'a>>,
    /// `None` until a word determines the statement.
    statement: Option<StatementContext>,
    /// The SET is of a name with a dot, or `application_name`.
    custom: bool,
    definition: Definition,
    /// COPY: its table or query, FROM or TO, has passed.
    after_copied: bool,
    /// The last token that is no comment.
    previous: Option<usize>,
    /// The first token of the statement.
    statement_start: Option<usize>,
}

impl<'a> SqlScanner<'a> {
    pub(super) fn new(
        sql: &'a str,
        tokens: Vec<Token>,
        escapes: bool,
        either: Vec<Range<usize>>,
    ) -> Self {
        SqlScanner {
            sql,
            tokens,
            escapes,
            either,
            frames: vec![Frame::default()],
            statement: None,
            custom: false,
            definition: Definition::default(),
            after_copied: false,
            previous: None,
            statement_start: None,
        }
    }

    pub(super) fn text(&self, index: usize) -> &'a str {
        let token = self.tokens[index];
        &self.sql[token.start()..token.end()]
    }

    fn word(&self, index: Option<usize>) -> &'a str {
        match index.map(|index| (index, self.tokens[index])) {
            Some((index, Token::Word { .. })) => self.text(index),
            _ => "",
        }
    }

    /// Returns the next token that is no comment.
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

    /// Updates the state for a token that was passed.
    pub(super) fn advance(&mut self, index: usize) {
        let text = self.text(index);
        match self.tokens[index] {
            Token::Word { .. } => self.advance_word(text),
            Token::Quoted { .. } => {
                self.custom |= self.is_set() && rules::is_data_setting(text.trim_matches('"'));
            }
            Token::Value { .. } => {
                let frame = self
                    .frames
                    .last_mut()
                    .expect("the outermost is never closed");
                if frame.argument == 0 && frame.word.eq_ignore_ascii_case("set_config") {
                    match parameter_number(text) {
                        // The text before it decides: `'app.' || $1`.
                        _ if frame.setting != SettingName::BuiltIn => {}
                        Some(number) => frame.setting = SettingName::Parameter(number),
                        None if text.contains('.') || text.contains("application_name") => {
                            frame.setting = SettingName::Custom;
                        }
                        None => {}
                    }
                }
            }
            Token::Symbol { .. } => self.advance_symbol(text),
            Token::Comment { .. } => return,
        }
        self.statement_start = match text {
            ";" => None,
            _ => self.statement_start.or(Some(index)),
        };
        self.previous = Some(index);
    }

    fn is_set(&self) -> bool {
        self.statement == Some(StatementContext::Setting)
    }

    fn advance_word(&mut self, word: &'a str) {
        if self.statement.is_none() {
            self.statement = StatementContext::of(word);
            return;
        }
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        match self.statement {
            // EXPLAIN ANALYZE SELECT: the options of EXPLAIN are part of no statement.
            Some(StatementContext::NoData) if rules::begins_data(word) => {
                self.statement = Some(StatementContext::Plain);
            }
            Some(StatementContext::Setting) => self.custom |= is("application_name"),
            Some(StatementContext::Definition) => {
                self.definition.has_code |= is("function") || is("procedure");
                self.definition.has_settings |=
                    self.word(self.previous).eq_ignore_ascii_case("alter")
                        && ["role", "user", "database", "system"]
                            .iter()
                            .any(|kind| is(kind));
                if is("atomic") && self.definition.has_code {
                    // Statements between this and END are ordinary ones.
                    self.statement = None;
                } else if is("set") && self.definition.has_settings {
                    self.statement = Some(StatementContext::Setting);
                } else if is("select") && !self.definition.has_code {
                    // CREATE TABLE … AS, CREATE VIEW.
                    self.statement = Some(StatementContext::Plain);
                }
            }
            Some(StatementContext::Copy) if self.frames.len() == 1 => {
                self.after_copied |= is("from") || is("to");
                if is("where") {
                    self.statement = Some(StatementContext::Plain);
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
        frame.after_from |= is("from");
        if by {
            frame.ordering = true;
        } else if ends.iter().any(|known| is(known)) {
            frame.ordering = false;
        }
    }

    fn advance_symbol(&mut self, symbol: &str) {
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
                let definition = matches!(self.statement, Some(StatementContext::Definition));
                let options = self.after_copied || definition && word.eq_ignore_ascii_case("with");
                let operand = self.previous.is_some_and(|previous| {
                    matches!(
                        self.tokens[previous],
                        Token::Word { .. } | Token::Quoted { .. }
                    ) || matches!(self.text(previous), ")" | "]")
                });
                self.frames.push(Frame {
                    word,
                    options: options || self.frame().options,
                    kind: match symbol == "[" && operand && !word.eq_ignore_ascii_case("array") {
                        true => BracketKind::Subscript,
                        false => BracketKind::Plain,
                    },
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
                (self.custom, self.after_copied) = (false, false);
                self.definition = Definition::default();
            }
            _ => {}
        }
    }

    /// Returns all characters of the operator directly before a token.
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

    /// Returns whether the text is SQL, or a similar language.
    pub(super) fn is_code(&self, index: usize) -> bool {
        // A text such as `+ do $$…$$` is no statement with code.
        let begins_with_word =
            (self.statement_start).is_some_and(|start| !self.word(Some(start)).is_empty());
        if !begins_with_word || self.has_other_language() {
            return false;
        }
        match self.statement {
            Some(StatementContext::Code) => {
                !self.word(self.previous).eq_ignore_ascii_case("language")
            }
            Some(StatementContext::Definition) => {
                self.definition.has_code
                    && self.frames.len() == 1
                    && self.word(self.previous).eq_ignore_ascii_case("as")
                    // The object file of a C function.
                    && !self.next_is(index, ",")
            }
            _ => false,
        }
    }

    /// Returns whether the text names a language other than SQL and PL/pgSQL. Its code is masked as text.
    fn has_other_language(&self) -> bool {
        let languages = (0..self.tokens.len()).filter(|index| {
            matches!(self.tokens[*index], Token::Word { .. })
                && self.text(*index).eq_ignore_ascii_case("language")
        });
        languages
            .filter_map(|word| self.next(word))
            .any(|language| {
                let name = self.text(language).trim_matches(['\'', '"']);
                !["sql", "plpgsql"]
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(name))
            })
    }

    /// Returns whether the token is a name that a client chose for itself: of a savepoint or a channel.
    pub(super) fn is_client_name(&self, index: usize) -> bool {
        let is_name = matches!(
            self.tokens[index],
            Token::Word { .. } | Token::Quoted { .. }
        );
        let before = self.word(self.previous);
        let is = |known: &str| before.eq_ignore_ascii_case(known);
        let first = self.statement_start.map_or("", |start| self.text(start));
        let begins = |known: &str| first.eq_ignore_ascii_case(known);
        let words: &[&str] = if begins("savepoint") || begins("release") {
            &["savepoint", "release"]
        } else if begins("rollback") || begins("abort") {
            &["savepoint", "to"]
        } else if begins("listen") || begins("unlisten") || begins("notify") {
            &["listen", "unlisten", "notify"]
        } else {
            return false;
        };
        // SAVEPOINT may be left out, and is no name then.
        let is_keyword = self.text(index).eq_ignore_ascii_case("savepoint") && !is("savepoint");
        is_name && !is_keyword && words.iter().any(|word| is(word))
    }

    pub(super) fn is_expression_operand(&self) -> bool {
        let frame = self.frame();
        rules::is_expression_operator(self.operator())
            || rules::is_expression(frame.word, frame.argument)
            || self.word(self.previous).eq_ignore_ascii_case("to")
                && self
                    .previous
                    .is_some_and(|to| to > 0 && self.text(to - 1).eq_ignore_ascii_case("similar"))
    }

    /// Returns whether it is a path with filters.
    pub(super) fn is_path_operand(&self, value: &str) -> bool {
        let frame = self.frame();
        let operator = self.operator();
        // `@@` also takes a text search query, which contains no path's sign.
        operator == "@?"
            || operator == "@@" && value.contains('$')
            || rules::is_path(frame.word, frame.argument)
    }

    /// Returns the role of a parameter at this position.
    pub(super) fn parameter_role(&self, index: usize) -> ParameterRole {
        let counts = rules::precedes_row_count(self.word(self.previous))
            || rules::follows_row_count(self.word(self.next(index)));
        let frame = self.frame();
        let named_by = match frame.setting {
            SettingName::Parameter(number)
                if frame.argument == 1 && frame.word.eq_ignore_ascii_case("set_config") =>
            {
                Some(number)
            }
            _ => None,
        };
        match self.kept_reason(index, Spelling::Placeholder, "") {
            _ if counts => ParameterRole::Kept(KeepReason::Position),
            None if named_by.is_some() => {
                named_by.map_or(ParameterRole::Data, ParameterRole::SettingOf)
            }
            Some(reason) => ParameterRole::Kept(reason),
            None if self.is_expression_operand() => ParameterRole::Expression,
            None if self.is_path_operand("$") => ParameterRole::Path,
            None => ParameterRole::Data,
        }
    }

    /// Returns why the literal is kept because of its context, if it is.
    pub(super) fn kept_reason(
        &self,
        index: usize,
        spelling: Spelling<'_>,
        value: &str,
    ) -> Option<KeepReason> {
        let frame = self.frame();
        let before = self.word(self.previous);
        let next = self.next(index);
        match self.statement {
            Some(StatementContext::Setting) if !self.custom => return Some(KeepReason::Setting),
            // The file of a LOAD.
            Some(StatementContext::NoData) if before.eq_ignore_ascii_case("load") => return None,
            Some(StatementContext::NoData) => return Some(KeepReason::Setting),
            // Its file or program.
            Some(StatementContext::Copy) if self.frames.len() == 1 && precedes_file(before) => {
                return None;
            }
            Some(StatementContext::Copy)
                if frame.options || self.after_copied && self.frames.len() == 1 =>
            {
                return Some(KeepReason::Instruction);
            }
            Some(StatementContext::Definition) if frame.options => {
                return Some(KeepReason::Definition);
            }
            _ => {}
        }
        if frame.word.eq_ignore_ascii_case("set_config")
            && (frame.argument != 1 || frame.setting == SettingName::BuiltIn)
        {
            return Some(KeepReason::Setting);
        }
        let alone = frame.argument == 0 && next.is_some_and(|next| self.text(next) == ")");
        let extracted = frame.word.eq_ignore_ascii_case("extract") && frame.after_from;
        if rules::is_instruction(frame.word, frame.argument, alone) && !extracted {
            return Some(KeepReason::Instruction);
        }
        let operator = self.operator();
        if rules::is_path_operator(operator) {
            return Some(KeepReason::Instruction);
        }
        if spelling == Spelling::Number {
            return self.kept_number_reason(index, value, operator);
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
        (casts || rules::precedes_instruction(before)).then_some(KeepReason::Instruction)
    }

    fn kept_number_reason(&self, index: usize, value: &str, operator: &str) -> Option<KeepReason> {
        let frame = self.frame();
        let before = self.word(self.previous);
        let next = self.next(index);
        if rules::precedes_row_count(before) || rules::follows_row_count(self.word(next)) {
            return Some(KeepReason::Position);
        }
        let number = Number::parse(value)?;
        if self.statement == Some(StatementContext::Definition) {
            return Some(KeepReason::Definition);
        }
        let small = number.whole_digits() <= SMALL_DIGITS_MAX;
        if !small {
            return None;
        }
        if frame.kind == BracketKind::Subscript {
            return Some(KeepReason::Position);
        }
        let begins_item = before.eq_ignore_ascii_case("by")
            || self
                .previous
                .is_some_and(|previous| self.text(previous) == ",");
        if frame.ordering && begins_item && number.is_integer() {
            return Some(KeepReason::Position);
        }
        if rules::has_modifiers(frame.word) && number.is_integer() {
            return Some(KeepReason::Definition);
        }
        let is_factor = |operator: &str| matches!(operator, "*" | "/" | "%");
        if is_factor(operator) || next.is_some_and(|next| is_factor(self.text(next))) {
            return Some(KeepReason::Factor);
        }
        None
    }
}
