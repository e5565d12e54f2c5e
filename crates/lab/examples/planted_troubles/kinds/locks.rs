//! Sessions that wait for one another.

use std::time::Duration;

use super::super::application::{
    Action, Application, Sessions, Step, TARGET, Value, prepared, simple,
};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

fn add_balances(draw: &mut Draw, app: &mut Application) -> (&'static str, &'static str, u64) {
    let (table, amount) = (draw.table(), draw.column(Role::Amount));
    let rows = draw.number(5_000, 9_000);
    app.table(
        table,
        &format!("id int PRIMARY KEY, {amount} bigint NOT NULL"),
        rows,
        "i, i % 100",
    );
    (table, amount, rows)
}

fn named(label: &str, count: u32, think_ms: u64, steps: Vec<Step>) -> Sessions {
    Sessions {
        count,
        think: Duration::from_millis(think_ms),
        actions: vec![(1, Action::new(label, steps))],
        reconnects: false,
    }
}

/// All transactions change one row first.
pub fn hot_row(draw: &mut Draw, app: &mut Application) {
    let (table, amount, rows) = add_balances(draw, app);
    let steps = vec![
        simple("BEGIN", Vec::new()),
        prepared(
            format!("UPDATE {table} SET {amount} = {amount} + 1 WHERE id = 1"),
            Vec::new(),
        ),
        prepared(
            format!("UPDATE {table} SET {amount} = {amount} - 1 WHERE id = $1"),
            vec![Value::number(2, rows)],
        ),
        Step::Pause(10),
        simple("COMMIT", Vec::new()),
    ];
    app.sessions.push(named(TARGET, 5, 4, steps));
    app.truth = Truth::new(&[&["lock|wait", table, "row|idle"]]).or_by_hand(&[
        &["row", "last|spread|shard|late|end"],
        &["end transactions"],
    ]);
}

/// A change of a table waits for a transaction, and all others wait for the change.
pub fn ddl_queue(draw: &mut Draw, app: &mut Application) {
    let (table, amount, rows) = add_balances(draw, app);
    app.sessions.push(named(
        "hold",
        1,
        300,
        vec![
            simple("BEGIN", Vec::new()),
            simple(
                format!("SELECT count(*) FROM {table} WHERE id < 10"),
                Vec::new(),
            ),
            Step::Pause(1_600),
            simple("COMMIT", Vec::new()),
        ],
    ));
    app.sessions.push(named(
        "alter",
        1,
        700,
        vec![
            Step::Pause(500),
            simple(
                format!("ALTER TABLE {table} ALTER {amount} SET DEFAULT 7"),
                Vec::new(),
            ),
        ],
    ));
    let read = prepared(
        format!("SELECT {amount} FROM {table} WHERE id = $1"),
        vec![Value::number(1, rows)],
    );
    app.sessions.push(named(TARGET, 4, 10, vec![read]));
    app.truth = Truth::new(&[&["lock_timeout|transaction", "alter table", table]])
        .or_by_hand(&[&["lock_timeout|transaction|commit"]]);
}

/// Workers that lock the same first rows and wait for one another.
pub fn claim_without_skip(draw: &mut Draw, app: &mut Application) {
    let (table, time) = (draw.table(), draw.column(Role::Time));
    let rows = draw.number(20_000, 30_000);
    app.table(
        table,
        &format!("id bigint PRIMARY KEY, {time} timestamptz, due timestamptz NOT NULL"),
        rows,
        "i, NULL, now() - i * interval '1 s'",
    );
    app.sql(format!(
        "CREATE INDEX ON {table} (due) WHERE {time} IS NULL"
    ));
    let claim = prepared(
        format!(
            "UPDATE {table} SET {time} = now() WHERE id IN (SELECT id FROM {table} WHERE {time} IS NULL \
             ORDER BY due LIMIT 5 FOR UPDATE) RETURNING id"
        ),
        Vec::new(),
    );
    let steps = vec![
        simple("BEGIN", Vec::new()),
        claim,
        Step::Pause(15),
        simple("COMMIT", Vec::new()),
    ];
    app.sessions.push(named(TARGET, 5, 4, steps));
    app.truth = Truth::new(&[&["skip locked", table, "wait"]]).or_by_hand(&[&["skip locked"]]);
}

/// A transaction that changes rows, and then leaves its locks while the client does something else.
pub fn idle_in_transaction(draw: &mut Draw, app: &mut Application) {
    let (table, amount, rows) = add_balances(draw, app);
    let hold = vec![
        simple("BEGIN", Vec::new()),
        simple(
            format!(
                "UPDATE {table} SET {amount} = {amount} * 2 WHERE id < {}",
                rows / 2
            ),
            Vec::new(),
        ),
        Step::Pause(900),
        simple("COMMIT", Vec::new()),
    ];
    app.sessions.push(named("hold", 1, 300, hold));
    let change = prepared(
        format!("UPDATE {table} SET {amount} = {amount} + 1 WHERE id = $1"),
        vec![Value::number(1, rows)],
    );
    app.sessions.push(named(TARGET, 4, 10, vec![change]));
    app.truth =
        Truth::new(&[&["transaction", "idle", table]]).or_by_hand(&[&["transaction|commit"]]);
}
