//! Statements whose conditions depend on the time of their execution.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use postgres::{Client, NoTls};
use sandbox::{Dirs, Endpoint};
use test_support::{CaptureProxy, connect, server};

/// The token expires three seconds after the capture's start.
const SCHEMA: &str =
    "CREATE TABLE token (id int PRIMARY KEY, expires timestamptz, seen timestamptz)";

/// Environment variable with which the test fails, instead of being skipped, if libfaketime is not installed.
const FAKETIME_NEEDED: &str = "REHEARSE_TEST_FAKETIME";

fn rehearse(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Captures statements of which the expiry decides the rows. Returns the time at which the token expires.
fn capture(source: &Endpoint, workload: &Path) -> String {
    let mut client = connect(source);
    client.batch_execute(SCHEMA).unwrap();
    let add = "INSERT INTO token VALUES (1, now() + '3 s') RETURNING expires::text";
    let expires: String = client.query_one(add, &[]).unwrap().get(0);
    let proxy = CaptureProxy::start(env!("CARGO_BIN_EXE_rehearse"), source, workload, &[]);
    let mut client = Client::connect(&proxy.endpoint.url("postgres"), NoTls).unwrap();
    for (sql, rows) in [
        ("DELETE FROM token WHERE expires < now()", 0),
        ("UPDATE token SET seen = now() WHERE id = 1", 1),
        (
            "UPDATE token SET seen = now() WHERE expires < 'yesterday'::date",
            0,
        ),
    ] {
        assert_eq!(client.execute(sql, &[]).unwrap(), rows, "{sql}");
    }
    drop(client);
    proxy.interrupt();
    expires
}

#[test]
fn statement_that_depends_on_the_time_is_listed_beforehand_and_named_as_root() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("time").tcp().start();
    let expires = capture(&source, &workload);
    let (_target, target) = server().password("time").tcp().start();
    let mut client = connect(&target);
    client.batch_execute(SCHEMA).unwrap();
    let add = format!("INSERT INTO token VALUES (1, '{expires}')");
    client.batch_execute(&add).unwrap();
    while client
        .query("SELECT FROM token WHERE expires < now()", &[])
        .unwrap()
        .is_empty()
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    let workload = workload.to_str().unwrap();
    let run = directory.path().join("a.run");
    let (run, url) = (run.to_str().unwrap(), target.url("postgres"));
    let replay = ["replay", workload, "--target", &url];

    for text in [
        rehearse(&["inspect", workload]),
        rehearse(&[&replay[..], &["--dry-run"]].concat()),
    ] {
        assert!(text.contains("of 2 statements with 2 executions"), "{text}");
        assert!(text.contains("now()  delete from token"), "{text}");
        assert!(text.contains("'yesterday'  update token"), "{text}");
    }
    let text = rehearse(&[&replay[..], &["--no-facts", "-o", run]].concat());
    let named = "depends on the time of its execution (now())";
    assert_eq!(text.matches(named).count(), 1, "{text}");
    assert!(
        text.contains("1 execution of 1 other statement follow from it"),
        "{text}"
    );
}

/// Private server under a name, which is deleted at the end.
struct Named {
    name: String,
    places: Dirs,
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = sandbox::down(&self.name, &self.places);
    }
}

#[test]
fn statements_find_the_captured_rows_if_the_clock_is_the_captured_one() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_source, source) = server().password("time").tcp().start();
    let expires = capture(&source, &workload);
    let (target, endpoint) = server().password("time").tcp().start();
    let named = Named {
        name: format!("clock-{}", std::process::id()),
        places: Dirs::from_environment().unwrap(),
    };
    target.keep(&named.name, &named.places).unwrap();
    let mut client = connect(&endpoint);
    client.batch_execute(SCHEMA).unwrap();
    let add = format!("INSERT INTO token VALUES (1, '{expires}')");
    client.batch_execute(&add).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    drop(client);
    let workload = workload.to_str().unwrap();
    let run = directory.path().join("a.run");
    let run = run.to_str().unwrap();
    let url = endpoint.url("postgres");
    let replay = [
        "replay",
        workload,
        "--target",
        &url,
        "--no-facts",
        "-o",
        run,
    ];
    let replay = [&replay[..], &["--captured-clock", &named.name]].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(replay)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("is not installed") && std::env::var_os(FAKETIME_NEEDED).is_none() {
        return test_support::report_skipped("libfaketime is not installed");
    }
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("its clock starts at the captured time"),
        "{stderr}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("The replay did what the capture did"),
        "{text}"
    );
    // The written time is the captured one, within three seconds.
    let mut client = connect(&endpoint);
    let early = "SELECT expires - seen BETWEEN '0 s' AND '3 s' FROM token";
    assert!(client.query_one(early, &[]).unwrap().get::<_, bool>(0));
    // A server that is not the sandbox is refused before the sandbox is restarted.
    let start_sql = "SELECT pg_postmaster_start_time()::text";
    let start: String = client.query_one(start_sql, &[]).unwrap().get(0);
    let url = source.url("postgres");
    let other = directory.path().join("b.run");
    let other = other.to_str().unwrap();
    let replay = [
        "replay",
        workload,
        "--target",
        &url,
        "--no-facts",
        "-o",
        other,
    ];
    let allow = ["--captured-clock", &named.name, "--allow-captured-server"];
    let address = format!("127.0.0.1:{}", source.port);
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args([&replay[..], &allow, &[&address]].concat())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("is not the sandbox"), "{stderr}");
    let now: String = client.query_one(start_sql, &[]).unwrap().get(0);
    assert_eq!(now, start);
}
