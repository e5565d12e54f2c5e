//! Summaries of synthetic observations: shares refer to the right totals, and unknown numbers stay
//! unknown.

use run::{
    Activity, Blocking, Counter, LockCount, ProbeNote, ProbeState, SampleWindow, SampledStatement,
    StatementStatistics,
};
use sql::{Fingerprint, StatementClass};
use time_breakdown::observed::{ObservationSummary, Observed};

fn seen(fingerprint: u64, sql: &str, cut: bool) -> SampledStatement {
    SampledStatement {
        fingerprint: Fingerprint(fingerprint),
        class: StatementClass::Select,
        sql: sql.to_owned(),
        is_truncated: cut,
    }
}

fn counted(fingerprint: Option<u64>, calls: u64, plan_ns: Option<u64>) -> StatementStatistics {
    StatementStatistics {
        fingerprint: fingerprint.map(Fingerprint),
        query_id: fingerprint.map(|one| one as i64 * 10),
        entries: 1,
        calls,
        plans: plan_ns.map(|_| calls),
        plan_ns,
        exec_ns: calls * 1_000,
        ..StatementStatistics::default()
    }
}

fn met(fingerprint: u64, wait: Option<&str>, count: u64) -> Activity {
    Activity {
        fingerprint: Some(Fingerprint(fingerprint)),
        query_id: Some(10),
        backend: "client backend".to_owned(),
        state: "active".to_owned(),
        wait_type: wait.map(|_| "Lock".to_owned()),
        wait: wait.map(str::to_owned),
        count,
        ..Activity::default()
    }
}

fn counter(at_s: i64, source: &str, object: &str, name: &str, value: f64) -> Counter {
    Counter {
        at_ns: at_s * 1_000_000_000,
        source: source.to_owned(),
        object: object.to_owned(),
        name: name.to_owned(),
        value,
        gauge: source == "queue",
    }
}

fn summed(fill: impl FnOnce(&mut ObservationSummary)) -> Observed {
    let mut sum = ObservationSummary::default();
    fill(&mut sum);
    sum.finish()
}

#[test]
fn untracked_planning_is_unknown_not_zero() {
    let observed = summed(|sum| {
        sum.add_seen_statement(seen(1, "select planned", false));
        sum.add_seen_statement(seen(2, "select run", false));
        // 10 calls of 1 µs and 20 µs of planning; 25 calls of 1 µs without tracked planning.
        sum.add_statistics(&counted(Some(1), 4, Some(10_000)));
        sum.add_statistics(&counted(Some(1), 6, Some(10_000)));
        sum.add_statistics(&counted(Some(2), 25, None));
        sum.add_statistics(&counted(None, 1, None));
        // Statements of functions are included in the statement that called them.
        sum.add_statistics(&StatementStatistics {
            top_level: Some(false),
            ..counted(Some(2), 1_000, None)
        });
    });
    let of = |place: usize| observed.statements[place].counted.unwrap();
    assert_eq!(observed.statements[0].sql.as_deref(), Some("select run"));
    assert_eq!(observed.statements[1].total_ns(), 30_000);
    assert_eq!(
        (of(1).calls, of(1).plans, of(1).plan_ns),
        (10, Some(10), Some(20_000))
    );
    assert_eq!((of(0).plans, of(0).plan_ns), (None, None));
    assert_eq!(observed.statements[2].fingerprint, None);
    assert_eq!(observed.total_ns(), 10_000 + 20_000 + 25_000 + 1_000);
}

#[test]
fn waits_are_those_of_active_clients() {
    let observed = summed(|sum| {
        sum.add_seen_statement(seen(
            1,
            "update t set x = $1 where the text is whole",
            false,
        ));
        sum.add_seen_statement(seen(7, "update t set x = $1 where the te", true));
        sum.add_statistics(&counted(Some(1), 1, None));
        for at in 0..2 {
            sum.add_window(&SampleWindow {
                at_ns: at * 1_000_000_000,
                until_ns: (at + 1) * 1_000_000_000,
                samples: 20,
                missed: 1,
            });
        }
        sum.add_activity(&met(1, Some("transactionid"), 10));
        // The truncated text of the same statement, as the query identifier shows.
        sum.add_activity(&met(7, Some("transactionid"), 5));
        sum.add_activity(&met(1, None, 5));
        sum.add_activity(&Activity {
            state: "idle in transaction".to_owned(),
            ..met(1, None, 40)
        });
        sum.add_activity(&Activity {
            backend: "walwriter".to_owned(),
            ..met(1, Some("WALSync"), 3)
        });
    });
    assert_eq!((observed.samples, observed.samples_missed), (40, 2));
    assert_eq!(observed.sampled_ns, 2_000_000_000);
    assert_eq!(
        (observed.active_samples, observed.idle_in_transaction),
        (20, 40)
    );
    let waits: Vec<_> = observed
        .waits
        .iter()
        .map(|wait| (wait.wait.as_deref(), wait.samples))
        .collect();
    assert_eq!(waits, [(Some("transactionid"), 15), (None, 5)]);
    assert_eq!(observed.server_waits.len(), 1);
    assert_eq!(observed.statements.len(), 1, "{:?}", observed.statements);
    assert_eq!(observed.statements[0].samples, 20);
}

#[test]
fn locks_are_counted_by_time() {
    let lock = |at_ns, mode: &str, fast_path, granted, locks, most| LockCount {
        at_ns,
        kind: "relation".to_owned(),
        mode: mode.to_owned(),
        fast_path,
        granted,
        locks,
        backends: 1,
        most,
    };
    let weak = "weak modes together";
    let observed = summed(|sum| {
        sum.add_locks(&lock(1, "AccessShareLock", true, true, 16, 16));
        sum.add_locks(&lock(1, "AccessShareLock", false, true, 34, 34));
        sum.add_locks(&lock(1, weak, true, true, 16, 16));
        sum.add_locks(&lock(1, weak, false, true, 34, 34));
        sum.add_locks(&lock(2, "ShareLock", false, false, 3, 1));
        sum.add_blocking(&Blocking {
            count: 2,
            ..Blocking::default()
        });
        sum.add_blocking(&Blocking {
            count: 3,
            ..Blocking::default()
        });
    });
    let locks = observed.locks.unwrap();
    assert_eq!((locks.samples, locks.max, locks.max_waiting), (2, 50, 3));
    assert_eq!((locks.fast_path_max, locks.past_fast_path_max), (16, 34));
    assert_eq!((locks.fast_path, locks.past_fast_path), (16, 34));
    assert_eq!(observed.blocking[0].samples, 5);
}

#[test]
fn reset_counter_counts_from_zero() {
    let observed = summed(|sum| {
        for (at, value) in [100.0, 160.0, 20.0, 50.0].into_iter().enumerate() {
            sum.add_counter(&counter(at as i64, "pg_stat_wal", "", "wal_bytes", value));
        }
        sum.add_counter(&counter(0, "pg_stat_wal", "", "still", 5.0));
        for (at, value) in [4.0, 8.0, 3.0].into_iter().enumerate() {
            sum.add_counter(&counter(at as i64, "queue", "mail", "waiting", value));
        }
    });
    assert_eq!(observed.counters.len(), 1);
    assert_eq!(observed.counters[0].delta, 60.0 + 20.0 + 30.0);
    let queue = &observed.queue[0];
    assert_eq!(
        (queue.first, queue.last, queue.min, queue.max),
        (4.0, 3.0, 3.0, 8.0)
    );
    assert_eq!(queue.mean, 5.0);
}

#[test]
fn machine_shares_refer_to_processor_time() {
    let observed = summed(|sum| {
        for (name, first, last) in [
            ("user", 10.0, 16.0),
            ("idle", 100.0, 112.0),
            ("iowait", 1.0, 3.0),
        ] {
            sum.add_counter(&counter(0, "cpu", "", name, first));
            sum.add_counter(&counter(10, "cpu", "", name, last));
        }
        // Busy all the time at its end: no row of `idle` any more.
        sum.add_counter(&counter(10, "cpu", "", "context_switches", 9.0));
        sum.add_counter(&counter(0, "server", "", "user_seconds", 2.0));
        sum.add_counter(&counter(9, "server", "", "user_seconds", 5.0));
        sum.add_counter(&counter(0, "network", "lo", "sent_bytes", 0.0));
        sum.add_counter(&counter(9, "network", "lo", "sent_bytes", 1e9));
    });
    let machine = observed.machine.unwrap();
    assert_eq!((machine.busy, machine.waiting_for_disk), (0.3, 0.1));
    assert_eq!((machine.server_user_s, machine.over_s), (3.0, 10.0));
    assert_eq!(
        (machine.network_received_bytes, machine.network_sent_bytes),
        (0.0, 0.0)
    );
    assert_eq!(machine.pressure, None);
    assert_eq!(observed.counters, []);
}

#[test]
fn last_note_of_a_probe_applies() {
    let note = |probe: &str, state, text: &str| ProbeNote {
        probe: probe.to_owned(),
        state,
        text: text.to_owned(),
        ..ProbeNote::default()
    };
    let observed = summed(|sum| {
        sum.add_notes(vec![
            note("activity", ProbeState::On, ""),
            note("statements", ProbeState::Off, "not there"),
            note("connection", ProbeState::Lost, ""),
            note("track_io_timing", ProbeState::Changeable, "off"),
            note("activity", ProbeState::Off, "it failed"),
            ProbeNote {
                questions: Some(7),
                ..note("activity", ProbeState::Ended, "")
            },
        ]);
    });
    let of = |name: &str| {
        observed
            .probes
            .iter()
            .find(|one| one.probe == name)
            .unwrap()
    };
    assert_eq!(of("activity").disabled_reason.as_deref(), Some("it failed"));
    assert_eq!(of("activity").queries, 7);
    assert_eq!(
        of("statements").disabled_reason.as_deref(),
        Some("not there")
    );
    assert_eq!((observed.notes.len(), observed.host.len()), (1, 1));
}
