//! Full speed by io_uring and by epoll: faults have the same results with either.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Speed;
use replay::{IoMethod, Options};
use run::{Outcome, RunStatus};
use sandbox::{Endpoint, Stop};
use test_support::connect;
use workload::EventKind;

use super::tls_front::TlsFront;
use super::traffic::{Traffic, are_at_work, server, statements};

fn at_full_speed(by_ring: bool) -> Options {
    Options {
        speed: Speed::Max,
        io: match by_ring {
            true => IoMethod::IoUring,
            false => IoMethod::Epoll,
        },
        ..Options::default()
    }
}

const SESSIONS: u64 = 12;
const INSERTS: u64 = 150;

/// Sessions that insert what they are and when, for some two seconds; some by named statements, some in
/// texts whose answers are long.
fn busy(server: &Endpoint) -> Traffic {
    connect(server)
        .batch_execute("CREATE TABLE entry (session int, n int, PRIMARY KEY (session, n))")
        .unwrap();
    let mut traffic = Traffic::new(server);
    for session in 1..=SESSIONS {
        traffic.connect(session as i64, session);
        traffic.simple(20, session, "SET application_name = 'busy'");
        for n in 0..INSERTS {
            let at_ms = 50 + n as i64;
            match session % 3 {
                0 => {
                    let sql = format!(
                        "INSERT INTO entry VALUES ({session}, $1) RETURNING n, pg_sleep(0.01)"
                    );
                    traffic.execute(at_ms, session, "insert", &sql, &n.to_string());
                }
                1 => {
                    let sql = format!(
                        "INSERT INTO entry VALUES ({session}, {n}); SELECT repeat('x', 60000), \
                         pg_sleep(0.01)"
                    );
                    traffic.simple(at_ms, session, &sql);
                }
                _ => {
                    let sql =
                        format!("INSERT INTO entry VALUES ({session}, {n}); SELECT pg_sleep(0.01)");
                    traffic.simple(at_ms, session, &sql);
                }
            }
        }
        traffic.disconnect(900, session);
    }
    traffic
}

fn backends_are_terminated(by_ring: bool) {
    let (_sandbox, server) = server(&[]);
    let mut traffic = busy(&server);
    let mut admin = connect(&server);
    let (info, executions) = traffic.replay(&at_full_speed(by_ring), |_| {
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
        lost > 10 && info.connections_reopened >= lost - SESSIONS,
        "{info:?}"
    );
    // The table has each row that the server confirmed once. Rows that failed with their connection may be there.
    let done = statements(&executions)
        .into_iter()
        .filter(|execution| execution.outcome == Outcome::Done)
        .count() as u64;
    let failed: u64 = info.failed.values().sum();
    assert!((1..=lost).contains(&failed), "{info:?}");
    let rows: i64 = admin
        .query_one("SELECT count(*) FROM entry", &[])
        .unwrap()
        .get(0);
    let inserts = done.saturating_sub(SESSIONS)..=SESSIONS * INSERTS;
    assert!(inserts.contains(&(rows as u64)), "{rows} rows, {info:?}");
}

fn a_restart_is_waited_for(by_ring: bool) {
    let (mut sandbox, server) = server(&[]);
    let mut traffic = busy(&server);
    let mut restarted = false;
    let (info, _) = traffic.replay(&at_full_speed(by_ring), |snapshot| {
        if !restarted && are_at_work(SESSIONS, Duration::from_millis(500), snapshot) {
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
    assert_eq!((lost, info.connections_reopened), (SESSIONS, SESSIONS));
    let failed: u64 = info.failed.values().sum();
    assert!(failed <= SESSIONS, "{info:?}");
    assert_eq!(info.done + failed, info.statements);
}

#[test]
fn terminated_backends_are_replaced_with_io_uring() {
    backends_are_terminated(true);
}

#[test]
fn terminated_backends_are_replaced_with_epoll() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    backends_are_terminated(false);
}

#[test]
fn restarted_server_is_awaited_with_io_uring() {
    a_restart_is_waited_for(true);
}

#[test]
fn restarted_server_is_awaited_with_epoll() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    a_restart_is_waited_for(false);
}

/// A connection that ends together with a part of an answer causes one wake-up only; the replay must still
/// notice the end.
fn an_answer_ends_with_the_connection(by_ring: bool) {
    const CUTS: usize = 5;
    let (_sandbox, server) = server(&[]);
    let front = TlsFront::before(&server, b"cut here", CUTS);
    let mut traffic = Traffic::new(&server).with_tls_by(front.port);
    traffic.connect(0, 1);
    for n in 0..20 {
        let sql = match n % 2 {
            0 => format!("SELECT {n}"),
            _ => format!("SELECT 'cut ' || 'here', {n}"),
        };
        traffic.simple(10 + n, 1, &sql);
    }
    traffic.disconnect(900, 1);
    // A replay that misses an end would wait forever.
    let patience = Duration::from_secs(30);
    let options = at_full_speed(by_ring);
    let (info, executions) = traffic.replay_as("traffic.run", &options, patience, |_| ());
    assert_eq!(front.cuts(), CUTS);
    assert_eq!(info.status, RunStatus::Complete);
    let lost: u64 = info.connections_lost.values().sum();
    assert_eq!(
        (lost, info.connections_reopened),
        (CUTS as u64, CUTS as u64)
    );
    let failed: u64 = info.failed.values().sum();
    assert_eq!((info.done, failed), (20 - CUTS as u64, CUTS as u64));
    // Each of the first five that were asked for it, and no other.
    let were_lost: Vec<bool> = statements(&executions)
        .into_iter()
        .map(|execution| execution.outcome != Outcome::Done)
        .collect();
    let expected: Vec<bool> = (0..20).map(|n| n % 2 == 1 && n < 2 * CUTS).collect();
    assert_eq!(were_lost, expected);
}

#[test]
fn answer_that_ends_with_its_connection_is_noticed_with_io_uring() {
    an_answer_ends_with_the_connection(true);
}

#[test]
fn answer_that_ends_with_its_connection_is_noticed_with_epoll() {
    an_answer_ends_with_the_connection(false);
}

/// Rows, bytes and outcome of each statement, by session and place in it.
type Came = BTreeMap<(u64, u64), (u64, u64, Outcome)>;

#[test]
fn io_uring_and_epoll_read_the_same_answers() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    // More sessions than fit into one call, answers of all lengths, and requests of many.
    for session in 0..100_u64 {
        traffic.connect(0, session);
        for n in 0..40_u64 {
            let at_ms = 10 + n as i64;
            let length = (session * 7_919 + n * 104_729) % 40_000;
            match n % 4 {
                0 => traffic.simple(
                    at_ms,
                    session,
                    &format!("SELECT repeat('r', {length}), {n} / ({n} % 8)"),
                ),
                1 => {
                    let text = "t".repeat(length as usize);
                    traffic.simple(at_ms, session, &format!("SELECT length('{text}')"));
                }
                2 => {
                    let sql = "SELECT repeat('e', $1::int), generate_series(1, 9)";
                    traffic.execute(at_ms, session, "e", sql, &length.to_string());
                }
                _ => {
                    let kind = EventKind::Execute {
                        statement: "".into(),
                        portal: "".into(),
                        sql: "SELECT length($1), $2".into(),
                        parameters: vec![Some("p".repeat(length as usize).into()), None],
                    };
                    traffic.at(at_ms, session, kind);
                }
            }
        }
        // Every second one leaves its end to the replay.
        if session % 2 == 0 {
            traffic.disconnect(900, session);
        }
    }
    let mut seen = [true, false].map(|by_ring| -> Came {
        let (info, executions) = traffic.replay(&at_full_speed(by_ring), |_| ());
        assert_eq!(info.status, RunStatus::Complete);
        let all = statements(&executions).into_iter().map(|execution| {
            let times = (
                execution.sent_ns,
                execution.first_byte_ns,
                execution.done_ns,
            );
            assert!(times.0 <= times.1 && times.1 <= times.2, "{execution:?}");
            let place = (execution.session, execution.sequence);
            (place, (execution.rows, execution.bytes, execution.outcome))
        });
        all.collect()
    });
    let by_epoll = std::mem::take(&mut seen[1]);
    assert_eq!(by_epoll.len(), 4_000);
    assert!(seen[0] == by_epoll);
}
