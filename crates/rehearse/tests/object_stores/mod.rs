//! Workloads and runs in an object store, with a real S3-compatible server. `REHEARSE_TEST_S3` names its program, which
//! takes `-H HOST -p PORT` as `moto_server` does.

mod faults;
mod sharded;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use faults::{Fault, FaultyLink};

/// Login with which objects can be read. The server does not check the signature.
const AUTHORIZATION: &str = "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00";

/// A running server with the bucket `loads`.
struct Store {
    process: Child,
    port: u16,
    directory: TempDir,
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Store {
    /// Starts the server; `None` if the variable is not set, which is reported.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("REHEARSE_TEST_S3") else {
            test_support::report_skipped("REHEARSE_TEST_S3 names no S3-compatible server");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let store = Store {
            process,
            port,
            directory: tempfile::tempdir().unwrap(),
        };
        let started = Instant::now();
        while !store.request("PUT", "/loads").starts_with("HTTP/1.1 200") {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the server does not start"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(store)
    }

    /// Sends a request without a body. Returns the answer, or nothing if the server cannot be reached.
    fn request(&self, method: &str, target: &str) -> String {
        String::from_utf8_lossy(&self.answer(method, target)).into_owned()
    }

    fn answer(&self, method: &str, target: &str) -> Vec<u8> {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return Vec::new();
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn run_at(&self, port: u16, arguments: &[&str]) -> Output {
        let mut command = self.command_at(port, arguments);
        command.output().unwrap()
    }

    fn command_at(&self, port: u16, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
        for variable in [
            "REHEARSE_STAGING",
            "AWS_PROFILE",
            "AWS_SESSION_TOKEN",
            "REHEARSE_KEY_FILE",
        ] {
            command.env_remove(variable);
        }
        command
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run_at(self.port, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn inspect(&self, port: u16, workload: &str) -> Value {
        let output = self.run_at(port, &["inspect", workload, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        without_names(serde_json::from_slice(&output.stdout).unwrap())
    }

    fn has_on_disk(&self, name: &str) -> bool {
        self.directory.path().join(name).exists()
    }
}

/// Removes the names of artefacts, which differ between copies.
fn without_names(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.retain(|_, value| {
            !value
                .as_str()
                .is_some_and(|text| text.contains(".workload"))
        });
    }
    document
}

/// Writes a log whose workload is larger than what one request reads.
fn write_log(path: &Path) {
    let mut log = String::new();
    for number in 0_u64..30_000 {
        let value = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(
            log,
            "2026-03-01 09:{:02}:{:02}.{:03} UTC [{}] LOG:  duration: {}.{:03} ms  statement: SELECT {value}",
            number / 6_000,
            number / 100 % 60,
            number % 100 * 10,
            100 + number % 5,
            number % 3,
            value % 1_000,
        )
        .unwrap();
    }
    std::fs::write(path, log).unwrap();
}

#[test]
fn workload_and_runs_in_a_store_equal_those_on_disk() {
    let Some(store) = Store::start() else { return };
    let (_sandbox, endpoint) = test_support::server().tcp().start();
    let url = endpoint.url("postgres");
    write_log(&store.directory.path().join("a.log"));
    let remote = "s3://loads/week/a.workload";
    store.done(&["capture", "log", "a.log", "-o", "local.workload"]);
    store.done(&["capture", "log", "a.log", "-o", remote]);
    assert!(!store.has_on_disk("a.workload") && !store.has_on_disk("a.workload.partial"));
    assert_eq!(
        store.inspect(store.port, remote),
        store.inspect(store.port, "local.workload")
    );

    // The name is taken.
    let again = store.run_at(store.port, &["capture", "log", "a.log", "-o", remote]);
    let reason = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{reason}");
    assert!(
        reason.contains("s3://loads/week/a.workload is there already"),
        "{reason}"
    );

    store.done(&[
        "slice",
        remote,
        "-o",
        "s3://loads/week/b.workload",
        "--to",
        "+10s",
    ]);
    for run in ["s3://loads/a.run", "s3://loads/b.run"] {
        let workload = "s3://loads/week/b.workload";
        store.done(&[
            "replay", workload, "--target", &url, "--speed", "max", "-o", run,
        ]);
    }
    let compared = store.done(&["compare", "s3://loads/a.run", "s3://loads/b.run", "--json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    for side in ["before", "after"] {
        assert_eq!(compared[side]["done"], 1_001, "{side}");
    }

    store.done(&["key", "key.txt"]);
    let key = std::fs::read_to_string(store.directory.path().join("key.txt")).unwrap();
    let recipient = key
        .split_whitespace()
        .find(|word| word.starts_with("age1"))
        .unwrap();
    let secret = "s3://loads/week/c.workload";
    store.done(&[
        "capture",
        "log",
        "a.log",
        "-o",
        secret,
        "--encrypt",
        recipient,
    ]);
    let read = store.done(&["inspect", secret, "--json", "--key", "key.txt"]);
    assert_eq!(
        without_names(serde_json::from_str(&read).unwrap())["statements"],
        store.inspect(store.port, remote)["statements"]
    );
}

#[test]
fn cut_and_throttled_requests_are_repeated() {
    let Some(store) = Store::start() else { return };
    write_log(&store.directory.path().join("a.log"));
    let remote = "s3://loads/a.workload";
    let faults = [
        Fault::Throttled,
        Fault::CutAfter(600),
        Fault::CutAfter(0),
        Fault::None,
    ];
    let link = FaultyLink::start(store.port, &faults);
    let captured = store.run_at(link.port, &["capture", "log", "a.log", "-o", remote]);
    assert_eq!(captured.status.code(), Some(0), "{captured:?}");
    store.done(&["capture", "log", "a.log", "-o", "local.workload"]);
    let through_faults = store.inspect(link.port, remote);
    assert!(link.faults() > 4, "{} requests failed", link.faults());
    assert_eq!(through_faults, store.inspect(store.port, "local.workload"));
}

#[test]
fn failed_upload_leaves_the_complete_workload_on_disk() {
    let Some(store) = Store::start() else { return };
    write_log(&store.directory.path().join("a.log"));
    // The name is looked up before the capture.
    let link = FaultyLink::start(store.port, &[Fault::DeniesWrites]);
    let arguments = ["capture", "log", "a.log", "-o", "s3://loads/a.workload"];
    let output = store.run_at(link.port, &arguments);
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{reason}");
    assert!(reason.contains("It is complete in a.workload"), "{reason}");
    store.inspect(store.port, "a.workload");
    let absent = store.run_at(store.port, &["inspect", "s3://loads/a.workload"]);
    let reason = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(
        reason.contains("s3://loads/a.workload does not exist"),
        "{reason}"
    );
}

#[test]
fn series_in_a_store_is_refused_with_what_to_do() {
    let Some(store) = Store::start() else { return };
    let put = store.request("PUT", "/loads/a.series/series.json");
    assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    let series = "s3://loads/a.series";
    let replay = [
        "replay",
        series,
        "--target",
        "postgres://nowhere",
        "-o",
        "a.run",
    ];
    for (arguments, expected) in [
        (
            &["inspect", series][..],
            "copy it to a disk, or give one of its parts",
        ),
        (&replay[..], "copy it to a disk, or give one of its parts"),
        (
            &[&replay[..], &["--follow"]].concat(),
            "is in an object store; give its path",
        ),
    ] {
        let output = store.run_at(store.port, arguments);
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{reason}");
        assert!(reason.contains(expected), "{reason}");
    }
    let absent = store.run_at(store.port, &["inspect", "s3://loads/b.series"]);
    let reason = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(reason.contains("does not exist"), "{reason}");
}

#[test]
fn missing_bucket_and_unreachable_server_are_one_sentence() {
    let Some(store) = Store::start() else { return };
    let output = store.run_at(store.port, &["inspect", "s3://nowhere/a.workload"]);
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reason.contains("the bucket does not exist"), "{reason}");
    assert_eq!(reason.lines().count(), 1, "{reason}");
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let output = store.run_at(free, &["inspect", "s3://loads/a.workload"]);
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{reason}");
    assert!(reason.contains("check the network"), "{reason}");
    assert_eq!(reason.lines().count(), 1, "{reason}");
}
