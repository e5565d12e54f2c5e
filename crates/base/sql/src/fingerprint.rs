//! Fingerprints, which are equal for statements that differ only in their values.
//!
//! The normal form drops comments, folds white space, converts unquoted words to lower case, and replaces
//! each literal or parameter by `$n` (numbered from 1 in the order of appearance). It folds lists of values:
//! `IN ($1, $2, $3)` and `VALUES ($1), ($2)` keep their first element and `...`. `END` and `COMMIT WORK`
//! become `commit`, `ABORT` becomes `rollback`. The fingerprint is the XXH3 hash of the normal form.
//!
//! It works on the text alone, without a catalogue or a grammar. `pg_stat_statements` works on the parse tree
//! and may distinguish two texts that are equal here (a table in two schemas of the `search_path`), or the
//! other way round. Lexical rules: PostgreSQL documentation, 4.1 (nested comments, dollar quotes, `E''` and
//! doubled quotes) and `scan.l`. `standard_conforming_strings = off` is not visible in a text. Unless a caller
//! knows it, a backslash in a plain literal does not escape.

mod class;
pub mod lexer;
pub(crate) mod quotes;
mod shape;
mod unterminated;

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use super::literal::read_quoted_name;
pub use class::{StatementClass, classify};
use lexer::{Lexer, LexicalRules, Token};
pub use shape::Shaper;

/// Identity of statements that differ only in their values. It is written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(inline)]
pub struct Fingerprint(#[schemars(with = "String")] pub u64);

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes fingerprints in a reused buffer. It allocates only for a statement longer than those before.
#[derive(Debug, Default)]
pub struct Fingerprinter {
    normal: String,
}

impl Fingerprinter {
    /// Creates a fingerprinter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the statement's fingerprint.
    pub fn fingerprint(&mut self, sql: &str) -> Fingerprint {
        self.fingerprint_with(sql, LexicalRules::default())
    }

    /// Returns the statement's fingerprint by the lexical rules of its session and server.
    pub fn fingerprint_with(&mut self, sql: &str, rules: LexicalRules) -> Fingerprint {
        Fingerprint(xxh3_64(self.normalise_with(sql, rules).as_bytes()))
    }

    /// Returns the statement's normal form, without literals.
    pub fn normalise(&mut self, sql: &str) -> &str {
        self.normalise_with(sql, LexicalRules::default())
    }

    /// Returns the statement's normal form by the lexical rules of its session and server.
    pub fn normalise_with(&mut self, sql: &str, rules: LexicalRules) -> &str {
        self.normal.clear();
        let mut values = 0u32;
        let mut list = ListFolder::default();
        let mut previous_end = 0;
        let mut spaced_before;
        for token in Lexer::with_rules(sql, rules) {
            spaced_before = token.start() > previous_end;
            previous_end = token.end();
            let out = &mut self.normal;
            match token {
                Token::Comment { .. } => {
                    // A comment counts as white space, so that `a/**/b` remains two words.
                    previous_end = previous_end.saturating_sub(1);
                    continue;
                }
                Token::Value { .. } => {
                    if list.on_value(out) {
                        continue;
                    }
                    push_space(out, spaced_before, b'$');
                    values += 1;
                    out.push('$');
                    push_number(out, values);
                }
                Token::Word { start, end } => {
                    list.flush(out);
                    push_space(out, spaced_before, b'a');
                    for character in sql[start..end].chars() {
                        out.push(character.to_ascii_lowercase());
                    }
                }
                Token::Quoted { start, end } => {
                    list.flush(out);
                    push_space(out, spaced_before || begins_unicode_name(out), b'a');
                    push_name(out, &sql[start..end]);
                }
                Token::Symbol { start, end } => {
                    let symbol = sql.as_bytes()[start];
                    match symbol {
                        b',' => {
                            if list.on_comma(out) {
                                continue;
                            }
                            out.push_str(", ");
                        }
                        b'(' => {
                            if list.on_opening_parenthesis(out, values) {
                                continue;
                            }
                            push_space(out, spaced_before, b'(');
                            out.push('(');
                            list.open_list();
                        }
                        b')' => {
                            if let Some(before) = list.on_closing_parenthesis(out) {
                                values = before;
                                continue;
                            }
                            out.push(')');
                            list.close_list();
                        }
                        _ => {
                            list.flush(out);
                            push_space(out, spaced_before, symbol);
                            out.push_str(&sql[start..end]);
                        }
                    }
                }
            }
        }
        list.finish(&mut self.normal);
        while self.normal.ends_with([';', ' ']) {
            self.normal.pop();
        }
        if let Some(usual) = usual_command(&self.normal) {
            self.normal.clear();
            self.normal.push_str(usual);
        }
        &self.normal
    }
}

/// Returns whether a quote after this text would begin a name with Unicode escapes, as after the column `u` and
/// the operator `&`.
fn begins_unicode_name(text: &str) -> bool {
    let before = text.strip_suffix("u&");
    before.is_some_and(|before| !before.bytes().last().is_some_and(is_operand_end))
}

/// Adds a quoted name. One with Unicode escapes is equal to the same name without.
fn push_name(out: &mut String, quoted: &str) {
    if quoted.starts_with('"') {
        out.push_str(quoted);
        return;
    }
    out.push('"');
    out.push_str(&read_quoted_name(quoted).replace('"', "\"\""));
    out.push('"');
}

/// Returns the usual spelling of a command that ends a transaction. The server's statistics count all
/// spellings as one.
fn usual_command(normal: &str) -> Option<&'static str> {
    match normal {
        "end" | "end work" | "end transaction" | "commit work" | "commit transaction" => {
            Some("commit")
        }
        "abort" | "abort work" | "abort transaction" | "rollback work" | "rollback transaction" => {
            Some("rollback")
        }
        _ => None,
    }
}

/// Whether a text has several statements, as far as its tokens show. The bodies of SQL functions (`BEGIN
/// ATOMIC … END`) count as several.
pub fn holds_several(sql: &str) -> bool {
    let mut ended = false;
    for token in Lexer::new(sql) {
        match token {
            Token::Comment { .. } => {}
            Token::Symbol { start, .. } if sql.as_bytes()[start] == b';' => ended = true,
            _ if ended => return true,
            _ => {}
        }
    }
    false
}

/// Adds a blank between two tokens that were separated by white space, unless the first ends in a character
/// that needs none. Words, names and values always have one between them: `select'x'` is `select 'x'`.
fn push_space(out: &mut String, spaced: bool, next: u8) {
    match out.as_bytes().last() {
        Some(_) if out.ends_with("...") => out.push(' '),
        None | Some(b'(' | b' ' | b'.') => {}
        Some(_) if next == b';' || next == b'.' => {}
        // `count (*)` and `count(*)` are equal; `in (` and `values (` are more readable with a blank.
        Some(_) if next == b'(' => {
            if [
                "in", "values", "as", "and", "or", "not", "from", "where", "any", "exists",
                "select", "using",
            ]
            .iter()
            .any(|word| {
                out.strip_suffix(word)
                    .is_some_and(|before| before.is_empty() || before.ends_with([' ', '(']))
            }) || out.ends_with(['=', '<', '>', '+', '-', '*', '/', ','])
            {
                out.push(' ');
            }
        }
        Some(last) if spaced || matches!(next, b'a' | b'$') && is_operand_end(*last) => {
            out.push(' ');
        }
        Some(_) => {}
    }
}

/// Whether a word, a quoted name or a value ends in this byte.
fn is_operand_end(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'"') || byte >= 0x80
}

fn push_number(out: &mut String, number: u32) {
    if number >= 10 {
        push_number(out, number / 10);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// Folds lists: in `(v, v, v)` all values after the first, and in `(v, v), (v, v)` all groups of only values
/// after the first.
#[derive(Debug, Default)]
struct ListFolder {
    state: ListState,
    /// Values were folded and `...` is not written yet.
    folded: bool,
    /// Position before the further group that is being written. The group is removed if it has only values.
    group: Option<OpenGroup>,
}

/// State before a further group.
#[derive(Debug, Clone, Copy)]
struct OpenGroup {
    length: usize,
    values: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ListState {
    /// Not in a list.
    #[default]
    Outside,
    /// After `(`.
    Opened,
    /// After the first value in parentheses.
    AfterFirst,
    /// After a comma that follows a value. The comma is held back until the next token is known.
    HeldComma,
    /// After `)` that closed a list of only values.
    AfterGroup,
    /// After a comma that follows such a group. The comma is held back.
    HeldGroupComma,
}

impl ListFolder {
    fn open_list(&mut self) {
        self.state = ListState::Opened;
        self.group = None;
    }

    fn close_list(&mut self) {
        if self.state != ListState::AfterGroup {
            self.state = ListState::Outside;
        }
    }

    /// Handles a value. Returns whether to omit it.
    fn on_value(&mut self, out: &mut String) -> bool {
        match self.state {
            ListState::Opened => {
                self.state = ListState::AfterFirst;
                false
            }
            ListState::HeldComma => {
                self.folded = true;
                self.state = ListState::AfterFirst;
                true
            }
            _ => {
                self.flush(out);
                false
            }
        }
    }

    /// Handles a comma. Returns whether to hold it back.
    fn on_comma(&mut self, out: &mut String) -> bool {
        match self.state {
            ListState::AfterFirst => {
                self.state = ListState::HeldComma;
                true
            }
            ListState::AfterGroup => {
                self.state = ListState::HeldGroupComma;
                true
            }
            _ => {
                self.flush(out);
                false
            }
        }
    }

    /// Handles a `(` after `values` values. Returns whether it was written.
    fn on_opening_parenthesis(&mut self, out: &mut String, values: u32) -> bool {
        match self.state {
            ListState::HeldGroupComma => {
                self.group = Some(OpenGroup {
                    length: out.len(),
                    values,
                });
                if std::mem::take(&mut self.folded) {
                    out.push_str(", ...");
                }
                out.push_str(", (");
                self.state = ListState::Opened;
                true
            }
            // A parenthesis after a held comma, or directly after a value or a group.
            ListState::HeldComma | ListState::AfterFirst | ListState::AfterGroup => {
                self.flush(out);
                false
            }
            ListState::Outside | ListState::Opened => false,
        }
    }

    /// Handles a `)`. If a group was removed, returns the number of values written before it.
    fn on_closing_parenthesis(&mut self, out: &mut String) -> Option<u32> {
        match self.state {
            ListState::AfterFirst | ListState::HeldComma => {
                self.state = ListState::AfterGroup;
                if let Some(group) = self.group.take() {
                    out.truncate(group.length);
                    self.folded = true;
                    return Some(group.values);
                }
                if std::mem::take(&mut self.folded) {
                    out.push_str(", ...");
                }
                None
            }
            _ => {
                self.flush(out);
                None
            }
        }
    }

    /// Handles any other token: writes what was held back.
    fn flush(&mut self, out: &mut String) {
        if std::mem::take(&mut self.folded) {
            out.push_str(", ...");
        }
        if matches!(self.state, ListState::HeldComma | ListState::HeldGroupComma) {
            out.push_str(", ");
        }
        self.state = ListState::Outside;
        self.group = None;
    }

    fn finish(&mut self, out: &mut String) {
        self.flush(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(sql: &str) -> String {
        Fingerprinter::new().normalise(sql).to_owned()
    }

    #[test]
    fn values_comments_white_space_and_case_are_no_difference() {
        let one = "select * from t where a = $1 and b = $2";
        for text in [
            "SELECT * FROM t WHERE a = 1 AND b = 'x'",
            "select *\n  from t -- all\n where a = -1.5e3 and b = E'it\\'s'",
            "select * from t where a = $1 and b = $2;",
            "/* hint /* nested */ */ select * from T where a = 0x1F and b = $tag$x'y$tag$ ;",
            "select * from t where a = 1_000 and b = N'x'",
        ] {
            assert_eq!(normal(text), one, "{text}");
        }
    }

    #[test]
    fn words_names_and_values_without_a_blank_are_separate() {
        for (text, spaced) in [
            ("select'x'", "select 'x'"),
            (
                "select'x'as\"A\"from\"T\"where\"c\"in('y')",
                "select 'x' as \"A\" from \"T\" where \"c\" in ('y')",
            ),
            ("select 1a", "select 1 a"),
        ] {
            assert_eq!(normal(text), normal(spaced), "{text}");
            assert_eq!(normal(&normal(text)), normal(text), "{text}");
        }
    }

    #[test]
    fn quoted_names_keep_their_case_and_are_no_values() {
        assert_eq!(
            normal(r#"SELECT "Name", "it""s" FROM "T""#),
            r#"select "Name", "it""s" from "T""#
        );
    }

    #[test]
    fn lists_of_values_fold() {
        assert_eq!(
            normal("select 1 from t where a in (1,2, 3)"),
            "select $1 from t where a in ($2, ...)"
        );
        assert_eq!(
            normal("select 1 from t where a in (1)"),
            "select $1 from t where a in ($2)"
        );
        assert_eq!(
            normal("insert into t (a, b) values (1, 'x'), (2, 'y'), (3, null)"),
            // NULL is a word: a column that is always set to it makes another statement.
            normal("insert into t (a, b) values (5, 'z'), (2, 'y'), (3, null)")
        );
        assert_eq!(
            normal("insert into t values (1, 'x'), (2, 'y') returning id"),
            "insert into t values ($1, ...), ... returning id"
        );
        assert_eq!(normal("select f(1, a, 2)"), "select f($1, a, $2)");
        assert_eq!(normal("select (1), a"), "select ($1), a");
    }

    #[test]
    fn normal_form_keeps_lists_with_other_tokens() {
        for (text, kept) in [
            (
                "SELECT f(1), (SELECT count(*) FROM t WHERE a = 5)",
                "select f($1), (select count(*) from t where a = $2)",
            ),
            ("SELECT f(1), 'b'", "select f($1), $2"),
            ("select f(1), 2, g(3, 4)", "select f($1), $2, g($3, ...)"),
            (
                "insert into t values (1, 'x'), (2, now()), (3, 'y')",
                "insert into t values ($1, ...), ($2, now()), ($3, ...)",
            ),
            (
                "insert into t values (1, 'x'), (2, 'y'), (3, now())",
                "insert into t values ($1, ...), ..., ($2, now())",
            ),
            (
                "insert into t values (1), (2), ((3)) on conflict do nothing",
                "insert into t values ($1), ..., (($2)) on conflict do nothing",
            ),
            (
                "select 1 in (1, (select 2))",
                "select $1 in ($2, (select $3))",
            ),
            ("select f(1) (2)", "select f($1)($2)"),
        ] {
            assert_eq!(normal(text), kept, "{text}");
        }
    }

    #[test]
    fn ends_of_transactions_are_one_however_they_are_written() {
        for text in ["END", "end;", "COMMIT WORK", "commit transaction", "Commit"] {
            assert_eq!(normal(text), "commit", "{text}");
        }
        assert_eq!(normal("ABORT"), normal("ROLLBACK TRANSACTION;"));
        assert_eq!(normal("rollback to savepoint a"), "rollback to savepoint a");
        assert_eq!(normal("commit and chain"), "commit and chain");
    }

    #[test]
    fn tokens_end_as_scan_l_ends_them() {
        for (text, kept) in [
            ("select 1 --\r, a", "select $1, a"),
            ("select 'a' -- '\n\t'b' , a", "select $1, a"),
            ("select E'a'\n'\\', b', a", "select $1, a"),
            ("select 'a' 'b', a", "select $1 $2, a"),
            ("select b'1''0', a", "select $1 $2, a"),
            ("select 1e--'\n, a", "select $1 e, a"),
            ("select 1x, 1.5", "select $1 x, $2"),
            ("select 0x1F, 1_000e-3, 1..5", "select $1, $2, $3..$4"),
            ("select U&'d!0061' /* x */ uescape\n'!', a", "select $1, a"),
            (
                r#"select u&U&"\0061", xu&"a", U&"a""#,
                r#"select u& "a", xu&"a", "a""#,
            ),
            ("select u&\"d!0061\" uescape '!', a", "select \"da\", a"),
            (
                "select -1, +1, -1::int, a is distinct from -1",
                "select $1, +$2, -$3::int, a is distinct from $4",
            ),
        ] {
            assert_eq!(normal(text), kept, "{text}");
        }
        let until_14 = LexicalRules {
            numbers: lexer::NumberSyntax::Until14,
            ..LexicalRules::default()
        };
        let mut fingerprinter = Fingerprinter::new();
        for (text, kept) in [
            ("select 0x1F, 1_0", "select $1 x1f, $2 _0"),
            ("select 0x1$$ ; $$", "select $1 x1$$; $2"),
        ] {
            assert_eq!(fingerprinter.normalise_with(text, until_14), kept, "{text}");
        }
    }

    #[test]
    fn a_minus_that_subtracts_stays() {
        assert_eq!(
            normal("select a - 1, a-1 from t"),
            "select a - $1, a-$2 from t"
        );
        assert_ne!(normal("select a - 1"), normal("select a + 1"));
    }

    #[test]
    fn several_statements_are_recognised_by_tokens_after_a_semicolon() {
        for several in ["select 1; select 2", "begin;commit;", ";select 1;;x"] {
            assert!(holds_several(several), "{several}");
        }
        for one in [
            "select ';' ;",
            "select 1 -- ; x",
            "",
            ";",
            "select $$;x$$; /* ; */",
        ] {
            assert!(!holds_several(one), "{one}");
        }
    }

    #[test]
    fn damaged_sql_is_normalised_as_far_as_it_goes() {
        for text in [
            "",
            ";",
            "'",
            "select 'abc",
            "select \"abc",
            "/* x",
            "$tag$ x",
            "é'",
            "(((",
            "1,",
            "),(1",
        ] {
            normal(text);
        }
    }

    #[test]
    fn no_literal_survives() {
        for text in [
            "select 'secret'",
            "alter role x password 'secret'",
            "select E'sec''secret'",
            "select $$secret$$",
            "select U&'secret' uescape '!'",
            "select b'101', X'secret'",
            "insert into t values ('secret', 1), ('secret', 2)",
            "select 'sec' \n 'secret'",
            "select 'secret",
        ] {
            assert!(!normal(text).contains("secret"), "{text}: {}", normal(text));
        }
    }
}
