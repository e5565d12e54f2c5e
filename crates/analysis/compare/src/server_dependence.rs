//! Finds statements whose rows depend on the server that executes them: its version, settings, catalogues, addresses and
//! the places of rows.
//!
//! Between two servers such rows differ without a fault. The words of a statement decide, so the rules are narrow: what may read
//! a table, or calls a function that is not known, may also differ for another reason.

use sql::{Lexeme, split_statements};

use crate::statement_role::{StatementRole, WITH_FROM, has_name, statement_roles};

/// Dependence of a statement's rows on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerDependence {
    /// It reads nothing else than catalogues, settings and properties of the server.
    Whole,
    /// It also reads tables or calls other functions, and has a value of the server, with this name.
    Part(String),
}

/// Functions that return a property of the server, of the session or of the storage. Those that end in `*` stand for all with this
/// beginning. Source: PostgreSQL's manual, "System Information Functions" and "System Administration Functions".
const FUNCTIONS: [&str; 19] = [
    "current_database",
    "inet_client_*",
    "inet_server_*",
    "pg_backend_pid",
    "pg_column_size",
    "pg_conf_load_time",
    "pg_control_*",
    "pg_current_*",
    "pg_database_size",
    "pg_indexes_size",
    "pg_last_*",
    "pg_postmaster_start_time",
    "pg_relation_*",
    "pg_snapshot_*",
    "pg_stat_*",
    "pg_table_size",
    "pg_total_relation_size",
    "txid_*",
    "version",
];

/// Functions that return a setting. In a statement that reads tables the setting may be one of the application.
const SETTINGS: [&str; 2] = ["current_setting", "set_config"];

/// Names that need no brackets. No column of a table can have the name of a system column.
const NAMES: [&str; 7] = [
    "cmax",
    "cmin",
    "ctid",
    "current_catalog",
    "tableoid",
    "xmax",
    "xmin",
];

/// Functions of PostgreSQL that compute a value from their arguments only.
const COMPUTATIONS: [&str; 20] = [
    "array",
    "cast",
    "coalesce",
    "concat*",
    "extract",
    "format",
    "greatest",
    "in",
    "left",
    "length",
    "lower",
    "nullif",
    "position",
    "regexp_*",
    "replace",
    "right",
    "split_part",
    "substr*",
    "trim",
    "upper",
];

/// Keywords before an expression in brackets.
const KEYWORDS: [&str; 24] = [
    "all",
    "and",
    "any",
    "as",
    "between",
    "case",
    "distinct",
    "else",
    "except",
    "exists",
    "having",
    "ilike",
    "intersect",
    "like",
    "limit",
    "not",
    "offset",
    "or",
    "select",
    "some",
    "then",
    "union",
    "when",
    "where",
];

/// Returns how the rows of a statement depend on the server; `None` if no word of it shows that they do.
pub fn server_dependence(sql: &str) -> Option<ServerDependence> {
    if statement_roles(&[Some(sql)])[0] != StatementRole::Application {
        return Some(ServerDependence::Whole);
    }
    let mut all: Option<ServerDependence> = None;
    for statement in split_statements(sql) {
        let one = of_words(&statement.words)?;
        all = match (all, one) {
            (Some(ServerDependence::Part(name)), _) => Some(ServerDependence::Part(name)),
            (_, one) => Some(one),
        };
    }
    all
}

fn of_words(words: &[Lexeme<'_>]) -> Option<ServerDependence> {
    if words.first().is_some_and(|word| word.is("show")) {
        return Some(ServerDependence::Whole);
    }
    let is_query = words.first().is_some_and(|word| word.is("select"));
    let mut is_whole = is_query && !reads_from(words);
    let mut found: Option<String> = None;
    let mut setting: Option<String> = None;
    for (place, word) in words.iter().enumerate() {
        let Some(name) = word.name() else {
            continue;
        };
        let is_called = words.get(place + 1).is_some_and(|next| next.is_symbol("("))
            && !KEYWORDS.iter().any(|keyword| word.is(keyword));
        let has_schema = place >= 2 && words[place - 1].is_symbol(".");
        let is_of_other_schema = has_schema && !words[place - 2].is("pg_catalog");
        match is_called {
            true if is_of_other_schema => is_whole = false,
            true if has_name(&FUNCTIONS, &name) => found = found.or(Some(name)),
            true if has_name(&SETTINGS, &name) => setting = setting.or(Some(name)),
            true => is_whole &= has_name(&COMPUTATIONS, &name),
            false if NAMES.contains(&name.as_str()) => found = found.or(Some(name)),
            false => {}
        }
    }
    match (is_whole, found.is_some() || setting.is_some()) {
        (true, true) => Some(ServerDependence::Whole),
        _ => found.map(ServerDependence::Part),
    }
}

/// Whether a statement has FROM outside of the arguments of a function and of `IS DISTINCT FROM`.
fn reads_from(words: &[Lexeme<'_>]) -> bool {
    let mut in_function = vec![false];
    for (place, word) in words.iter().enumerate() {
        if word.is_symbol("(") {
            let function = place.checked_sub(1).and_then(|place| words[place].name());
            in_function.push(function.is_some_and(|name| WITH_FROM.contains(&name.as_str())));
        }
        if word.is_symbol(")") && in_function.len() > 1 {
            in_function.pop();
        }
        let is_comparison = place > 0 && words[place - 1].is("distinct");
        if word.is("from") && !is_comparison && in_function.last() == Some(&false) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_of_catalogues_settings_and_properties_only_depends_on_the_server_as_a_whole() {
        for sql in [
            "select version()",
            "SELECT pg_catalog.version();",
            "show server_version",
            "select current_setting($1)",
            "select current_setting($1)::int / $2, split_part(version(), $3, $4)",
            "select substring(version() from $1)",
            "select (version())",
            "select (current_setting($1))::int",
            "select version() is distinct from $1",
            "select case when (version()) like ($1) and not (version() = $2) then ($3) else ($4) end",
            "select version() = any ($1)",
            "select version() <> all ($1) or version() ilike some (array[$2])",
            "select exists (select version()) union (select $1 = version()) limit ($2)",
            "select oid, typname from pg_type where typname in ($1, $2)",
            "select name, setting from pg_settings",
            "select current_database(), inet_server_port()",
            "select version(); show server_version",
        ] {
            assert_eq!(
                server_dependence(sql),
                Some(ServerDependence::Whole),
                "{sql}"
            );
        }
    }

    #[test]
    fn statement_that_also_reads_tables_or_calls_unknown_functions_depends_in_part() {
        for (sql, name) in [
            ("select id, xmin from orders", "xmin"),
            ("select o.ctid from orders o", "ctid"),
            ("select * from orders where version() like $1", "version"),
            ("select app.f(version())", "version"),
            ("select f($1), version()", "version"),
            ("select \"Select\"($1), VERSION()", "version"),
            ("select version() = \"any\"($1)", "version"),
            ("select version() = any (select v from orders)", "version"),
            (
                "select version() where exists (select from orders)",
                "version",
            ),
            ("select version(); select ctid from orders", "ctid"),
            ("update orders set n = $1 returning xmin", "xmin"),
        ] {
            assert_eq!(
                server_dependence(sql),
                Some(ServerDependence::Part(name.to_owned())),
                "{sql}"
            );
        }
    }

    #[test]
    fn statement_of_the_application_does_not_depend_on_the_server() {
        for sql in [
            "select * from orders",
            "select version from orders",
            "select * from orders where tenant = current_setting($1)::int",
            "select app.version($1) from orders",
            "select $1",
            "select count(*) from documents d join versions v on v.id = d.version",
            "select version(); select id from orders",
            "insert into log select $1",
            "",
        ] {
            assert_eq!(server_dependence(sql), None, "{sql}");
        }
    }
}
