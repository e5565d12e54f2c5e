//! Lost connections, texts and gaps of a run, while it is written and when it is complete.

use run::{
    Captured, Execution, FollowedResult, FollowedState, LostConnection, Outcome, RunFollower,
    RunReader, RunWriter, SeriesGap, StatementKind,
};
use sql::{Fingerprint, StatementClass};
use workload::{Sqlstate, StatementText};

use crate::{info, statement};

const SECOND_NS: i64 = 1_000_000_000;
const LOST: i64 = 600;
/// Rows of a row group, which a writer ends without a flush.
const GROUP_ROWS: i64 = 1 << 16;

fn lost(at_ns: i64) -> LostConnection {
    LostConnection {
        at_ns,
        session: 1,
        sqlstate: Sqlstate(*b"08006"),
        connections_open: 20,
    }
}

fn execution(fingerprint: u64, done_ns: i64) -> Execution {
    Execution {
        session: 1,
        sequence: 0,
        fingerprint: Some(Fingerprint(fingerprint)),
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
fn follow(follower: &mut RunFollower, all: &mut Vec<LostConnection>) {
    let read = follower.new_results(|result| match result {
        FollowedResult::Lost(one) => all.push(one),
        FollowedResult::Execution(execution) => {
            let last = all.last().map_or(-1, |lost| lost.at_ns);
            assert!(execution.done_ns.unwrap() <= last + 5 * SECOND_NS);
        }
        FollowedResult::Statement(_) => {}
    });
    read.unwrap();
}

#[test]
fn lost_connections_of_a_run_are_read_one_by_one_while_it_is_written_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shadow.run");
    let texts = std::iter::once(Ok(statement()));
    let mut writer = RunWriter::create(&path, &info(), texts).unwrap();
    let mut follower = RunFollower::open(&path).unwrap();
    let mut followed = Vec::new();
    for number in 0..LOST {
        let at_ns = number * 10 * SECOND_NS;
        writer.lost_connection(&lost(at_ns)).unwrap();
        writer
            .execution(&execution(u64::MAX, at_ns + 5 * SECOND_NS))
            .unwrap();
        if number % 100 == 7 {
            writer.flush().unwrap();
            follow(&mut follower, &mut followed);
            assert_eq!(followed.len() as i64, number + 1);
        }
    }
    writer.finish(info(), 0).unwrap();
    assert_eq!(follower.state(), FollowedState::Complete);
    follow(&mut follower, &mut followed);
    let expected: Vec<_> = (0..LOST)
        .map(|number| lost(number * 10 * SECOND_NS))
        .collect();
    assert_eq!(followed, expected);
    let reader = RunReader::open(&path).unwrap();
    let complete: Result<Vec<_>, _> = reader.lost_connections().unwrap().collect();
    assert_eq!(complete.unwrap(), expected);
}

/// A busy replay ends row groups between two flushes.
#[test]
fn executions_of_an_unfinished_run_follow_their_texts_and_earlier_losses_without_a_flush() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shadow.run");
    let texts = std::iter::once(Ok(statement()));
    let mut writer = RunWriter::create_growing(&path, &info(), texts).unwrap();
    let mut follower = RunFollower::open(&path).unwrap();
    let added = StatementText {
        fingerprint: Fingerprint(2),
        sql: "select $1 from t".to_owned(),
        class: StatementClass::Select,
    };
    for number in 0..GROUP_ROWS + 10 {
        if number == 1_000 {
            writer.lost_connection(&lost(number)).unwrap();
            writer.add_texts(std::slice::from_ref(&added), &[]).unwrap();
        }
        let fingerprint = if number < 1_000 { u64::MAX } else { 2 };
        writer.execution(&execution(fingerprint, number)).unwrap();
    }
    let mut texts = Vec::new();
    let (mut losses, mut executions) = (0, 0);
    let mut read = |follower: &mut RunFollower| {
        let read = follower.new_results(|result| match result {
            FollowedResult::Lost(_) => losses += 1,
            FollowedResult::Statement(text) => texts.push(text.fingerprint),
            FollowedResult::Execution(execution) => {
                executions += 1;
                assert!(texts.contains(&execution.fingerprint.unwrap()));
                assert!(execution.done_ns < Some(1_000) || losses == 1);
            }
        });
        read.unwrap();
        executions
    };
    assert_eq!(read(&mut follower), GROUP_ROWS);
    writer.finish(info(), 0).unwrap();
    assert_eq!(read(&mut follower), GROUP_ROWS + 10);
}

/// A reader of a complete run has the losses of a week on disk.
#[test]
fn lost_connections_of_a_complete_run_are_read_as_its_executions_need_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shadow.run");
    let texts = std::iter::once(Ok(statement()));
    let mut writer = RunWriter::create(&path, &info(), texts).unwrap();
    for number in 0..20 * 1_024 {
        writer.lost_connection(&lost(number * SECOND_NS)).unwrap();
    }
    for number in 0..20 * 1_024 {
        writer
            .execution(&execution(u64::MAX, number * SECOND_NS))
            .unwrap();
    }
    writer.finish(info(), 0).unwrap();
    let mut follower = RunFollower::open(&path).unwrap();
    let (mut ahead, mut ahead_max, mut all) = (0_i64, 0, 0);
    let read = follower.new_results(|result| match result {
        FollowedResult::Lost(_) => {
            (ahead, all) = (ahead + 1, all + 1);
            ahead_max = ahead_max.max(ahead);
        }
        FollowedResult::Execution(_) => ahead -= 1,
        FollowedResult::Statement(_) => {}
    });
    read.unwrap();
    assert_eq!((all, ahead), (20 * 1_024, 0));
    assert!(ahead_max < 10 * 1_024, "{ahead_max}");
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
