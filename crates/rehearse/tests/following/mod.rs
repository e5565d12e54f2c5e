//! `rehearse compare --follow` of a synthetic run that is being written, whose differences are known.

mod shadow;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use run::{Execution, LostConnection, Outcome, RunInfo, RunStatus, RunWriter};
use serde_json::Value;
use sql::Fingerprint;
use workload::Sqlstate;

use crate::made_up::{Chance, done, info, text};

/// Captures a log of one statement, for a workload that a run can refer to.
fn workload(directory: &Path) -> PathBuf {
    let log = directory.join("small.log");
    let line = "2026-03-01 09:00:00.000 UTC [100] LOG:  duration: 1.0 ms  statement: SELECT 1\n";
    std::fs::write(&log, line).unwrap();
    let workload = directory.join("shop.workload");
    let status = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(["capture", "log", "--prefix", "%m [%p] ", "-o"])
        .args([&workload, &log])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(workload.exists(), "{status}");
    workload
}

/// A run that the test writes.
struct Room {
    directory: tempfile::TempDir,
    workload: PathBuf,
    run: PathBuf,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workload = workload(directory.path());
        let run = directory.path().join("shadow.run");
        Room {
            directory,
            workload,
            run,
        }
    }

    fn info(&self) -> RunInfo {
        let mut info = info();
        let reader = workload::WorkloadReader::open(&self.workload).unwrap();
        info.workload.id = reader.id().to_owned();
        info
    }

    fn begin_run(&self) -> (RunWriter, RunInfo) {
        let info = self.info();
        let texts = (1..=3).map(|id| Ok(text(id, &format!("select {id} from t"))));
        (RunWriter::create(&self.run, &info, texts).unwrap(), info)
    }

    fn follow(&self, options: &[&str]) -> Follower {
        Follower::start([&self.workload, &self.run], options)
    }
}

/// `compare --follow` that runs.
struct Follower {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Follower {
    fn start(paths: [&PathBuf; 2], options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .arg("compare")
            .args(paths)
            .arg("--follow")
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Follower { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self.lines.read_line(&mut line).unwrap();
        if length == 0 {
            let mut complaint = String::new();
            let stderr = self.child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut complaint).unwrap();
            panic!("it ended: {complaint}");
        }
        line
    }

    fn event(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Waits for the end. Returns the exit code, the rest of standard output, and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut rest, mut complaint) = (String::new(), String::new());
        self.lines.read_to_string(&mut rest).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut complaint).unwrap();
        (self.child.wait().unwrap().code(), rest, complaint)
    }
}

/// Returns the executions of a minute, a hundred for each second, captured at 700 µs. The second of three statements is
/// slowed by `factor`.
fn minute(number: i64, factor: f64) -> Vec<Execution> {
    let mut chance = Chance::new(number.unsigned_abs());
    (0..6_000)
        .map(|at| {
            let statement = at % 3;
            let factor = if statement == 1 { factor } else { 1.0 };
            let at_ns = number * 60_000_000_000 + at * 10_000_000;
            let service_ns = 700_000.0 * factor * chance.skewed();
            let id = statement.unsigned_abs() + 1;
            done(id, at.unsigned_abs(), at_ns, service_ns)
        })
        .collect()
}

fn write_minute(writer: &mut RunWriter, number: i64, factor: f64) {
    for execution in minute(number, factor) {
        writer.execution(&execution).unwrap();
    }
    writer.flush().unwrap();
}

/// The statement that becomes slower is named while the run is being written, and no other.
#[test]
fn compare_follow_of_a_growing_run_names_the_slower_statement_before_its_end() {
    let room = Room::new();
    let (mut writer, info) = room.begin_run();
    write_minute(&mut writer, 0, 1.0);
    let page = room.directory.path().join("shadow.html");
    let options = [
        "--json",
        "--window",
        "2s",
        "--allowance",
        "0s",
        "--fail-on",
        "slower",
        "--interval",
        "1h",
        "--html",
        page.to_str().unwrap(),
    ];
    let mut follower = room.follow(&options);
    let progress = follower.event();
    assert_eq!(progress["event"], "progress");
    assert_eq!(progress["result"]["state"], "in_progress");
    assert_eq!(progress["result"]["report"]["windows"], 29);
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("No difference is proven.")
    );
    (1..=2).for_each(|number| write_minute(&mut writer, number, 1.5));
    let verdict = follower.event();
    assert_eq!(verdict["event"], "verdict");
    let change = &verdict["change"];
    assert_eq!(change["measure"], "slower");
    assert_eq!(change["statement"]["sql"], "select 2 from t");
    assert_eq!(change["since_ns"], 60_000_000_000_i64);
    writer.finish(info, 0).unwrap();
    let (code, rest, complaint) = follower.end();
    assert_eq!(code, Some(1), "{complaint}");
    let end: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(end["event"], "end");
    assert_eq!(end["result"]["state"], "complete");
    assert_eq!(end["result"]["report"]["replayed"], 18_000);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("1 statement differs.") && !page.contains("http-equiv=\"refresh\""));
}

/// `replay --follow` waits for the first part of a series, and its user starts both.
#[test]
fn compare_follow_before_the_replay_has_begun_waits_for_it() {
    let room = Room::new();
    let mut follower = room.follow(&["--window", "2s"]);
    let mut errors = BufReader::new(follower.child.stderr.take().unwrap());
    let mut sentence = String::new();
    errors.read_line(&mut sentence).unwrap();
    assert!(
        sentence.contains("no replay has begun to write it"),
        "{sentence}"
    );
    let (mut writer, info) = room.begin_run();
    write_minute(&mut writer, 0, 1.0);
    writer.finish(info, 0).unwrap();
    let mut result = String::new();
    follower.lines.read_to_string(&mut result).unwrap();
    assert!(result.starts_with("No difference is proven."), "{result}");
    assert_eq!(follower.child.wait().unwrap().code(), Some(0));
    // Without a replay, it ends with its duration.
    let other = room.directory.path().join("other.run");
    let follower = Follower::start([&room.workload, &other], &["--duration", "1s"]);
    let (code, _, complaint) = follower.end();
    assert_eq!(code, Some(3));
    assert!(complaint.contains("nothing was compared"), "{complaint}");
}

/// A and A: neither a line nor a finding, and Prometheus reads it.
#[test]
fn compare_follow_of_equal_sides_is_silent() {
    let room = Room::new();
    let (mut writer, info) = room.begin_run();
    write_minute(&mut writer, 0, 1.0);
    // A restart of the candidate: nothing of it is a difference.
    for (number, mut execution) in minute(1, 1.0).into_iter().enumerate() {
        if number < 400 {
            execution.outcome = Outcome::Failed(workload::Sqlstate(*b"57P01"));
        }
        writer.execution(&execution).unwrap();
    }
    (2..=4).for_each(|number| write_minute(&mut writer, number, 1.0));
    let options = [
        "--window",
        "2s",
        "--allowance",
        "0s",
        "--fail-on",
        "regression",
        "--metrics",
        "0",
        "--interval",
        "100ms",
    ];
    let mut follower = room.follow(&options);
    let mut stderr = BufReader::new(follower.child.stderr.take().unwrap());
    let mut listens = String::new();
    stderr.read_line(&mut listens).unwrap();
    let address = listens.split("http://").nth(1).unwrap();
    let address = address.split("/metrics").next().unwrap();
    let metrics = loop {
        let metrics = get_metrics(address);
        if metrics.contains("rehearse_shadow_windows_total{result=\"compared\"}") {
            break metrics;
        }
    };
    assert!(metrics.contains("rehearse_shadow_running 1"), "{metrics}");
    assert!(metrics.contains("rehearse_shadow_statements_differing{measure=\"slower\"} 0"));
    writer.finish(info, 0).unwrap();
    follower.child.stderr = None;
    let mut text = String::new();
    follower.lines.read_to_string(&mut text).unwrap();
    assert_eq!(follower.child.wait().unwrap().code(), Some(0), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.starts_with("No difference is proven. shop.workload"),
        "{text}"
    );
    assert!(
        text.contains("with lost or refused connections, 3 after these"),
        "{text}"
    );
    assert!(text.contains("400 connection_lost"), "{text}");
}

/// The candidate is restarted every 12 s, so that only two of six windows are compared.
#[test]
fn compare_follow_of_mostly_excluded_windows_is_inconclusive_with_fail_on_only() {
    let room = Room::new();
    let (mut writer, info) = room.begin_run();
    for (number, execution) in (0..2).flat_map(|number| minute(number, 1.0)).enumerate() {
        if number % 1_200 == 0 {
            for session in 1..=4 {
                let lost = LostConnection {
                    at_ns: execution.done_ns.unwrap(),
                    session,
                    sqlstate: Sqlstate(*b"57P01"),
                    connections_open: 4,
                };
                writer.lost_connection(&lost).unwrap();
            }
        }
        writer.execution(&execution).unwrap();
    }
    writer.finish(info, 0).unwrap();
    let options = ["--window", "2s", "--allowance", "0s"];
    let (code, text, complaint) = room.follow(&options).end();
    assert_eq!(code, Some(0), "{text}{complaint}");
    assert!(text.contains("20 compared"), "{text}");
    let options = [&options[..], &["--fail-on", "regression"]].concat();
    let (code, _, complaint) = room.follow(&options).end();
    assert_eq!(code, Some(4), "{complaint}");
    assert!(complaint.contains("inconclusive"), "{complaint}");
}

fn get_metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn compare_follow_of_a_killed_replay_ends_with_its_last_checkpoint() {
    let room = Room::new();
    let (mut writer, _) = room.begin_run();
    write_minute(&mut writer, 0, 1.0);
    drop(writer);
    let (code, text, complaint) = room.follow(&["--window", "2s"]).end();
    assert_eq!(code, Some(3), "{complaint}");
    assert!(text.contains("30 compared"), "{text}");
    assert!(complaint.contains("rehearse recover"), "{complaint}");
}

#[test]
fn compare_follow_refuses_what_it_cannot_compare() {
    let room = Room::new();
    let other = tempfile::tempdir().unwrap();
    let (writer, mut info) = room.begin_run();
    drop(writer);
    info.workload.id = "another".to_owned();
    let path = other.path().join("other.run");
    let texts = std::iter::once(Ok(text(1, "select 1")));
    RunWriter::create(&path, &info, texts)
        .unwrap()
        .finish(info, 0)
        .unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .arg("compare")
            .arg(&room.workload)
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let path = path.to_str().unwrap();
    assert!(run(&[path, "--follow"]).contains("is a run of shop.workload, not of"));
    let refused = run(&[path, "--follow", "--fail-on", "p99 > 2x"]);
    assert!(
        refused.contains("is no condition of a comparison with --follow"),
        "{refused}"
    );
    assert!(run(&[path, "--follow", "--margin", "5"]).contains("--margin has no effect"));
    assert!(run(&[path, "--metrics", "0"]).contains("--metrics has no effect"));
    assert!(run(&[path, "--follow", "--tolerance", "5000"]).contains("makes no sense"));
}

/// Returns standard output with single spaces, and the last JSON line, of a comparison with a complete run.
fn follow_to_end(room: &Room) -> (String, Value) {
    let (code, text, complaint) = room.follow(&["--window", "2s"]).end();
    assert_eq!(code, Some(0), "{complaint}");
    let (_, lines, _) = room.follow(&["--window", "2s", "--json"]).end();
    let end = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    (text.split_whitespace().collect::<Vec<_>>().join(" "), end)
}

#[test]
fn compare_follow_of_a_stopped_or_recovered_replay_reports_up_to_when_it_holds() {
    let stopped = Room::new();
    let (mut writer, mut info) = stopped.begin_run();
    let until = clock::utc_text(info.started_wall_us + 59_990_000);
    write_minute(&mut writer, 0, 1.0);
    info.status = RunStatus::Stopped;
    writer.finish(info, 1_234).unwrap();
    let (text, end) = follow_to_end(&stopped);
    let expected = format!(
        "The replay was stopped: the result holds up to {until}, and says nothing about later statements. The run lacks 1,234 statements after it."
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(end["result"]["state"], "replay_stopped");
    assert_eq!(end["result"]["unreached"], 1_234);

    let killed = Room::new();
    let (mut writer, _) = killed.begin_run();
    write_minute(&mut writer, 0, 1.0);
    drop(writer);
    let recovered = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("recover")
        .arg(archive::partial_path(&killed.run))
        .output()
        .unwrap();
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    let (text, end) = follow_to_end(&killed);
    let expected = format!(
        "The replay was killed, and its run recovered up to the last checkpoint: the result holds up to {until}"
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(end["result"]["state"], "recovered");
}

#[test]
fn compare_follow_reports_a_gap_of_the_series_when_the_replay_comes_to_it() {
    let room = Room::new();
    let (_, info) = room.begin_run();
    std::fs::remove_dir_all(archive::partial_path(&room.run)).unwrap();
    let texts = (1..=3).map(|id| Ok(text(id, &format!("select {id} from t"))));
    let mut writer = RunWriter::create_growing(&room.run, &info, texts).unwrap();
    write_minute(&mut writer, 0, 1.0);
    let page = room.directory.path().join("shadow.html");
    let options = ["--json", "--interval", "100ms", "--html"];
    let mut follower = room.follow(&[&options[..], &[page.to_str().unwrap()]].concat());
    assert_eq!(follower.event()["event"], "progress");
    let gap = run::SeriesGap {
        from_us: 1_772_355_600_000_000,
        to_us: 1_772_355_660_000_000,
        reason: "nothing was captured then (the capture was stopped)".to_owned(),
    };
    writer.series_gaps([gap.clone()]).unwrap();
    let mut events = std::iter::repeat_with(|| follower.event());
    let reported = events.find(|event| event["event"] != "progress").unwrap();
    assert_eq!(reported["event"], "series_gap");
    assert_eq!(reported["gap"], serde_json::to_value(&gap).unwrap());
    assert_eq!(
        events.next().unwrap()["result"]["series_gaps"][0]["from_us"],
        gap.from_us
    );
    let shown = std::fs::read_to_string(&page).unwrap();
    let sentence =
        "Gap from 2026-03-01 09:00:00 UTC to 2026-03-01 09:01:00 UTC: nothing was captured then";
    assert!(shown.contains(sentence), "{shown}");
    writer.finish(info, 0).unwrap();
    assert_eq!(follower.end().0, Some(0));
    let (text, _) = follow_to_end(&room);
    assert!(text.starts_with(sentence), "{text}");
    assert!(text.contains("The series has 1 gap, the last:"), "{text}");
}

#[test]
fn compare_follow_of_a_read_only_replay_reports_refused_writes_as_not_compared() {
    let follow = |option: Option<&str>| {
        let room = Room::new();
        let mut info = room.info();
        if let Some(option) = option {
            info.options.insert(option.to_owned(), "true".to_owned());
        }
        let texts = (1..=3).map(|id| Ok(text(id, &format!("select {id} from t"))));
        let mut writer = RunWriter::create(&room.run, &info, texts).unwrap();
        for mut execution in minute(0, 1.0) {
            let code = match execution.fingerprint {
                Some(Fingerprint(2)) => Some(b"25006"),
                Some(Fingerprint(3)) => Some(b"25P02"),
                _ => None,
            };
            if let Some(code) = code {
                execution.outcome = Outcome::Failed(Sqlstate(*code));
            }
            execution.session = 1;
            writer.execution(&execution).unwrap();
        }
        writer.finish(info, 0).unwrap();
        let (code, text, complaint) = room
            .follow(&["--window", "2s", "--fail-on", "regression"])
            .end();
        assert_eq!(complaint, "");
        (code, text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (code, text) = follow(Some("read_only"));
    assert_eq!(code, Some(0), "{text}");
    let expected = "4,000 of them failed only because of --read-only, and are not compared.";
    assert!(text.contains(expected), "{text}");
    assert_eq!(follow(None).0, Some(1));
}
