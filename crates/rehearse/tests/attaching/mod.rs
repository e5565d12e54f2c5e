//! `rehearse capture attach` as a program: sessions that exist already, signals, kills, restarts of the server and full disks. Hosts that do not allow eBPF skip these tests; with `REHEARSE_TEST_ATTACH=1` they fail there.

mod privileges;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox, Stop};
use serde_json::Value;
use test_support::CaptureAttach;
use workload::{EventKind, WorkloadReader};

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> (Sandbox, Endpoint) {
    test_support::server().tcp().start()
}

fn client(endpoint: &Endpoint, application: &str) -> Client {
    let mut config: postgres::Config = endpoint.url("postgres").parse().unwrap();
    config.application_name(application).connect(NoTls).unwrap()
}

/// Returns a command that attaches to a server and writes NAME.workload. The shell runs `before` first.
fn command(endpoint: &Endpoint, output: &Path, before: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("{before} exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_rehearse"))
        .args(["capture", "attach", "--json", "--port"])
        .arg(endpoint.port.to_string())
        .arg("-o")
        .arg(output);
    command
}

/// Returns the statements by application, in order.
fn statements(workload: &Path) -> BTreeMap<String, Vec<String>> {
    let reader = WorkloadReader::open(workload).unwrap();
    reader.verify().unwrap();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in reader.events().unwrap() {
        let (event, _) = item.unwrap();
        if let EventKind::Connect { application, .. } = &event.kind {
            names.insert(event.session, application.to_string());
        }
        if event.kind.is_statement() {
            let sql = event.kind.sql().unwrap().to_string();
            let name = names[&event.session].clone();
            found.entry(name).or_default().push(sql);
        }
    }
    found
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn recover(partial: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("recover")
        .arg(partial)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns the process number of the prober that a capture has started.
fn prober_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap()
}

fn send_signal(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn sessions_that_exist_are_captured_with_their_identity_or_left_out() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let [all, new] = ["all", "new"].map(|name| directory.path().join(format!("{name}.workload")));
    let mut existing = client(&endpoint, "existing");
    let prepared = existing.prepare("SELECT 'prepared before'").unwrap();
    let mut command_of_all = command(&endpoint, &all, "");
    let url = endpoint.url("postgres");
    command_of_all.args(["--server", &url, "--starting-point", &url]);
    let Some(attach_all) = CaptureAttach::start(&mut command_of_all) else {
        return;
    };
    let mut command_of_new = command(&endpoint, &new, "");
    let Some(attach_new) = CaptureAttach::start(command_of_new.arg("--wait-for-new-sessions"))
    else {
        return;
    };
    // The server waited for this request before the probes were there.
    existing.simple_query("SELECT 'first'").unwrap();
    existing.simple_query("SELECT 'second'").unwrap();
    existing.query(&prepared, &[]).unwrap();
    client(&endpoint, "later")
        .simple_query("SELECT 'later'")
        .unwrap();
    drop(existing);
    let (code, account) = attach_all.interrupt();
    assert_eq!(code, Some(0), "{account}");
    let account = json(&account);
    assert_eq!(account["existing"], 1, "{account}");
    let recording = &account["recordings"][0];
    // The sessions of the command itself are not captured.
    assert!(account["left_out_own"].as_u64() >= Some(2), "{account}");
    assert_eq!(recording["conversation"]["connections"], 2, "{account}");
    assert_eq!(
        recording["conversation"]["statements_unknown"], 1,
        "{account}"
    );
    let found = statements(&all);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["existing", "later"]);
    assert_eq!(found["existing"], ["SELECT 'second'", ""]);
    assert_eq!(found["later"], ["SELECT 'later'"]);
    let (code, account) = attach_new.interrupt();
    assert_eq!(code, Some(0), "{account}");
    let account = json(&account);
    assert_eq!(account["left_out_existing"], 1, "{account}");
    let recording = &account["recordings"][0];
    assert!(recording["passed_bytes"].as_u64() > Some(0), "{account}");
    assert_eq!(statements(&new).keys().collect::<Vec<_>>(), ["later"]);
}

#[test]
fn killed_capture_is_recoverable_and_another_one_continues() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let [killed, other] =
        ["killed", "other"].map(|name| directory.path().join(format!("{name}.workload")));
    let Some(mut attach) = CaptureAttach::start(&mut command(&endpoint, &killed, "")) else {
        return;
    };
    let Some(attach_other) = CaptureAttach::start(&mut command(&endpoint, &other, "")) else {
        return;
    };
    let mut session = client(&endpoint, "session");
    let expected: Vec<String> = (0..100).map(|number| format!("SELECT {number}")).collect();
    for sql in &expected {
        session.simple_query(sql).unwrap();
    }
    // The next checkpoint has all of them.
    std::thread::sleep(Duration::from_secs(3));
    attach.child.kill().unwrap();
    attach.child.wait().unwrap();
    session.simple_query("SELECT 'after the kill'").unwrap();
    drop(session);
    recover(&archive::partial_path(&killed));
    assert_eq!(statements(&killed)["session"], expected);
    let (code, account) = attach_other.interrupt();
    assert_eq!(code, Some(0), "{account}");
    let found = &statements(&other)["session"];
    assert_eq!(found[..100], expected);
    assert_eq!(found[100..], ["SELECT 'after the kill'"]);
}

#[test]
fn restarted_server_is_attached_again() {
    let (mut server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let Some(mut attach) = CaptureAttach::start(&mut command(&endpoint, &workload, "")) else {
        return;
    };
    let mut before = client(&endpoint, "before");
    before.simple_query("SELECT 'before'").unwrap();
    server.stop(Stop::Fast).unwrap();
    attach.wait_for("the server has stopped");
    let endpoint = server.start().unwrap();
    attach.wait_for("attached again");
    let mut after = client(&endpoint, "after");
    after.simple_query("SELECT 'after'").unwrap();
    drop(after);
    let (code, account) = attach.interrupt();
    assert_eq!(code, Some(0), "{account}");
    assert_eq!(json(&account)["attached"], 2, "{account}");
    let found = statements(&workload);
    assert_eq!(found["before"], ["SELECT 'before'"]);
    assert_eq!(found["after"], ["SELECT 'after'"]);
}

#[test]
fn session_between_a_restart_and_the_next_attach_is_one_that_existed() {
    let (mut server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let Some(mut attach) = CaptureAttach::start(&mut command(&endpoint, &workload, "")) else {
        return;
    };
    server.stop(Stop::Fast).unwrap();
    attach.wait_for("the server has stopped");
    let prober = prober_of(attach.child.id());
    send_signal("-STOP", prober);
    let endpoint = server.start().unwrap();
    let mut session = client(&endpoint, "session");
    session.simple_query("SELECT 'before the attach'").unwrap();
    send_signal("-CONT", prober);
    attach.wait_for("attached again");
    session.simple_query("SELECT 'not seen'").unwrap();
    session.simple_query("SELECT 'seen'").unwrap();
    drop(session);
    let (code, account) = attach.interrupt();
    assert_eq!(code, Some(0), "{account}");
    assert_eq!(json(&account)["existing"], 1, "{account}");
    assert_eq!(statements(&workload)[""], ["SELECT 'seen'"]);
}

#[test]
fn capture_ends_after_its_duration_into_a_series() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let series = directory.path().join("a.series");
    let mut command = command(&endpoint, &series, "");
    command.args(["--duration", "4s", "--roll", "1s"]);
    let Some(attach) = CaptureAttach::start(&mut command) else {
        return;
    };
    let mut session = client(&endpoint, "session");
    for number in 0..20 {
        session.simple_query(&format!("SELECT {number}")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    let (code, account) = attach.wait();
    assert_eq!(code, Some(0), "{account}");
    let account = json(&account);
    assert_eq!(account["recordings"][0]["statements"], 20, "{account}");
    assert!(
        account["written_series"]["parts_written"].as_u64() >= Some(2),
        "{account}"
    );
}

#[test]
fn full_disk_ends_the_recording_and_not_the_server() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    // As a full disk: no file may become larger, and a write beyond that is refused, for root as well.
    let limit = "trap '' XFSZ; ulimit -f 200;";
    let Some(attach) = CaptureAttach::start(&mut command(&endpoint, &workload, limit)) else {
        return;
    };
    let mut session = client(&endpoint, "session");
    // Texts that do not compress.
    let sql = "SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 30)";
    let mut sent = Vec::new();
    for number in 0..3_000 {
        if number == 10 {
            // The next checkpoint has the first ones.
            std::thread::sleep(Duration::from_secs(2));
        }
        let row = session.query_one(sql, &[]).unwrap();
        let text: String = row.get(0);
        sent.push(format!("SELECT '{text}'"));
        session.simple_query(&sent[number]).unwrap();
    }
    drop(session);
    // It ends without a signal, so that its probes do not stay.
    let (code, account) = attach.wait();
    assert_eq!(code, Some(1), "{account}");
    let account = json(&account);
    let recording = &account["recordings"][0];
    let failure = recording["failure"].as_str().unwrap_or_default();
    assert!(failure.contains("too large"), "{account}");
    if recording["state"] == "partial" {
        recover(&archive::partial_path(&workload));
    }
    let found = &statements(&workload)["session"];
    let found: Vec<&String> = found
        .iter()
        .filter(|sql| sql.starts_with("SELECT '"))
        .collect();
    assert!(found.len() >= 10, "{}", found.len());
    assert_eq!(found, sent[..found.len()].iter().collect::<Vec<_>>());
}

#[test]
fn prober_ends_with_the_capture_that_is_killed() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let Some(mut attach) = CaptureAttach::start(&mut command(&endpoint, &workload, "")) else {
        return;
    };
    let pid = attach.child.id();
    let prober = PathBuf::from(format!("/proc/{}", prober_of(pid)));
    attach.child.kill().unwrap();
    attach.child.wait().unwrap();
    let begun = Instant::now();
    let is_alive = || match std::fs::read_to_string(prober.join("stat")) {
        // A zombie has ended; it waits for the process that adopted it.
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => false,
    };
    while is_alive() {
        assert!(begun.elapsed() < PATIENCE, "the prober still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    client(&endpoint, "session")
        .simple_query("SELECT 1")
        .unwrap();
}

#[test]
fn signals_to_both_processes_end_the_capture_in_order() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let Some(attach) = CaptureAttach::start(&mut command(&endpoint, &workload, "")) else {
        return;
    };
    let prober = prober_of(attach.child.id());
    for signal in ["-INT", "-HUP", "-TERM"] {
        send_signal(signal, prober);
    }
    client(&endpoint, "session")
        .simple_query("SELECT 1")
        .unwrap();
    send_signal("-TERM", prober);
    let (code, text) = attach.interrupt();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(statements(&workload)["session"], ["SELECT 1"]);
}

#[test]
fn capture_whose_recording_cannot_start_ends() {
    let (_server, endpoint) = server();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("sub");
    std::fs::create_dir(&output).unwrap();
    let mut command = command(&endpoint, &output.join("a.workload"), "");
    let Some(mut attach) = CaptureAttach::start(&mut command) else {
        return;
    };
    send_signal("-USR1", attach.child.id());
    attach.wait_for("recorded ");
    std::fs::remove_dir_all(&output).unwrap();
    send_signal("-USR1", attach.child.id());
    attach.wait_for("the capture ends, since it cannot record");
    assert_eq!(attach.child.wait().unwrap().code(), Some(1));
}
