//! Estimates, plans and planning.

use super::super::application::{
    Application, Protocol, Sessions, Step, Value, prepared, query, simple,
};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// A table in which half of the rows have a value that the statistics have never seen.
pub fn stale_statistics(draw: &mut Draw, app: &mut Application) {
    let table = draw.table();
    let (state, time) = (draw.column(Role::State), draw.column(Role::Time));
    let rows = draw.number(60_000, 90_000);
    let (columns, values) = draw.filler();
    app.sql(format!(
        "CREATE TABLE {table} (id int PRIMARY KEY, {state} text NOT NULL, {time} timestamptz NOT NULL, {columns}) \
         WITH (autovacuum_enabled = off)"
    ));
    app.sql(format!("CREATE INDEX ON {table} ({state})"));
    app.sql(format!("CREATE INDEX ON {table} ({time})"));
    let fill = |from: u64, to: u64, value: &str| {
        format!(
            "INSERT INTO {table} SELECT i, {value}, timestamptz '2026-01-01' + i * interval '1 minute', {values} \
             FROM generate_series({from}, {to}) i"
        )
    };
    app.sql(fill(1, rows / 2, "'closed'"));
    app.sql("VACUUM ANALYZE");
    app.sql(fill(rows / 2 + 1, rows, "'open'"));
    // The planner expects one row, and sorts all of them; the index on times finds ten at once.
    let sql =
        format!("SELECT id, {time} FROM {table} WHERE {state} = $1 ORDER BY {time} DESC LIMIT 10");
    app.sessions.push(Sessions::troubled(
        2,
        40,
        // A prepared statement would get a generic plan, which does not ask for the value.
        vec![simple(sql, vec![Value::one_of(&[(1, "open")])])],
    ));
    app.truth = Truth::new(&[&[&format!("analyze {table}")]]);
}

/// Two columns that nearly exclude each other, so that the planner expects to find the first rows soon in the order of time.
pub fn correlated_columns(draw: &mut Draw, app: &mut Application) {
    let table = draw.table();
    let (one, other, time) = (
        draw.column(Role::Reference),
        draw.column(Role::State),
        draw.column(Role::Time),
    );
    let (rows, groups) = (draw.number(80_000, 120_000), draw.number(4, 7));
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!(
            "id int PRIMARY KEY, {one} int NOT NULL, {other} int NOT NULL, {time} timestamptz NOT NULL, {columns}"
        ),
        rows,
        // The rare pairs are among the oldest rows.
        &format!(
            "i, i % {groups}, CASE WHEN i % 100 = 0 AND i < 3000 THEN (i + 1) % {groups} ELSE i % {groups} END, \
             now() - interval '1 year' + i * interval '1 minute', {values}"
        ),
    );
    app.sql(format!("CREATE INDEX ON {table} ({one}, {other})"));
    app.sql(format!("CREATE INDEX ON {table} ({time})"));
    let sql = format!(
        "SELECT id, {time} FROM {table} WHERE {one} = $1 AND {other} = $2 ORDER BY {time} DESC LIMIT 10"
    );
    let pairs = (0..groups).map(|group| {
        let values = [group, (group + 1) % groups]
            .map(|value| Value::one_of(&[(1, value.to_string().as_str())]));
        // A prepared statement would get a generic plan, which is another trouble.
        simple(sql.clone(), values.to_vec())
    });
    app.sessions
        .push(Sessions::troubled(2, 60, pairs.take(3).collect()));
    app.truth = Truth::new(&[&["statistics", table, one, other]]);
}

/// A skewed column, and one plan for all values.
pub fn generic_plan(draw: &mut Draw, app: &mut Application) {
    let (table, state, time) = (
        draw.table(),
        draw.column(Role::State),
        draw.column(Role::Time),
    );
    let rows = draw.number(80_000, 140_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!(
            "id int PRIMARY KEY, {state} text NOT NULL, {time} timestamptz NOT NULL, {columns}"
        ),
        rows,
        &format!(
            "i, CASE WHEN i % 20000 = 0 THEN 'failed' WHEN i % 2 = 0 THEN 'sent' ELSE 'done' END, \
             now() - i * interval '1 s', {values}"
        ),
    );
    app.sql(format!("CREATE INDEX ON {table} ({state})"));
    app.sql(format!("CREATE INDEX ON {table} ({time})"));
    app.settings
        .push(("plan_cache_mode", "force_generic_plan".to_owned()));
    // For a frequent state the order of the index on times finds ten rows at once; for a rare one it does not.
    let sql =
        format!("SELECT id, {time} FROM {table} WHERE {state} = $1 ORDER BY {time} DESC LIMIT 10");
    app.sessions.push(Sessions::troubled(
        2,
        15,
        vec![prepared(sql, vec![Value::one_of(&[(1, "failed")])])],
    ));
    app.truth = Truth::new(&[&["generic", "plan_cache_mode"]]);
}

/// Adds a partitioned table. Returns its name, its key, and the number of its rows.
fn add_partitions(
    draw: &mut Draw,
    app: &mut Application,
    partitions: u64,
    indexes: usize,
) -> (&'static str, &'static str, u64) {
    let (table, key) = (draw.table(), draw.column(Role::Reference));
    let rows = draw.number(40_000, 60_000);
    let mut columns = vec![format!("id bigint NOT NULL, {key} int NOT NULL")];
    let extra: Vec<&str> = (0..indexes).map(|_| draw.column(Role::Amount)).collect();
    columns.extend(extra.iter().map(|name| format!("{name} int")));
    app.sql(format!(
        "CREATE TABLE {table} ({}) PARTITION BY HASH ({key})",
        columns.join(", ")
    ));
    app.sql(format!(
        "DO $$ BEGIN FOR n IN 0..{partitions} - 1 LOOP EXECUTE format('CREATE TABLE {table}_%s PARTITION OF {table} \
         FOR VALUES WITH (MODULUS {partitions}, REMAINDER %s)', n, n); END LOOP; END $$"
    ));
    let values = extra.iter().map(|_| ", i % 1000").collect::<String>();
    app.sql(format!(
        "INSERT INTO {table} SELECT i, i % 5000{values} FROM generate_series(1, {rows}) i"
    ));
    for name in ["id", key].into_iter().chain(extra) {
        app.sql(format!("CREATE INDEX ON {table} ({name})"));
    }
    (table, key, rows)
}

/// Many partitions are planned for each call, with literals.
pub fn partitions_planned(draw: &mut Draw, app: &mut Application) {
    let partitions = draw.number(150, 250);
    let (table, key, rows) = add_partitions(draw, app, partitions, 3);
    let sql = format!("SELECT * FROM {table} WHERE id = $1");
    let ask = query(sql, vec![Value::number(1, rows)], Protocol::Simple);
    app.sessions
        .push(Sessions::troubled(2, 30, vec![Step::Statement(ask)]));
    app.truth = Truth::new(&[
        &[table, "planning|partition", "prepare"],
        &[table, "partition", key],
    ])
    .or_by_hand(&[&["prepare"], &["partition", key]]);
}

/// All partitions are read, although the application knows the key.
pub fn partition_key_missing(draw: &mut Draw, app: &mut Application) {
    let partitions = draw.number(150, 250);
    let (table, key, rows) = add_partitions(draw, app, partitions, 1);
    let sql = format!("SELECT * FROM {table} WHERE id = $1");
    app.sessions.push(Sessions::troubled(
        3,
        8,
        vec![prepared(sql, vec![Value::number(1, rows)])],
    ));
    app.truth = Truth::new(&[&[table, "partition", key]]).or_by_hand(&[&["partition", key]]);
}
