//! Faults during a replay, with real servers. The replay continues if it can, counts the losses, and ends.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::traffic::{Traffic, are_at_work, elapsed, server, statements};
use replay::{Options, Snapshot};
use run::{Execution, Outcome, RunStatus, SkipReason};
use sandbox::{Endpoint, Sandbox, Stop};
use test_support::connect;
use workload::{EventKind, Sqlstate};

/// Injects no fault.
fn alone(_: &Snapshot) {}

fn failed(code: &[u8; 5]) -> Outcome {
    Outcome::Failed(Sqlstate(*code))
}

fn outcomes(executions: &[Execution]) -> Vec<Outcome> {
    let statements = statements(executions).into_iter();
    statements.map(|execution| execution.outcome).collect()
}

const END_OWN: &str = "SELECT pg_terminate_backend(pg_backend_pid())";

#[test]
fn reopened_connection_has_the_state_of_its_session() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE seen (what text)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    let before = [
        "SET application_name = 'one'; SET search_path = pg_catalog, public",
        "BEGIN",
        "SET statement_timeout = '7s'",
        "COMMIT",
        "BEGIN",
        "SET lock_timeout = '9s'",
        "ROLLBACK",
        "PREPARE plan AS SELECT 1",
        "LISTEN news",
        "SET LOCAL work_mem = '1MB'",
    ];
    for (sql, ms) in before.iter().zip(10..) {
        traffic.simple(ms, 1, sql);
    }
    traffic.execute(30, 1, "named", "SELECT $1::int", "1");
    traffic.simple(40, 1, END_OWN);
    traffic.execute(50, 1, "named", "SELECT $1::int", "2");
    traffic.simple(51, 1, "EXECUTE plan");
    traffic.simple(
        52,
        1,
        "INSERT INTO seen SELECT concat_ws(' ', current_setting('application_name'),
             current_setting('search_path'), current_setting('statement_timeout'),
             current_setting('lock_timeout'), (SELECT string_agg(c, ',') FROM pg_listening_channels() c))",
    );
    traffic.disconnect(60, 1);
    let (info, executions) = traffic.replay(&Options::default(), alone);
    let mut expected = vec![Outcome::Done; before.len() + 5];
    expected[before.len() + 1] = failed(b"57P01");
    assert_eq!(outcomes(&executions), expected);
    assert_eq!(info.status, RunStatus::Complete);
    assert_eq!(info.connections_lost["57P01"], 1);
    assert_eq!(info.connections_reopened, 1);
    assert!(!info.options.contains_key("restore_errors"), "{info:?}");
    let seen: String = connect(&server)
        .query_one("TABLE seen", &[])
        .unwrap()
        .get(0);
    assert_eq!(seen, "one pg_catalog, public 7s 0 news");
}

#[test]
fn statements_of_a_lost_transaction_are_skipped() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE t (n int)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    // Lost within a transaction, with the BEGIN itself, and with a text that begins and continues.
    let scripts: [&[(&str, Outcome)]; 3] = [
        &[
            ("BEGIN", Outcome::Done),
            ("INSERT INTO t VALUES (1)", Outcome::Done),
            (END_OWN, failed(b"57P01")),
            (
                "INSERT INTO t VALUES (2)",
                Outcome::Skipped(SkipReason::TransactionLost),
            ),
            ("SAVEPOINT a", Outcome::Skipped(SkipReason::TransactionLost)),
            (
                "ROLLBACK TO a",
                Outcome::Skipped(SkipReason::TransactionLost),
            ),
            ("COMMIT", Outcome::Skipped(SkipReason::TransactionLost)),
            ("INSERT INTO t VALUES (3)", Outcome::Done),
        ],
        &[
            (
                "BEGIN; SELECT pg_terminate_backend(pg_backend_pid())",
                failed(b"57P01"),
            ),
            (
                "INSERT INTO t VALUES (4)",
                Outcome::Skipped(SkipReason::TransactionLost),
            ),
            ("END", Outcome::Skipped(SkipReason::TransactionLost)),
            ("INSERT INTO t VALUES (5)", Outcome::Done),
        ],
        &[
            ("BEGIN", Outcome::Done),
            (
                "SELECT pg_terminate_backend(pg_backend_pid()); COMMIT",
                failed(b"57P01"),
            ),
            ("INSERT INTO t VALUES (6)", Outcome::Done),
        ],
    ];
    for (session, script) in (1..).zip(scripts) {
        traffic.connect(0, session);
        for ((sql, _), ms) in script.iter().zip(10..) {
            traffic.simple(ms, session, sql);
        }
        traffic.disconnect(100, session);
    }
    let (_, executions) = traffic.replay(&Options::default(), alone);
    for (session, script) in (1..).zip(scripts) {
        let found: Vec<Outcome> = statements(&executions)
            .into_iter()
            .filter(|execution| execution.session == session)
            .map(|execution| execution.outcome)
            .collect();
        let expected: Vec<Outcome> = script.iter().map(|(_, outcome)| *outcome).collect();
        assert_eq!(found, expected, "session {session}");
    }
    let rows = connect(&server)
        .query("SELECT n FROM t ORDER BY n", &[])
        .unwrap();
    let rows: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, [3, 5, 6]);
}

#[test]
fn cancel_is_sent_at_its_time_and_hits_only_its_statement() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    traffic.simple(10, 1, "SELECT pg_sleep(600)");
    traffic.at(210, 1, EventKind::Cancel);
    traffic.simple(220, 1, "SELECT pg_sleep(0.1)");
    // Over before its cancel comes.
    traffic.simple(400, 1, "SELECT 1");
    traffic.at(900, 1, EventKind::Cancel);
    traffic.simple(901, 1, "SELECT 2");
    traffic.disconnect(910, 1);
    for speed in ["1", "8", "max"] {
        let options = Options {
            speed: speed.parse().unwrap(),
            ..Options::default()
        };
        let (info, executions) = traffic.replay(&options, alone);
        let done = Outcome::Done;
        assert_eq!(
            outcomes(&executions),
            [failed(b"57014"), done, done, done],
            "speed {speed}"
        );
        assert!(!info.options.contains_key("cancels_failed"));
        let cancels: Vec<&Execution> = executions
            .iter()
            .filter(|execution| execution.kind == run::StatementKind::Cancel)
            .collect();
        assert_eq!(cancels[0].outcome, done);
        assert_eq!(
            cancels[1].outcome,
            Outcome::Skipped(SkipReason::NothingToCancel)
        );
        // As long after its statement as in the capture, whatever the speed.
        let statement = statements(&executions)[0];
        let after_ns = cancels[0].sent_ns.unwrap() - statement.sent_ns.unwrap();
        assert!(after_ns >= 200_000_000, "{after_ns}");
    }
}

#[test]
fn many_cancels_leave_no_session_waiting() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    for session in 1..=20 {
        traffic.connect(0, session);
        for n in 0..40 {
            let at_ms = 100 + 50 * n + session as i64;
            traffic.simple(at_ms, session, "SELECT pg_sleep(600)");
            traffic.at(at_ms + 1, session, EventKind::Cancel);
            // A statement that is due while the cancel request is on its way waits for it.
            traffic.simple(at_ms + 2, session, "SELECT 1");
        }
        traffic.disconnect(2_200, session);
    }
    let (info, _) = traffic.replay(&Options::default(), alone);
    assert_eq!((info.done, info.failed["57014"]), (800, 800), "{info:?}");
    assert_eq!(info.status, RunStatus::Complete);
}

#[test]
fn cancel_that_came_too_early_is_retried() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    traffic.simple(10, 1, "SET application_name = 'slow to begin'");
    traffic.simple(4_000, 1, "SELECT pg_sleep(600)");
    traffic.at(4_001, 1, EventKind::Cancel);
    traffic.simple(4_002, 1, "SELECT 1");
    traffic.disconnect(4_010, 1);
    let mut admin = connect(&server);
    let mut process = None;
    let mut went_on = false;
    let signal = |signal: &str, pid: &str| {
        assert!(
            Command::new("kill")
                .args([signal, pid])
                .status()
                .unwrap()
                .success()
        );
    };
    // Its process is suspended from before the statement until after the cancel. When it resumes, it
    // handles the signal first.
    let (info, executions) = traffic.replay(&Options::default(), |snapshot| {
        if process.is_none() && elapsed(snapshot) > Duration::from_millis(300) {
            let sql = "SELECT pid::text FROM pg_stat_activity
                WHERE application_name = 'slow to begin' AND state = 'idle'";
            if let Some(row) = admin.query_opt(sql, &[]).unwrap() {
                let pid: String = row.get(0);
                signal("-STOP", &pid);
                process = Some(pid);
            }
        }
        if !went_on && elapsed(snapshot) > Duration::from_millis(4_700) {
            signal("-CONT", process.as_ref().unwrap());
            went_on = true;
        }
    });
    let done = Outcome::Done;
    assert_eq!(outcomes(&executions), [done, failed(b"57014"), done]);
    assert_eq!(info.status, RunStatus::Complete);
    assert!(info.options.contains_key("cancels_repeated"), "{info:?}");
}

/// Sessions that insert what they are and when, each statement in a transaction of its own.
fn busy(server: &Endpoint, sessions: u64, until_ms: i64) -> Traffic {
    connect(server)
        .batch_execute("CREATE TABLE entry (session int, n int, PRIMARY KEY (session, n))")
        .unwrap();
    let mut traffic = Traffic::new(server);
    for session in 1..=sessions {
        traffic.connect(session as i64, session);
        traffic.simple(20, session, "SET application_name = 'busy'");
        for n in 0..until_ms / 20 {
            let at_ms = 50 + n * 20 + session as i64;
            let sql = format!("INSERT INTO entry VALUES ({session}, {n})");
            traffic.simple(at_ms, session, &sql);
        }
        traffic.disconnect(until_ms + 200, session);
    }
    traffic
}

/// Checks that the table holds the executed inserts and none that was skipped. An insert that failed with
/// its connection may be there or not.
fn matches_table(server: &Endpoint, done_inserts: u64, failed: u64) {
    let count: i64 = connect(server)
        .query_one("SELECT count(*) FROM entry", &[])
        .unwrap()
        .get(0);
    let count = count as u64;
    assert!(
        (done_inserts..=done_inserts + failed).contains(&count),
        "{count} rows, {done_inserts} done, {failed} failed"
    );
}

#[test]
fn restarted_server_is_awaited() {
    let (mut sandbox, server) = server(&[]);
    let mut traffic = busy(&server, 20, 3_000);
    let mut restarted = false;
    let (info, executions) = traffic.replay(&Options::default(), |snapshot| {
        if !restarted && are_at_work(20, Duration::from_millis(1_000), snapshot) {
            restarted = true;
            sandbox.stop(Stop::Immediate).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(sandbox.start().unwrap().port, server.port);
        }
    });
    assert!(restarted);
    assert_eq!(info.status, RunStatus::Complete);
    assert_eq!(info.skipped.values().sum::<u64>(), 0, "{info:?}");
    let lost: u64 = info.connections_lost.values().sum();
    assert_eq!((lost, info.connections_reopened), (20, 20), "{info:?}");
    // One for each session at most: what was in flight.
    let failed: u64 = info.failed.values().sum();
    assert!(failed <= 20, "{info:?}");
    assert_eq!(info.connections_failed.len(), 0);
    matches_table(&server, info.done - 20, failed);
    let last = statements(&executions)
        .into_iter()
        .filter(|execution| execution.outcome == Outcome::Done)
        .count();
    assert!(last as u64 + failed == info.statements);
}

#[test]
fn randomly_terminated_backends_are_replaced() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = busy(&server, 20, 2_000);
    let mut admin = connect(&server);
    let (info, _) = traffic.replay(&Options::default(), |_| {
        admin
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name = 'busy' ORDER BY random() LIMIT 3",
                &[],
            )
            .unwrap();
    });
    assert_eq!(info.status, RunStatus::Complete);
    let lost: u64 = info.connections_lost.values().sum();
    assert!(
        lost > 20 && info.connections_reopened >= lost - 20,
        "{info:?}"
    );
    let failed: u64 = info.failed.values().sum();
    matches_table(&server, info.done.saturating_sub(20), failed);
}

/// The postmaster and its children.
fn signal_all(sandbox: &mut Sandbox, signal: &str) {
    let postmaster = sandbox.pid().unwrap().to_string();
    for arguments in [["-P", &postmaster], ["-p", &postmaster]] {
        // No pkill on a bare machine: /proc says whose children there are.
        let pids: Vec<String> = match arguments[0] {
            "-P" => children(&postmaster),
            _ => vec![postmaster.clone()],
        };
        for pid in pids {
            let _ = Command::new("kill").args([signal, &pid]).status();
        }
    }
}

fn children(parent: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default();
            after_name.split(' ').nth(1) == Some(parent)
        })
        .collect()
}

#[test]
fn suspended_server_causes_delay_and_no_loss() {
    let (mut sandbox, server) = server(&[]);
    let mut traffic = busy(&server, 10, 2_000);
    let (mut stopped, mut went_on) = (None, false);
    let (info, executions) = traffic.replay(&Options::default(), |snapshot| match stopped {
        None if are_at_work(10, Duration::from_millis(800), snapshot) => {
            signal_all(&mut sandbox, "-STOP");
            stopped = Some(Instant::now());
        }
        Some(since) if !went_on && since.elapsed() > Duration::from_secs(5) => {
            signal_all(&mut sandbox, "-CONT");
            went_on = true;
        }
        _ => {}
    });
    assert!(went_on);
    assert_eq!(info.status, RunStatus::Complete);
    assert_eq!(info.done, info.statements, "{info:?}");
    assert!(info.connections_lost.is_empty());
    // The wait is the server's doing, and counted as such.
    let waited = statements(&executions)
        .into_iter()
        .filter(|execution| execution.session_lag_ns > 1_000_000_000)
        .count();
    assert!(waited > 100, "{waited}");
}

#[test]
fn replay_gives_up_a_server_that_does_not_return() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let (mut sandbox, server) = server(&[]);
    let mut traffic = busy(&server, 10, 60_000);
    let mut stopped = false;
    let options = Options {
        retry_for: Duration::from_secs(2),
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |snapshot| {
        if !stopped && are_at_work(10, Duration::from_millis(500), snapshot) {
            stopped = true;
            sandbox.stop(Stop::Immediate).unwrap();
        }
    });
    assert_eq!(info.status, RunStatus::Stopped);
    let why = info.given_up.unwrap();
    assert!(why.contains("has not answered for"), "{why}");
    assert!(info.skipped["stopped"] > 20_000, "{:?}", info.skipped);
}

#[test]
fn sessions_wait_while_the_server_has_too_many_connections() {
    let (_sandbox, server) = server(&[
        ("max_connections", "12"),
        ("superuser_reserved_connections", "3"),
    ]);
    let mut traffic = Traffic::new(&server);
    // Twelve hold all there is for a second, eight come then, and find room later.
    for session in 1..=20 {
        let begins_ms = if session <= 12 { 0 } else { 300 };
        traffic.connect(begins_ms, session);
        traffic.simple(begins_ms + 100, session, "SELECT 1");
        traffic.simple(begins_ms + 1_000, session, "SELECT 2");
        traffic.disconnect(begins_ms + 1_001, session);
    }
    let (info, _) = traffic.replay(&Options::default(), alone);
    assert_eq!(info.done, 40, "{info:?}");
    assert!(info.options.contains_key("connections_tried_again"));
    assert!(info.connections_failed.is_empty());
    // Without patience they are counted, with what they would have done.
    let options = Options {
        retry_for: Duration::ZERO,
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, alone);
    let refused = info.connections_failed["53300"];
    assert!(refused >= 8, "{info:?}");
    assert_eq!(info.skipped["no_connection"], 2 * refused);
    assert_eq!(info.status, RunStatus::Complete);
}
