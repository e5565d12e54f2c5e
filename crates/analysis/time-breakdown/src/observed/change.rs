//! Observed numbers of the targets before and after a change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Observed;

/// Maximum number of counters that are listed.
const COUNTERS_MAX: usize = 300;

/// Observed numbers of the targets, averaged over the runs of each side.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ObservedChange {
    /// Numbers from statement statistics, locks, the machine and the user's query, in this order;
    /// then the server's counters by descending relative change.
    pub numbers: Vec<NumberChange>,
    /// Number of counters that are left out.
    pub left_out: u64,
}

/// Number before and after.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct NumberChange {
    /// Its source: `pg_stat_statements`, `locks`, `machine`, `queue`, or the server's view.
    pub source: String,
    /// The object, such as a table or a database; empty if there is only one.
    pub object: String,
    /// Its name, with its unit if it has one.
    pub name: String,
    /// Value in a run before; `null` if no run has it.
    pub before: Option<f64>,
    /// Value in a run after; `null` if no run has it.
    pub after: Option<f64>,
}

impl NumberChange {
    /// Returns the change as a share of the greater number: 0 is none, 1 is from or to zero.
    pub fn share(&self) -> f64 {
        let (before, after) = (self.before.unwrap_or(0.0), self.after.unwrap_or(0.0));
        let greater = before.abs().max(after.abs());
        match greater > 0.0 {
            true => (after - before).abs() / greater,
            false => 0.0,
        }
    }
}

/// Group and position within the group, then source, object and name.
type Key = (usize, usize, String, String, String);

impl ObservedChange {
    /// Compares the runs of both sides; `None` if a side has none.
    pub fn new(before: &[Observed], after: &[Observed]) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        let mut sums: BTreeMap<Key, [Option<f64>; 2]> = BTreeMap::new();
        for (side, runs) in [before, after].into_iter().enumerate() {
            for run in runs {
                for (key, value) in numbers(run) {
                    let sum = &mut sums.entry(key).or_default()[side];
                    *sum = Some(sum.unwrap_or(0.0) + value / runs.len() as f64);
                }
            }
        }
        let (mut few, mut counters) = (Vec::new(), Vec::new());
        for ((group, _, source, object, name), [before, after]) in sums {
            let one = NumberChange {
                source,
                object,
                name,
                before,
                after,
            };
            match group {
                COUNTERS => counters.push(one),
                _ => few.push(one),
            }
        }
        counters.retain(|one| one.share() > 0.0);
        counters.sort_by(|one, other| other.share().total_cmp(&one.share()));
        let left_out = counters.len().saturating_sub(COUNTERS_MAX) as u64;
        counters.truncate(COUNTERS_MAX);
        few.extend(counters);
        Some(Self {
            numbers: few,
            left_out,
        })
    }
}

const COUNTERS: usize = 4;

/// Returns all numbers with their keys.
fn numbers(run: &Observed) -> Vec<(Key, f64)> {
    let mut found = Vec::new();
    let mut add = |place: (usize, usize), source: &str, object: &str, name: &str, value| {
        if let Some(value) = value {
            let key = (
                place.0,
                place.1,
                source.to_owned(),
                object.to_owned(),
                name.to_owned(),
            );
            found.push((key, value));
        }
    };
    let totals = &run.totals;
    let counted = |value: u64| (totals.calls > 0).then_some(value as f64);
    let ms = |ns: u64| ns as f64 / 1e6;
    let statements = [
        ("calls", counted(totals.calls)),
        ("plans", totals.plans.map(|plans| plans as f64)),
        ("planning, ms", totals.plan_ns.map(ms)),
        ("execution, ms", counted(totals.exec_ns).map(|ns| ns / 1e6)),
        ("rows", counted(totals.rows)),
        ("shared buffers found", counted(totals.shared_hit)),
        ("shared buffers read", counted(totals.shared_read)),
        ("temporary blocks", counted(totals.temp_blocks)),
        ("WAL, bytes", totals.wal_bytes.map(|bytes| bytes as f64)),
    ];
    for (at, (name, value)) in statements.into_iter().enumerate() {
        add((0, at), "pg_stat_statements", "", name, value);
    }
    if let Some(locks) = &run.locks {
        let counts = [
            ("most at a moment", locks.max),
            ("most that waited at a moment", locks.max_waiting),
            (
                "most of one process past the fast path",
                locks.past_fast_path_max,
            ),
        ];
        for (at, (name, value)) in counts.into_iter().enumerate() {
            add((1, at), "locks", "", name, Some(value as f64));
        }
    }
    if let Some(machine) = &run.machine {
        let amounts = [
            (
                "server's processor time, s",
                machine.server_user_s + machine.server_system_s,
            ),
            ("processors busy, share", machine.busy),
            ("waiting for a disk, share", machine.waiting_for_disk),
            ("read from disks, bytes", machine.disk_read_bytes),
            ("written to disks, bytes", machine.disk_written_bytes),
            (
                "received over the network, bytes",
                machine.network_received_bytes,
            ),
            ("sent over the network, bytes", machine.network_sent_bytes),
        ];
        for (at, (name, value)) in amounts.into_iter().enumerate() {
            add((2, at), "machine", "", name, Some(value));
        }
    }
    for series in &run.queue {
        let name = format!("{}, mean", series.name);
        add((3, 0), "queue", &series.object, &name, Some(series.mean));
    }
    for one in run.counters.iter().filter(|one| !one.gauge) {
        // Counters have no fixed order.
        let value = Some(one.delta);
        add((COUNTERS, 0), &one.source, &one.object, &one.name, value);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{CounterChange, Locks};

    fn run(calls: u64, wal: Option<u64>, counters: &[(&str, f64)]) -> Observed {
        let mut run = Observed {
            locks: Some(Locks {
                max: 3,
                ..Locks::default()
            }),
            ..Observed::default()
        };
        run.totals.calls = calls;
        run.totals.wal_bytes = wal;
        for (name, delta) in counters {
            run.counters.push(CounterChange {
                source: "pg_stat_database".to_owned(),
                object: "shop".to_owned(),
                name: (*name).to_owned(),
                delta: *delta,
                ..CounterChange::default()
            });
        }
        run
    }

    #[test]
    fn numbers_are_paired_and_counters_sorted_by_change() {
        let before = [
            run(
                100,
                Some(1_000),
                &[("blks_read", 10.0), ("tup_returned", 50.0)],
            ),
            run(
                200,
                Some(3_000),
                &[("blks_read", 30.0), ("tup_returned", 50.0)],
            ),
        ];
        let after = [run(
            150,
            None,
            &[
                ("blks_read", 25.0),
                ("tup_returned", 50.0),
                ("deadlocks", 1.0),
            ],
        )];
        let change = ObservedChange::new(&before, &after).unwrap();
        let of = |name: &str| {
            let one = change.numbers.iter().find(|one| one.name == name).unwrap();
            (one.before, one.after)
        };
        assert_eq!(of("calls"), (Some(150.0), Some(150.0)));
        assert_eq!(of("WAL, bytes"), (Some(2_000.0), None));
        assert_eq!(of("most at a moment"), (Some(3.0), Some(3.0)));
        let counters: Vec<_> = change
            .numbers
            .iter()
            .filter(|one| one.source == "pg_stat_database")
            .map(|one| (one.name.as_str(), one.before, one.after))
            .collect();
        assert_eq!(
            counters,
            [
                ("deadlocks", None, Some(1.0)),
                ("blks_read", Some(20.0), Some(25.0))
            ]
        );
        assert_eq!(ObservedChange::new(&before, &[]), None);
    }
}
