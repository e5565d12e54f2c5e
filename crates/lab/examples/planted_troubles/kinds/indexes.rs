//! Indexes that are missing or do not fit.

use super::super::application::{Application, Sessions, Value, prepared};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// Table with a reference, a state, a time and filler columns: its names.
struct Rows {
    table: &'static str,
    owner: &'static str,
    state: &'static str,
    time: &'static str,
    count: u64,
}

/// Adds a table with a number of owners and states.
fn add_rows(draw: &mut Draw, app: &mut Application, owners: u64, states: u64) -> Rows {
    let rows = Rows {
        table: draw.table(),
        owner: draw.column(Role::Reference),
        state: draw.column(Role::State),
        time: draw.column(Role::Time),
        count: draw.number(80_000, 140_000),
    };
    let (columns, values) = draw.filler();
    app.table(
        rows.table,
        &format!(
            "id bigint PRIMARY KEY, {} int NOT NULL, {} int NOT NULL, {} timestamptz NOT NULL, {columns}",
            rows.owner, rows.state, rows.time
        ),
        rows.count,
        &format!(
            "i, (i * 7919::bigint) % {owners}, (i * 31::bigint / 7) % {states}, \
             now() - i * interval '1 minute', {values}"
        ),
    );
    rows
}

/// An index on one of two compared columns only.
pub fn composite(draw: &mut Draw, app: &mut Application) {
    let (owners, states) = (draw.number(15, 40), draw.number(60, 200));
    let Rows {
        table,
        owner,
        state,
        time,
        ..
    } = add_rows(draw, app, owners, states);
    app.sql(format!("CREATE INDEX ON {table} ({owner})"));
    let sql = format!(
        "SELECT id, {time} FROM {table} WHERE {owner} = $1 AND {state} = $2 ORDER BY {time} DESC LIMIT 20"
    );
    let values = vec![Value::number(0, owners), Value::number(0, states)];
    app.sessions
        .push(Sessions::troubled(3, 15, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        &format!("{owner}, {state}|{state}, {owner}"),
    ]]);
}

/// An index that begins with the range, not with the equality.
pub fn column_order(draw: &mut Draw, app: &mut Application) {
    let owners = draw.number(800, 3_000);
    let Rows {
        table, owner, time, ..
    } = add_rows(draw, app, owners, 5);
    app.sql(format!("CREATE INDEX ON {table} ({time}, {owner})"));
    let days = draw.number(20, 40);
    let sql = format!(
        "SELECT id, {time} FROM {table} WHERE {time} > now() - interval '{days} days' AND {owner} = $1"
    );
    app.sessions.push(Sessions::troubled(
        3,
        15,
        vec![prepared(sql, vec![Value::number(0, owners)])],
    ));
    app.truth = Truth::new(&[&["create index", &format!("on {table} ({owner}")]]);
}

/// An index on a column of three values only.
pub fn low_selectivity(draw: &mut Draw, app: &mut Application) {
    let owners = draw.number(2_000, 8_000);
    let Rows {
        table,
        owner,
        state,
        ..
    } = add_rows(draw, app, owners, 3);
    app.sql(format!("CREATE INDEX ON {table} ({state})"));
    let sql = format!("SELECT * FROM {table} WHERE {state} = $1 AND {owner} = $2");
    let values = vec![Value::number(0, 3), Value::number(0, owners)];
    app.sessions
        .push(Sessions::troubled(2, 25, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&["create index", &format!("on {table}"), owner]]);
}

/// A queue whose few waiting rows have no index.
pub fn partial(draw: &mut Draw, app: &mut Application) {
    let (table, time, text) = (
        draw.table(),
        draw.column(Role::Time),
        draw.column(Role::Text),
    );
    let rows = draw.number(80_000, 140_000);
    let one_in = draw.number(600, 1_500);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id bigint PRIMARY KEY, {text} text, {time} timestamptz, created timestamptz NOT NULL, {columns}"),
        rows,
        &format!(
            "i, 'text ' || i, CASE WHEN i % {one_in} <> 0 THEN now() END, now() - i * interval '1 s', {values}"
        ),
    );
    let sql =
        format!("SELECT id, {text} FROM {table} WHERE {time} IS NULL ORDER BY created LIMIT 10");
    app.sessions
        .push(Sessions::troubled(2, 25, vec![prepared(sql, Vec::new())]));
    app.truth = Truth::new(&[&["create index", &format!("on {table}"), time]]);
}

/// An index that lacks the one column that is read from many rows.
pub fn covering(draw: &mut Draw, app: &mut Application) {
    let owners = draw.number(80, 120);
    let Rows {
        table,
        owner,
        state,
        ..
    } = add_rows(draw, app, owners, 50);
    app.sql(format!("CREATE INDEX ON {table} ({owner})"));
    let sql = format!("SELECT sum({state}) FROM {table} WHERE {owner} = $1");
    app.sessions.push(Sessions::troubled(
        4,
        3,
        vec![prepared(sql, vec![Value::number(0, owners)])],
    ));
    app.truth =
        Truth::new(&[&["create index", &format!("on {table} ({owner}"), state]]).leaving(0.65);
}

/// A join on a column without an index.
pub fn join(draw: &mut Draw, app: &mut Application) {
    let (parents, per_parent) = (draw.number(8_000, 15_000), draw.number(6, 12));
    let (parent, child) = (draw.table(), draw.table());
    let (key, group, amount) = (
        format!("{parent}_id"),
        draw.column(Role::Reference),
        draw.column(Role::Amount),
    );
    let groups = parents / 4;
    app.table(
        parent,
        &format!("id int PRIMARY KEY, {group} int NOT NULL"),
        parents,
        &format!("i, i % {groups}"),
    );
    app.sql(format!("CREATE INDEX ON {parent} ({group})"));
    let (columns, values) = draw.filler();
    app.table(
        child,
        &format!("id int PRIMARY KEY, {key} int NOT NULL, {amount} int NOT NULL, {columns}"),
        parents * per_parent,
        &format!("i, 1 + (i * 31::bigint) % {parents}, i % 100, {values}"),
    );
    let sql = format!(
        "SELECT p.id, sum(c.{amount}) FROM {parent} p JOIN {child} c ON c.{key} = p.id WHERE p.{group} = $1 GROUP BY p.id"
    );
    app.sessions.push(Sessions::troubled(
        2,
        25,
        vec![prepared(sql, vec![Value::number(0, groups)])],
    ));
    app.truth = Truth::new(&[&["create index", &format!("on {child} ({key}")]]);
}

/// Two alternatives, of which one has an index.
pub fn or_columns(draw: &mut Draw, app: &mut Application) {
    let owners = draw.number(5_000, 12_000);
    let (table, one, other) = (
        draw.table(),
        draw.column(Role::Reference),
        draw.column(Role::Reference),
    );
    let rows = draw.number(80_000, 140_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id int PRIMARY KEY, {one} int NOT NULL, {other} int NOT NULL, {columns}"),
        rows,
        &format!("i, (i * 7919::bigint) % {owners}, (i * 104729::bigint) % {owners}, {values}"),
    );
    app.sql(format!("CREATE INDEX ON {table} ({one})"));
    let sql = format!("SELECT * FROM {table} WHERE {one} = $1 OR {other} = $1");
    app.sessions.push(Sessions::troubled(
        2,
        25,
        vec![prepared(sql, vec![Value::number(0, owners)])],
    ));
    app.truth = Truth::new(&[&["create index", &format!("on {table} ({other}")]]);
}

/// Containment in documents without an index.
pub fn jsonb_containment(draw: &mut Draw, app: &mut Application) {
    let (table, document) = (draw.table(), draw.column(Role::Document));
    let (key, kinds) = (draw.column(Role::State), draw.number(3_000, 9_000));
    let rows = draw.number(60_000, 100_000);
    app.table(
        table,
        &format!("id int PRIMARY KEY, {document} jsonb NOT NULL"),
        rows,
        &format!("i, jsonb_build_object('{key}', 'k' || i % {kinds}, 'size', i % 17, 'note', md5(i::text))"),
    );
    let sql = format!("SELECT id FROM {table} WHERE {document} @> $1");
    let template = format!("{{\"{key}\": \"k{{}}\"}}");
    let values = vec![Value::text(0, kinds, &template)];
    app.sessions
        .push(Sessions::troubled(2, 30, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&[
        "create index",
        &format!("on {table}"),
        "using gin",
        document,
    ]]);
}

/// Overlap of lists without an index.
pub fn array_overlap(draw: &mut Draw, app: &mut Application) {
    let (table, list) = (draw.table(), draw.column(Role::Document));
    let (kinds, rows) = (draw.number(3_000, 9_000), draw.number(60_000, 100_000));
    app.table(
        table,
        &format!("id int PRIMARY KEY, {list} text[] NOT NULL, body text"),
        rows,
        &format!("i, ARRAY['t' || i % {kinds}, 't' || (i * 31::bigint) % {kinds}, 'all'], repeat('x', 100)"),
    );
    let sql = format!("SELECT id, body FROM {table} WHERE {list} && $1");
    let values = vec![Value::text(0, kinds, "{t{},none}")];
    app.sessions
        .push(Sessions::troubled(2, 30, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&["create index", &format!("on {table}"), "using gin", list]]);
}

/// A recursion over a tree whose parents have no index.
pub fn recursive(draw: &mut Draw, app: &mut Application) {
    let (table, parent) = (draw.table(), draw.column(Role::Reference));
    let rows = draw.number(20_000, 40_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id int PRIMARY KEY, {parent} int, {columns}"),
        rows,
        &format!("i, CASE WHEN i > 1 THEN i / 3 END, {values}"),
    );
    let sql = format!(
        "WITH RECURSIVE below AS (SELECT id FROM {table} WHERE id = $1 UNION ALL \
         SELECT t.id FROM {table} t JOIN below b ON t.{parent} = b.id) SELECT count(*) FROM below"
    );
    let values = vec![Value::number(rows / 30, rows / 10)];
    app.sessions
        .push(Sessions::troubled(2, 40, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&["create index", &format!("on {table} ({parent}")]]);
}
