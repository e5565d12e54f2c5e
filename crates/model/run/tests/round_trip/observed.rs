//! Round trip of observations, which survive a kill up to the last flush.

use run::{
    Activity, Blocking, Counter, LockCount, ObservedWriter, ProbeNote, ProbeState, RunReader,
    RunStatus, RunWriter, SampleWindow, SampledStatement, StatementStatistics,
};
use sql::{Fingerprint, StatementClass};

use super::{info, statement, unlocked};

fn notes() -> Vec<ProbeNote> {
    let note = |state: ProbeState, at_ns| ProbeNote {
        at_ns,
        probe: "activity".to_owned(),
        state,
        text: "why".to_owned(),
        ..ProbeNote::default()
    };
    let states = ["on", "off", "unseen", "remark", "lost", "back"];
    let mut notes: Vec<ProbeNote> = states
        .into_iter()
        .enumerate()
        .map(|(at, name)| note(ProbeState::from_name(name).unwrap(), at as i64 - 3))
        .collect();
    notes.push(ProbeNote {
        remedy: Some("GRANT".to_owned()),
        count: Some(3),
        questions: Some(5),
        asked_ns: Some(7),
        failures: Some(0),
        ..note(ProbeState::Ended, 9)
    });
    notes
}

fn seen() -> SampledStatement {
    SampledStatement {
        fingerprint: Fingerprint(u64::MAX),
        class: StatementClass::Update,
        sql: "update t set x = $1".to_owned(),
        is_truncated: true,
    }
}

/// All that can be null, and none of it.
fn statistics() -> [StatementStatistics; 2] {
    let hidden = StatementStatistics {
        from_ns: -5,
        until_ns: 60,
        entries: 12,
        calls: 1,
        exec_ns: 2,
        ..StatementStatistics::default()
    };
    let full = StatementStatistics {
        fingerprint: Some(Fingerprint(1)),
        query_id: Some(-7),
        database: Some("shop".to_owned()),
        user: Some("app".to_owned()),
        top_level: Some(true),
        entries: 1,
        counts_from_zero: true,
        plans: Some(3),
        plan_ns: Some(4),
        rows: 5,
        shared_hit: 6,
        shared_read: 7,
        shared_dirtied: 8,
        shared_written: 9,
        local_blocks: 10,
        temp_read: 11,
        temp_written: 12,
        read_ns: 13,
        write_ns: 14,
        wal_records: Some(15),
        wal_full_pages: Some(16),
        wal_bytes: Some(17),
        jit_functions: Some(18),
        jit_ns: Some(19),
        workers_planned: Some(20),
        workers_launched: Some(21),
        exec_square_us2: Some(22),
        ..hidden.clone()
    };
    [hidden, full]
}

fn activity() -> [Activity; 2] {
    let running = Activity {
        at_ns: 1_000_000_000,
        backend: "client backend".to_owned(),
        state: "active".to_owned(),
        count: 3,
        ..Activity::default()
    };
    let waiting = Activity {
        fingerprint: Some(Fingerprint(2)),
        query_id: Some(5),
        database: Some("shop".to_owned()),
        wait_type: Some("Lock".to_owned()),
        wait: Some("tuple".to_owned()),
        ..running.clone()
    };
    [running, waiting]
}

const WINDOW: SampleWindow = SampleWindow {
    at_ns: 1_000_000_000,
    until_ns: 2_000_000_000,
    samples: 19,
    missed: 1,
};

fn blocking() -> Blocking {
    Blocking {
        at_ns: 4,
        blocked: Some(Fingerprint(2)),
        blocker: None,
        blocker_state: "idle in transaction".to_owned(),
        wait: "transactionid".to_owned(),
        count: 2,
    }
}

fn locks() -> LockCount {
    LockCount {
        at_ns: 5,
        kind: "relation".to_owned(),
        mode: "AccessShareLock".to_owned(),
        fast_path: true,
        granted: true,
        locks: 31,
        backends: 2,
        most: 16,
    }
}

fn counter() -> Counter {
    Counter {
        at_ns: 6,
        source: "queue".to_owned(),
        object: "mail".to_owned(),
        name: "age".to_owned(),
        value: 1.5,
        gauge: true,
    }
}

fn write(writer: &mut ObservedWriter) {
    for note in notes() {
        writer.note(&note).unwrap();
    }
    // The second time it is known.
    assert!(!writer.has_statement(seen().fingerprint));
    writer.seen(&seen()).unwrap();
    writer.seen(&seen()).unwrap();
    assert!(writer.has_statement(seen().fingerprint));
    for row in statistics() {
        writer.statistics(&row).unwrap();
    }
    writer.window(&WINDOW, &activity()).unwrap();
    writer.blocking(&blocking()).unwrap();
    writer.locks(&locks()).unwrap();
    writer.counter(&counter()).unwrap();
}

fn check(reader: &RunReader) {
    fn all<R>(rows: Result<run::Stream<R>, run::ArchiveError>) -> Vec<R> {
        rows.unwrap().map(Result::unwrap).collect()
    }
    reader.verify().unwrap();
    assert!(reader.is_observed());
    assert_eq!(reader.probes().unwrap(), notes());
    assert_eq!(all(reader.observed_statements()), [seen()]);
    assert_eq!(all(reader.statement_statistics()), statistics());
    assert_eq!(all(reader.sample_windows()), [WINDOW]);
    assert_eq!(all(reader.activity()), activity());
    assert_eq!(all(reader.blocking()), [blocking()]);
    assert_eq!(all(reader.locks()), [locks()]);
    assert_eq!(all(reader.counters()), [counter()]);
}

#[test]
fn observations_are_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let mut observed = writer.observed().unwrap();
    // On whichever thread.
    let observed = std::thread::spawn(move || {
        write(&mut observed);
        observed
    });
    writer.take_observed(observed.join().unwrap()).unwrap();
    let mut told = info();
    told.elapsed_ns = 7;
    let told = writer.finish(told, 0).unwrap();
    // Nothing was done, so that its time is the one that it was given.
    assert_eq!((told.elapsed_ns, told.statements), (7, 0));
    assert!(told.is_observation());
    check(&RunReader::open(&path).unwrap());
}

#[test]
fn observations_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let mut observed = writer.observed().unwrap();
    write(&mut observed);
    observed.flush().unwrap();
    observed.locks(&locks()).unwrap();
    std::mem::forget((writer, observed));
    let partial = directory.path().join("a.run.partial");
    unlocked(&partial);
    let (_, told) = run::recover(&partial).unwrap();
    assert_eq!(told.status, RunStatus::Recovered);
    check(&RunReader::open(&path).unwrap());
}

#[test]
fn a_run_that_was_not_watched_has_nothing_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    writer.finish(info(), 0).unwrap();
    let reader = RunReader::open(&path).unwrap();
    assert!(!reader.is_observed());
    assert_eq!(reader.probes().unwrap(), []);
    assert_eq!(reader.activity().unwrap().count(), 0);
}
