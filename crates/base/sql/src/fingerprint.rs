//! Statements that differ only in their values are one statement.
//!
//! The normal form drops comments, folds white space, lower-cases what is not quoted, puts `$n`
//! where a literal or a parameter stands (numbered from 1 in the order of appearance), and folds
//! lists of values: `IN ($1, $2, $3)` and `VALUES ($1), ($2)` keep their first element and `...`.
//! `END` and `COMMIT WORK` are `commit`, `ABORT` is `rollback`. The fingerprint is its XXH3.
//!
//! This works on the text alone, without a catalogue or a grammar; `pg_stat_statements` works on
//! the parse tree and may tell two texts apart that are one here (a table in two schemas of the
//! `search_path`), or the other way round. Lexical rules: PostgreSQL documentation, 4.1 (nested
//! comments, dollar quotes, `E''` and doubled quotes). `standard_conforming_strings = off` is not
//! known from a text, so a backslash in a plain literal does not escape.

mod class;
pub mod lexer;
mod shape;

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

pub use class::{StatementClass, classify};
use lexer::{Lexer, Token};
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

/// Makes fingerprints. Holds the space that it works in, so that it allocates only for a
/// statement longer than those before it.
#[derive(Debug, Default)]
pub struct Fingerprinter {
    normal: String,
}

impl Fingerprinter {
    /// A new one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The statement's fingerprint.
    pub fn fingerprint(&mut self, sql: &str) -> Fingerprint {
        Fingerprint(xxh3_64(self.normalise(sql).as_bytes()))
    }

    /// The statement's normal form: no literal of it is left.
    pub fn normalise(&mut self, sql: &str) -> &str {
        self.normal.clear();
        let mut values = 0u32;
        let mut list = List::default();
        let mut previous_end = 0;
        let mut spaced_before;
        for token in Lexer::new(sql) {
            spaced_before = token.start() > previous_end;
            previous_end = token.end();
            let out = &mut self.normal;
            match token {
                Token::Comment { .. } => {
                    // White space, so that `a/**/b` stays two words.
                    previous_end = previous_end.saturating_sub(1);
                    continue;
                }
                Token::Value { .. } => {
                    if list.value(out) {
                        continue;
                    }
                    space(out, spaced_before, b'$');
                    values += 1;
                    out.push('$');
                    push_number(out, values);
                }
                Token::Word { start, end } => {
                    list.other(out);
                    space(out, spaced_before, b'a');
                    for character in sql[start..end].chars() {
                        out.push(character.to_ascii_lowercase());
                    }
                }
                Token::Quoted { start, end } => {
                    list.other(out);
                    space(out, spaced_before, b'a');
                    out.push_str(&sql[start..end]);
                }
                Token::Symbol { start, end } => {
                    let symbol = sql.as_bytes()[start];
                    match symbol {
                        b',' => {
                            if list.comma() {
                                continue;
                            }
                            out.push_str(", ");
                        }
                        b'(' => {
                            if list.opening(out, values) {
                                continue;
                            }
                            space(out, spaced_before, b'(');
                            out.push('(');
                            list.opened();
                        }
                        b')' => {
                            if let Some(before) = list.closing(out) {
                                values = before;
                                continue;
                            }
                            out.push(')');
                            list.closed();
                        }
                        _ => {
                            list.other(out);
                            space(out, spaced_before, symbol);
                            out.push_str(&sql[start..end]);
                        }
                    }
                }
            }
        }
        list.end(&mut self.normal);
        while self.normal.ends_with([';', ' ']) {
            self.normal.pop();
        }
        if let Some(usual) = usual_word(&self.normal) {
            self.normal.clear();
            self.normal.push_str(usual);
        }
        &self.normal
    }
}

/// Ways to write the same end of a transaction, which the server's statistics count as one.
fn usual_word(normal: &str) -> Option<&'static str> {
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

/// Whether a text has several statements in it, as far as its tokens tell. The bodies of SQL functions
/// (`BEGIN ATOMIC … END`) count as several.
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

/// Puts a blank between two tokens where there was white space, unless the first already ends in
/// what needs none.
fn space(out: &mut String, spaced: bool, next: u8) {
    match out.as_bytes().last() {
        Some(_) if out.ends_with("...") => out.push(' '),
        None | Some(b'(' | b' ' | b'.') => {}
        Some(_) if next == b';' || next == b'.' => {}
        // `count (*)` and `count(*)` are one; `in (` and `values (` read better with a blank.
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
        Some(_) if spaced => out.push(' '),
        Some(_) => {}
    }
}

fn push_number(out: &mut String, number: u32) {
    if number >= 10 {
        push_number(out, number / 10);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// Folds lists: in `(v, v, v)` all values after the first, and in `(v, v), (v, v)` all groups
/// after the first that are of values alone.
#[derive(Debug, Default)]
struct List {
    state: ListState,
    /// Something was folded that has not been written as `...` yet.
    folded: bool,
    /// The further group that is being written: it is taken back if it turns out to be of values alone.
    group: Option<Group>,
}

/// How it was before a further group.
#[derive(Debug, Clone, Copy)]
struct Group {
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
    /// After a comma behind a value: held back until it is known what follows.
    HeldComma,
    /// After `)` that closed a list of values alone.
    AfterGroup,
    /// After a comma behind such a group: held back.
    HeldGroupComma,
}

impl List {
    fn opened(&mut self) {
        self.state = ListState::Opened;
        self.group = None;
    }

    fn closed(&mut self) {
        if self.state != ListState::AfterGroup {
            self.state = ListState::Outside;
        }
    }

    /// A value came; true: leave it out.
    fn value(&mut self, out: &mut String) -> bool {
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
                self.other(out);
                false
            }
        }
    }

    /// A comma came; true: hold it back.
    fn comma(&mut self) -> bool {
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
                self.state = ListState::Outside;
                self.group = None;
                false
            }
        }
    }

    /// A `(` came, behind so many values; true: it is written.
    fn opening(&mut self, out: &mut String, values: u32) -> bool {
        match self.state {
            ListState::HeldGroupComma => {
                self.group = Some(Group {
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
            // A parenthesis behind a held comma, or right behind a value or a group.
            ListState::HeldComma | ListState::AfterFirst | ListState::AfterGroup => {
                self.other(out);
                false
            }
            ListState::Outside | ListState::Opened => false,
        }
    }

    /// A `)` came. With a number the group was taken back, and so many values are written.
    fn closing(&mut self, out: &mut String) -> Option<u32> {
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
                self.other(out);
                None
            }
        }
    }

    /// Anything else came: what was held back is written.
    fn other(&mut self, out: &mut String) {
        if std::mem::take(&mut self.folded) {
            out.push_str(", ...");
        }
        if matches!(self.state, ListState::HeldComma | ListState::HeldGroupComma) {
            out.push_str(", ");
        }
        self.state = ListState::Outside;
        self.group = None;
    }

    fn end(&mut self, out: &mut String) {
        self.other(out);
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
            // NULL is a word: a column that is always set to it is another statement.
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
    fn what_is_no_list_of_values_is_kept_as_it_is() {
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
    fn a_minus_that_subtracts_stays() {
        assert_eq!(
            normal("select a - 1, a-1 from t"),
            "select a - $1, a-$2 from t"
        );
        assert_ne!(normal("select a - 1"), normal("select a + 1"));
    }

    #[test]
    fn several_statements_are_known_by_what_stands_behind_a_semicolon() {
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
