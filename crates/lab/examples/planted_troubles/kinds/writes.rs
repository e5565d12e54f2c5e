//! Costs of writing.

use super::super::application::{Application, Sessions, Step, Value, prepared, simple};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// A log with many indexes that nobody reads.
pub fn too_many_indexes(draw: &mut Draw, app: &mut Application) {
    let table = draw.table();
    let roles = [Role::Amount, Role::Reference].repeat(6);
    let columns: Vec<&str> = roles.into_iter().map(|role| draw.column(role)).collect();
    let definitions: Vec<String> = columns.iter().map(|name| format!("{name} int")).collect();
    app.sql(format!(
        "CREATE TABLE {table} (id bigserial PRIMARY KEY, {})",
        definitions.join(", ")
    ));
    let values: Vec<String> = (0..12)
        .map(|n| format!("(i * {}::bigint) % 100003", 7919 + n * 2))
        .collect();
    app.sql(format!(
        "INSERT INTO {table} ({}) SELECT {} FROM generate_series(1, 30000) i",
        columns.join(", "),
        values.join(", ")
    ));
    for (place, name) in columns.iter().enumerate() {
        app.sql(format!("CREATE INDEX ON {table} ({name})"));
        let next = columns[(place + 1) % columns.len()];
        app.sql(format!("CREATE INDEX ON {table} ({name}, {next})"));
    }
    let places: Vec<String> = (1..=12).map(|place| format!("${place}")).collect();
    let sql = format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        columns.join(", "),
        places.join(", ")
    );
    let values: Vec<Value> = (0..12).map(|_| Value::number(0, 100_000)).collect();
    app.sessions
        .push(Sessions::troubled(4, 2, vec![prepared(sql, values)]));
    app.truth = Truth::new(&[&[table, "index", "drop|batch|indexes"]])
        .leaving(0.95)
        .or_by_hand(&[&["batch"], &["drop", "index"]]);
}

/// Adds counters that are updated often, with rows of a width and a storage option.
fn add_counters(
    draw: &mut Draw,
    app: &mut Application,
    options: &str,
) -> (&'static str, &'static str, &'static str, u64) {
    let (table, state, time) = (
        draw.table(),
        draw.column(Role::Amount),
        draw.column(Role::Time),
    );
    let rows = draw.number(8_000, 15_000);
    let extra: Vec<&str> = (0..4).map(|_| draw.column(Role::Text)).collect();
    let definitions: String = extra.iter().map(|name| format!(", {name} text")).collect();
    app.sql(format!(
        "CREATE TABLE {table} (id int PRIMARY KEY, {state} int NOT NULL, {time} timestamptz{definitions}) {options}"
    ));
    let values = extra.iter().map(|_| ", md5(i::text)").collect::<String>();
    app.sql(format!(
        "INSERT INTO {table} SELECT i, i % 1000, now(){values} FROM generate_series(1, {rows}) i"
    ));
    for name in extra {
        app.sql(format!("CREATE INDEX ON {table} ({name})"));
    }
    (table, state, time, rows)
}

/// An unused index on a column that each update changes.
pub fn hot_broken(draw: &mut Draw, app: &mut Application) {
    let (table, state, time, rows) = add_counters(draw, app, "WITH (fillfactor = 70)");
    app.sql(format!("CREATE INDEX touched_{table} ON {table} ({time})"));
    let sql = format!(
        "UPDATE {table} SET {state} = {state} + 1, {time} = now() WHERE id BETWEEN $1 AND $1::int + 40"
    );
    app.sessions.push(Sessions::troubled(
        3,
        10,
        vec![prepared(sql, vec![Value::number(1, rows - 50)])],
    ));
    app.truth = Truth::new(&[&[&format!("touched_{table}|{table}"), "hot"]]).leaving(0.7);
}

/// Random keys, whose inserts change a page each.
pub fn random_keys(draw: &mut Draw, app: &mut Application) {
    let (table, text) = (draw.table(), draw.column(Role::Text));
    let rows = draw.number(100_000, 150_000);
    app.table(
        table,
        &format!("id uuid NOT NULL, {text} text"),
        rows,
        "md5(i::text)::uuid, 'x' || i",
    );
    // As many pages as a table of ten times the rows has, so that the rows of the load seldom share one.
    app.sql(format!(
        "ALTER TABLE {table} ADD PRIMARY KEY (id) WITH (fillfactor = 10)"
    ));
    app.sql("CHECKPOINT");
    let sql = format!("INSERT INTO {table} VALUES ($1, 'new')");
    app.sessions.push(Sessions::troubled(
        4,
        1,
        vec![prepared(sql, vec![Value::Uuid])],
    ));
    app.truth = Truth::new(&[&[table, "random|uuid"]])
        .or_by_hand(&[&["uuidv7|sequence|bigint|sequential"]]);
}

/// A transaction for each row of an import.
pub fn commit_flush(draw: &mut Draw, app: &mut Application) {
    let (table, amount) = (draw.table(), draw.column(Role::Amount));
    app.sql(format!(
        "CREATE TABLE {table} (id bigserial PRIMARY KEY, {amount} int NOT NULL)"
    ));
    let sql = format!("INSERT INTO {table} ({amount}) VALUES ($1)");
    app.sessions.push(Sessions::troubled(
        1,
        0,
        vec![prepared(sql, vec![Value::number(0, 1_000)])],
    ));
    app.truth = Truth::new(&[&["commit|flush", "synchronous_commit|transaction"]])
        .leaving(0.7)
        .or_by_hand(&[&["transaction"], &["batch"]]);
}

/// A queue whose processed rows cannot be removed, since a transaction is open.
pub fn dead_rows(draw: &mut Draw, app: &mut Application) {
    let (table, time) = (draw.table(), draw.column(Role::Time));
    let rows = draw.number(40_000, 60_000);
    app.table(
        table,
        &format!("id bigint PRIMARY KEY, {time} timestamptz NOT NULL, body text"),
        rows,
        "i, now() + i * interval '1 ms', repeat('x', 50)",
    );
    app.sql(format!("CREATE INDEX ON {table} ({time})"));
    let hold = vec![
        simple("BEGIN ISOLATION LEVEL REPEATABLE READ", Vec::new()),
        simple(
            format!("SELECT count(*) FROM {table} WHERE id = 1"),
            Vec::new(),
        ),
        Step::Pause(120_000),
        simple("COMMIT", Vec::new()),
    ];
    app.sessions.push(Sessions::troubled(1, 0, hold));
    if let Some(group) = app.sessions.last_mut() {
        group.actions[0].1.label = "hold".to_owned();
    }
    let sql = format!(
        "WITH claimed AS (SELECT id FROM {table} ORDER BY {time} LIMIT 20 FOR UPDATE SKIP LOCKED) \
         DELETE FROM {table} t USING claimed WHERE t.id = claimed.id"
    );
    app.sessions
        .push(Sessions::troubled(2, 2, vec![prepared(sql, Vec::new())]));
    app.truth = Truth::new(&[&["snapshot|transaction|dead", "open|long|old|idle"]])
        .or_by_hand(&[&["transaction|snapshot"]]);
}

/// A table from which most rows were deleted. VACUUM leaves its pages, since each has a row.
pub fn bloated_table(draw: &mut Draw, app: &mut Application) {
    let (table, group, amount) = (
        draw.table(),
        draw.column(Role::State),
        draw.column(Role::Amount),
    );
    let (rows, kept) = (draw.number(80_000, 120_000), draw.number(18, 25));
    app.table(
        table,
        &format!(
            "id int PRIMARY KEY, {group} int NOT NULL, {amount} int NOT NULL, body text NOT NULL"
        ),
        rows,
        "i, i % 7, i % 1000, repeat(md5(i::text), 12)",
    );
    app.sql(format!("DELETE FROM {table} WHERE id % {kept} <> 0"));
    let sql =
        format!("SELECT {group}, sum({amount}) FROM {table} WHERE {amount} >= $1 GROUP BY {group}");
    app.sessions.push(Sessions::troubled(
        2,
        30,
        vec![prepared(sql, vec![Value::number(0, 50)])],
    ));
    app.truth = Truth::new(&[&["vacuum", "full", table]]);
}
