//! Finds the secrets of one text of SQL.
//!
//! A text is split into tokens, not parsed: a mistyped statement (`ALTER USER a PASSWORD = 'x'`) is sent, and
//! logged, with its password as well.

use std::ops::Range;

use super::super::fingerprint::lexer::{Lexer, Token};
use super::super::literal::Spelling;
use super::literal::{holds_login, is_template, is_verifier, may_have_login};
use super::names::names_a_secret;
use super::{DEPTH_MAX, REDACTED_LITERAL, may_hold_secret};

/// A setting's name has at most so many pieces, and `set_config`'s arguments.
const NAME_PIECES_MAX: usize = 16;
const ARGUMENT_PIECES_MAX: usize = 256;

/// What is found in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What is to be replaced, in bytes, in order, none over another.
    pub(super) secrets: Vec<Range<usize>>,
    /// Comments with a secret in them.
    pub(super) comments: Vec<Range<usize>>,
    /// All of them, beside a statement with a secret: it may be told there again (`-- was 'x'`).
    pub(super) beside: Vec<Range<usize>>,
    /// Numbers of parameters (from 1) that are secrets.
    pub(super) places: Vec<usize>,
    /// A secret is put together of values: all parameters may be parts of it.
    pub(super) template: bool,
    /// It is about a role's password, even where none is given.
    pub(super) role: bool,
    /// Settings are named by parameters: `set_config($1, …)`.
    pub(super) settings_by_place: bool,
}

impl Found {
    /// The last secret goes on beyond this.
    fn covers(&self, at: usize) -> bool {
        self.secrets.last().is_some_and(|last| at < last.end)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.comments.is_empty()
    }
}

/// A token that is no comment; literals that follow one another are one.
struct Piece<'a> {
    kind: PieceKind,
    range: Range<usize>,
    text: &'a str,
    /// Of a string: what it means.
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Word,
    Quoted,
    Text,
    Number,
    Place,
    Symbol,
}

impl Piece<'_> {
    fn is(&self, word: &str) -> bool {
        self.kind == PieceKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == PieceKind::Symbol && self.text == symbol
    }

    /// As a name, if it is one.
    fn name(&self) -> Option<&str> {
        match self.kind {
            PieceKind::Word => Some(self.text),
            PieceKind::Quoted => Some(self.text.trim_matches('"')),
            _ => None,
        }
    }
}

/// What is secret in a text, which stands `depth` literals deep in the one that was sent.
pub(super) fn find(sql: &str, depth: usize) -> Found {
    let mut found = read(sql, Lexer::new(sql), depth);
    if sql.contains("\\'") {
        // Which of the two holds is a setting's matter that the text does not say.
        let other = read(sql, Lexer::with_escapes(sql), depth);
        found.secrets.extend(other.secrets);
        found.comments.extend(other.comments);
        found.beside.extend(other.beside);
        found.places.extend(other.places);
        found.template |= other.template;
        found.role |= other.role;
        found.settings_by_place |= other.settings_by_place;
    }
    found.secrets = in_order(found.secrets);
    if found.role {
        let quoted = |range: &Range<usize>| sql[range.clone()].contains(['\'', '"']);
        found
            .comments
            .extend(found.beside.iter().filter(|range| quoted(range)).cloned());
    }
    if !found.secrets.is_empty() {
        found.comments.append(&mut found.beside);
    }
    found.comments = in_order(found.comments);
    found
}

fn in_order(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn read(sql: &str, lexer: Lexer<'_>, depth: usize) -> Found {
    let mut found = Found::default();
    let pieces = pieces(sql, lexer, depth, &mut found);
    for statement in pieces.split(|piece| piece.is_symbol(";")) {
        Statement { sql, statement }.read(depth, &mut found);
    }
    // Values are put together over several statements of a body: DECLARE, and then EXECUTE.
    let joins = pieces.iter().any(|piece| {
        piece.is_symbol("||")
            || ["format", "concat", "concat_ws"]
                .iter()
                .any(|name| piece.is(name))
    });
    found.template = joins
        && (pieces.iter()).any(|piece| piece.kind == PieceKind::Text && is_template(&piece.value));
    if found.template {
        let others = pieces
            .iter()
            .filter(|piece| piece.kind == PieceKind::Text && !is_template(&piece.value));
        let names = |value: &str| {
            let mut characters = value.chars();
            characters.all(|character| character.is_whitespace() || matches!(character, '\'' | ';'))
        };
        found.secrets.extend(
            others
                .filter(|piece| !names(&piece.value))
                .map(|piece| piece.range.clone()),
        );
    }
    found
        .secrets
        .retain(|range| &sql[range.clone()] != REDACTED_LITERAL);
    found
}

/// The tokens of a text but its comments, which are looked into.
fn pieces<'a>(sql: &'a str, lexer: Lexer<'a>, depth: usize, found: &mut Found) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    for token in lexer {
        let range = token.start()..token.end();
        let text = &sql[range.clone()];
        let kind = match token {
            Token::Comment { .. } => {
                let inner = text.trim_start_matches(['-', '/', '*']);
                let inner = inner.trim_end_matches(['*', '/']);
                if may_hold_secret(inner) && holds_secret(inner, depth) {
                    found.comments.push(range.clone());
                }
                found.beside.push(range);
                continue;
            }
            Token::Word { .. } => {
                words(sql, range, &mut pieces);
                continue;
            }
            Token::Quoted { .. } => PieceKind::Quoted,
            Token::Symbol { .. } => PieceKind::Symbol,
            Token::Value { .. } => match Spelling::of(text).0 {
                Spelling::Placeholder => PieceKind::Place,
                Spelling::Number => PieceKind::Number,
                _ => PieceKind::Text,
            },
        };
        let value = match kind {
            PieceKind::Text => {
                let (spelling, inner) = Spelling::of(text);
                spelling.read(inner, '\\').into_owned()
            }
            _ => String::new(),
        };
        match pieces.last_mut() {
            Some(last) if kind == PieceKind::Text && last.kind == PieceKind::Text => {
                last.value.push_str(&value);
                last.range.end = range.end;
                last.text = &sql[last.range.clone()];
            }
            _ => pieces.push(Piece {
                kind,
                range,
                text,
                value,
            }),
        }
    }
    pieces
}

/// A word; several, where somebody pasted blanks that are none to the server (U+00A0).
fn words<'a>(sql: &'a str, range: Range<usize>, pieces: &mut Vec<Piece<'a>>) {
    let text = &sql[range.clone()];
    let mut from = 0;
    for word in text.split(char::is_whitespace) {
        let at = from + text[from..].find(word).unwrap_or(0);
        from = at + word.len();
        if !word.is_empty() {
            let range = range.start + at..range.start + from;
            pieces.push(Piece {
                kind: PieceKind::Word,
                text: &sql[range.clone()],
                range,
                value: String::new(),
            });
        }
    }
}

/// Whether a value is, or has, a secret: whatever stands around it.
fn holds_secret(value: &str, depth: usize) -> bool {
    if holds_login(value) || is_verifier(value) {
        return true;
    }
    // Beyond this nobody looks, and so nobody may see.
    may_hold_secret(value) && (depth >= DEPTH_MAX || !find(value, depth + 1).is_empty())
}

/// Whether a value is a secret or has one, when no text says what it is for.
pub(super) fn value_holds_secret(value: &str) -> bool {
    may_hold_secret(value) && holds_secret(value, 0)
}

/// One statement of a text.
struct Statement<'a> {
    sql: &'a str,
    statement: &'a [Piece<'a>],
}

impl Statement<'_> {
    fn read(&self, depth: usize, found: &mut Found) {
        let is_role = self.is_about_a_role();
        found.role |= is_role;
        let copies = self.starts_with(&["copy"]);
        for (at, piece) in self.statement.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &self.statement[before]);
            let name = before.and_then(Piece::name);
            match piece.kind {
                PieceKind::Text => {
                    let secret = name.is_some_and(names_a_secret)
                        || is_role && !self.is_moment(at)
                        || copies
                            && name.is_some_and(|name| name.eq_ignore_ascii_case("program"))
                            && may_have_login(&piece.value)
                        || holds_secret(&piece.value, depth);
                    if secret {
                        found.secrets.push(piece.range.clone());
                    }
                }
                PieceKind::Place if name.is_some_and(names_a_secret) => {
                    found.places.extend(piece.text[1..].parse::<usize>());
                }
                _ => (),
            }
            if is_role {
                self.behind_password(at, found);
            }
            if piece
                .name()
                .is_some_and(|name| name.eq_ignore_ascii_case("rolpassword"))
                && let [equals, value, ..] = &self.statement[at + 1..]
                && equals.is_symbol("=")
            {
                self.secret(value, found);
            }
            if piece.is("set_config") {
                self.set_config(at, found);
            }
        }
        self.settings(found);
    }

    fn starts_with(&self, words: &[&str]) -> bool {
        let mut pieces = self.statement.iter();
        words
            .iter()
            .all(|word| pieces.next().is_some_and(|piece| piece.is(word)))
    }

    /// `CREATE ROLE`, `ALTER USER` and the like; not of a user mapping, whose options have names, and
    /// not of a role's setting.
    fn is_about_a_role(&self) -> bool {
        // In a body it stands behind BEGIN, THEN and whatever else.
        let Some(at) = self.statement.windows(2).position(|pair| {
            ["create", "alter"].iter().any(|word| pair[0].is(word))
                && ["role", "user", "group"]
                    .iter()
                    .any(|word| pair[1].is(word))
        }) else {
            return false;
        };
        let rest = &self.statement[at + 2..];
        let mapping = rest.first().is_some_and(|piece| piece.is("mapping"));
        let has_password = rest.iter().any(|piece| {
            piece.name().is_some_and(|name| {
                names_a_secret(name) || name.to_ascii_lowercase().contains("passw")
            })
        });
        let identified = rest.iter().any(|piece| piece.is("identified"));
        let setting = rest.windows(2).any(|pair| {
            pair[0].is("set")
                && !pair[1]
                    .name()
                    .is_some_and(|name| name.eq_ignore_ascii_case("password"))
        });
        !mapping && !setting && (has_password || identified)
    }

    /// `VALID UNTIL '2030-01-01'`.
    fn is_moment(&self, at: usize) -> bool {
        let value = &self.statement[at].value;
        let until = at
            .checked_sub(1)
            .is_some_and(|at| self.statement[at].is("until"));
        let like_one = |character: char| {
            character.is_ascii_digit()
                || matches!(character, '-' | ':' | '+' | '.' | ' ' | 'T' | 'Z')
        };
        until && (value.eq_ignore_ascii_case("infinity") || value.chars().all(like_one))
    }

    /// What stands where a role's password should, and is no literal: it was typed without quotes, or
    /// with others.
    fn behind_password(&self, at: usize, found: &mut Found) {
        let piece = &self.statement[at];
        let is_password = piece
            .name()
            .is_some_and(|name| name.eq_ignore_ascii_case("password"));
        let is_identified = piece.is("by") && at > 0 && {
            let from = at.saturating_sub(3);
            self.statement[from..at]
                .iter()
                .any(|piece| piece.is("identified"))
        };
        if !is_password && !is_identified {
            return;
        }
        let behind = self.statement[at + 1..].iter().find(|piece| {
            !["=", "(", ":", ":="]
                .iter()
                .any(|symbol| piece.is_symbol(symbol))
        });
        let place = |value: &Piece<'_>| {
            let rest = &self.sql[value.range.start..];
            ["%L", "%s", "%I"]
                .iter()
                .any(|place| rest.starts_with(place))
                || rest.starts_with('%') && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        };
        if let Some(value) = behind.filter(|value| !value.is("null") && !place(value)) {
            self.secret(value, found);
        }
    }

    /// A value that is one, however it is spelt: up to the next blank where it has no quotes.
    fn secret(&self, value: &Piece<'_>, found: &mut Found) {
        match value.kind {
            PieceKind::Place => found.places.extend(value.text[1..].parse::<usize>()),
            PieceKind::Text | PieceKind::Quoted => found.secrets.push(value.range.clone()),
            // No part of a text is gone over again for each word of it.
            _ if found.covers(value.range.start) => {}
            PieceKind::Word | PieceKind::Number | PieceKind::Symbol => {
                let rest = &self.sql[value.range.start..];
                let end =
                    rest.find(|character: char| character.is_whitespace() || character == ';');
                let end = value.range.start + end.unwrap_or(rest.len());
                found
                    .secrets
                    .push(value.range.start..end.max(value.range.end));
            }
        }
    }

    /// `set_config('app.password', …)`.
    fn set_config(&self, at: usize, found: &mut Found) {
        let [bracket, name, rest @ ..] = &self.statement[at + 1..] else {
            return;
        };
        if !bracket.is_symbol("(") {
            return;
        }
        found.settings_by_place |= name.kind == PieceKind::Place;
        if name.kind == PieceKind::Text && names_a_secret(&name.value) {
            let arguments = rest.iter().take(ARGUMENT_PIECES_MAX);
            for value in arguments.take_while(|piece| !piece.is_symbol(")")) {
                if matches!(value.kind, PieceKind::Text | PieceKind::Place) {
                    self.secret(value, found);
                }
            }
        }
    }

    /// `SET app.password = …`, alone or for a role, a database, a function.
    fn settings(&self, found: &mut Found) {
        let may_set = self
            .statement
            .first()
            .is_some_and(|first| ["set", "alter", "create"].iter().any(|word| first.is(word)));
        if !may_set {
            return;
        }
        for (at, _) in (self.statement.iter().enumerate()).filter(|(_, piece)| piece.is("set")) {
            let rest = &self.statement[at + 1..];
            let skipped = usize::from(
                rest.first()
                    .is_some_and(|piece| piece.is("local") || piece.is("session")),
            );
            let rest = &rest[skipped..];
            let Some(equals) = rest
                .iter()
                .take(NAME_PIECES_MAX)
                .position(|piece| piece.is_symbol("=") || piece.is("to"))
            else {
                continue;
            };
            let name: Option<String> = rest[..equals]
                .iter()
                .map(|piece| piece.name().or(piece.is_symbol(".").then_some(".")))
                .collect();
            let (Some(name), Some(first)) = (name, rest.get(equals + 1)) else {
                continue;
            };
            let known = found.covers(first.range.start);
            if known || !names_a_secret(&name) || first.is("default") {
                continue;
            }
            let values = rest[equals + 1..].split(|piece| piece.is("as")).next();
            let Some([.., last]) = values else {
                continue;
            };
            for place in values.into_iter().flatten() {
                if place.kind == PieceKind::Place {
                    self.secret(place, found);
                }
            }
            if first.kind != PieceKind::Place {
                found.secrets.push(first.range.start..last.range.end);
            }
        }
    }
}
