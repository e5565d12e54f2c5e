//! Objects that a text creates, and tables that it writes, so that what comes after it can be traced to it if it did not happen.

use sql::{Lexeme, split_statements};

/// Object that a statement creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreatedObject {
    /// Lower-case name, without its schema.
    pub(crate) name: String,
    /// Whether only its session sees it.
    pub(crate) is_of_session: bool,
}

/// Effects of a text on which later statements depend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StatementEffects {
    /// Objects that its statements create.
    pub(crate) created: Vec<CreatedObject>,
    /// Whether it inserts rows, or calls `nextval` or `setval`. `currval` needs such a statement before.
    pub(crate) takes_value: bool,
    /// Lower-case names, without schema, of the tables whose rows it writes.
    pub(crate) written: Vec<String>,
}

impl StatementEffects {
    /// Reads a text, which may have several statements.
    pub(crate) fn of(sql: &str) -> Self {
        let mut effects = Self::default();
        for statement in split_statements(sql) {
            let words = &statement.words;
            add_created(words, &mut effects.created);
            add_written(words, &mut effects.written);
            let mut words = words.iter();
            effects.takes_value |= words.any(|word| is_any(word, &["insert", "nextval", "setval"]));
        }
        effects
    }
}

fn is_any(word: &Lexeme<'_>, of: &[&str]) -> bool {
    of.iter().any(|one| word.is(one))
}

fn add_created(words: &[Lexeme<'_>], created: &mut Vec<CreatedObject>) {
    let Some((verb, rest)) = words.split_first() else {
        return;
    };
    if is_any(verb, &["declare", "prepare", "savepoint"]) {
        created.extend(object(rest, true));
    } else if verb.is("alter") {
        add_altered(rest, created);
    } else if verb.is("create") {
        created.extend(defined_object(rest));
    } else if verb.is("select")
        && let Some(into) = rest.iter().position(|word| word.is("into"))
    {
        let (is_of_session, rest) = skip_modifiers(&rest[into + 1..]);
        let rest = skip(rest, &["table"]);
        created.extend(object(rest, is_of_session));
    }
}

/// Adds the tables whose rows a statement writes, also within `WITH`.
fn add_written(words: &[Lexeme<'_>], written: &mut Vec<String>) {
    // `FOR UPDATE`, `ON CONFLICT DO UPDATE` and `ON UPDATE` name no table.
    const BEFORE_OTHER: [&str; 4] = ["for", "key", "do", "on"];
    for (at, word) in words.iter().enumerate() {
        let rest = &words[at + 1..];
        let follows = |keyword: &str| rest.first().is_some_and(|word| word.is(keyword));
        let is_other = at > 0 && is_any(&words[at - 1], &BEFORE_OTHER);
        let table = if is_any(word, &["insert", "merge"]) && follows("into") {
            skip(rest, &["into"])
        } else if word.is("delete") && follows("from") {
            skip(rest, &["from", "only"])
        } else if word.is("update") && !is_other {
            skip(rest, &["only"])
        } else if at == 0 && is_any(word, &["truncate", "copy"]) {
            skip(rest, &["table", "only"])
        } else {
            continue;
        };
        written.extend(object(table, false).map(|table| table.name));
    }
}

/// Adds the columns and names that an `ALTER` adds.
fn add_altered(words: &[Lexeme<'_>], created: &mut Vec<CreatedObject>) {
    const CONSTRAINTS: [&str; 8] = [
        "constraint",
        "primary",
        "unique",
        "foreign",
        "check",
        "exclude",
        "generated",
        "not",
    ];
    let is_renaming = words.iter().any(|word| word.is("rename"));
    for (at, word) in words.iter().enumerate() {
        let rest = &words[at + 1..];
        if is_renaming && word.is("to") {
            created.extend(object(rest, false));
        } else if word.is("add") && !rest.first().is_some_and(|one| is_any(one, &CONSTRAINTS)) {
            let rest = skip(skip(rest, &["column"]), &["if", "not", "exists"]);
            created.extend(object(rest, false));
        }
    }
}

/// Returns the object that the words after `CREATE` define.
fn defined_object(words: &[Lexeme<'_>]) -> Option<CreatedObject> {
    const KINDS: [&str; 16] = [
        "table",
        "view",
        "index",
        "sequence",
        "function",
        "procedure",
        "aggregate",
        "type",
        "domain",
        "schema",
        "extension",
        "collation",
        "operator",
        "column",
        "role",
        "user",
    ];
    let (is_of_session, words) = skip_modifiers(words);
    let (kind, rest) = words.split_first()?;
    if !is_any(kind, &KINDS) {
        return None;
    }
    object(
        skip(rest, &["concurrently", "if", "not", "exists"]),
        is_of_session,
    )
}

/// Skips the words before the kind of an object. Returns whether they make it temporary.
fn skip_modifiers<'w, 't>(mut words: &'w [Lexeme<'t>]) -> (bool, &'w [Lexeme<'t>]) {
    const MODIFIERS: [&str; 14] = [
        "or",
        "replace",
        "temp",
        "temporary",
        "global",
        "local",
        "unlogged",
        "unique",
        "materialized",
        "recursive",
        "trusted",
        "procedural",
        "constraint",
        "foreign",
    ];
    let mut is_of_session = false;
    while let Some((word, rest)) = words.split_first()
        && is_any(word, &MODIFIERS)
    {
        is_of_session |= is_any(word, &["temp", "temporary"]);
        words = rest;
    }
    (is_of_session, words)
}

/// Skips words while they are one of these keywords.
fn skip<'w, 't>(mut words: &'w [Lexeme<'t>], keywords: &[&str]) -> &'w [Lexeme<'t>] {
    while let Some((word, rest)) = words.split_first()
        && is_any(word, keywords)
    {
        words = rest;
    }
    words
}

/// Returns the object whose name is at the beginning.
fn object(mut words: &[Lexeme<'_>], is_of_session: bool) -> Option<CreatedObject> {
    let is_of_session = is_of_session || words.first().is_some_and(|word| word.is("pg_temp"));
    while words.get(1).is_some_and(|word| word.is_symbol(".")) {
        words = &words[2..];
    }
    let name = words.first()?.name()?.to_lowercase();
    Some(CreatedObject {
        name,
        is_of_session,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_objects_are_named_without_schema_and_options() {
        let cases: &[(&str, &[&str], bool)] = &[
            (
                "create temp table if not exists s.work (a int)",
                &["work"],
                true,
            ),
            (
                "CREATE OR REPLACE FUNCTION f(a int) returns int",
                &["f"],
                false,
            ),
            (
                "create unique index concurrently \"My Index\" on t (a)",
                &["my index"],
                false,
            ),
            (
                "alter table only t add column if not exists c int, add d int",
                &["c", "d"],
                false,
            ),
            ("alter table t add constraint c check (a > $1)", &[], false),
            ("alter table t rename column a to b", &["b"], false),
            ("declare cur cursor for select $1", &["cur"], true),
            ("savepoint one", &["one"], true),
            ("prepare p as select $1", &["p"], true),
            ("create table pg_temp.work (a int)", &["work"], true),
            (
                "create temp table a (n int); create temp table b (n int)",
                &["a", "b"],
                true,
            ),
            ("select id into temp work from t", &["work"], true),
            ("select id into table s.work from t", &["work"], false),
            ("create view public.v as select $1", &["v"], false),
            ("insert into work values ($1)", &[], false),
        ];
        for &(sql, names, is_of_session) in cases {
            let expected: Vec<_> = (names.iter())
                .map(|name| CreatedObject {
                    name: (*name).to_owned(),
                    is_of_session,
                })
                .collect();
            assert_eq!(StatementEffects::of(sql).created, expected, "{sql}");
        }
    }

    #[test]
    fn value_of_a_sequence_is_taken_by_inserts_and_calls() {
        for (sql, takes_value) in [
            ("insert into t values ($1)", true),
            ("select $1; select nextval($2)", true),
            ("select setval($1, $2)", true),
            ("select currval($1)", false),
        ] {
            assert_eq!(StatementEffects::of(sql).takes_value, takes_value, "{sql}");
        }
    }

    #[test]
    fn written_tables_are_named_without_schema() {
        let cases: &[(&str, &[&str])] = &[
            ("insert into s.orders values ($1)", &["orders"]),
            (
                "insert into a values ($1) on conflict do update set n = $1",
                &["a"],
            ),
            ("update only \"Items\" set n = $1", &["items"]),
            (
                "with gone as (delete from old returning id) insert into log select id from gone",
                &["old", "log"],
            ),
            ("truncate table work", &["work"]),
            ("copy work from stdin", &["work"]),
            ("select n from items for no key update", &[]),
            ("select n from items for update", &[]),
        ];
        for &(sql, names) in cases {
            assert_eq!(StatementEffects::of(sql).written, names, "{sql}");
        }
    }
}
