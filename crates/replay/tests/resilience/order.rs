//! Statements that wait for the commits that they followed in the capture, on a real server.

use crate::traffic::{Traffic, server, statements};
use replay::{Options, SendOrder};
use run::Outcome;
use sandbox::Endpoint;
use test_support::connect;
use workload::Sqlstate;

fn at_full_speed(workers: usize) -> Options {
    Options {
        speed: "max".parse().unwrap(),
        order: SendOrder::Commit,
        workers,
        ..Options::default()
    }
}

/// In the capture one session after the other appended, each to what the one before had committed:
/// twenty sessions, in an order that has nothing to do with their numbers.
fn relay(server: &Endpoint) -> Traffic {
    connect(server)
        .batch_execute("CREATE TABLE baton (n serial, session int)")
        .unwrap();
    let mut traffic = Traffic::new(server);
    for session in 0..20 {
        traffic.connect(0, session);
    }
    for turn in 0..100_u64 {
        let session = turn * 7 % 20;
        let at_ms = 100 + 10 * turn as i64;
        // Every third in a transaction, whose COMMIT counts.
        let insert = format!("INSERT INTO baton (session) VALUES ({session})");
        if turn % 3 == 0 {
            traffic.simple(at_ms, session, "BEGIN");
            traffic.simple(at_ms + 1, session, &insert);
            // It is slow: a session that does not wait overtakes it.
            traffic.simple(at_ms + 2, session, "SELECT pg_sleep(0.003)");
            traffic.simple(at_ms + 3, session, "COMMIT");
        } else {
            traffic.simple(at_ms, session, &insert);
        }
    }
    for session in 0..20 {
        traffic.disconnect(2_000, session);
    }
    traffic
}

#[test]
fn commits_come_in_the_order_of_the_capture() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = relay(&server);
    for workers in [1, 2] {
        connect(&server).batch_execute("TRUNCATE baton").unwrap();
        let (info, _) = traffic.replay(&at_full_speed(workers), |_| ());
        assert_eq!(info.done, info.statements, "{info:?}");
        assert_ne!(info.options["waits_for_commits"], "0");
        assert_eq!(info.options["let_go_before_commits"], "0", "{info:?}");
        let rows = connect(&server)
            .query("SELECT session FROM baton ORDER BY n", &[])
            .unwrap();
        let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let expected: Vec<i32> = (0..100).map(|turn| turn * 7 % 20).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn waiting_statement_whose_session_blocks_others_is_released() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=2 {
        traffic.connect(0, session);
    }
    // In the capture 2 was done before 1 locked the row, by a hair; here 1 is first, and then waits for
    // the commit of 2, which waits for 1's lock.
    traffic.simple(9, 1, "BEGIN");
    traffic.simple(10, 1, "SELECT n FROM t WHERE id = 1 FOR UPDATE");
    traffic.simple(800, 2, "UPDATE t SET n = n + 1 WHERE id = 1");
    traffic.simple(1_600, 1, "UPDATE t SET n = n + 10 WHERE id = 1");
    traffic.simple(1_610, 1, "COMMIT");
    traffic.disconnect(1_700, 1);
    traffic.disconnect(1_700, 2);
    for order in [SendOrder::Session, SendOrder::Commit] {
        let options = Options {
            order,
            ..Options::default()
        };
        let (info, executions) = traffic.replay(&options, |_| ());
        assert!(
            statements(&executions)
                .iter()
                .all(|execution| execution.outcome == Outcome::Done),
            "{executions:?}"
        );
        if order == SendOrder::Commit {
            assert_eq!(info.options["let_go_before_commits"], "1", "{info:?}");
        }
    }
}

/// A transaction that one session prepares and another commits. Its changes are visible only after that.
#[test]
fn two_phase_commit_ends_with_the_second_phase() {
    let (_sandbox, server) = server(&[("max_prepared_transactions", "5")]);
    let mut traffic = Traffic::new(&server);
    for session in 1..=3 {
        traffic.connect(0, session);
    }
    let mut expected = 0_i64;
    for turn in 0..10 {
        let at_ms = 100 + 100 * turn;
        traffic.simple(at_ms, 1, "BEGIN");
        traffic.simple(at_ms + 10, 1, "UPDATE t SET n = n + 1");
        traffic.simple(at_ms + 20, 1, &format!("PREPARE TRANSACTION 'x{turn}'"));
        let ends = match turn % 3 {
            0 => "ROLLBACK",
            _ => "COMMIT",
        };
        traffic.simple(at_ms + 30, 2, &format!("{ends} PREPARED 'x{turn}'"));
        expected += i64::from(turn % 3 != 0);
        // It fails where it sees another value.
        let sees = format!("SELECT 1 / (n = {expected})::int FROM t");
        traffic.simple(at_ms + 40, 3, &sees);
        traffic.simple(at_ms + 50, 3, "UPDATE t SET n = n * 2");
        expected *= 2;
    }
    for session in 1..=3 {
        traffic.disconnect(2_000, session);
    }
    for workers in [1, 2] {
        connect(&server)
            .batch_execute(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (n bigint); INSERT INTO t VALUES (0)",
            )
            .unwrap();
        let (info, _) = traffic.replay(&at_full_speed(workers), |_| ());
        assert_eq!(info.done, info.statements, "{info:?}");
        assert_eq!(info.options["let_go_before_commits"], "0", "{info:?}");
        let row = connect(&server).query_one("SELECT n FROM t", &[]).unwrap();
        assert_eq!(row.get::<_, i64>(0), expected);
    }
}

/// The locks of a prepared transaction are no process's: the one that ends it is let go.
#[test]
fn prepared_transaction_that_blocks_others_is_ended_early() {
    let (_sandbox, server) = server(&[("max_prepared_transactions", "5")]);
    connect(&server)
        .batch_execute("CREATE TABLE t (n int); INSERT INTO t VALUES (0)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=3 {
        traffic.connect(0, session);
    }
    traffic.simple(10, 1, "BEGIN");
    traffic.simple(20, 1, "UPDATE t SET n = n + 1");
    traffic.simple(30, 1, "PREPARE TRANSACTION 'x'");
    // In the capture it was over before 1 had the row, by a hair.
    traffic.simple(500, 2, "UPDATE t SET n = n + 1");
    traffic.simple(800, 3, "COMMIT PREPARED 'x'");
    for session in 1..=3 {
        traffic.disconnect(900, session);
    }
    let options = Options {
        order: SendOrder::Commit,
        ..Options::default()
    };
    let (info, executions) = traffic.replay(&options, |_| ());
    assert_eq!(info.done, info.statements, "{info:?}");
    assert_eq!(info.options["let_go_before_commits"], "1", "{info:?}");
    // No statement waited for the five seconds after which a stall is broken.
    let longest = executions.iter().filter_map(|one| one.sent_ns).max();
    assert!(longest.is_some_and(|ns| ns < 5_000_000_000), "{longest:?}");
}

#[test]
fn failed_or_skipped_commit_delays_no_statement() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=3 {
        traffic.connect(0, session);
    }
    traffic.simple(10, 1, "INSERT INTO t VALUES (1)");
    traffic.simple(20, 1, "INSERT INTO t VALUES (1)");
    traffic
        .at(
            30,
            2,
            workload::EventKind::Simple {
                sql: "COPY t FROM STDIN".into(),
            },
        )
        .unreplayable = Some(workload::Unreplayable::CopyDataMissing);
    traffic.simple(40, 3, "SELECT pg_terminate_backend(pg_backend_pid())");
    traffic.simple(50, 3, "INSERT INTO t VALUES (2)");
    traffic.simple(60, 2, "SELECT 1");
    for session in 1..=3 {
        traffic.disconnect(70, session);
    }
    let (info, executions) = traffic.replay(&at_full_speed(2), |_| ());
    assert_eq!(info.skipped["copy_data_missing"], 1);
    assert_eq!(info.failed["23505"], 1);
    let last = statements(&executions)
        .into_iter()
        .find(|execution| (execution.session, execution.sequence) == (2, 2))
        .unwrap();
    assert_eq!(last.outcome, Outcome::Done);
    let failed: Vec<Outcome> = statements(&executions)
        .iter()
        .map(|execution| execution.outcome)
        .filter(|outcome| matches!(outcome, Outcome::Failed(_)))
        .collect();
    assert!(failed.contains(&Outcome::Failed(Sqlstate(*b"57P01"))));
}

#[test]
fn global_order_waiting_session_delays_all_others() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    for session in 1..=2 {
        traffic.connect(0, session);
    }
    // 1 is busy for long when its next statement is due; what 2 sends has nothing to do with it.
    traffic.simple(10, 1, "SELECT pg_sleep(2)");
    traffic.simple(50, 1, "SELECT 1");
    for at_ms in [20, 30, 40, 60, 70, 80] {
        traffic.simple(at_ms, 2, "SELECT 2");
    }
    for session in 1..=2 {
        traffic.disconnect(90, session);
    }
    for order in [SendOrder::Session, SendOrder::Global] {
        let options = Options {
            order,
            ..Options::default()
        };
        let (info, executions) = traffic.replay(&options, |_| ());
        assert_eq!(info.done, 8, "{info:?}");
        let statements = statements(&executions);
        let of = |session: u64| {
            let mut all: Vec<_> = statements
                .iter()
                .filter(|one| one.session == session)
                .collect();
            all.sort_by_key(|one| one.sequence);
            all
        };
        let slow_done_ns = of(1)[0].done_ns;
        let held: Vec<bool> = of(2)
            .iter()
            .map(|one| one.sent_ns >= slow_done_ns)
            .collect();
        let behind = order == SendOrder::Global;
        let expected = [false, false, false, behind, behind, behind];
        assert_eq!(held, expected, "{order:?}");
        if behind {
            assert_ne!(info.options["waits_for_turn"], "0");
            assert_eq!(info.options["let_go_before_turn"], "0");
        }
    }
}

#[test]
fn global_order_breaks_deadlocks() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=2 {
        traffic.connect(0, session);
    }
    // 2 waits for the lock of 1, and its next statement is due before the COMMIT of 1, which would
    // wait for that one to be sent.
    traffic.simple(10, 1, "BEGIN");
    traffic.simple(20, 1, "UPDATE t SET n = n + 1 WHERE id = 1");
    traffic.simple(300, 2, "UPDATE t SET n = n + 1 WHERE id = 1");
    traffic.simple(310, 2, "SELECT 2");
    traffic.simple(320, 1, "COMMIT");
    for session in 1..=2 {
        traffic.disconnect(330, session);
    }
    let options = Options {
        order: SendOrder::Global,
        ..Options::default()
    };
    let (info, _) = traffic.replay(&options, |_| ());
    assert_eq!(info.done, 5, "{info:?}");
    assert_ne!(info.options["let_go_before_turn"], "0", "{info:?}");
}

/// Three sessions that are in transactions all the time have two connections: whose commit is waited
/// for has none.
#[test]
fn commit_wait_is_released_if_all_connections_wait() {
    let (_sandbox, server) = server(&[]);
    connect(&server)
        .batch_execute("CREATE TABLE t (a int)")
        .unwrap();
    let mut traffic = Traffic::new(&server);
    for session in 1..=3 {
        traffic.connect(0, session);
    }
    for turn in 0..60_u64 {
        let (session, at_ms) = (1 + turn % 3, 100 + 4 * turn as i64);
        if turn >= 3 {
            traffic.simple(at_ms, session, "COMMIT");
        }
        traffic.simple(at_ms + 1, session, "BEGIN");
        traffic.simple(at_ms + 2, session, "INSERT INTO t VALUES (1)");
    }
    for session in 1..=3 {
        traffic.simple(500, session, "COMMIT");
        traffic.disconnect(600, session);
    }
    let options = Options {
        connections_max: Some(2),
        ..at_full_speed(1)
    };
    let (info, executions) = traffic.replay(&options, |_| ());
    assert_eq!(info.done, info.statements, "{info:?}");
    assert_ne!(info.options["let_go_before_commits"], "0", "{info:?}");
    // No statement waited for the five seconds after which a stall is broken.
    let longest = executions.iter().filter_map(|one| one.sent_ns).max();
    assert!(longest.is_some_and(|ns| ns < 5_000_000_000), "{longest:?}");
}
