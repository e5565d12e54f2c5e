//! `replay --calibrate`: what a replay needs, and whether one machine is enough.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_support::{connect, server};

use crate::{rehearse, said};

/// Sessions of the log, which are open at the same time.
const SESSIONS: u64 = 30;

/// Captures a log with a statement of each session every tenth of a second, and twice as many in the last second.
fn capture_log(folder: &Path) -> String {
    let mut log = String::new();
    for tenth in 0..40 {
        for session in 0..SESSIONS {
            let mut line = |text: String| {
                let second = tenth / 10;
                let millisecond = tenth % 10 * 100;
                let process = 100 + session;
                writeln!(
                    log,
                    "2026-03-01 09:00:0{second}.{millisecond:03} UTC [{process}] postgres@postgres LOG:  {text}"
                )
                .unwrap();
            };
            if tenth == 0 {
                line("connection authorized: user=postgres database=postgres".to_owned());
            }
            for _ in 0..if tenth < 30 { 1 } else { 2 } {
                line(format!(
                    "duration: 0.100 ms  statement: INSERT INTO sent VALUES ({session})"
                ));
            }
        }
    }
    let path = folder.join("a.log");
    std::fs::write(&path, log).unwrap();
    let workload = folder.join("a.workload").display().to_string();
    let captured = rehearse(&["capture", "log", path.to_str().unwrap(), "-o", &workload]);
    assert_eq!(captured.status.code(), Some(0), "{}", said(&captured));
    workload
}

#[test]
fn calibration_reports_the_demand_and_sends_the_target_no_statement() {
    let (_sandbox, target) = server().start();
    let mut client = connect(&target);
    client.batch_execute("CREATE TABLE sent (n int)").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let workload = capture_log(folder.path());
    let url = target.url("postgres");
    let calibrated = |more: &[&str]| {
        let arguments = [
            &["replay", &workload, "--target", &url, "--calibrate"],
            more,
        ]
        .concat();
        let output = rehearse(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let report: Value = serde_json::from_str(&calibrated(&["--json"])).unwrap();
    assert_eq!(report["schema"], "rehearse/calibrate/1");
    let demand = &report["demand"];
    for (name, expected) in [
        ("statements", 50 * SESSIONS),
        ("sessions", SESSIONS),
        ("sessions_at_once", SESSIONS),
        ("statements_in_1s", 20 * SESSIONS),
        ("statements_in_100ms", 2 * SESSIONS),
    ] {
        assert_eq!(demand[name], expected, "{name}: {report}");
    }
    assert_eq!(report["workers"], 1, "{report}");
    assert_eq!(report["needs"]["connections"], SESSIONS);
    let max = client.query_one("SHOW max_connections", &[]).unwrap();
    let max: u64 = max.get::<_, String>(0).parse().unwrap();
    assert_eq!(report["target"]["max_connections"], max);
    if cfg!(target_os = "linux") {
        for measured in ["paced", "full_speed"] {
            assert!(
                report[measured]["statements"].as_u64() >= Some(50),
                "{report}"
            );
        }
        let cpu = &report["needs"]["cpu_seconds"];
        let of = |name: &str| cpu[name].as_f64().unwrap();
        assert!(0.0 < of("low") && of("low") < of("expected"), "{report}");
        assert!(of("expected") < of("high"), "{report}");
    }

    // Twice the speed has twice the rate; shared connections are fewer.
    let text = calibrated(&[
        "--speed",
        "2",
        "--max-connections",
        "7",
        "--order",
        "session",
    ]);
    let row = |name: &str, value: u64| {
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        let row = row.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(
            row.contains(&format!(" {value} ")),
            "{name} {value}: {text}"
        );
    };
    // Statements began 0.1 ms before their lines, so that the first tenth of the 20 is in the slot before.
    row("peak rate", 29 * SESSIONS);
    row("connections", 7);
    assert!(text.contains("One machine is enough."), "{text}");

    let sent = client.query_one("SELECT count(*) FROM sent", &[]).unwrap();
    assert_eq!(sent.get::<_, i64>(0), 0);
}

#[test]
fn calibration_with_few_open_files_names_the_limit_and_the_machines() {
    let (_sandbox, target) = server().start();
    let folder = tempfile::tempdir().unwrap();
    let workload = capture_log(folder.path());
    let calibrated = |order: &str| {
        let command = format!(
            "ulimit -n 148 && exec {} replay {workload} --target '{}' --calibrate --order {order}",
            env!("CARGO_BIN_EXE_rehearse"),
            target.url("postgres")
        );
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = calibrated("session");
    for part in [
        "30 connections at once need 158 open files, and this process may open 148",
        "ulimit -n 158",
        "--max-connections 20",
        "2 machines like this one are needed.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // With this order, several workers are refused.
    let text = calibrated("commit");
    for part in [
        "the sessions cannot be divided among 2 machines",
        "give --order session",
        "Not as it is: 2 machines like this one are needed, and the sessions cannot be divided",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn calibration_refuses_options_that_need_statements_to_be_sent() {
    let output = rehearse(&[
        "replay",
        "a.workload",
        "--target",
        "host=nowhere",
        "--calibrate",
        "--profile",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--calibrate"), "{}", said(&output));
}

/// Returns the last line of a calibration.
fn verdict(arguments: &[&str]) -> String {
    let output = rehearse(&[&["replay"], arguments, &["--calibrate"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().to_owned()
}

#[test]
fn calibration_of_a_target_with_too_few_connections_does_not_call_one_machine_enough() {
    let (_sandbox, target) = server().settings(&[("max_connections", "20")]).start();
    let folder = tempfile::tempdir().unwrap();
    let workload = capture_log(folder.path());
    let url = target.url("postgres");
    assert_eq!(
        verdict(&[&workload, "--target", &url]),
        "Not as it is: the target allows too few connections. One machine can send this replay."
    );
    // Nothing listens there.
    let unknown = verdict(&[
        &workload,
        "--target",
        "postgres://postgres@127.0.0.1:1/postgres",
    ]);
    assert!(
        unknown.starts_with("One machine is enough, as far as known: "),
        "{unknown}"
    );
    assert!(unknown.contains("max_connections is unknown"), "{unknown}");
}

/// A calibration counts what a dry run would send.
#[test]
fn calibration_of_a_read_only_replay_leaves_out_what_is_not_sent() {
    let (_sandbox, target) = server().start();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    let lines: String = (0..100)
        .map(|at| {
            let sql = ["SELECT 1", "CALL p()", "COPY t FROM STDIN", "SELECT 2"][at % 4];
            let (second, millisecond) = (at / 20, at % 20 * 50);
            format!(
                "2026-03-01 09:00:0{second}.{millisecond:03} UTC [100] postgres@postgres LOG:  duration: 0.100 ms  statement: {sql}\n"
            )
        })
        .collect();
    std::fs::write(&log, lines).unwrap();
    let workload = folder.path().join("a.workload").display().to_string();
    let captured = rehearse(&["capture", "log", log.to_str().unwrap(), "-o", &workload]);
    assert!(captured.status.success(), "{}", said(&captured));
    let url = target.url("postgres");
    let read = |more: &str| -> Value {
        let output = rehearse(&[
            "replay",
            &workload,
            "--target",
            &url,
            "--read-only",
            more,
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (calibrated, dry) = (read("--calibrate"), read("--dry-run"));
    let demand = &calibrated["demand"];
    assert_eq!(demand["statements"], 50);
    assert_eq!(demand["statements"], dry["sent"]);
    assert_eq!(demand["not_sent"], dry["skipped"]);
    assert_eq!(demand["not_sent"]["read_only"], 25);
}

/// A kill leaves the run of the measurement.
#[test]
#[cfg(target_os = "linux")]
fn calibration_of_an_encrypted_workload_leaves_nothing_plain_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture_log(folder.path());
    let key = rehearse(&["key", &path("key")]);
    let public = String::from_utf8(key.stdout).unwrap();
    let (log, sealed) = (path("a.log"), path("sealed.workload"));
    let captured = rehearse(&[
        "capture",
        "log",
        &log,
        "-o",
        &sealed,
        "--encrypt",
        public.trim(),
    ]);
    assert!(captured.status.success(), "{}", said(&captured));
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args([
            "replay",
            &sealed,
            "--target",
            "postgres://postgres@127.0.0.1:1/postgres",
            "--calibrate",
        ])
        .env("TMPDIR", &scratch)
        .env("REHEARSE_KEY_FILE", path("key"))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let files = || -> Vec<std::path::PathBuf> {
        let runs = std::fs::read_dir(&scratch).unwrap().flatten();
        let runs = runs.map(|entry| entry.path().join("measured.run.partial"));
        let files = runs
            .filter_map(|run| std::fs::read_dir(run).ok())
            .flatten()
            .flatten();
        let files = files.map(|entry| entry.path());
        files
            .filter(|file| file.to_string_lossy().contains(".parquet"))
            .collect()
    };
    let is_written = |file: &std::path::PathBuf| file.metadata().is_ok_and(|of| of.len() > 0);
    while !files().iter().any(is_written) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended without a measurement"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut checked = 0;
    for file in files() {
        let content = std::fs::read(&file).unwrap();
        if !content.is_empty() {
            assert!(
                content.starts_with(b"age-encryption.org/"),
                "{} is plain",
                file.display()
            );
            checked += 1;
        }
    }
    assert!(checked > 0);
}
