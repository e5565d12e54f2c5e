//! Applications without a trouble.

use super::super::application::{
    Action, Application, Protocol, Sessions, Step, Value, prepared, query,
};
use super::super::draw::{Draw, Role};

/// Reads by keys.
pub fn lookups(draw: &mut Draw, app: &mut Application) {
    app.add_healthy_parts(draw);
    app.add_healthy_parts(draw);
}

/// Aggregates that need their rows.
pub fn reports(draw: &mut Draw, app: &mut Application) {
    let (table, group, amount) = (
        draw.table(),
        draw.column(Role::Reference),
        draw.column(Role::Amount),
    );
    let rows = draw.number(50_000, 90_000);
    app.table(
        table,
        &format!("id int PRIMARY KEY, {group} int NOT NULL, {amount} int NOT NULL"),
        rows,
        "i, i % 20, i % 1000",
    );
    let sql = format!(
        "SELECT {group}, count(*), sum({amount}) FROM {table} WHERE {amount} >= $1 GROUP BY {group} ORDER BY {group}"
    );
    let steps = vec![prepared(sql, vec![Value::number(0, 100)])];
    app.sessions.push(Sessions::troubled(1, 100, steps));
}

/// Batches of new rows.
pub fn writes(draw: &mut Draw, app: &mut Application) {
    let (table, text) = (draw.table(), draw.column(Role::Text));
    app.table(
        table,
        &format!("id bigserial PRIMARY KEY, {text} text NOT NULL"),
        5_000,
        "i, 'x' || i",
    );
    app.sql(format!("SELECT setval('{table}_id_seq', 100000)"));
    let sql = format!("INSERT INTO {table} ({text}) SELECT $1 || n FROM generate_series(1, 50) n");
    let add = query(
        sql,
        vec![Value::text(0, 100, "text {} ")],
        Protocol::Unnamed,
    );
    app.sessions
        .push(Sessions::troubled(2, 20, vec![Step::Statement(add)]));
}

/// A healthy application in which three statements are suspected.
pub fn suspects(draw: &mut Draw, app: &mut Application) {
    let table = draw.table();
    let rows = draw.number(5_000, 9_000);
    app.table(
        table,
        "id int PRIMARY KEY, body text NOT NULL",
        rows,
        "i, md5(i::text)",
    );
    let touch = prepared(
        format!("UPDATE {table} SET body = $2 WHERE id = $1"),
        vec![Value::number(1, rows), Value::text(0, 9_999, "body {}")],
    );
    let find = prepared(
        format!("SELECT body FROM {table} WHERE id = $1"),
        vec![Value::number(1, rows)],
    );
    let mut sessions = Sessions::troubled(1, 600, vec![touch]);
    sessions.actions.push((1, Action::new("find", vec![find])));
    app.sessions.push(sessions);
    app.innocent = vec![
        format!("update {table} %"),
        format!("select body from {table} %"),
    ];
}
