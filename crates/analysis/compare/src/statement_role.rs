//! Tells an application's statements from those of its tools: catalogue queries of drivers, and `pg_dump`.
//!
//! Drivers and monitoring read catalogues, whose size and statistics depend on the server and not on the change.
//! `pg_dump` reads whole tables. Neither belongs into a verdict on the application.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Lexeme, split_statements};

/// Origin of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatementRole {
    /// The application.
    #[default]
    Application,
    /// A query of catalogues only, as drivers, object mappers and monitoring send them.
    Catalogue,
    /// A session of `pg_dump`.
    Dump,
}

/// Catalogues and their views without `pg_`; those that end in `*` stand for all with this beginning.
const CATALOGUES: [&str; 67] = [
    "aggregate",
    "am",
    "amop",
    "amproc",
    "attrdef",
    "attribute",
    "auth_members",
    "authid",
    "available_extension*",
    "backend_memory_contexts",
    "cast",
    "class",
    "collation",
    "config",
    "constraint",
    "conversion",
    "cursors",
    "database",
    "db_role_setting",
    "default_acl",
    "depend",
    "description",
    "enum",
    "event_trigger",
    "extension",
    "foreign_*",
    "group",
    "index",
    "indexes",
    "inherits",
    "init_privs",
    "language",
    "largeobject*",
    "locks",
    "matviews",
    "namespace",
    "opclass",
    "operator",
    "opfamily",
    "partitioned_table",
    "policies",
    "policy",
    "prepared_*",
    "proc",
    "publication*",
    "range",
    "replication_*",
    "rewrite",
    "roles",
    "rules",
    "sequence",
    "sequences",
    "settings",
    "shdepend",
    "shdescription",
    "stat*",
    "subscription*",
    "tables",
    "tablespace",
    "timezone_*",
    "trigger",
    "ts_*",
    "type",
    "user",
    "user_mapping*",
    "views",
    "wait_events",
];

/// Functions whose arguments have the word FROM.
pub(crate) const WITH_FROM: [&str; 5] = ["extract", "overlay", "position", "substring", "trim"];

/// Functions of `pg_catalog` that read the server's state; those that end in `*` stand for all with this beginning.
const STATE_FUNCTIONS: [&str; 7] = [
    "current_database",
    "current_schema*",
    "current_setting",
    "pg_backend_pid",
    "pg_get_*",
    "set_config",
    "version",
];

/// Functions of the server that may stand in FROM next to catalogues.
const SET_FUNCTIONS: [&str; 12] = [
    "aclexplode",
    "array_*",
    "current_schema*",
    "generate_*",
    "json_*",
    "jsonb_*",
    "pg_*",
    "regexp_*",
    "string_to_*",
    "unnest",
    "xmltable",
    "rows",
];

/// Words that end a list of tables.
const ENDS_FROM: [&str; 12] = [
    "where",
    "group",
    "having",
    "order",
    "limit",
    "union",
    "intersect",
    "except",
    "window",
    "fetch",
    "offset",
    "for",
];

/// Returns the roles of statements, in their order.
pub(crate) fn statement_roles(statements: &[Option<&str>]) -> Vec<StatementRole> {
    let has_dump = statements.iter().flatten().any(|sql| is_dump_lock(sql));
    let role = |sql: &Option<&str>| match sql {
        Some(sql) if is_dump(sql, has_dump) => StatementRole::Dump,
        Some(sql) if reads_catalogues_only(sql) => StatementRole::Catalogue,
        _ => StatementRole::Application,
    };
    statements.iter().map(role).collect()
}

/// Whether `pg_dump` locks a table so. It does so in each dump.
fn is_dump_lock(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    sql.trim_start().starts_with("lock table") && sql.contains("access share mode")
}

/// Whether it is a statement of `pg_dump`. `COPY … TO STDOUT` of a whole table is one only if there was a dump.
fn is_dump(sql: &str, has_dump: bool) -> bool {
    let lower = sql.to_ascii_lowercase();
    let is_table_copy = || {
        let table = lower.strip_prefix("copy ").unwrap_or_default().trim_start();
        !table.is_empty() && !table.starts_with('(') && lower.trim_end().ends_with("to stdout")
    };
    is_dump_lock(sql) || lower.contains("_pg_dump_cursor") || has_dump && is_table_copy()
}

/// Whether a list has this name; an entry that ends in `*` stands for all with this beginning.
pub(crate) fn has_name(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    })
}

fn is_catalogue(schema: Option<&str>, name: &str) -> bool {
    match schema {
        Some("pg_catalog" | "information_schema") => true,
        Some(_) => false,
        None => name
            .strip_prefix("pg_")
            .is_some_and(|name| has_name(&CATALOGUES, name)),
    }
}

/// Whether it is a query of catalogues and of no other relation.
fn reads_catalogues_only(sql: &str) -> bool {
    let mut catalogues = 0;
    for statement in split_statements(sql) {
        let words = &statement.words;
        if !words
            .first()
            .is_some_and(|word| word.is("select") || word.is("with"))
        {
            return false;
        }
        let Some(found) = count_catalogues(words) else {
            return false;
        };
        catalogues += found;
    }
    catalogues > 0
}

/// Counts the catalogues that a statement reads; `None` if it reads or writes another relation, or calls a function of
/// another schema. Without a catalogue, it counts calls of [`STATE_FUNCTIONS`] if it calls no other function.
fn count_catalogues(words: &[Lexeme<'_>]) -> Option<usize> {
    let at = |place: usize| words.get(place);
    let is = |place: usize, word: &str| at(place).is_some_and(|one| one.is(word));
    let is_symbol = |place: usize, symbol: &str| at(place).is_some_and(|one| one.is_symbol(symbol));
    // `name AS (` names a query.
    let named: BTreeSet<String> = (0..words.len())
        .filter(|place| is(place + 1, "as") && (is_symbol(place + 2, "(") || is(place + 3, "(")))
        .filter_map(|place| words[place].name())
        .collect();
    let mut catalogues = 0;
    let (mut state_calls, mut other_calls) = (0, 0);
    // Whether a comma separates tables, and whether FROM belongs to a function, at each depth of brackets.
    let mut depths = vec![(false, false)];
    for (place, word) in words.iter().enumerate() {
        let previous = place.checked_sub(1).map(|place| &words[place]);
        let (in_tables, in_function) = depths.last_mut().map(|(one, other)| (one, *other))?;
        let begins =
            (word.is("from") && !in_function && !previous.is_some_and(|one| one.is("distinct")))
                || word.is("join")
                || word.is_symbol(",") && *in_tables;
        *in_tables |= word.is("from") && !in_function;
        if ENDS_FROM.iter().any(|end| word.is(end)) {
            *in_tables = false;
        }
        if ["insert", "update", "delete", "merge", "into"]
            .iter()
            .any(|one| word.is(one))
        {
            return None;
        }
        if word.is_symbol("(") {
            let function = previous.and_then(Lexeme::name).unwrap_or_default();
            depths.push((false, WITH_FROM.contains(&function.as_str())));
            let schema = place.checked_sub(3).filter(|_| is_symbol(place - 2, "."));
            let schema = schema.map(|place| words[place].name());
            match schema {
                Some(Some(schema)) if is_catalogue(Some(&schema), &function) => {
                    let is_state = has_name(&STATE_FUNCTIONS, &function);
                    state_calls += usize::from(is_state);
                    other_calls += usize::from(!is_state);
                }
                Some(_) => return None,
                None => other_calls += usize::from(!function.is_empty()),
            }
        }
        if word.is_symbol(")") && depths.len() > 1 {
            depths.pop();
        }
        if begins {
            catalogues += usize::from(reads_catalogue(&words[place + 1..], &named)?);
        }
    }
    match (catalogues, other_calls) {
        (0, 0) => Some(state_calls),
        _ => Some(catalogues),
    }
}

/// Whether a table expression is a catalogue; `None` if it is another relation.
fn reads_catalogue(words: &[Lexeme<'_>], named: &BTreeSet<String>) -> Option<bool> {
    let mut rest = words
        .iter()
        .filter(|word| !word.is("only") && !word.is("lateral"));
    let first = rest.next()?;
    let Some(name) = first.name() else {
        // A query in brackets, whose tables follow.
        return first.is_symbol("(").then_some(false);
    };
    let (schema, name, next) = match rest.next() {
        Some(dot) if dot.is_symbol(".") => (Some(name), rest.next()?.name()?, rest.next()),
        next => (None, name, next),
    };
    if next.is_some_and(|next| next.is_symbol("(")) {
        let is_of_server = match &schema {
            Some(schema) => is_catalogue(Some(schema), &name),
            None => has_name(&SET_FUNCTIONS, &name),
        };
        return is_of_server.then(|| is_catalogue(None, &name));
    }
    match is_catalogue(schema.as_deref(), &name) {
        true => Some(true),
        false if (schema.is_none() && named.contains(&name)) => Some(false),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(sql: &str) -> StatementRole {
        statement_roles(&[Some(sql)])[0]
    }

    #[test]
    fn queries_of_catalogues_are_told_from_those_of_tables() {
        for sql in [
            "select c.oid, a.attname from pg_class c, pg_attribute a where a.attrelid = c.oid",
            "select * from pg_catalog.pg_type t left join pg_namespace n on n.oid = t.typnamespace",
            "select table_name from information_schema.tables where table_schema = $1",
            "with x as (select oid from pg_class) select * from x join pg_index i on i.indrelid = x.oid",
            "select typname from pg_type where exists(select $1 from pg_range where rngtypid = pg_type.oid)",
            "select extract(epoch from query_start) from pg_stat_activity",
            "select pg_catalog.set_config($1, $2, $3)",
            "select a from pg_index i, unnest(i.indkey) a",
            "select pg_catalog.format_type(a.atttypid, $1) from pg_catalog.pg_attribute a",
            "select pg_catalog.version()",
            "select * from pg_catalog.pg_stat_get_activity($1)",
        ] {
            assert_eq!(role(sql), StatementRole::Catalogue, "{sql}");
        }
        for sql in [
            "select * from orders",
            "select * from orders o, pg_class c",
            "select * from pg_class c, orders o",
            "select * from pg_orders",
            "select * from shop.pg_class",
            "select $1",
            "select * from pg_class c join orders o on o.id = c.oid",
            "with pgrst_source as (select pgrst_call.* from \"public\".\"fn\"($1) pgrst_call) \
             select pg_catalog.count(_postgrest_t) from (select * from pgrst_source) _postgrest_t",
            "with pgrst_source as (select * from fn($1) pgrst_call) \
             select pg_catalog.count(_postgrest_t), pg_catalog.current_setting($2) \
             from (select * from pgrst_source) _postgrest_t",
            "select app.f($1), pg_catalog.now()",
            "select \"app\".\"f\"($1), pg_catalog.version()",
            "select f($1), pg_catalog.set_config($2, $3, $4)",
            "select app.f(oid) from pg_class",
            "select pg_catalog.now()",
            "select x from pg_catalog.generate_series($1, $2) x",
            "select * from report($1), pg_class",
            "select * from pg_class, app.report($1)",
            "insert into orders select oid from pg_class",
            "with x as (insert into orders values ($1) returning id) select * from pg_class",
        ] {
            assert_eq!(role(sql), StatementRole::Application, "{sql}");
        }
    }

    #[test]
    fn copies_of_tables_are_of_pg_dump_only_if_it_ran() {
        let copy = "copy public.orders(id, note) to stdout";
        assert_eq!(role(copy), StatementRole::Application);
        let lock = "lock table public.orders in access share mode";
        let query = "copy(select id from orders) to stdout";
        let roles = statement_roles(&[Some(copy), Some(lock), Some(query), None]);
        use StatementRole::{Application, Dump};
        assert_eq!(roles, [Dump, Dump, Application, Application]);
    }
}
