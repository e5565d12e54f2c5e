//! Conditions that no index of a plain column serves.

use super::super::application::{Application, Sessions, Value, prepared};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// Adds a table with one column of this type and values, and an index on it. Returns the names.
fn add_column(
    draw: &mut Draw,
    app: &mut Application,
    role: Role,
    definition: &str,
    value: &str,
) -> (&'static str, &'static str, u64) {
    let (table, column) = (draw.table(), draw.column(role));
    let rows = draw.number(80_000, 140_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id bigint PRIMARY KEY, {column} {definition}, {columns}"),
        rows,
        &format!("i, {value}, {values}"),
    );
    app.sql(format!("CREATE INDEX ON {table} ({column})"));
    (table, column, rows)
}

fn ask(app: &mut Application, sql: String, values: Vec<Value>) {
    let sessions = Sessions::troubled(2, 30, vec![prepared(sql, values)]);
    app.sessions.push(sessions);
}

/// `lower(column) = …`
pub fn lower(draw: &mut Draw, app: &mut Application) {
    let host = draw.choose(&["example.org", "mail.test", "post.example"]);
    let (table, column, rows) = add_column(
        draw,
        app,
        Role::Text,
        "text NOT NULL",
        &format!("'Person' || i || '@{host}'"),
    );
    ask(
        app,
        format!("SELECT id, {column} FROM {table} WHERE lower({column}) = $1"),
        vec![Value::text(1, rows, &format!("person{{}}@{host}"))],
    );
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        &format!("lower({column}"),
    ]]);
}

/// `date(column) = …`, or the cast.
pub fn date(draw: &mut Draw, app: &mut Application) {
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Time,
        "timestamp NOT NULL",
        "timestamp '2026-06-01' - i * interval '9 minutes'",
    );
    let expression = match draw.number(0, 2) {
        0 => format!("date({column})"),
        _ => format!("{column}::date"),
    };
    ask(
        app,
        format!("SELECT id, {column} FROM {table} WHERE {expression} = $1"),
        vec![Value::text(10, 28, "2026-04-{}")],
    );
    app.truth = Truth::new(&[
        &["create index", &format!("on {table}"), "date", column],
        &[column, ">=", "<"],
    ])
    .or_by_hand(&[&[column, ">=", "<"]]);
}

/// `coalesce(column, …) = …`
pub fn coalesce(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(5_000, 12_000);
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Reference,
        "int",
        &format!("CASE WHEN i % 10 <> 0 THEN (i * 7919::bigint) % {groups} END"),
    );
    ask(
        app,
        format!("SELECT id FROM {table} WHERE coalesce({column}, -1) = $1"),
        vec![Value::number(0, groups)],
    );
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        &format!("coalesce({column}"),
    ]]);
}

/// A number compared as text.
pub fn cast(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(20_000, 40_000);
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Reference,
        "bigint NOT NULL",
        &format!("(i * 7919::bigint) % {groups}"),
    );
    ask(
        app,
        format!("SELECT id FROM {table} WHERE {column}::text = $1"),
        vec![Value::number(0, groups)],
    );
    app.truth = Truth::new(&[
        &["create index", &format!("on {table}"), column, "text"],
        &[column, "cast", "bigint"],
    ])
    .or_by_hand(&[&[column, "cast"]]);
}

/// A `bigint` compared with a `numeric` parameter, as some drivers send it.
pub fn numeric_parameter(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(20_000, 40_000);
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Reference,
        "bigint NOT NULL",
        &format!("(i * 7919::bigint) % {groups}"),
    );
    ask(
        app,
        format!("SELECT id FROM {table} WHERE {column} = $1::numeric"),
        vec![Value::number(0, groups)],
    );
    app.truth = Truth::new(&[
        &["create index", &format!("on {table}"), column, "numeric"],
        &[column, "numeric", "bigint|type"],
    ])
    .or_by_hand(&[&[column, "cast|type", "bigint|numeric"]]);
}

/// A fixed beginning under a linguistic collation.
pub fn like_prefix(draw: &mut Draw, app: &mut Application) {
    let (table, column, rows) = add_column(
        draw,
        app,
        Role::Text,
        "text COLLATE \"en-x-icu\" NOT NULL",
        "md5(i::text) || '-' || i",
    );
    let _ = rows;
    ask(
        app,
        format!("SELECT id, {column} FROM {table} WHERE {column} LIKE $1"),
        vec![Value::text(1_000, 10_000, "{}%")],
    );
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        column,
        "text_pattern_ops|collate",
    ]]);
}

/// A part of the text, anywhere.
pub fn leading_wildcard(draw: &mut Draw, app: &mut Application) {
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Text,
        "text NOT NULL",
        "md5(i::text) || ' ' || md5((i * 3)::text)",
    );
    let operator = draw.choose(&["LIKE", "ILIKE"]);
    ask(
        app,
        format!("SELECT id, {column} FROM {table} WHERE {column} {operator} $1"),
        vec![Value::text(10_000, 99_999, "%{}%")],
    );
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        column,
        "gin_trgm_ops",
    ]]);
}

/// An index under another collation than the comparison.
pub fn collation_mismatch(draw: &mut Draw, app: &mut Application) {
    let (table, column, rows) = add_column(
        draw,
        app,
        Role::Text,
        "text COLLATE \"C\" NOT NULL",
        "'item ' || i",
    );
    ask(
        app,
        format!("SELECT id, {column} FROM {table} WHERE {column} = $1 COLLATE \"en-x-icu\""),
        vec![Value::text(1, rows, "item {}")],
    );
    app.truth = Truth::new(&[
        &["create index", &format!("on {table}"), column, "en-x-icu"],
        &[column, "collat"],
    ])
    .or_by_hand(&[&["collat"]]);
}

/// A function that is not declared stable, so that it is executed for each row.
pub fn volatile_function(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(5_000, 12_000);
    let (table, column, _) = add_column(
        draw,
        app,
        Role::Reference,
        "int NOT NULL",
        &format!("(i * 7919::bigint) % {groups}"),
    );
    let function = format!("current_{}", draw.table());
    app.sql(format!(
        "CREATE FUNCTION {function}(wanted int) RETURNS int LANGUAGE plpgsql AS \
         $$ BEGIN RETURN coalesce(nullif(wanted, -1), 0); END $$"
    ));
    ask(
        app,
        format!("SELECT id FROM {table} WHERE {column} = {function}($1)"),
        vec![Value::number(0, groups)],
    );
    app.truth = Truth::new(&[&[&function, "volatile|stable|immutable"]])
        .or_by_hand(&[&[&function, "stable|immutable|volatile"]]);
}
