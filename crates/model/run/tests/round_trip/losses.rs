//! Losses of connections in a run, while it is written and when it is complete.

use run::{
    Captured, ConnectionLosses, Execution, FollowedResult, FollowedState, Outcome, RunFollower,
    RunReader, RunWriter, SeriesGap, StatementKind,
};
use sql::Fingerprint;
use workload::Sqlstate;

use crate::{info, statement};

const SECOND_NS: i64 = 1_000_000_000;
const LOSSES: i64 = 3_000;

fn loss(number: i64) -> ConnectionLosses {
    ConnectionLosses {
        from_ns: number * 10 * SECOND_NS,
        until_ns: number * 10 * SECOND_NS,
        sqlstate: Sqlstate(*b"08006"),
        connections: 1,
        connections_open: 20,
    }
}

fn execution(done_ns: i64) -> Execution {
    Execution {
        session: 1,
        sequence: 0,
        fingerprint: Some(Fingerprint(u64::MAX)),
        kind: StatementKind::Simple,
        outcome: Outcome::Done,
        due_ns: done_ns,
        sent_ns: Some(done_ns),
        first_byte_ns: Some(done_ns),
        done_ns: Some(done_ns),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 0,
        bytes: 0,
        digest: None,
        message: None,
        captured: Captured::default(),
    }
}

/// Reads what was written since, and checks that the losses come before the executions that ended after them.
fn follow(follower: &mut RunFollower, losses: &mut Vec<ConnectionLosses>) {
    let read = follower.new_results(|result| match result {
        FollowedResult::Losses(one) => losses.push(one),
        FollowedResult::Execution(execution) => {
            let last = losses.last().map_or(-1, |losses| losses.from_ns);
            assert!(execution.done_ns.unwrap() <= last + 5 * SECOND_NS);
        }
    });
    read.unwrap();
}

#[test]
fn losses_of_a_run_are_read_one_by_one_while_it_is_written_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shadow.run");
    let texts = std::iter::once(Ok(statement()));
    let mut writer = RunWriter::create(&path, &info(), texts).unwrap();
    let mut follower = RunFollower::open(&path).unwrap();
    let mut followed = Vec::new();
    for number in 0..LOSSES {
        writer.connection_losses(&loss(number)).unwrap();
        let done_ns = number * 10 * SECOND_NS + 5 * SECOND_NS;
        writer.execution(&execution(done_ns)).unwrap();
        if number % 500 == 7 {
            writer.flush().unwrap();
            follow(&mut follower, &mut followed);
            assert_eq!(followed.len() as i64, number + 1);
        }
    }
    writer.finish(info(), 0).unwrap();
    assert_eq!(follower.state(), FollowedState::Complete);
    follow(&mut follower, &mut followed);
    let expected: Vec<_> = (0..LOSSES).map(loss).collect();
    assert_eq!(followed, expected);
    let reader = RunReader::open(&path).unwrap();
    let complete: Result<Vec<_>, _> = reader.connection_losses().unwrap().collect();
    assert_eq!(complete.unwrap(), expected);
}

#[test]
fn series_gaps_beyond_the_limit_are_counted_with_their_duration() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let gap = |number: i64| SeriesGap {
        from_us: number * 10_000_000,
        to_us: number * 10_000_000 + 2_000_000,
        reason: "the capture was stopped".to_owned(),
    };
    writer.series_gaps((0..1_003).map(gap)).unwrap();
    writer.finish(info(), 0).unwrap();
    let info = RunReader::open(&path).unwrap().info().clone();
    assert_eq!(info.series_gaps.len(), 1_000);
    assert_eq!(info.options["series_gaps_left_out"], "3 gaps of 6 s");
}
