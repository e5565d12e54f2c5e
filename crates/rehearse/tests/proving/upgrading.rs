//! `rehearse upgrade WORKLOAD`: an upgrade to the same version, one that loses an answer and an object, servers of the user,
//! a rehearsal that is killed and resumed, and refusals.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::Dirs;
use serde_json::Value;

use super::super::{PATIENCE, assert_page_fits, command, rehearse};
use super::{captured, validated_as};

const SHOP: &str = "CREATE TABLE items (id int PRIMARY KEY, owner int, pad text);
    INSERT INTO items SELECT i, i % 500, repeat('x', 40) FROM generate_series(1, 20000) i;
    CREATE INDEX items_owner ON items (owner);
    CREATE TABLE events (id bigserial PRIMARY KEY, kind int, body text);
    ANALYZE";

/// Writes a workload of reads, inserts, a query of a driver, and one other statement.
pub(super) fn workload(directory: &Path, other: &str) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let mut log = String::new();
    for session in 100..104 {
        log.push_str(&format!(
            "2026-03-01 08:59:59.000 UTC [{session}] LOG:  connection authorized: user=postgres database=postgres\n"
        ));
    }
    for line in 0..200 {
        let statement = match line % 5 {
            0 => format!("INSERT INTO events (kind, body) VALUES ({line}, 'body')"),
            1 => other.to_owned(),
            2 => "SELECT version()".to_owned(),
            _ => format!("SELECT count(*) FROM items WHERE owner = {line}"),
        };
        log.push_str(&format!(
            "2026-03-01 09:00:00.{:03} UTC [{}] LOG:  duration: 0.500 ms  statement: {statement}\n",
            line * 4,
            100 + line % 4
        ));
    }
    captured(&at, &log)
}

pub(super) fn old_server(sql: &str) -> (sandbox::Sandbox, String) {
    server(15, sql)
}

fn server(major: u16, sql: &str) -> (sandbox::Sandbox, String) {
    let (sandbox, endpoint) = test_support::server().major(major).start();
    let url = endpoint.url("postgres");
    let mut client = Client::connect(&url, NoTls).unwrap();
    client.batch_execute(&format!("{SHOP}; {sql}")).unwrap();
    (sandbox, url)
}

/// Returns the address of a URL with a socket directory, as messages have it.
pub(super) fn address(url: &str) -> String {
    let server = url.split('@').nth(1).unwrap().split('/').next().unwrap();
    let (directory, port) = server.split_once(':').unwrap();
    format!("{}/.s.PGSQL.{port}", directory.replace("%2F", "/"))
}

/// Whether a rehearsal of a minute can be done.
pub(super) fn can_rehearse() -> bool {
    // Each takes two minutes of two processors.
    if test_support::skip_unless_set("REHEARSE_TEST_UPGRADES", "minutes") {
        return false;
    }
    let is_there = std::process::Command::new("pg_dump")
        .arg("--version")
        .output()
        .is_ok();
    if !is_there {
        test_support::report_skipped("pg_dump is not installed");
    }
    is_there
}

/// Returns the private servers that rehearsals left.
fn left(name: &str) -> usize {
    let all = sandbox::list(&Dirs::from_environment().unwrap());
    all.iter().filter(|one| one.name.contains(name)).count()
}

fn texts(value: &Value) -> String {
    value.to_string()
}

#[test]
fn upgrade_to_the_same_version_that_is_killed_and_resumed_finds_nothing_against_it() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let other = "SELECT max(pad), 1 / (current_setting('work_mem') = '37MB')::int, 1 / (current_setting('jit') = 'off')::int FROM items";
    let workload = workload(directory.path(), other);
    let (_server, from) = old_server("ALTER DATABASE postgres SET jit = off");
    let mut client = Client::connect(&from, NoTls).unwrap();
    for sql in [
        "ALTER SYSTEM SET work_mem = '37MB'",
        "SELECT pg_reload_conf()",
    ] {
        client.batch_execute(sql).unwrap();
    }
    let output = directory
        .path()
        .join("sameversion.upgrade")
        .display()
        .to_string();
    let arguments = [
        "upgrade", &workload, "--from", &from, "--to", "15", "--within", "240s", "-o", &output,
        "--json",
    ];
    let mut killed = command(&arguments);
    let mut child = killed
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let first = Path::new(&output).join("replays.proof/runs/0001.run");
    let begun = Instant::now();
    while !first.exists() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let again = rehearse(&arguments);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert!(texts(&String::from_utf8_lossy(&again.stderr).into()).contains("--resume"));
    let more_time = arguments.map(|one| if one == "240s" { "250s" } else { one });
    let resumed = rehearse(&[&more_time[..], &["--resume"]].concat());
    let report = validated_as("upgrade", &resumed);
    // The settings of the server and of the database were copied, so no statement fails.
    let trial = Path::new(&output).join("replays.proof/trials/0001.json");
    let trial: Value = serde_json::from_str(&std::fs::read_to_string(trial).unwrap()).unwrap();
    assert_eq!(
        trial["numbers"]["failed"],
        serde_json::json!({}),
        "{trial:#}"
    );
    // Whether the time suffices for a verdict depends on the machine.
    let decision = report["decision"].as_str().unwrap();
    assert!(
        ["go", "go_with_remedies", "undecided"].contains(&decision),
        "{report:#}"
    );
    assert_eq!(report["restore_errors"], Value::Array(Vec::new()));
    assert_eq!(report["other_rows"], 0);
    assert_eq!(report["coverage"]["sent"], 200);
    assert_eq!(report["coverage"]["statements"], 200);
    assert_eq!(report["coverage"]["rehearsed"], 200);
    // The rehearsal analyzes its servers, and the upgrade needs it, too.
    let remedies = report["remedies"].as_array().unwrap();
    assert!(
        remedies.iter().all(|one| one["performed"] == true),
        "{report:#}"
    );
    assert_eq!(left("upgrade-sameversion-"), 0);
    let page = std::fs::read_to_string(Path::new(&output).join("report.html")).unwrap();
    assert_page_fits("upgrade-go", &page);
}

#[test]
fn upgrade_that_loses_a_view_and_changes_an_answer_is_a_no_go() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT is_new()");
    let (_server, from) = old_server(
        "CREATE VIEW writers AS SELECT buffers_backend FROM pg_stat_bgwriter;
         CREATE FUNCTION is_new() RETURNS boolean LANGUAGE sql AS
         $$ SELECT current_setting('server_version_num')::int >= 160000 $$",
    );
    let output = directory.path().join("lost.upgrade").display().to_string();
    let done = rehearse(&[
        "upgrade", &workload, "--from", &from, "--to", "18", "--within", "240s", "-o", &output,
        "--json",
    ]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let report = validated_as("upgrade", &done);
    assert_eq!(report["decision"], "no_go");
    let errors = texts(&report["restore_errors"]);
    assert!(errors.contains("buffers_backend"), "{errors}");
    assert_eq!(report["other_rows"], 1, "{report:#}");
    assert_eq!(
        report["evidence"]["rows_of_server"],
        serde_json::json!(["select version()"])
    );
    assert!(texts(&report["remedies"]).contains("DROP VIEW public.writers"));
    assert_eq!(left("upgrade-lost-"), 0);
    let page = std::fs::read_to_string(Path::new(&output).join("report.html")).unwrap();
    assert!(page.contains("NO-GO"));
    assert_page_fits("upgrade-no-go", &page);
}

#[test]
fn upgrade_with_a_service_in_the_environment_and_a_foreign_server_writes_to_neither() {
    if !can_rehearse() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "INSERT INTO far VALUES (1)");
    let (remote, remote_url) = server(15, "CREATE TABLE far (a int)");
    let endpoint = remote.endpoint();
    let (host, port) = (endpoint.socket_dir.unwrap(), endpoint.port);
    let host = host.display();
    let (_server, from) = old_server(&format!(
        "CREATE EXTENSION postgres_fdw; CREATE ROLE shop_owner;
         CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{host}', port '{port}', dbname 'postgres');
         CREATE USER MAPPING FOR postgres SERVER remote OPTIONS (user 'postgres');
         CREATE FOREIGN TABLE far (a int) SERVER remote; ALTER DATABASE postgres OWNER TO shop_owner"
    ));
    let services = directory.path().join("services");
    let text = format!("[prod]\nhost={host}\nport={port}\nuser=postgres\ndbname=postgres\n");
    std::fs::write(&services, text).unwrap();
    let output = directory.path().join("reach.upgrade").display().to_string();
    let done = command(&[
        "upgrade", &workload, "--from", &from, "--to", "15", "--within", "60s", "-o", &output,
        "--json",
    ])
    .env("PGSERVICE", "prod")
    .env("PGSERVICEFILE", &services)
    .output()
    .unwrap();
    // Whether the time suffices for a verdict depends on the machine. One run of the old side is enough here.
    let output = Path::new(&output);
    assert!(
        output.join("replays.proof/runs/0001.run").exists(),
        "{done:?}"
    );
    for side in ["old", "new"] {
        let switched_off = output.join(format!("dump/isolated-{side}.txt"));
        let switched_off = std::fs::read_to_string(switched_off).unwrap();
        assert!(
            switched_off.contains("foreign-data wrapper postgres_fdw"),
            "{switched_off}"
        );
    }
    let mut client = Client::connect(&remote_url, NoTls).unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM far", 0),
        ("SELECT count(*) FROM items", 20_000),
        (
            "SELECT count(*) FROM pg_roles WHERE rolname = 'shop_owner'",
            0,
        ),
    ] {
        let found: i64 = client.query_one(sql, &[]).unwrap().get(0);
        assert_eq!(found, expected, "{sql}");
    }
    let mode = std::fs::metadata(output).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn upgraded_server_of_the_user_without_analyze_statistics_and_jit_settings_shows_all_of_them() {
    if !can_rehearse() {
        return;
    }
    const PLACES: &str = "CREATE TABLE places (id int PRIMARY KEY, city int, zip int);
        ALTER TABLE places SET (autovacuum_enabled = off);
        INSERT INTO places SELECT i, i % 50, i % 50 FROM generate_series(1, 20000) i";
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(
        directory.path(),
        "SELECT count(*) FROM places WHERE city = 7 AND zip = 7",
    );
    let (_old, from) = server(
        15,
        &format!("{PLACES}; CREATE STATISTICS place_pairs ON city, zip FROM places; ANALYZE"),
    );
    let (_new, target) = server(
        18,
        &format!("{PLACES}; ALTER DATABASE postgres SET jit_above_cost = 10"),
    );
    let sides = directory.path().join("sides").display().to_string();
    let restore = format!(
        "echo $REHEARSE_SIDE $PGPORT $PGDATABASE >> {sides}; [ $REHEARSE_SIDE = old ] || psql -qX -v ON_ERROR_STOP=1 \
         -c 'DROP STATISTICS IF EXISTS public.place_pairs' \
         -c \"DELETE FROM pg_statistic WHERE starelid = 'public.places'::regclass\""
    );
    let output = directory.path().join("own.upgrade").display().to_string();
    let done = rehearse(&[
        "upgrade",
        &workload,
        "--from",
        &from,
        "--target",
        &target,
        "--restore",
        &restore,
        "--overwrite",
        &address(&from),
        "--overwrite",
        &address(&target),
        "--within",
        "100s",
        "-o",
        &output,
        "--json",
    ]);
    let report = validated_as("upgrade", &done);
    assert_eq!(report["method"], "target");
    assert_eq!(report["coverage"]["sent"], 200, "{report:#}");
    let findings = texts(&report["inspection"]["findings"]);
    assert!(findings.contains("place_pairs"), "{findings}");
    assert!(texts(&report["remedies"]).contains("ANALYZE public.places"));
    let plans = texts(&report["plans"]);
    assert!(plans.contains("\"risk\":\"jit\""), "{plans}");
    assert!(
        plans.contains("statistics of public.places") && plans.contains("never analyzed"),
        "{plans}"
    );
    let sides = std::fs::read_to_string(sides).unwrap();
    let runs = |side: &str| sides.lines().filter(|line| line.starts_with(side)).count();
    // Before the inspection, before the first run, before each of the runs, and at the end.
    assert!(runs("old ") >= 8 && runs("new ") >= 6, "{sides}");
    let mut distinct: Vec<&str> = sides.lines().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 2, "{sides}");
    let mut client = Client::connect(&target, NoTls).unwrap();
    let sql = "SELECT count(*) FROM pg_stats WHERE tablename = 'places'";
    let analyzed: i64 = client.query_one(sql, &[]).unwrap().get(0);
    assert_eq!(analyzed, 0);
}

#[test]
fn upgrade_on_servers_of_the_user_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT 1");
    let output = directory.path().join("x.upgrade").display().to_string();
    let (one, other) = ("postgres://a@127.0.0.1:1/b", "postgres://a@127.0.0.1:2/b");
    let refused: [(&[&str], &str); 8] = [
        (&["--target", one, "--no-restore"], "are the same server"),
        (
            &["--target", "postgres://a@127.0.0.1:2/c", "--no-restore"],
            "name the same database",
        ),
        (&["--target", other], "give --restore"),
        (
            &["--target", other, "--no-restore"],
            "confirm it with --overwrite '127.0.0.1:1' --overwrite '127.0.0.1:2'",
        ),
        (
            &[
                "--target",
                other,
                "--no-restore",
                "--overwrite",
                "127.0.0.1:3",
            ],
            "--overwrite names 127.0.0.1:3",
        ),
        (
            &["--target", other, "--no-restore", "--as-database", "c"],
            "--as-database names c",
        ),
        (&["--to", "18", "--restore", "true"], "--target"),
        (
            &[
                "--target",
                other,
                "--no-restore",
                "--allow-captured-server",
                "127.0.0.1:3",
            ],
            "names 127.0.0.1:3",
        ),
    ];
    for (options, message) in refused {
        let common = ["upgrade", &workload, "--from", one, "-o", &output];
        let done = rehearse(&[&common, options].concat());
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
        assert!(!Path::new(&output).exists(), "{options:?}");
    }
}

#[test]
fn upgrade_on_one_server_another_version_or_an_unconfirmed_one_is_refused_before_the_restore() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT 1");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (output, marker) = (at("x.upgrade"), at("restored"));
    let (_old, from) = old_server("");
    let (_new, target) = old_server("");
    let alias = from.replace("%2Fsocket", "%2F%2Fsocket");
    assert_ne!(from, alias);
    let refused = |target: &str, options: &[&str]| {
        let restore = format!("touch {marker}");
        let common = ["upgrade", &workload, "--from", &from, "-o", &output];
        let servers = ["--target", target, "--restore", &restore];
        let done = rehearse(&[&common[..], &servers, options].concat());
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert!(!Path::new(&marker).exists() && !Path::new(&output).exists());
        text
    };
    let (old, new) = (address(&from), address(&target));
    let confirmed = ["--overwrite", &old, "--overwrite", &new];
    let text = refused(
        &alias,
        &["--overwrite", &old, "--overwrite", &address(&alias)],
    );
    assert!(text.contains("are the same server"), "{text}");
    let text = refused(&target, &[&confirmed[..], &["--to", "18"]].concat());
    assert!(text.contains("not 18"), "{text}");
    let text = refused(&target, &["--overwrite", &old]);
    assert!(text.contains(&format!("--overwrite '{new}'")), "{text}");
}

#[test]
fn upgrade_without_its_inputs_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path(), "SELECT 1");
    let output = directory.path().join("x.upgrade").display().to_string();
    let from = "postgres://a@127.0.0.1:1/b";
    let refused: [(&[&str], i32, &str); 4] = [
        (&[&workload, "--to", "18", "-o", &output], 2, "--from"),
        (
            &[
                &workload, "--from", from, "--to", "18", "-o", &output, "--within", "1s",
            ],
            2,
            "--within 1.00s is too short",
        ),
        (
            &[&workload, "--from", from, "--to", "18", "-o", &workload],
            2,
            "already exists",
        ),
        (
            &[&workload, "--from", from, "--to", "18", "-o", &output],
            3,
            "cannot connect",
        ),
    ];
    for (options, code, message) in refused {
        let output = rehearse(&[&["upgrade"], options].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
        let left = directory.path().join("x.upgrade");
        assert!(!left.exists(), "{options:?}: {text}");
    }
}

#[test]
fn upgrade_verify_names_each_remedy_that_is_not_in_place_until_all_are_executed() {
    let directory = tempfile::tempdir().unwrap();
    let rehearsal = directory.path().display().to_string();
    let (_server, target) = server(
        15,
        "CREATE TABLE pairs (a int, b int); ALTER TABLE pairs SET (autovacuum_enabled = off); \
         INSERT INTO pairs SELECT i % 10, i % 10 FROM generate_series(1, 1000) i",
    );
    let verify = || {
        rehearse(&[
            "upgrade", "verify", &rehearsal, "--target", &target, "--for", "1s", "--json",
        ])
    };
    let refused = verify();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(texts(&String::from_utf8_lossy(&refused.stderr).into()).contains("finished rehearsal"));

    let remedy = |kind: &str, statements: &[&str], setting: Value| serde_json::json!({ "kind": kind, "cause": "", "statements": statements, "setting": setting, "risk": "" });
    let statements = [
        "CREATE STATISTICS public.pairs_s (mcv) ON a, b FROM pairs",
        "ANALYZE public.pairs",
        "CREATE INDEX pairs_a ON public.pairs USING btree (a)",
        "ALTER DATABASE \"postgres\" SET random_page_cost = '2'",
    ];
    let setting = serde_json::json!(["random_page_cost", "2"]);
    let mut expectations = serde_json::json!({
        "workload": "missing.workload", "workload_id": "", "database": "postgres", "statements": [],
        "to_version": "18.1", "decision": "no_go", "known": [],
        "remedies": [
            remedy("extended_statistics", &statements[..2], Value::Null),
            remedy("index", &statements[2..3], Value::Null),
            remedy("setting", &statements[3..], setting),
        ],
    });
    let file = directory.path().join("expectations.json");
    std::fs::write(&file, expectations.to_string()).unwrap();
    let refused = verify();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(texts(&String::from_utf8_lossy(&refused.stderr).into()).contains("to 18.1"));
    expectations["to_version"] = "15.1".into();
    std::fs::write(&file, expectations.to_string()).unwrap();
    let mut client = Client::connect(&target, NoTls).unwrap();
    let mut left = statements.iter();
    // Statistics that are created have data after ANALYZE only.
    for (number, expected, code, verdict) in [
        (1, [false, false, false, false], 1, "differs"),
        (2, [true, true, true, false], 1, "differs"),
        (1, [true, true, true, true], 4, "not_observed"),
    ] {
        for statement in left.by_ref().take(number) {
            client.batch_execute(statement).unwrap();
        }
        let done = verify();
        let report = validated_as("upgrade-verify", &done);
        let remedies = report["remedies"].as_array().unwrap();
        let found: Vec<&Value> = remedies.iter().map(|one| &one["in_place"]).collect();
        assert_eq!(found, expected, "{report:#}");
        assert_eq!(report["verdict"], verdict, "{report:#}");
        assert!(
            texts(&report["reasons"][0]).contains("was a no-go"),
            "{report:#}"
        );
        assert_eq!(done.status.code(), Some(code), "{done:?}");
    }
}
