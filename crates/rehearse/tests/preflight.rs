//! Checks of the target before a replay: what it lacks, and what differs from the capture's starting point.

mod calibrating;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Stop};
use serde_json::Value;
use test_support::{CaptureProxy, connect, server};

const SCHEMA: &str = "CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO customers SELECT generate_series(1, 20);
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int);
    CREATE SEQUENCE tickets;
    CREATE FUNCTION price(int) RETURNS int LANGUAGE sql AS 'SELECT $1'";

/// Orders and the function are missing, customers too few, and tickets were handed out.
const CHANGE: &str =
    "DROP TABLE orders; DROP FUNCTION price(int); DELETE FROM customers WHERE id > 5;
    SELECT setval('tickets', 500)";

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Captures a small shop, with its starting point.
fn capture(source: &Endpoint, workload: &Path) {
    let options = ["--starting-point", &source.url("postgres")];
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, source, workload, &options);
    let mut client = connect(&proxy.endpoint);
    for customer in 1..=6 {
        let order = "INSERT INTO orders (customer) VALUES ($1) RETURNING id";
        client.query_one(order, &[&customer]).unwrap();
        client.query("SELECT price($1)", &[&customer]).unwrap();
    }
    for _ in 0..4 {
        client
            .batch_execute("SELECT count(*) FROM orders JOIN customers ON customer = customers.id")
            .unwrap();
        client.batch_execute("SELECT nextval('tickets')").unwrap();
    }
    // Made by the workload itself: not missing.
    client.batch_execute("CREATE TABLE own (n int)").unwrap();
    client.batch_execute("INSERT INTO own VALUES (1)").unwrap();
    assert!(client.batch_execute("SELECT * FROM never_there").is_err());
    drop(client);
    proxy.interrupt();
}

#[test]
fn preflight_lists_what_the_target_lacks_with_the_worst_first() {
    let (_one, source) = server().password("check").start();
    let (_other, target) = server().password("check").start();
    connect(&source).batch_execute(SCHEMA).unwrap();
    connect(&target).batch_execute(SCHEMA).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    capture(&source, &workload);
    let workload = workload.display().to_string();
    let url = target.url("postgres");
    let checked = || {
        let output = rehearse(&["replay", &workload, "--target", &url, "--dry-run", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["preflight"].clone(), said(&output))
    };
    let (equal, text) = checked();
    assert_eq!(equal["findings"], serde_json::json!([]), "{text}");
    assert!(equal["parsed"].as_u64().unwrap() >= 6, "{equal}");
    assert!(
        text.contains("Checks of the target: nothing found"),
        "{text}"
    );

    connect(&target).batch_execute(CHANGE).unwrap();
    let (different, text) = checked();
    let findings = different["findings"].as_array().unwrap();
    let find = |part: &str| {
        let has = |one: &&Value| one["message"].as_str().unwrap().contains(part);
        findings
            .iter()
            .find(has)
            .unwrap_or_else(|| panic!("{part}: {text}"))
    };
    // 6 inserts and 4 queries; the remedy is in the next line.
    assert_eq!(find("relation \"orders\" does not exist")["statements"], 10);
    assert_eq!(
        find("function price(unknown) does not exist")["statements"],
        6
    );
    assert!(
        find("public.tickets: 500 here")["remedy"]
            .as_str()
            .unwrap()
            .contains("--sequences")
    );
    find("public.customers: 5 here, 20 there");
    assert_eq!(findings.len(), 4, "{text}");
    let severities: Vec<&str> = findings
        .iter()
        .map(|one| one["severity"].as_str().unwrap())
        .collect();
    assert_eq!(severities, ["fails", "fails", "other_data", "other_data"]);
    assert_eq!(findings[0]["statements"], 10);

    let run = directory.path().join("a.run").display().to_string();
    let output = rehearse(&[
        "replay",
        &workload,
        "--target",
        &url,
        "-o",
        &run,
        "--no-facts",
    ]);
    let summary = String::from_utf8(output.stdout.clone()).unwrap();
    let first: Vec<&str> = summary.lines().take(5).collect();
    assert!(
        first[0].contains("of the statements failed that did not fail in the capture: 28 of 35"),
        "{summary}"
    );
    assert!(first[1].starts_with("Root of 16 of them:"), "{summary}");
    assert!(first[2].contains("new 42P01 × 12"), "{summary}");
    // Its client prepares each insert first. The queries of the missing table have the same cause.
    assert!(
        first[4].contains("4 executions of 1 other statement follow from it"),
        "{summary}"
    );
    assert!(
        said(&output).contains("[fails] 10 statements: relation \"orders\""),
        "{}",
        said(&output)
    );
}

/// The client's options name the schema, as `PGOPTIONS` does.
#[test]
fn preflight_finds_names_in_the_schema_that_sessions_start_with() {
    let (_one, source) = server().start();
    let (_other, target) = server().start();
    let schema = "CREATE SCHEMA app; CREATE TABLE app.stock (n int)";
    for server in [&source, &target] {
        connect(server).batch_execute(schema).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, &workload, &[]);
    let url = proxy.endpoint.url("postgres");
    let mut config: postgres::Config = url.parse().unwrap();
    config.options("-c search_path=app");
    let mut client = config.connect(NoTls).unwrap();
    client.batch_execute("SELECT n FROM stock").unwrap();
    drop(client);
    proxy.interrupt();
    let (workload, url) = (workload.display().to_string(), target.url("postgres"));
    let check = || {
        let output = rehearse(&["replay", &workload, "--target", &url, "--dry-run"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    };
    let text = check();
    assert!(
        text.contains("Checks of the target: nothing found"),
        "{text}"
    );
    connect(&target)
        .batch_execute("DROP TABLE app.stock")
        .unwrap();
    let text = check();
    assert!(text.contains("relation \"stock\" does not exist"), "{text}");
}

#[test]
fn preflight_names_a_refused_role_and_its_remedy() {
    let (_one, source) = server().password("check").start();
    let (_other, target) = server().password("check").start();
    connect(&source)
        .batch_execute("CREATE ROLE shopper LOGIN PASSWORD 'check'")
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, &workload, &[]);
    let url = format!(
        "postgres://shopper:check@127.0.0.1:{}/postgres",
        proxy.endpoint.port
    );
    Client::connect(&url, NoTls)
        .unwrap()
        .batch_execute("SELECT 1")
        .unwrap();
    proxy.interrupt();
    let arguments = [
        "replay",
        &workload.display().to_string(),
        "--target",
        &target.url("postgres"),
        "--dry-run",
    ];
    let output = rehearse(&arguments);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.contains("[fails] 1 statement: the target refuses shopper at database postgres"),
        "{text}"
    );
    assert!(text.contains("--set-role"), "{text}");
}

#[test]
fn preflight_finds_a_target_in_recovery() {
    let (_one, source) = server().major(15).password("check").start();
    let settings = [("wal_level", "replica"), ("hot_standby", "on")];
    let (mut standby, _) = server()
        .major(15)
        .password("check")
        .settings(&settings)
        .start();
    standby.stop(Stop::Fast).unwrap();
    let data = standby.data_dir().to_owned();
    let signal = data.join("standby.signal");
    fs::write(&signal, "").unwrap();
    let owner = data.metadata().unwrap();
    chown(&signal, Some(owner.uid()), Some(owner.gid())).unwrap();
    let target = standby.start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, &workload, &[]);
    connect(&proxy.endpoint)
        .batch_execute("CREATE TABLE made ()")
        .unwrap();
    proxy.interrupt();
    let workload = workload.display().to_string();
    let url = target.url("postgres");
    let checked = |further: &[&str]| {
        let arguments = ["replay", &workload, "--target", &url, "--dry-run"];
        said(&rehearse(&[&arguments[..], further].concat()))
    };
    let text = checked(&[]);
    assert!(
        text.contains("[fails] 1 statement: the target is in recovery"),
        "{text}"
    );
    assert!(text.contains("pg_promote()"), "{text}");
    // What only reads may be replayed there.
    let text = checked(&["--read-only"]);
    assert!(!text.contains("in recovery"), "{text}");
}

/// A running pooler.
struct Pooler(Child);

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn preflight_finds_a_pooler_in_between() {
    if !Path::new("/usr/sbin/pgbouncer").exists() {
        return test_support::report_skipped("pgbouncer is not installed");
    }
    let (sandbox, source) = server().password("check").start();
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let workload = directory.path().join("a.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &source, &workload, &[]);
    connect(&proxy.endpoint).batch_execute("SELECT 1").unwrap();
    proxy.interrupt();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let settings = format!(
        "[databases]\n* = host=127.0.0.1 port={} user=postgres password=check\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\nignore_startup_parameters = extra_float_digits, options\n",
        source.port
    );
    let file = directory.path().join("pooler.ini");
    fs::write(&file, settings).unwrap();
    // PgBouncer refuses root.
    let owner = sandbox.data_dir().metadata().unwrap();
    let mut command = Command::new("/usr/sbin/pgbouncer");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command = Command::new("setpriv");
        let ids = [
            format!("--reuid={}", owner.uid()),
            format!("--regid={}", owner.gid()),
        ];
        command
            .args(ids)
            .args(["--clear-groups", "/usr/sbin/pgbouncer"]);
    }
    let child = command
        .arg("-q")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _pooler = Pooler(child);
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while Client::connect(&url, NoTls).is_err() {
        assert!(
            std::time::Instant::now() < until,
            "the pooler does not answer"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let workload = workload.display().to_string();
    let checked = |target: &str| {
        let confirmed = [
            "replay",
            &workload,
            "--target",
            target,
            "--dry-run",
            "--read-only",
        ];
        said(&rehearse(&confirmed))
    };
    let text = checked(&url);
    assert!(
        text.contains("[may differ] a pooler or proxy answers"),
        "{text}"
    );
    assert!(!checked(&source.url("postgres")).contains("pooler"));
}
