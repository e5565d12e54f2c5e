//! Settings that do not fit the load.

use super::super::application::{Application, Sessions, Value, prepared};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// Adds a table with a group, an amount and a text. Returns its names and number of groups.
fn add_amounts(
    draw: &mut Draw,
    app: &mut Application,
    groups: u64,
) -> (&'static str, &'static str, &'static str, u64) {
    let (table, group, amount) = (
        draw.table(),
        draw.column(Role::Reference),
        draw.column(Role::Amount),
    );
    let rows = draw.number(80_000, 120_000);
    let (columns, values) = draw.filler();
    app.table(
        table,
        &format!("id int PRIMARY KEY, {group} int NOT NULL, {amount} int NOT NULL, {columns}"),
        rows,
        &format!("i, (i * 7919::bigint) % {groups}, (i * 104729::bigint) % 100003, {values}"),
    );
    (table, group, amount, rows)
}

/// Short queries whose cost is above the limit of compilation.
pub fn jit(draw: &mut Draw, app: &mut Application) {
    let (table, group, amount, rows) = add_amounts(draw, app, 500);
    app.sql(format!("CREATE INDEX ON {table} ({group})"));
    app.settings.extend([
        ("jit", "on".to_owned()),
        ("jit_above_cost", "100".to_owned()),
        ("jit_inline_above_cost", "200".to_owned()),
        ("jit_optimize_above_cost", "200".to_owned()),
    ]);
    let _ = rows;
    let sql = format!(
        "SELECT count(*), sum({amount}), avg({amount} * 2), max({amount} % 7) FROM {table} WHERE {group} = $1 AND {amount} > 10"
    );
    app.sessions.push(Sessions::troubled(
        2,
        40,
        vec![prepared(sql, vec![Value::number(0, 500)])],
    ));
    app.truth = Truth::new(&[&["jit|compil"]]);
}

/// A bitmap that does not fit into `work_mem`, so that all rows of its pages are checked again. A GIN index has no other scan, and
/// comparing arrays takes long. With 250,000 rows 1,548 of 2,083 blocks were lossy: 17.5 ms, and 1.7 ms with 1 MB (15.18, 2026-11-27).
pub fn lossy_bitmap(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(180, 240);
    let (table, tags, amount) = (
        draw.table(),
        draw.column(Role::Document),
        draw.column(Role::Amount),
    );
    let rows = draw.number(230_000, 280_000);
    app.table(
        table,
        &format!("id int PRIMARY KEY, {tags} int[] NOT NULL, {amount} int NOT NULL"),
        rows,
        &format!(
            "i, ARRAY[(i * 7919::bigint) % {groups}, (i * 104729::bigint) % {groups}]::int[], i % 1000"
        ),
    );
    app.sql(format!("CREATE INDEX ON {table} USING gin ({tags})"));
    app.settings.push(("work_mem", "64kB".to_owned()));
    let sql = format!("SELECT count(*), sum({amount}) FROM {table} WHERE {tags} && $1");
    app.sessions.push(Sessions::troubled(
        2,
        40,
        vec![prepared(sql, vec![Value::text(0, groups, "{{}}")])],
    ));
    app.truth = Truth::new(&[&["work_mem"]]);
}

/// Index scans that are thought too costly, although everything is cached.
pub fn random_page_cost(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(100, 160);
    let (table, group, amount, _) = add_amounts(draw, app, groups);
    app.sql(format!("CREATE INDEX ON {table} ({group})"));
    app.settings.push(("random_page_cost", "40".to_owned()));
    let sql = format!("SELECT sum({amount}) FROM {table} WHERE {group} = $1");
    app.sessions.push(Sessions::troubled(
        2,
        25,
        vec![prepared(sql, vec![Value::number(0, groups)])],
    ));
    app.truth = Truth::new(&[&["random_page_cost"]]);
}

/// A cache that the planner does not know of.
pub fn effective_cache_size(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(150, 250);
    let (table, group, amount, rows) = add_amounts(draw, app, groups);
    let other = draw.table();
    app.table(
        other,
        "id int PRIMARY KEY, name text NOT NULL",
        rows,
        "i, repeat(md5(i::text), 4)",
    );
    app.sql(format!("CREATE INDEX ON {table} ({group})"));
    app.settings.extend([
        ("effective_cache_size", "8kB".to_owned()),
        ("random_page_cost", "8".to_owned()),
    ]);
    let sql = format!(
        "SELECT count(b.name) FROM {table} a JOIN {other} b ON b.id = a.{amount} WHERE a.{group} = $1"
    );
    app.sessions.push(Sessions::troubled(
        2,
        25,
        vec![prepared(sql, vec![Value::number(0, groups)])],
    ));
    app.truth = Truth::new(&[&["effective_cache_size|random_page_cost"]]);
}

/// Workers are started for queries that take a few milliseconds.
pub fn parallel(draw: &mut Draw, app: &mut Application) {
    let groups = draw.number(30, 60);
    let (table, group, amount, _) = add_amounts(draw, app, groups);
    app.sql(format!("CREATE INDEX ON {table} ({group}, {amount})"));
    app.settings.extend([
        ("parallel_setup_cost", "0".to_owned()),
        ("parallel_tuple_cost", "0".to_owned()),
        ("min_parallel_table_scan_size", "0".to_owned()),
        ("min_parallel_index_scan_size", "0".to_owned()),
    ]);
    let sql = format!("SELECT sum({amount}) FROM {table} WHERE {group} = $1");
    app.sessions.push(Sessions::troubled(
        4,
        10,
        vec![prepared(sql, vec![Value::number(0, groups)])],
    ));
    app.truth = Truth::new(&[&["parallel"]]);
}
