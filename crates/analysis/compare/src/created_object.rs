//! Objects that a text creates, and tables that it writes, so that what comes after it can be traced to it if it did not happen.

use sql::{Lexeme, split_statements};

/// Kind of an object, as the SQLSTATE of a missing one distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectKind {
    /// Table, view or sequence.
    Relation,
    /// Column or attribute.
    Column,
    /// Function, procedure or aggregate.
    Function,
    /// Schema.
    Schema,
    /// Type, domain, extension, collation, role or index.
    Other,
    /// Cursor.
    Cursor,
    /// Savepoint.
    Savepoint,
    /// Prepared statement.
    PreparedStatement,
}

/// Object that a statement creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreatedObject {
    /// Kind.
    pub(crate) kind: ObjectKind,
    /// Lower-case name, without its schema.
    pub(crate) name: String,
    /// Lower-case name of its schema, if given, or of the table of a column.
    pub(crate) parent: Option<String>,
    /// Whether only its session sees it.
    pub(crate) is_of_session: bool,
    /// Whether the object may exist before: `IF NOT EXISTS`, `OR REPLACE`.
    pub(crate) may_exist: bool,
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
    let of_session = if verb.is("declare") {
        Some(ObjectKind::Cursor)
    } else if verb.is("prepare") {
        Some(ObjectKind::PreparedStatement)
    } else if verb.is("savepoint") {
        Some(ObjectKind::Savepoint)
    } else {
        None
    };
    if let Some(kind) = of_session {
        created.extend(object(rest, kind, true));
    } else if verb.is("alter") {
        add_altered(rest, created);
    } else if verb.is("create") {
        created.extend(defined_object(rest));
    } else if verb.is("select")
        && let Some(into) = rest.iter().position(|word| word.is("into"))
    {
        let (is_of_session, rest) = skip_modifiers(&rest[into + 1..]);
        let rest = skip(rest, &["table"]);
        created.extend(object(rest, ObjectKind::Relation, is_of_session));
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
        let table = object(table, ObjectKind::Relation, false);
        written.extend(table.map(|table| table.name));
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
    let (_, words) = skip_modifiers(words);
    let Some((kind_word, words)) = words.split_first() else {
        return;
    };
    let Some(kind) = kind_of(kind_word) else {
        return;
    };
    let altered = object(skip(words, &["if", "exists", "only"]), kind, false);
    let parent = altered.map(|object| object.name);
    let column = |name, may_exist| {
        Some(CreatedObject {
            parent: parent.clone(),
            may_exist,
            ..object(name, ObjectKind::Column, false)?
        })
    };
    let renamed = words.iter().position(|word| word.is("rename"));
    let to = words.iter().position(|word| word.is("to"));
    if let (Some(rename), Some(to)) = (renamed, to) {
        let rest = &words[to + 1..];
        let first = words.get(rename + 1);
        if rename + 1 == to {
            created.extend(object(rest, kind, false));
        } else if !first.is_some_and(|word| is_any(word, &["constraint", "value"])) {
            created.extend(column(rest, false));
        }
        return;
    }
    let is_type = kind_word.is("type");
    if !is_type && !kind_word.is("table") {
        return;
    }
    for (at, word) in words.iter().enumerate() {
        let rest = &words[at + 1..];
        let is_column = match rest.first() {
            Some(first) if is_type => first.is("attribute"),
            Some(first) => !is_any(first, &CONSTRAINTS),
            None => false,
        };
        if word.is("add") && is_column {
            let rest = skip(rest, &["column", "attribute"]);
            let name = skip(rest, &["if", "not", "exists"]);
            created.extend(column(name, name.len() < rest.len()));
        }
    }
}

/// Returns the kind that a keyword after `CREATE` or `ALTER` names.
fn kind_of(word: &Lexeme<'_>) -> Option<ObjectKind> {
    const RELATIONS: [&str; 3] = ["table", "view", "sequence"];
    const FUNCTIONS: [&str; 3] = ["function", "procedure", "aggregate"];
    const OTHERS: [&str; 7] = [
        "type",
        "domain",
        "extension",
        "collation",
        "role",
        "user",
        "index",
    ];
    if is_any(word, &RELATIONS) {
        Some(ObjectKind::Relation)
    } else if is_any(word, &FUNCTIONS) {
        Some(ObjectKind::Function)
    } else if word.is("schema") {
        Some(ObjectKind::Schema)
    } else if is_any(word, &OTHERS) {
        Some(ObjectKind::Other)
    } else {
        None
    }
}

/// Returns the object that the words after `CREATE` define.
fn defined_object(words: &[Lexeme<'_>]) -> Option<CreatedObject> {
    let replaces = words.first().is_some_and(|word| word.is("or"));
    let (is_of_session, words) = skip_modifiers(words);
    let (kind, rest) = words.split_first()?;
    let kind = kind_of(kind)?;
    let rest = skip(rest, &["concurrently"]);
    let name = skip(rest, &["if", "not", "exists"]);
    Some(CreatedObject {
        may_exist: replaces || name.len() < rest.len(),
        ..object(name, kind, is_of_session)?
    })
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
fn object(
    mut words: &[Lexeme<'_>],
    kind: ObjectKind,
    is_of_session: bool,
) -> Option<CreatedObject> {
    let mut schema = None;
    while words.get(1).is_some_and(|word| word.is_symbol(".")) {
        schema = words[0].name();
        words = &words[2..];
    }
    let schema = schema.map(|name| name.to_lowercase());
    let is_temporary = schema.as_deref() == Some("pg_temp");
    let name = words.first()?.name()?.to_lowercase();
    Some(CreatedObject {
        kind,
        name,
        parent: schema.filter(|_| !is_temporary),
        is_of_session: is_of_session || is_temporary,
        may_exist: false,
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
            let created = StatementEffects::of(sql).created;
            let found: Vec<&str> = created.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(found, names, "{sql}");
            let mut created = created.iter();
            assert!(
                created.all(|one| one.is_of_session == is_of_session),
                "{sql}"
            );
        }
    }

    #[test]
    fn created_objects_have_their_kind_and_parent_and_may_exist_if_stated() {
        use ObjectKind::{Column, Function, Other, Relation, Schema};
        for (sql, kind, name, parent, may_exist) in [
            ("create table s.t (a int)", Relation, "t", Some("s"), false),
            (
                "create table if not exists t (a int)",
                Relation,
                "t",
                None,
                true,
            ),
            ("create or replace function f()", Function, "f", None, true),
            (
                "create extension if not exists hstore",
                Other,
                "hstore",
                None,
                true,
            ),
            ("create schema s", Schema, "s", None, false),
            (
                "alter table s.t add column type text",
                Column,
                "type",
                Some("t"),
                false,
            ),
            (
                "alter table t add if not exists a int",
                Column,
                "a",
                Some("t"),
                true,
            ),
            ("alter table t rename a to b", Column, "b", Some("t"), false),
            ("alter table t rename to u", Relation, "u", None, false),
            (
                "alter function f(int) rename to g",
                Function,
                "g",
                None,
                false,
            ),
            (
                "alter type t add attribute a int",
                Column,
                "a",
                Some("t"),
                false,
            ),
        ] {
            let expected = CreatedObject {
                kind,
                name: name.to_owned(),
                parent: parent.map(str::to_owned),
                is_of_session: false,
                may_exist,
            };
            assert_eq!(StatementEffects::of(sql).created, [expected], "{sql}");
        }
        for sql in [
            "alter type t add value $1",
            "alter type t rename value $1 to $2",
            "alter table t rename constraint a to b",
            "alter publication p add table t",
        ] {
            assert_eq!(StatementEffects::of(sql).created, [], "{sql}");
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
