//! Causes of outsiders' cases: the right one comes first, with the change that helps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn start(settings: &[(&str, &str)], schema: &str) -> (Sandbox, String) {
    let (sandbox, endpoint) = server_with(settings);
    let url = endpoint.url("postgres");
    execute(&url, schema);
    (sandbox, url)
}

fn execute(url: &str, sql: &str) {
    postgres::Client::connect(url, postgres::NoTls)
        .unwrap()
        .batch_execute(sql)
        .unwrap();
}

/// Diagnoses the run of a script.
fn diagnosed_run(name: &str, script: Script, url: &str) -> (Option<i32>, Value) {
    let directory = tempfile::tempdir().unwrap();
    let run = replayed(directory.path(), name, script, url, None);
    diagnosed(&[&run])
}

fn suggested(finding: &Value) -> Vec<&str> {
    let changes = finding["changes"].as_array().unwrap();
    changes
        .iter()
        .filter_map(|one| one["form"]["sql"].as_str())
        .collect()
}

#[test]
fn queue_of_locks_is_one_finding_about_the_idle_transaction_at_its_root() {
    let (_sandbox, url) = start(
        &[],
        "CREATE EXTENSION pg_stat_statements; CREATE TABLE account (id int PRIMARY KEY, bal int);
         INSERT INTO account SELECT i, 0 FROM generate_series(1, 1000) i; ANALYZE;",
    );
    let mut script = Script::default();
    script.at(100, 300, "BEGIN");
    script.at(105, 300, "SELECT count(*) FROM account");
    script.at(6_000, 300, "COMMIT");
    script.at(400, 301, "ALTER TABLE account ADD COLUMN note text");
    for session in 0..6 {
        for round in 0..5 {
            let (ms, id) = (600 + round * 100, session * 10 + round + 1);
            script.at(
                ms,
                310 + session,
                &format!("SELECT bal FROM account WHERE id = {id}"),
            );
            script.at(
                ms,
                310 + session,
                &format!("UPDATE account SET bal = 1 WHERE id = {id}"),
            );
        }
    }
    let (code, diagnosis) = diagnosed_run("queue", script, &url);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "lock-waits", "{diagnosis:#}");
    let title = first["title"].as_str().unwrap();
    assert!(
        title.contains("a lock of a table held by a transaction that is idle after: select count")
            && title.contains("after one that waits itself: alter table account"),
        "{title}"
    );
    assert!(first["max_gain"].as_f64().unwrap() > 0.8, "{first:#}");
    let try_first = first["changes"][0]["message"].as_str().unwrap();
    assert!(try_first.contains("lock_timeout"), "{try_first}");
    let all = diagnosis["findings"].as_array().unwrap();
    let of_locks = all.iter().filter(|one| one["rule"] == "lock-waits");
    assert_eq!(of_locks.count(), 1, "{diagnosis:#}");
}

#[test]
fn function_around_a_column_is_a_problem_with_an_index_of_the_expression() {
    let (_sandbox, url) = start(
        &[("max_parallel_workers_per_gather", "0")],
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE member (id int PRIMARY KEY, email text, customer bigint);
         INSERT INTO member SELECT i, 'User' || i || '@x', i FROM generate_series(1, 100000) i;
         CREATE INDEX ON member (email); CREATE INDEX ON member (customer);",
    );
    // In one transaction with the rows, they would be counted as changed after it.
    execute(&url, "ANALYZE");
    let mut script = Script::default();
    for round in 0..40 {
        script.at(
            50 + round * 50,
            200,
            &format!("SELECT id FROM member WHERE lower(email) = 'user{round}@x'"),
        );
        script.at(
            70 + round * 50,
            201,
            &format!("SELECT id FROM member WHERE customer = {round}::numeric"),
        );
    }
    let (code, diagnosis) = diagnosed_run("functions", script, &url);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    for (words, index) in [
        (
            "lower(email)",
            "CREATE INDEX ON public.member ((lower(email)));",
        ),
        (
            "customer",
            "CREATE INDEX ON public.member (((customer)::numeric));",
        ),
    ] {
        let all = diagnosis["findings"].as_array().unwrap();
        let found = all.iter().find(|one| {
            one["rule"] == "missing-index"
                && one["subject"]["name"].as_str().unwrap().contains(words)
        });
        let found = found.unwrap_or_else(|| panic!("{words}: {diagnosis:#}"));
        assert_eq!(found["severity"], "problem");
        assert_eq!(suggested(found), [index]);
        // It serves the statement.
        execute(&url, index);
    }
    assert!(
        !diagnosis.to_string().contains("ANALYZE public.member"),
        "{diagnosis:#}"
    );
    assert_eq!(
        diagnosis["findings"][0]["rule"], "missing-index",
        "{diagnosis:#}"
    );
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    client.batch_execute("ANALYZE").unwrap();
    for condition in ["lower(email) = 'user5@x'", "customer = 5::numeric"] {
        let plan = client
            .query(
                &format!("EXPLAIN SELECT id FROM member WHERE {condition}"),
                &[],
            )
            .unwrap();
        let first: String = plan[0].get(0);
        assert!(!first.contains("Seq Scan"), "{condition}: {first}");
    }
}

#[test]
fn planning_of_many_partitions_is_the_cause_and_not_an_estimate() {
    let mut schema = "CREATE EXTENSION pg_stat_statements;
        CREATE TABLE meter (id int, serial int, a int) PARTITION BY HASH (id);"
        .to_owned();
    for part in 0..200 {
        writeln!(
            schema,
            "CREATE TABLE meter_{part} PARTITION OF meter FOR VALUES WITH (MODULUS 200, REMAINDER {part});"
        )
        .unwrap();
    }
    schema.push_str(
        "CREATE INDEX ON meter (serial); CREATE INDEX ON meter (a); CREATE INDEX ON meter (id, serial);
         CREATE INDEX ON meter (a, id); CREATE INDEX ON meter (a, serial); CREATE INDEX ON meter (id, a);
         INSERT INTO meter SELECT i, i, i FROM generate_series(1, 40000) i; ANALYZE;",
    );
    let settings = [
        ("pg_stat_statements.track_planning", "off"),
        ("max_locks_per_transaction", "1000"),
    ];
    let (_sandbox, url) = start(&settings, &schema);
    let mut script = Script::default();
    for round in 0..400 {
        script.at(
            50 + round * 12,
            200 + round % 2,
            &format!("SELECT a FROM meter WHERE serial = {}", round + 1),
        );
    }
    let (_, diagnosis) = diagnosed_run("planning", script, &url);
    assert!(!found(&diagnosis, "misestimates", ""), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "planning-dominated", "{diagnosis:#}");
    assert_eq!(first["changes"][0]["form"]["rewrite"], "prepare");
}

#[test]
fn live_server_with_parameters_has_the_plan_and_the_finding_of_a_run() {
    let (_sandbox, endpoint) = test_support::server()
        .major(18)
        .settings(&[
            ("shared_preload_libraries", "pg_stat_statements"),
            ("max_parallel_workers_per_gather", "0"),
        ])
        .start();
    let url = endpoint.url("postgres");
    execute(
        &url,
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE parcel (id int PRIMARY KEY, depot int, status int);
         INSERT INTO parcel SELECT i, i % 5000, i % 3 FROM generate_series(1, 100000) i; ANALYZE;",
    );
    let ended = Arc::new(AtomicBool::new(false));
    let load = std::thread::spawn({
        let (ended, url) = (Arc::clone(&ended), url.clone());
        move || {
            let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
            let update = client
                .prepare("UPDATE parcel SET status = $1 WHERE depot = $2")
                .unwrap();
            let mut depot = 0;
            while !ended.load(Ordering::Relaxed) {
                client.execute(&update, &[&1, &depot]).unwrap();
                depot = (depot + 1) % 5000;
            }
        }
    });
    let (code, diagnosis) = diagnosed(&["--target", &url, "--duration", "3s"]);
    ended.store(true, Ordering::Relaxed);
    load.join().unwrap();
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "missing-index", "{diagnosis:#}");
    assert_eq!(suggested(first), ["CREATE INDEX ON public.parcel (depot);"]);
}

#[test]
fn forced_generic_plan_is_the_cause_and_not_the_index_of_another_plan() {
    let (_sandbox, url) = start(
        &[
            ("plan_cache_mode", "force_generic_plan"),
            ("max_parallel_workers_per_gather", "0"),
        ],
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE part_no (id int PRIMARY KEY, code text COLLATE \"C\", pad text);
         INSERT INTO part_no SELECT i, lpad(i::text, 8, '0'), repeat('x', 60) FROM generate_series(1, 100000) i;
         CREATE INDEX part_no_code_idx ON part_no (code);",
    );
    execute(&url, "ANALYZE");
    let mut script = Script::default();
    for round in 0..60 {
        // The values of this script are numbers; eight digits are a whole code.
        let (ms, code) = (50 + round * 40, 10_000_000 + round);
        script.prepared(
            ms,
            200,
            "p",
            "SELECT id FROM part_no WHERE code LIKE $1",
            &[code],
        );
    }
    let (code, diagnosis) = diagnosed_run("generic", script, &url);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "generic-plan", "{diagnosis:#}");
    assert_eq!(
        first["changes"][0]["form"]["setting"],
        serde_json::json!(["plan_cache_mode", "auto"])
    );
    assert!(!found(&diagnosis, "missing-index", ""), "{diagnosis:#}");
}

#[test]
fn compilation_of_short_statements_precedes_a_wrong_estimate() {
    let (_sandbox, url) = start(
        &[
            ("jit", "on"),
            ("jit_above_cost", "100"),
            ("jit_optimize_above_cost", "100"),
            ("jit_inline_above_cost", "100"),
            ("max_parallel_workers_per_gather", "0"),
        ],
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE sale (id int, kind int, amount numeric);
         INSERT INTO sale SELECT i, i, i FROM generate_series(1, 20000) i;",
    );
    execute(&url, "ANALYZE");
    let mut script = Script::default();
    for round in 0..12 {
        script.at(
            50 + round * 300,
            200,
            "SELECT kind % 6, sum(amount), avg(amount), max(id) FROM sale GROUP BY 1",
        );
    }
    let (code, diagnosis) = diagnosed_run("jit", script, &url);
    assert_eq!(code, Some(1), "{diagnosis:#}");
    let first = &diagnosis["findings"][0];
    assert_eq!(first["rule"], "jit", "{diagnosis:#}");
    assert_eq!(
        first["changes"][0]["form"]["setting"],
        serde_json::json!(["jit", "off"])
    );
}
