//! Statements that the application should send in another way.

use std::time::Duration;

use super::super::application::{
    Action, Application, Protocol, Sessions, Step, TARGET, Value, prepared, query, simple,
};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// Adds a table with a time, an index on it, and filler columns.
fn add_list(draw: &mut Draw, app: &mut Application) -> (&'static str, &'static str, u64) {
    let (table, time) = (draw.table(), draw.column(Role::Time));
    let rows = draw.number(80_000, 140_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id int PRIMARY KEY, {time} timestamptz NOT NULL, {columns}"),
        rows,
        &format!("i, now() - i * interval '1 minute', {values}"),
    );
    app.sql(format!("CREATE INDEX ON {table} ({time}, id)"));
    (table, time, rows)
}

/// Late pages are reached by reading all earlier ones.
pub fn offset(draw: &mut Draw, app: &mut Application) {
    let (table, time, rows) = add_list(draw, app);
    let sql = format!("SELECT * FROM {table} ORDER BY {time}, id LIMIT 25 OFFSET $1");
    app.sessions.push(Sessions::troubled(
        2,
        25,
        vec![prepared(sql, vec![Value::number(rows / 4, rows - 30)])],
    ));
    app.truth = Truth::new(&[&[
        table,
        "keyset|last row|last seen|where the last page ended|after the last",
    ]])
    .or_by_hand(&[&["keyset|last row|after the last"]]);
}

/// All rows are counted for each page.
pub fn count_all(draw: &mut Draw, app: &mut Application) {
    let (table, ..) = add_list(draw, app);
    let sql = format!("SELECT count(*) FROM {table}");
    app.sessions
        .push(Sessions::troubled(2, 30, vec![prepared(sql, Vec::new())]));
    app.truth = Truth::new(&[&[
        "count",
        table,
        "estimate|every row|all rows|reltuples|counter",
    ]])
    .or_by_hand(&[&["estimate|reltuples|counter"]]);
}

/// A list, and a statement for each of its rows.
pub fn n_plus_one(draw: &mut Draw, app: &mut Application) {
    let (parent, child) = (draw.table(), draw.table());
    let (group, key) = (draw.column(Role::Reference), format!("{parent}_id"));
    let (rows, per) = (draw.number(5_000, 9_000), draw.number(25, 45));
    let groups = rows / per;
    app.table(
        parent,
        &format!("id int PRIMARY KEY, {group} int NOT NULL"),
        rows,
        &format!("i, i % {groups}"),
    );
    app.sql(format!("CREATE INDEX ON {parent} ({group})"));
    app.table(
        child,
        &format!("id int PRIMARY KEY, {key} int NOT NULL, body text"),
        rows * 3,
        &format!("i, 1 + i % {rows}, repeat('x', 80)"),
    );
    app.sql(format!("CREATE INDEX ON {child} ({key})"));
    let list = simple(
        format!("SELECT id FROM {parent} WHERE {group} = $1"),
        vec![Value::number(0, groups)],
    );
    let each = query(
        format!("SELECT id, body FROM {child} WHERE {key} = $1"),
        Vec::new(),
        Protocol::Prepared,
    );
    app.sessions
        .push(Sessions::troubled(3, 8, vec![list, Step::ForEachRow(each)]));
    app.truth = Truth::new(&[&[
        child,
        "for each|n+1|one by one|in succession|per row|after another",
    ]])
    .or_by_hand(&[&["join|any(|in one|together|one statement|at once"]]);
}

/// `NOT IN` of a subquery that is executed for each row.
pub fn not_in(draw: &mut Draw, app: &mut Application) {
    let (table, other) = (draw.table(), draw.table());
    let (rows, others) = (draw.number(2_000, 4_000), draw.number(20_000, 30_000));
    let amount = draw.column(Role::Amount);
    app.table(
        table,
        &format!("id int PRIMARY KEY, {amount} int NOT NULL"),
        rows,
        "i * 3, i % 100",
    );
    app.table(
        other,
        &format!("id int PRIMARY KEY, {table}_id int NOT NULL"),
        others,
        "i, i",
    );
    app.sql(format!("CREATE INDEX ON {other} ({table}_id)"));
    app.settings.push(("work_mem", "64kB".to_owned()));
    let sql = format!(
        "SELECT count(*) FROM {table} WHERE {amount} = $1 AND id NOT IN (SELECT {table}_id FROM {other})"
    );
    app.sessions.push(Sessions::troubled(
        2,
        60,
        vec![prepared(sql, vec![Value::number(0, 100)])],
    ));
    app.truth =
        Truth::new(&[&["not in", other, "exists"], &["work_mem"]]).or_by_hand(&[&["not exists"]]);
}

/// A common table expression that is computed as a whole.
pub fn materialized(draw: &mut Draw, app: &mut Application) {
    let (table, time, rows) = add_list(draw, app);
    let sql = format!(
        "WITH recent AS MATERIALIZED (SELECT id, {time} FROM {table}) SELECT * FROM recent WHERE id = $1"
    );
    app.sessions.push(Sessions::troubled(
        2,
        40,
        vec![prepared(sql, vec![Value::number(1, rows)])],
    ));
    app.truth = Truth::new(&[&[
        table,
        "materialized",
        "not materialized|without materialized|leave out|remove|inline",
    ]])
    .or_by_hand(&[&["materialized"]]);
}

/// A join that multiplies rows, and `DISTINCT` that hides it.
pub fn distinct_blowup(draw: &mut Draw, app: &mut Application) {
    let (parent, child) = (draw.table(), draw.table());
    let (group, key) = (draw.column(Role::Reference), format!("{parent}_id"));
    let (rows, per) = (draw.number(2_000, 3_000), draw.number(40, 60));
    app.table(
        parent,
        &format!("id int PRIMARY KEY, {group} int NOT NULL, name text"),
        rows,
        "i, i % 10, 'name ' || i",
    );
    app.sql(format!("CREATE INDEX ON {parent} ({group})"));
    app.table(
        child,
        &format!("id int PRIMARY KEY, {key} int NOT NULL"),
        rows * per,
        &format!("i, 1 + i % {rows}"),
    );
    app.sql(format!("CREATE INDEX ON {child} ({key})"));
    let sql = format!(
        "SELECT DISTINCT p.id, p.name FROM {parent} p JOIN {child} c ON c.{key} = p.id WHERE p.{group} = $1"
    );
    app.sessions.push(Sessions::troubled(
        2,
        40,
        vec![prepared(sql, vec![Value::number(0, 10)])],
    ));
    app.truth =
        Truth::new(&[&["distinct", child, "exists|multipl|duplicate"]]).or_by_hand(&[&["exists"]]);
}

/// A connection for each statement.
pub fn connection_churn(draw: &mut Draw, app: &mut Application) {
    let (table, _, rows) = add_list(draw, app);
    let sql = format!("SELECT * FROM {table} WHERE id = $1");
    app.sessions.push(Sessions {
        count: 4,
        think: Duration::from_millis(10),
        actions: vec![(
            1,
            Action::new(TARGET, vec![simple(sql, vec![Value::number(1, rows)])]),
        )],
        reconnects: true,
    });
    app.truth = Truth::new(&[&["connection", "pool"]]).or_by_hand(&[&["pool"]]);
}
