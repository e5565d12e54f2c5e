//! Captures the logs of real servers of five versions under many mixtures of logging settings.
//!
//! An independent client library records what it sends and when, and a capture of each log must
//! find exactly that. [`expected`] derives from the settings what a mixture keeps the server
//! from writing, with the reasons.
//!
//! Each version has one server. Each mixture changes the settings, starts new log files, and
//! runs several sessions concurrently, so that their lines interleave. At the end, each log is
//! captured in each format of the version.

mod comparing;
mod expected;
mod mixture;
mod script;
mod sent;
mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capture_log::{Input, LogFormat, LogOptions, SkipReason, capture};
use capture_sink::EventCollector;
use comparing::{Session, compare};
use mixture::Mixture;
use postgres::{Client, NoTls};
use sandbox::{Endpoint, Stop};
use sent::Driver;
use test_support::ServerBuilder;

/// Sessions that send [`script::ordinary`] concurrently.
const ORDINARY: i32 = 3;

/// Longest time for a server to react.
const PATIENCE: Duration = Duration::from_secs(30);

fn server(major: u16) -> ServerBuilder {
    let destinations = match major {
        13..15 => "stderr,csvlog",
        _ => "stderr,csvlog,jsonlog",
    };
    let settings = [
        ("logging_collector", "on"),
        ("log_destination", destinations),
        ("log_directory", "log"),
        ("log_filename", "before.log"),
        ("log_rotation_size", "0"),
        ("log_timezone", "UTC"),
        ("timezone", "UTC"),
        ("max_connections", "30"),
        ("fsync", "off"),
    ];
    test_support::server().major(major).settings(&settings)
}

fn connect(endpoint: &Endpoint, application: &str) -> Client {
    let mut config: postgres::Config = endpoint.url("postgres").parse().unwrap();
    config.application_name(application).connect(NoTls).unwrap()
}

/// Session that logs only its connection and disconnection.
fn control(endpoint: &Endpoint) -> Client {
    let mut client = connect(endpoint, "control");
    client
        .batch_execute(
            "SET log_statement = none; SET log_min_duration_statement = -1; SET log_duration = off;
             SET log_min_duration_sample = -1; SET log_transaction_sample_rate = 0",
        )
        .unwrap();
    client
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Applies a mixture to the server, with new log files.
fn set(endpoint: &Endpoint, mixture: &Mixture, logs: &Path) {
    // What a server says of a new prefix has the new one and stands where the log was before: in
    // a file between two mixtures.
    let between = ("log_filename", format!("before_{}.log", mixture.name));
    let prefix = ("log_line_prefix", mixture.prefix.to_owned());
    let mut rest = mixture.settings();
    rest.push(("log_filename", format!("{}.log", mixture.name)));
    for settings in [vec![between], vec![prefix], rest] {
        change(endpoint, &settings, logs);
    }
    control(endpoint).batch_execute(script::EMPTIED).unwrap();
}

/// Changes settings, and waits until the server uses the last of them.
fn change(endpoint: &Endpoint, settings: &[(&str, String)], logs: &Path) {
    let mut client = control(endpoint);
    for (name, value) in settings {
        let value = value.replace('\'', "''");
        client
            .batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'"))
            .unwrap();
    }
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    let (name, value) = settings.last().unwrap();
    if *name == "log_filename" {
        until("the log's new file", || logs.join(value).exists());
    }
    // New sessions have the settings of the postmaster, which reads them in its own time.
    until("the new settings", || {
        let mut client = control(endpoint);
        let row = client.query_one(&format!("SHOW {name}"), &[]).unwrap();
        row.get::<_, String>(0) == *value
    });
}

/// Runs all sessions of a mixture concurrently.
fn drive(endpoint: &Endpoint) -> Vec<Session> {
    let run = |application: String, script: &dyn Fn(&mut Driver), terminated: bool| {
        let mut driver = Driver::new(connect(endpoint, &application));
        script(&mut driver);
        let Driver { client, sent, .. } = driver;
        // A session that the server ended cannot be closed.
        let closed = client.close();
        assert!(closed.is_ok() || terminated, "{closed:?}");
        Session {
            application,
            sent,
            terminated,
        }
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..ORDINARY {
            threads.push(scope.spawn(move || {
                let script = |driver: &mut Driver| script::ordinary(driver, number);
                run(format!("ordinary {number}"), &script, false)
            }));
        }
        threads.push(scope.spawn(|| run("slow".to_owned(), &script::slow, false)));
        threads.push(scope.spawn(|| run("canceled".to_owned(), &script::canceled, false)));
        threads.push(scope.spawn(|| {
            let script = |driver: &mut Driver| script::stopped(driver, control(endpoint));
            run("stopped | it's".to_owned(), &script, true)
        }));
        let sessions = threads.into_iter();
        sessions.map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits until the log shows that the sessions of a mixture have ended, so that no line of it is
/// in the next one's log.
fn over(endpoint: &Endpoint, mixture: &Mixture, logs: &Path, sessions: usize) {
    if mixture.connections {
        let file = logs.join(format!("{}.log", mixture.name));
        until("the sessions' ends", || {
            let text = std::fs::read(&file).unwrap();
            let text = String::from_utf8_lossy(&text);
            let gone = text.matches("disconnection: session time: ").count();
            // Forged ones have this session's time.
            let forged = text.matches("session time: 0:00:00.005").count();
            gone >= sessions + forged
        });
    }
    let mut client = control(endpoint);
    until("the sessions to be gone", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1
    });
}

fn read(log: PathBuf, mixture: &Mixture, format: LogFormat) -> (EventCollector, String) {
    let name = format!("{} {}", mixture.name, format.name());
    let mut collected = EventCollector::default();
    let prefix = (format == LogFormat::Stderr && !mixture.recognised).then_some(mixture.prefix);
    let options = LogOptions {
        inputs: vec![Input::Path(log)],
        prefix: prefix.map(str::to_owned),
        ..LogOptions::default()
    };
    let report = capture(options, &mut collected).unwrap_or_else(|error| panic!("{name}: {error}"));
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{name}: {account:?}");
    assert_eq!(report.sources[0].file.format, format.name());
    let mut wrong = String::new();
    if account.unreadable.lines > 0 {
        wrong = format!("{name}: {:?}\n", account.unreadable);
    }
    let forged = account.skipped.get(&SkipReason::Forged);
    let forged = forged.map_or(0, |skipped| skipped.lines);
    let sent = script::FORGED * ORDINARY as u64;
    // A record of jsonlog is one line; others have more.
    if forged < sent || (format == LogFormat::Json && forged != sent) {
        wrong.push_str(&format!("{name}: {forged} forged lines of {sent}\n"));
    }
    (collected, wrong)
}

fn exactly_what_was_sent(major: u16) {
    let mut server = server(major).create();
    let endpoint = server.start().unwrap();
    let logs = server.data_dir().join("log");
    control(&endpoint).batch_execute(script::SCHEMA).unwrap();
    let mut driven = Vec::new();
    for mixture in &mixture::ALL {
        set(&endpoint, mixture, &logs);
        let sessions = drive(&endpoint);
        over(&endpoint, mixture, &logs, sessions.len());
        driven.push(sessions);
    }
    server.stop(Stop::Fast).unwrap();
    if let Some(kept) = std::env::var_os("REHEARSE_TEST_LOGS") {
        let kept = Path::new(&kept).join(major.to_string());
        std::fs::create_dir_all(&kept).unwrap();
        for entry in std::fs::read_dir(&logs).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
        }
    }
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (mixture, sessions) in mixture::ALL.iter().zip(&driven) {
        for (format, extension) in [
            (LogFormat::Stderr, "log"),
            (LogFormat::Csv, "csv"),
            (LogFormat::Json, "json"),
        ] {
            let file = logs.join(format!("{}.{extension}", mixture.name));
            if !file.exists() {
                assert!(
                    format == LogFormat::Json && major < 15,
                    "{}",
                    file.display()
                );
                continue;
            }
            let (collected, odd) = read(file, mixture, format);
            if !odd.is_empty() {
                wrong.push(odd);
            }
            for session in sessions {
                compare(&collected, session, mixture, format, &mut wrong);
                compared += session.sent.len();
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "PostgreSQL {major}: {} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn version_13_logs_exactly_what_was_sent() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    exactly_what_was_sent(13);
}

#[test]
fn version_15_logs_exactly_what_was_sent() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    exactly_what_was_sent(15);
}

#[test]
fn version_16_logs_exactly_what_was_sent() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    exactly_what_was_sent(16);
}

#[test]
fn version_17_logs_exactly_what_was_sent() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    exactly_what_was_sent(17);
}

#[test]
fn version_18_logs_exactly_what_was_sent() {
    exactly_what_was_sent(18);
}
