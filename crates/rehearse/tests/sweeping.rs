//! Sweeps through the command line: a real one that is killed and resumed, and refusals. Modules
//! test proofs, index advice, the lab and the MCP server.

mod advising;
mod case;
#[allow(dead_code)]
#[path = "../../report/tests/pages/chromium.rs"]
mod chromium;
mod killed_sweep;
mod lab;
mod mcp;
mod proving;
#[allow(dead_code)]
#[path = "../../report/tests/pages/tab.rs"]
mod tab;
mod webhook_receiver;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time after which a waiting test fails. It is not an expected duration.
const PATIENCE: Duration = Duration::from_secs(120);

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"] {
        command.env_remove(variable);
    }
    command
}

fn rehearse(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Checks that a page is readable and whole in wide and narrow windows. Without a browser, it is not checked.
fn assert_page_fits(name: &str, html: &str) {
    let Some(mut tab) = tab::Tab::open(html) else {
        return;
    };
    for (window, width, scheme) in [
        ("light", 1_280, "light"),
        ("dark", 1_280, "dark"),
        ("narrow", 390, "light"),
    ] {
        tab.size(width, 844);
        tab.colours(scheme);
        tab.assert_no_sideways_scrolling();
        tab.assert_readable();
        tab.picture(&format!("{name}-{window}"), true);
    }
}

fn trials(sweep: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(sweep.join("trials"))
        .into_iter()
        .flatten()
        .flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|one| one == "json"))
        .map(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap();
            (file.file_name().into_string().unwrap(), text)
        })
        .collect()
}

/// Returns a major version available to the tests, preferably that of the machine.
fn major() -> String {
    let places = sandbox::Dirs::from_environment().unwrap();
    let wanted = sandbox::ServerRequirements {
        major: None,
        dir: None,
        origin: sandbox::Origin::Any,
    };
    let found = sandbox::find(&wanted, &places, &mut |_| ()).unwrap();
    found.major.to_string()
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sweep = directory.path().join("a.sweep");
    let name = sweep.display().to_string();
    let major = major();
    let given = sweep_of_a_script(&major, &name);
    let before = kill_after_three_trials(&given, &sweep);
    assert_resuming_with_other_options_is_refused(&given);

    let done = rehearse(&[&given[..], &["--resume", "--json"]].concat());
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_only_missing_trials_were_run(&sweep, &before);
    let view = proving::validated_as("sweep", &done);
    assert_all_trials_are_done(&view);
    assert_each_client_count_is_measured_in_each_mode(&view);
    for trial in view["trials"].as_array().unwrap() {
        assert_trial_adds_up(trial);
    }
    assert_order_is_kept(&sweep, &view);
    assert_sweep_is_shown_without_a_server(&sweep);
}

/// Returns the arguments for a sweep of eight trials.
fn sweep_of_a_script<'a>(major: &'a str, name: &'a str) -> [&'a str; 19] {
    [
        "sweep",
        "--script",
        "simple-update",
        "--postgres-version",
        major,
        "--clients",
        "1,2",
        "--mode",
        "simple,prepared",
        "--set",
        "synchronous_commit=off",
        "--trials",
        "2",
        "--time",
        "700ms",
        "--warm-up",
        "200ms",
        "-o",
        name,
    ]
}

/// Kills a sweep once it has three trials. Returns its trials.
fn kill_after_three_trials(given: &[&str], sweep: &Path) -> BTreeMap<String, String> {
    let mut child = command(given)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while trials(sweep).len() < 3 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it is over before it was killed"
        );
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let trials = trials(sweep);
    assert!(trials.len() < 8);
    trials
}

/// Checks that other options are another sweep.
fn assert_resuming_with_other_options_is_refused(given: &[&str]) {
    let other: Vec<&str> = given
        .iter()
        .map(|one| if *one == "700ms" { "1s" } else { one })
        .collect();
    let refused = rehearse(&[&other[..], &["--resume"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("was begun with other options (--time)"),
        "{said}"
    );
}

fn assert_only_missing_trials_were_run(sweep: &Path, before: &BTreeMap<String, String>) {
    let after = trials(sweep);
    assert_eq!(after.len(), 8);
    for (file, text) in before {
        assert_eq!(&after[file], text, "{file} was done again");
    }
}

fn assert_all_trials_are_done(view: &Value) {
    assert_eq!(
        (&view["trials_done"], &view["trials_planned"]),
        (&8.into(), &8.into())
    );
    assert_eq!(view["not_done"].as_array().unwrap().len(), 0);
    assert_eq!(view["unit"], "transactions");
}

fn assert_each_client_count_is_measured_in_each_mode(view: &Value) {
    let curves = view["curves"].as_array().unwrap();
    let names: Vec<&str> = curves
        .iter()
        .map(|curve| curve["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["simple", "prepared"]);
    for curve in curves {
        let points = curve["points"].as_array().unwrap();
        assert_eq!(points.len(), 2);
        for point in points {
            assert_point_is_measured(point);
        }
    }
}

fn assert_point_is_measured(point: &Value) {
    assert_eq!(point["trials"], 2);
    assert_eq!(point["failed"], 0);
    assert!(point["per_s"]["centre"].as_f64().unwrap() > 0.0);
    assert!(
        point["per_s"]["interval"][0].as_f64().unwrap()
            <= point["per_s"]["centre"].as_f64().unwrap()
    );
    for cpu in ["server_cpu_us", "client_cpu_us"] {
        assert!(point[cpu]["centre"].as_f64().unwrap() > 0.0, "{point}");
    }
}

/// Checks the counts of statements, clients and seconds against the transactions.
fn assert_trial_adds_up(trial: &Value) {
    let numbers = &trial["numbers"];
    // Five statements a transaction, but for those that the window cuts.
    let (statements, done) = (
        numbers["statements"].as_u64().unwrap(),
        numbers["transactions"].as_u64().unwrap(),
    );
    assert!(done > 0 && statements.abs_diff(5 * done) <= 10, "{numbers}");
    let clients = trial["trial"]["cell"]["clients"].as_f64().unwrap();
    assert!(
        numbers["busy"].as_f64().unwrap() <= clients + 0.01,
        "{numbers}"
    );
    let seconds: u64 = numbers["each_second"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(seconds, done);
}

/// Checks that the seed of the order, another one in each repetition, is kept.
fn assert_order_is_kept(sweep: &Path, view: &Value) {
    let manifest = std::fs::read_to_string(sweep.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["design"]["seed"], view["seed"]);
}

fn assert_sweep_is_shown_without_a_server(sweep: &Path) {
    let shown = rehearse(&["sweep", &sweep.display().to_string()]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("8 of 8 trials, 2 of each combination"),
        "{text}"
    );
    let page = std::fs::read_to_string(sweep.join("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Throughput"));
}

#[test]
fn a_workload_is_dealt_to_clients_within_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let log: String = (0..40)
        .map(|line| {
            let session = 100 + line % 4;
            format!(
                "2026-03-01 09:00:{:02}.000 UTC [{session}] LOG:  statement: SELECT {line}\n",
                line
            )
        })
        .collect();
    let workload = proving::captured(&at, &log);
    let (output, major) = (at("b.sweep"), major());
    let given = [
        "sweep",
        &workload,
        "--postgres-version",
        &major,
        "--load",
        "true",
        "--as-user",
        "postgres",
        "--as-database",
        "postgres",
        "--clients",
        "3",
        "--set",
        "work_mem=1MB,2MB",
        "--trials",
        "2",
        "--time",
        "300ms",
        "--warm-up",
        "100ms",
        "-o",
        &output,
        "--json",
    ];
    // Time for the first trial only.
    let swept = rehearse(&[&given[..], &["--time-budget", "1ms"]].concat());
    assert_eq!(swept.status.code(), Some(0), "{swept:?}");
    let view: Value = serde_json::from_slice(&swept.stdout).unwrap();
    assert_eq!(view["trials_done"], 1);
    assert_eq!(view["not_done"].as_array().unwrap().len(), 3);
    assert_eq!(
        view["why_not_done"],
        "the time that it was given (--time-budget) was over"
    );
    let numbers = &view["trials"][0]["numbers"];
    // More than the workload has: it begins again.
    assert!(numbers["statements"].as_u64().unwrap() > 40, "{numbers}");
    assert_eq!(numbers["skipped"], serde_json::json!({}));
    let missing = numbers["missing"]["plans"].as_str().unwrap();
    assert!(missing.contains("pg_stat_statements"), "{missing}");
}

#[test]
fn what_makes_no_sense_is_said_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("a.sweep").display().to_string();
    let refused = |arguments: &[&str], sentence: &str| {
        let given = [&["sweep", "-o", &output], arguments].concat();
        let said = rehearse(&given);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(text.contains(sentence), "{text}");
    };
    refused(&[], "nothing says what clients do");
    refused(&["--script", "select-only"], "nothing says where");
    refused(
        &[
            "--script",
            "select-only",
            "--mode",
            "captured",
            "--postgres-version",
            "17",
        ],
        "a script was not captured",
    );
    refused(
        &[
            "--script",
            "select-only",
            "--clients",
            "1,1",
            "--postgres-version",
            "17",
        ],
        "a level is named twice",
    );
    refused(
        &["--script", "select", "--postgres-version", "17"],
        "is no built-in script",
    );
    refused(
        &[
            "--script",
            "select-only",
            "--set",
            "work_mem",
            "--postgres-version",
            "17",
        ],
        "is no setting",
    );
    refused(
        &["x.workload", "--rate", "5", "--postgres-version", "17"],
        "--rate is for scripts",
    );
    // A refused sweep leaves no files.
    let at = |name: &str| directory.path().join(name).display().to_string();
    let log = "2026-03-01 09:00:00.000 UTC [1] LOG:  statement: INSERT INTO t VALUES (1)\n";
    let workload = proving::captured(&at, log);
    let target = "postgres://nobody@127.0.0.1:1/nothing";
    refused(
        &[&workload, "--target", target],
        "nothing says how the target's data are restored",
    );
    refused(&[&workload, "--postgres-version", "17"], "--load");
    assert!(!Path::new(&output).exists());
}
