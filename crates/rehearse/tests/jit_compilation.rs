//! Just-in-time compilation of statements is counted by replays and judged by comparisons, on servers that have the JIT
//! library.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sandbox::{Endpoint, Sandbox};
use serde_json::Value;

const SCHEMA: &str = "CREATE EXTENSION pg_stat_statements;
    CREATE TABLE many AS SELECT generate_series(1, 20000) AS n; ANALYZE many";

fn rehearse(arguments: &[&str], codes: &[i32]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    let output = command.args(arguments).output().unwrap();
    let code = output.status.code().unwrap();
    assert!(codes.contains(&code), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn server(jit_above_cost: &str) -> (Sandbox, Endpoint) {
    let settings = [
        ("shared_preload_libraries", "pg_stat_statements"),
        ("jit", "on"),
        ("jit_above_cost", jit_above_cost),
    ];
    let (sandbox, endpoint) = test_support::server().major(15).settings(&settings).start();
    let mut client = test_support::connect(&endpoint);
    client.batch_execute(SCHEMA).unwrap();
    (sandbox, endpoint)
}

/// Writes a workload of one session with a statement that is worth compiling, and one that is not.
fn workload(directory: &Path) -> String {
    let mut log = String::new();
    let mut line = |at: u32, text: &str| {
        let prefix = format!(
            "2026-03-01 09:00:{:02}.{:03} UTC [100]",
            at / 1_000,
            at % 1_000
        );
        writeln!(log, "{prefix} LOG:  {text}").unwrap();
    };
    line(0, "connection authorized: user=postgres database=postgres");
    for n in 1..=30 {
        line(
            20 * n,
            &format!(
                "statement: SELECT sum(n * 2) FROM many WHERE n % 7 = {}",
                n % 7
            ),
        );
        line(
            20 * n + 10,
            &format!("statement: SET application_name = 'a{n}'"),
        );
    }
    let [from, workload] =
        ["a.log", "a.workload"].map(|name| directory.join(name).display().to_string());
    std::fs::write(&from, log).unwrap();
    rehearse(
        &[
            "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
        ],
        &[0],
    );
    workload
}

#[test]
fn compilation_of_a_statement_is_work_that_a_comparison_names() {
    let (_one, before) = server("-1");
    let (_other, after) = server("0");
    let row = test_support::connect(&after)
        .query_one("SELECT pg_catalog.pg_jit_available()", &[])
        .unwrap();
    if !row.get::<_, bool>(0) {
        test_support::report_skipped("this PostgreSQL 15 has no JIT library");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let replay = |endpoint: &Endpoint, name: &str| {
        let run = directory.path().join(name).display().to_string();
        let url = endpoint.url("postgres");
        rehearse(
            &[
                "replay", &workload, "--target", &url, "--speed", "max", "-o", &run,
            ],
            &[0],
        );
        run
    };
    let [before, after] = [replay(&before, "before.run"), replay(&after, "after.run")];
    let comparison = rehearse(&["compare", &before, &after, "--json"], &[0, 1]);
    let comparison: Value = serde_json::from_str(&comparison).unwrap();
    let statements = comparison["statements"].as_array().unwrap();
    let of = |words: &str| {
        let is_it = |one: &&Value| {
            one["sql"]
                .as_str()
                .is_some_and(|sql| sql.starts_with(words))
        };
        statements.iter().find(is_it).unwrap()
    };
    let work = &of("select sum")["work"];
    assert_eq!(work["before"]["jit_functions"], 0.0, "{work:#}");
    assert_eq!(work["before"]["jit_ns"], 0.0, "{work:#}");
    assert!(
        work["after"]["jit_functions"].as_f64().unwrap() >= 1.0,
        "{work:#}"
    );
    assert!(work["after"]["jit_ns"].as_f64().unwrap() > 0.0, "{work:#}");
    let more = work["more"].as_array().unwrap();
    assert!(
        more.iter().any(|one| one["counter"] == "jit_functions"),
        "{work:#}"
    );
    let text = rehearse(&["compare", &before, &after], &[0, 1]);
    assert!(text.contains("JIT-compiled functions"), "{text}");
}
