//! Search of remedies in `rehearse upgrade WORKLOAD` on servers of the user: what it leaves, and what it does without a restore.

use std::path::Path;

use postgres::{Client, NoTls};
use serde_json::Value;

use super::super::rehearse;
use super::upgrading::{address, can_rehearse};
use super::{captured, validated_as};

/// `kind` has the value 0 in nearly all rows, which only statistics show.
const TABLES: &str = "CREATE SEQUENCE ids;
    CREATE TABLE events (id bigserial PRIMARY KEY, body text);
    CREATE FUNCTION note_visit() RETURNS void LANGUAGE sql AS $$ INSERT INTO events (body) VALUES ('visit') $$;
    CREATE TABLE other (id int PRIMARY KEY, pad text);
    INSERT INTO other SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
    CREATE TABLE facts (id int, kind int, pad text);
    INSERT INTO facts SELECT i, (i % 200 = 0)::int, repeat('x', 100) FROM generate_series(1, 20000) i;
    CREATE INDEX facts_kind ON facts (kind);";
const SLOW: &str = "SELECT count(o.pad) FROM facts f JOIN other o USING (id) WHERE f.kind = 0";
const SEQUENCES: &str = "SELECT (SELECT last_value || ',' || is_called FROM ids) || ' ' ||
    (SELECT last_value || ',' || is_called FROM events_id_seq)";

/// Writes a workload of one session that advances two sequences: by an `INSERT`, or by a query whose function writes.
fn workload(directory: &Path, writes: bool) -> String {
    let mut log = "2026-03-01 08:59:59.000 UTC [100] LOG:  connection authorized: user=postgres database=postgres\n"
        .to_owned();
    for line in 0..40 {
        let statement = match line % 10 {
            0 if writes => "INSERT INTO events (body) VALUES ('body')",
            1 => "SELECT nextval('ids')",
            2 => SLOW,
            3 if !writes => "SELECT note_visit()",
            _ => "SELECT count(*) FROM other WHERE id = 7",
        };
        log.push_str(&format!(
            "2026-03-01 09:00:00.{:03} UTC [100] LOG:  duration: 0.500 ms  statement: {statement}\n",
            line * 4
        ));
    }
    captured(&|name| directory.join(name).display().to_string(), &log)
}

/// Creates a database whose statistics are those of `analyze`. Returns the URL of the database.
fn server(major: u16, database: &str, analyze: &str) -> (sandbox::Sandbox, sandbox::Endpoint) {
    let settings = [("autovacuum", "off"), ("jit", "off")];
    let (sandbox, endpoint) = test_support::server()
        .major(major)
        .settings(&settings)
        .start();
    let mut client = Client::connect(&endpoint.url("postgres"), NoTls).unwrap();
    let create = format!("CREATE DATABASE {database}");
    client.batch_execute(&create).unwrap();
    let mut client = Client::connect(&endpoint.url(database), NoTls).unwrap();
    let tables = format!("{TABLES} {analyze}");
    client.batch_execute(&tables).unwrap();
    (sandbox, endpoint)
}

fn value(url: &str, sql: &str) -> String {
    let mut client = Client::connect(url, NoTls).unwrap();
    client.query_one(sql, &[]).unwrap().get(0)
}

/// Rehearses on both servers.
fn rehearsed(workload: &str, [from, target]: [&str; 2], output: &str, options: &[&str]) -> Value {
    let (old, new) = (address(from), address(target));
    let common = [
        "upgrade", workload, "--from", from, "--target", target, "-o", output, "--json",
    ];
    let confirmed = ["--overwrite", &old, "--overwrite", &new];
    let done = rehearse(&[&common[..], &confirmed, options].concat());
    validated_as("upgrade", &done)
}

/// Returns the join. On a busy machine, others may look slower, too.
fn slow_statement(report: &Value) -> &Value {
    let mut all = report["regressions"].as_array().unwrap().iter();
    let found = all.find(|one| one["sql"].as_str().unwrap().contains("join"));
    found.unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn search_of_remedies_with_a_template_advances_no_sequence_of_it_and_the_remedy_is_proved() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), true);
    let (_old, old) = server(15, "shop_template", "ANALYZE");
    let (_new, new) = server(18, "shop_template", "");
    let output = directory.path().join("x.upgrade").display().to_string();
    let urls = [old.url("shop_proof"), new.url("shop_proof")];
    let options = ["--template", "shop_template", "--within", "420s"];
    let report = rehearsed(&workload, [&urls[0], &urls[1]], &output, &options);
    let statements = &slow_statement(&report)["remedy"]["statements"];
    assert!(
        statements.to_string().contains("ANALYZE public.facts"),
        "{report:#}"
    );
    // Both sides of the proof give the same numbers, so no answer differs.
    assert_eq!(report["other_rows"], 0, "{report:#}");
    assert_eq!(report["remedied"]["other_rows"], 0, "{report:#}");
    // Whether the time suffices for a verdict depends on the machine.
    let decision = report["decision"].as_str().unwrap();
    assert!(
        ["go_with_remedies", "undecided"].contains(&decision),
        "{report:#}"
    );
    let search = &report["evidence"]["search"];
    assert_eq!(search["examined"], 4, "{report:#}");
    assert_eq!(search["planned"], 4, "{report:#}");
    let expectations =
        std::fs::read_to_string(Path::new(&output).join("expectations.json")).unwrap();
    let expectations: Value = serde_json::from_str(&expectations).unwrap();
    assert_eq!(&expectations["search"], search);
    for endpoint in [&old, &new] {
        let template = endpoint.url("shop_template");
        assert_eq!(value(&template, SEQUENCES), "1,false 1,false");
        let databases = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname ~ 'shop'";
        assert_eq!(value(&template, databases), "shop_template");
    }
    let analyzed = "SELECT (SELECT count(*) FROM pg_stats WHERE tablename = 'facts')::text";
    assert_eq!(value(&new.url("shop_template"), analyzed), "0");
}

#[test]
fn search_of_remedies_without_a_restore_only_reads_and_reports_what_was_not_tried() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), false);
    let (_old, old) = server(15, "shop", "ANALYZE");
    let (_new, new) = server(18, "shop", "");
    let output = directory.path().join("x.upgrade").display().to_string();
    let urls = [old.url("shop"), new.url("shop")];
    let options = ["--no-restore", "--within", "420s"];
    let report = rehearsed(&workload, [&urls[0], &urls[1]], &output, &options);
    let slow = slow_statement(&report);
    assert_eq!(slow["status"], "untried", "{report:#}");
    assert!(
        slow["tried"]
            .to_string()
            .contains("nothing restores the data"),
        "{report:#}"
    );
    assert!(
        report["notes"].to_string().contains("only read"),
        "{report:#}"
    );
    // The queries wrote by a function, so that no run but the first had the data of the others.
    assert_eq!(report["is_restored"], false, "{report:#}");
    assert!(
        report["reasons"].to_string().contains("nothing restored"),
        "{report:#}"
    );
    // Each run calls `nextval` 4 times, and the search does not.
    for url in &urls {
        assert_eq!(value(url, "SELECT (last_value % 4)::text FROM ids"), "0");
    }
    let seen = "SELECT (SELECT count(*) FROM pg_stats WHERE tablename = 'facts')::text || ' ' || reltuples FROM pg_class WHERE relname = 'facts'";
    assert_eq!(value(&urls[1], seen), "0 -1");
}
