//! Statements that were sent before the answers to those before them were there.

use replay::Options;
use run::{Execution, Outcome, SkipReason};
use sandbox::Endpoint;
use test_support::connect;
use workload::{Boundary, Sqlstate, WireDetails};

use crate::traffic::{Traffic, server, statements};

const INSERT: &str = "INSERT INTO t SELECT $1::int FROM pg_sleep(0.05)";

/// One statement of a pipeline.
fn piece(
    traffic: &mut Traffic,
    at_ms: i64,
    name: &str,
    value: &str,
    awaited: bool,
    boundary: Boundary,
) {
    let event = traffic.execute(at_ms, 1, name, INSERT, value);
    event.wire_details = Some(
        WireDetails {
            awaited,
            boundary,
            ..WireDetails::default()
        }
        .into(),
    );
}

fn outcomes(executions: &[Execution]) -> Vec<Outcome> {
    let statements = statements(executions).into_iter();
    statements.map(|execution| execution.outcome).collect()
}

fn rows(server: &Endpoint) -> Vec<i32> {
    let rows = connect(server).query("SELECT n FROM t ORDER BY n", &[]);
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

fn table(server: &Endpoint) {
    connect(server)
        .batch_execute("DROP TABLE IF EXISTS t; CREATE TABLE t (n int PRIMARY KEY)")
        .unwrap();
}

#[test]
fn a_pipeline_is_sent_without_waiting() {
    let (_sandbox, server) = server(&[]);
    // Groups of one each, one group without and one with answers asked for, named and not.
    for (name, boundary) in [
        ("", Boundary::Sync),
        ("s", Boundary::Sync),
        ("s", Boundary::Nothing),
        ("", Boundary::Flush),
    ] {
        table(&server);
        let mut traffic = Traffic::new(&server);
        traffic.connect(0, 1);
        for n in 0..10 {
            let boundary = if n == 9 { Boundary::Sync } else { boundary };
            piece(&mut traffic, 100, name, &n.to_string(), n == 0, boundary);
        }
        traffic.simple(101, 1, "SELECT count(*) FROM t");
        traffic.disconnect(102, 1);
        let (_, executions) = traffic.replay(&Options::default(), |_| ());
        assert_eq!(outcomes(&executions), [Outcome::Done; 11]);
        let statements = statements(&executions);
        for statement in &statements[..10] {
            assert_eq!(statement.rows, 1);
            // Ten of them take half a second; no client waited for any.
            assert!(statement.sent_ns < statements[0].done_ns, "{statement:?}");
            // The first may have waited for the connection; the others for nothing else.
            assert!(statement.session_lag_ns <= statements[0].session_lag_ns);
        }
        assert!(statements[10].sent_ns >= statements[9].done_ns);
        assert_eq!(rows(&server), (0..10).collect::<Vec<i32>>());
    }
}

#[test]
fn pipeline_statements_after_a_failure_are_skipped() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    let group = ["1", "2", "1", "3", "4"];
    for (n, value) in group.into_iter().enumerate() {
        let boundary = match n {
            4 => Boundary::Sync,
            _ => Boundary::Nothing,
        };
        piece(&mut traffic, 100, "s", value, n == 0, boundary);
    }
    // A separate group, which was already sent.
    piece(&mut traffic, 100, "s", "5", false, Boundary::Sync);
    traffic.disconnect(700, 1);
    let (_, executions) = traffic.replay(&Options::default(), |_| ());
    let aborted = Outcome::Skipped(SkipReason::PipelineAborted);
    assert_eq!(
        outcomes(&executions),
        [
            Outcome::Done,
            Outcome::Done,
            Outcome::Failed(Sqlstate(*b"23505")),
            aborted,
            aborted,
            Outcome::Done,
        ]
    );
    // One group is one transaction.
    assert_eq!(rows(&server), [5]);
}

#[test]
fn a_group_without_an_end_ends_with_the_workload() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    for n in 0..3 {
        piece(
            &mut traffic,
            100,
            "",
            &n.to_string(),
            n == 0,
            Boundary::Nothing,
        );
    }
    // It waits for answers that the server need not send yet.
    piece(&mut traffic, 110, "", "3", true, Boundary::Nothing);
    let (_, executions) = traffic.replay(&Options::default(), |_| ());
    assert_eq!(outcomes(&executions), [Outcome::Done; 4]);
    let statements = statements(&executions);
    assert!(statements[3].sent_ns >= statements[2].done_ns);
    assert_eq!(rows(&server), [0, 1, 2, 3]);
}

#[test]
fn lost_connection_fails_the_whole_pipeline() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    let sql = "SELECT pg_terminate_backend(pg_backend_pid()) WHERE $1 = '1'";
    traffic.execute(100, 1, "", sql, "1");
    piece(&mut traffic, 100, "", "1", false, Boundary::Sync);
    piece(&mut traffic, 100, "", "2", false, Boundary::Sync);
    piece(&mut traffic, 300, "", "3", true, Boundary::Sync);
    traffic.disconnect(500, 1);
    let (info, executions) = traffic.replay(&Options::default(), |_| ());
    let lost = Outcome::Failed(Sqlstate(*b"57P01"));
    assert_eq!(outcomes(&executions), [lost, lost, lost, Outcome::Done]);
    assert_eq!(info.connections_reopened, 1);
    assert_eq!(rows(&server), [3]);
}

#[test]
fn last_error_of_the_server_is_read_while_writing() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    let sql = "SELECT pg_terminate_backend(pg_backend_pid()) WHERE $1 = '1'";
    traffic.execute(100, 1, "", sql, "1");
    // More than sockets hold: when the server leaves, the rest of it waits to be written.
    let long = format!("{}2", " ".repeat(32 << 20));
    piece(&mut traffic, 100, "", &long, false, Boundary::Sync);
    traffic.disconnect(500, 1);
    let (info, executions) = traffic.replay(&Options::default(), |_| ());
    let lost = Outcome::Failed(Sqlstate(*b"57P01"));
    assert_eq!(outcomes(&executions), [lost, lost]);
    assert_eq!(info.connections_lost["57P01"], 1);
}

#[test]
fn a_stop_counts_all_of_a_pipeline_that_does_not_end() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    traffic.execute(100, 1, "", "SELECT pg_sleep(600) WHERE $1 = '1'", "1");
    for n in 0..3 {
        piece(&mut traffic, 110, "", &n.to_string(), false, Boundary::Sync);
    }
    traffic.disconnect(60_000, 1);
    let after = std::time::Duration::from_millis(500);
    let (info, executions) = traffic.replay_as("traffic.run", &Options::default(), after, |_| ());
    assert_eq!(info.skipped["stopped"], 4, "{info:?}");
    assert_eq!(statements(&executions).len(), 4);
}

#[test]
fn a_group_does_not_wait_for_its_own_commit() {
    let (_sandbox, server) = server(&[]);
    table(&server);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    for n in 0..20 {
        let boundary = match n {
            19 => Boundary::Sync,
            _ => Boundary::Nothing,
        };
        // In the capture each was over, as far as its duration tells, when the next one came.
        piece(&mut traffic, 100 + n, "", &n.to_string(), n == 0, boundary);
    }
    traffic.disconnect(500, 1);
    let options = Options {
        order: replay::SendOrder::Commit,
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |_| ());
    assert_eq!(info.done, 20, "{info:?}");
    assert_eq!(rows(&server).len(), 20);
    assert_eq!(info.options["let_go_before_commits"], "0", "{info:?}");
}
