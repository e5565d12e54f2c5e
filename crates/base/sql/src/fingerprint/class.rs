//! Classifies statements by their first words.

use schemars::JsonSchema;
use serde::Serialize;

use super::lexer::{Lexer, Token};

/// Class of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum StatementClass {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Copy,
    /// `CALL`, `DO` and SQL-level `EXECUTE`: they may do anything.
    Call,
    /// `BEGIN`, `COMMIT`, savepoints and the like.
    Transaction,
    /// `CREATE`, `ALTER`, `DROP`, `TRUNCATE`, `GRANT` …
    Ddl,
    /// `SET`, `SHOW`, `EXPLAIN`, `LISTEN`, `PREPARE`, cursors, `VACUUM` …
    Utility,
    /// No known class.
    Other,
}

impl StatementClass {
    /// All classes.
    pub const ALL: [StatementClass; 11] = [
        StatementClass::Select,
        StatementClass::Insert,
        StatementClass::Update,
        StatementClass::Delete,
        StatementClass::Merge,
        StatementClass::Copy,
        StatementClass::Call,
        StatementClass::Transaction,
        StatementClass::Ddl,
        StatementClass::Utility,
        StatementClass::Other,
    ];

    /// Returns the name under which the class is stored.
    pub fn name(self) -> &'static str {
        match self {
            StatementClass::Select => "select",
            StatementClass::Insert => "insert",
            StatementClass::Update => "update",
            StatementClass::Delete => "delete",
            StatementClass::Merge => "merge",
            StatementClass::Copy => "copy",
            StatementClass::Call => "call",
            StatementClass::Transaction => "transaction",
            StatementClass::Ddl => "ddl",
            StatementClass::Utility => "utility",
            StatementClass::Other => "other",
        }
    }

    /// Returns the class stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether the planner plans it, so that `EXPLAIN` and `PREPARE` take it.
    pub fn is_planned(self) -> bool {
        matches!(
            self,
            StatementClass::Select
                | StatementClass::Insert
                | StatementClass::Update
                | StatementClass::Delete
                | StatementClass::Merge
        )
    }

    /// Whether it may change data. A `SELECT` may, too, through a function; only the server can forbid that.
    pub fn may_write(self) -> bool {
        !matches!(
            self,
            StatementClass::Select | StatementClass::Transaction | StatementClass::Utility
        )
    }
}

/// Reads the class from a statement's first words. For several statements in one text it is the class of the
/// first that may write, otherwise of the first.
pub fn classify(sql: &str) -> StatementClass {
    let mut first = None;
    let mut at_start = true;
    let mut words = Lexer::new(sql).filter(|token| !matches!(token, Token::Comment { .. }));
    while let Some(token) = words.next() {
        match token {
            Token::Symbol { start, .. } if &sql[start..=start] == ";" => at_start = true,
            Token::Symbol { start, .. } if at_start && &sql[start..=start] == "(" => {}
            Token::Word { start, end } if at_start => {
                at_start = false;
                let mut class = classify_first_word(&sql[start..end]);
                if class == StatementClass::Other && sql[start..end].eq_ignore_ascii_case("with") {
                    class = classify_with(sql, &mut words, &mut at_start);
                }
                if class.may_write() && class != StatementClass::Other {
                    return class;
                }
                first.get_or_insert(class);
            }
            _ => at_start = false,
        }
    }
    first.unwrap_or(StatementClass::Other)
}

fn classify_first_word(word: &str) -> StatementClass {
    const WORDS: &[(&str, StatementClass)] = &[
        ("select", StatementClass::Select),
        ("values", StatementClass::Select),
        ("table", StatementClass::Select),
        ("insert", StatementClass::Insert),
        ("update", StatementClass::Update),
        ("delete", StatementClass::Delete),
        ("merge", StatementClass::Merge),
        ("copy", StatementClass::Copy),
        ("call", StatementClass::Call),
        ("do", StatementClass::Call),
        ("execute", StatementClass::Call),
        ("begin", StatementClass::Transaction),
        ("start", StatementClass::Transaction),
        ("commit", StatementClass::Transaction),
        ("end", StatementClass::Transaction),
        ("rollback", StatementClass::Transaction),
        ("abort", StatementClass::Transaction),
        ("savepoint", StatementClass::Transaction),
        ("release", StatementClass::Transaction),
        ("create", StatementClass::Ddl),
        ("alter", StatementClass::Ddl),
        ("drop", StatementClass::Ddl),
        ("truncate", StatementClass::Ddl),
        ("grant", StatementClass::Ddl),
        ("revoke", StatementClass::Ddl),
        ("comment", StatementClass::Ddl),
        ("refresh", StatementClass::Ddl),
        ("reindex", StatementClass::Ddl),
        ("cluster", StatementClass::Ddl),
        ("repack", StatementClass::Ddl),
        ("import", StatementClass::Ddl),
        ("reassign", StatementClass::Ddl),
        ("security", StatementClass::Ddl),
        ("set", StatementClass::Utility),
        ("reset", StatementClass::Utility),
        ("show", StatementClass::Utility),
        ("explain", StatementClass::Utility),
        ("analyze", StatementClass::Utility),
        ("analyse", StatementClass::Utility),
        ("vacuum", StatementClass::Utility),
        ("checkpoint", StatementClass::Utility),
        ("prepare", StatementClass::Utility),
        ("deallocate", StatementClass::Utility),
        ("discard", StatementClass::Utility),
        ("declare", StatementClass::Utility),
        ("fetch", StatementClass::Utility),
        ("move", StatementClass::Utility),
        ("close", StatementClass::Utility),
        ("listen", StatementClass::Utility),
        ("unlisten", StatementClass::Utility),
        ("notify", StatementClass::Utility),
        ("lock", StatementClass::Utility),
        ("load", StatementClass::Utility),
        ("wait", StatementClass::Utility),
    ];
    WORDS
        .iter()
        .find(|(known, _)| word.eq_ignore_ascii_case(known))
        .map_or(StatementClass::Other, |&(_, class)| class)
}

/// Classifies a `WITH` by the first part that writes, otherwise by the statement after the list.
fn classify_with(
    sql: &str,
    words: &mut impl Iterator<Item = Token>,
    at_start: &mut bool,
) -> StatementClass {
    let mut after_bracket = false;
    for token in words {
        match token {
            Token::Word { start, end } => {
                // A part's statement follows `(`, the main statement follows `)`.
                let class = classify_first_word(&sql[start..end]);
                let writes = matches!(
                    class,
                    StatementClass::Insert
                        | StatementClass::Update
                        | StatementClass::Delete
                        | StatementClass::Merge
                );
                if after_bracket && writes {
                    return class;
                }
                after_bracket = false;
            }
            Token::Symbol { start, .. } => {
                let symbol = &sql[start..=start];
                if symbol == ";" {
                    *at_start = true;
                    break;
                }
                after_bracket = symbol == "(" || symbol == ")";
            }
            _ => after_bracket = false,
        }
    }
    StatementClass::Select
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_uses_the_first_word() {
        for (sql, class) in [
            ("select 1", StatementClass::Select),
            ("  (SELECT 1) union (select 2)", StatementClass::Select),
            ("/* app */ update t set a = 1", StatementClass::Update),
            (
                "begin; insert into t values (1); commit",
                StatementClass::Insert,
            ),
            ("BEGIN", StatementClass::Transaction),
            (
                "with x as (select 1) select * from x",
                StatementClass::Select,
            ),
            (
                "with x as (delete from t returning *) select * from x",
                StatementClass::Delete,
            ),
            (
                "with x as (select 1) insert into t select * from x",
                StatementClass::Insert,
            ),
            ("set search_path = a; select 1", StatementClass::Utility),
            ("select 'insert into t'", StatementClass::Select),
            ("", StatementClass::Other),
            ("frobnicate", StatementClass::Other),
            ("repack (concurrently) t", StatementClass::Ddl),
            ("WAIT FOR LSN '0/1'", StatementClass::Utility),
        ] {
            assert_eq!(classify(sql), class, "{sql}");
        }
    }

    #[test]
    fn classify_unknown_statement_may_write() {
        assert!(StatementClass::Other.may_write());
        assert!(StatementClass::Call.may_write());
        assert!(!StatementClass::Select.may_write());
    }
}
