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
    let command = format!(
        "ulimit -n 148 && exec {} replay {workload} --target '{}' --calibrate",
        env!("CARGO_BIN_EXE_rehearse"),
        target.url("postgres")
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "30 connections at once need 158 open files, and this process may open 148",
        "ulimit -n 158",
        "--max-connections 20",
        "2 machines like this one are needed.",
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
