//! A replay that resumes where another was stopped.

use std::sync::Arc;
use std::time::Duration;

use replay::{Options, PreviousRun};
use run::{LostConnection, Outcome, RunReader, RunStatus, SkipReason};
use sandbox::Endpoint;
use test_support::connect;
use workload::WireDetails;

use crate::traffic::{Traffic, server, statements};

/// Sessions that insert, alone and in transactions, with settings of their own, for three seconds.
fn traffic_for(server: &Endpoint) -> Traffic {
    connect(server)
        .batch_execute("CREATE TABLE entry (session int, n int, setting text)")
        .unwrap();
    let mut traffic = Traffic::new(server);
    for session in 1..=12_u64 {
        let begins_ms = 200 * session as i64;
        traffic.connect(begins_ms, session);
        traffic.simple(begins_ms + 1, session, &format!("SET a.b = '{session}'"));
        for n in 0..15 {
            let at_ms = begins_ms + 10 + n * 40;
            let sql =
                format!("INSERT INTO entry SELECT {session}, {n}, current_setting('a.b', true)");
            if n % 5 == 4 {
                traffic.simple(at_ms, session, "BEGIN");
                traffic.simple(at_ms + 15, session, &sql);
                traffic.simple(at_ms + 30, session, "COMMIT");
            } else {
                traffic.execute(at_ms, session, "s", &format!("{sql} WHERE $1 = 'x'"), "x");
            }
        }
        traffic.disconnect(begins_ms + 700, session);
    }
    traffic
}

#[test]
fn resumed_replay_repeats_no_statement() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = traffic_for(&server);
    for speed in ["1", "max"] {
        connect(&server).batch_execute("TRUNCATE entry").unwrap();
        let options = Options {
            speed: speed.parse().unwrap(),
            ..Options::default()
        };
        // At full speed all of it is done before anybody could stop it.
        let stop_after = Duration::from_millis(1_300);
        let (first, done_first) = traffic.replay_as("first.run", &options, stop_after, |_| ());
        if speed == "max" {
            assert_eq!(first.status, RunStatus::Complete);
            let reader = traffic.workload();
            let error =
                PreviousRun::read(&traffic.path("first.run"), &reader, &options).unwrap_err();
            assert!(error.to_string().contains("it reached its end"), "{error}");
            continue;
        }
        assert_eq!(first.status, RunStatus::Stopped);
        assert!(first.skipped["stopped"] > 50, "{first:?}");
        let reader = traffic.workload();
        let other = Options {
            speed: "2".parse().unwrap(),
            ..Options::default()
        };
        let error = PreviousRun::read(&traffic.path("first.run"), &reader, &other).unwrap_err();
        assert!(error.to_string().contains("speed = 1"), "{error}");
        let earlier = PreviousRun::read(&traffic.path("first.run"), &reader, &options).unwrap();
        let resuming = Options {
            previous_run: Some(Arc::new(earlier)),
            ..options.clone()
        };
        let (whole, executions) = traffic.replay_as("whole.run", &resuming, Duration::MAX, |_| ());
        assert_eq!(whole.status, RunStatus::Complete);
        assert!(whole.failed.is_empty(), "{whole:?}");
        // The rows of the first run come first, unchanged, except those of transactions that were open.
        let before: Vec<_> = done_first
            .into_iter()
            .filter(|execution| execution.outcome != Outcome::Skipped(SkipReason::Stopped))
            .collect();
        let kept = executions.iter().zip(&before);
        let kept = kept.take_while(|(now, before)| now == before).count();
        assert!(kept + 20 > before.len(), "{kept} of {}", before.len());
        for execution in statements(&executions) {
            assert_eq!(execution.outcome, Outcome::Done, "{execution:?}");
        }
        // Nobody was late because time went by in between.
        let last = executions.last().unwrap();
        assert!(last.due_ns < 4_000_000_000, "{last:?}");
        let rows = connect(&server)
            .query(
                "SELECT session, n, count(*), min(setting) FROM entry GROUP BY 1, 2",
                &[],
            )
            .unwrap();
        assert_eq!(rows.len(), 12 * 15);
        for row in rows {
            let session: i32 = row.get(0);
            let found: (i64, String) = (row.get(2), row.get(3));
            assert_eq!(found, (1, session.to_string()));
        }
    }
}

#[test]
fn replay_with_unspecified_types_is_resumed() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    traffic.connect(0, 1);
    for n in 0..30 {
        let event = traffic.execute(50 + n * 50, 1, "", "SELECT $1", "x");
        // The target has no such type.
        event.wire_details = Some(Arc::new(WireDetails {
            parameter_types: vec![4_000_000_000],
            ..WireDetails::default()
        }));
    }
    traffic.disconnect(2_000, 1);
    let options = Options {
        speed: "1".parse().unwrap(),
        ..Options::default()
    };
    let stop_after = Duration::from_millis(700);
    let (first, _) = traffic.replay_as("first.run", &options, stop_after, |_| ());
    assert_eq!(first.status, RunStatus::Stopped);
    let unspecified: u64 = first.options["types_unspecified"].parse().unwrap();
    assert!(unspecified > 0);
    let earlier = PreviousRun::read(&traffic.path("first.run"), &traffic.workload(), &options);
    let resuming = Options {
        previous_run: Some(Arc::new(earlier.unwrap())),
        ..options
    };
    let (whole, _) = traffic.replay_as("whole.run", &resuming, Duration::MAX, |_| ());
    assert_eq!(whole.status, RunStatus::Complete);
    assert!(whole.failed.is_empty(), "{whole:?}");
}

#[test]
fn resumed_replay_keeps_the_lost_connections_of_the_run_before() {
    let (_sandbox, server) = server(&[]);
    let mut traffic = Traffic::new(&server);
    for session in 1..=2 {
        traffic.connect(0, session);
    }
    traffic.simple(50, 1, "SELECT pg_terminate_backend(pg_backend_pid())");
    for n in 0..30 {
        traffic.simple(50 + n * 50, 2, "SELECT 1");
    }
    let options = Options {
        speed: "1".parse().unwrap(),
        ..Options::default()
    };
    let lost = |traffic: &Traffic, name: &str| -> Vec<LostConnection> {
        let reader = RunReader::open(&traffic.path(name)).unwrap();
        let lost = reader.lost_connections().unwrap();
        lost.collect::<Result<_, _>>().unwrap()
    };
    let stop_after = Duration::from_millis(700);
    let (first, _) = traffic.replay_as("first.run", &options, stop_after, |_| ());
    assert_eq!(first.status, RunStatus::Stopped);
    let lost_before = lost(&traffic, "first.run");
    assert_eq!(lost_before.len(), 1);
    assert_eq!(
        (lost_before[0].session, lost_before[0].sqlstate.as_str()),
        (1, "57P01")
    );
    let earlier = PreviousRun::read(&traffic.path("first.run"), &traffic.workload(), &options);
    let resuming = Options {
        previous_run: Some(Arc::new(earlier.unwrap())),
        ..options
    };
    let (whole, _) = traffic.replay_as("whole.run", &resuming, Duration::MAX, |_| ());
    assert_eq!(whole.status, RunStatus::Complete);
    assert_eq!(lost(&traffic, "whole.run"), lost_before);
}
