//! Statements: what the server counted of each, and what its samples met it at.

use std::collections::HashMap;

use run::{Activity, StatementStatistics};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::observed::Wait;

/// A statement, or all those that the role may not see.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ObservedStatement {
    /// `None`: the role may not see which.
    pub fingerprint: Option<Fingerprint>,
    /// Its normal form.
    pub sql: Option<String>,
    /// What was counted of it; `None` where it was met in samples only.
    pub counted: Option<StatementTotals>,
    /// In how many samples a process was met at it.
    pub samples: u64,
    /// What it was met at, the most first.
    pub waits: Vec<Wait>,
}

impl ObservedStatement {
    /// Its planning and execution time, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.counted
            .map_or(0, |one| one.plan_ns.unwrap_or(0) + one.exec_ns)
    }
}

/// What the server counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatementTotals {
    /// Executions.
    pub calls: u64,
    /// How often it was planned; `None` where nobody counted that.
    pub plans: Option<u64>,
    /// Time of planning, in nanoseconds.
    pub plan_ns: Option<u64>,
    /// Time of execution, in nanoseconds.
    pub exec_ns: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Shared buffers found.
    pub shared_hit: u64,
    /// Shared buffers read.
    pub shared_read: u64,
    /// Blocks of temporary files, read and written.
    pub temp_blocks: u64,
    /// Time of reading and writing blocks, in nanoseconds; 0 where it is not timed.
    pub io_ns: u64,
    /// Bytes of WAL; `None` where nobody counted them.
    pub wal_bytes: Option<u64>,
    /// Whole pages in it; `None` where nobody counted them.
    pub wal_full_pages: Option<u64>,
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
    }
}

impl StatementTotals {
    fn add(&mut self, row: &StatementStatistics) {
        self.calls += row.calls;
        self.plans = sum(self.plans, row.plans);
        self.plan_ns = sum(self.plan_ns, row.plan_ns);
        self.exec_ns += row.exec_ns;
        self.rows += row.rows;
        self.shared_hit += row.shared_hit;
        self.shared_read += row.shared_read;
        self.temp_blocks += row.temp_read + row.temp_written;
        self.io_ns += row.read_ns + row.write_ns;
        self.wal_bytes = sum(self.wal_bytes, row.wal_bytes);
        self.wal_full_pages = sum(self.wal_full_pages, row.wal_full_pages);
    }
}

/// Samples by type and event.
type ByWait = HashMap<(Option<String>, Option<String>), u64>;

/// Sums up.
#[derive(Default)]
pub(super) struct Statements {
    totals: StatementTotals,
    counted: HashMap<Option<Fingerprint>, StatementTotals>,
    met: HashMap<Option<Fingerprint>, ByWait>,
    /// The server's numbers for statements whose texts it knows as a whole.
    by_query_id: HashMap<i64, Fingerprint>,
}

impl Statements {
    pub(super) fn counted(&mut self, row: &StatementStatistics) {
        // What a function did is in the time of the statement that called it.
        if row.top_level != Some(false) {
            self.totals.add(row);
        }
        self.counted.entry(row.fingerprint).or_default().add(row);
        if let (Some(id), Some(fingerprint)) = (row.query_id, row.fingerprint) {
            self.by_query_id.insert(id, fingerprint);
        }
    }

    /// `cut`: the sample has the beginning of the text only.
    pub(super) fn met(&mut self, row: &Activity, cut: bool) {
        let whole = row.query_id.filter(|_| cut);
        let whole = whole.and_then(|id| self.by_query_id.get(&id).copied());
        let waits = self.met.entry(whole.or(row.fingerprint)).or_default();
        let wait = (row.wait_type.clone(), row.wait.clone());
        *waits.entry(wait).or_default() += row.count;
    }

    pub(super) fn finish(
        mut self,
        texts: &HashMap<Fingerprint, (String, bool)>,
    ) -> (Vec<ObservedStatement>, StatementTotals) {
        let mut fingerprints: Vec<Option<Fingerprint>> = self.counted.keys().copied().collect();
        let uncounted = self
            .met
            .keys()
            .filter(|one| !self.counted.contains_key(one));
        fingerprints.extend(uncounted);
        let mut all: Vec<ObservedStatement> = fingerprints
            .into_iter()
            .map(|fingerprint| {
                let waits = self.met.remove(&fingerprint).unwrap_or_default();
                let mut waits: Vec<Wait> = waits
                    .into_iter()
                    .map(|((kind, wait), samples)| Wait {
                        kind,
                        wait,
                        samples,
                    })
                    .collect();
                waits.sort_by(|a, b| (b.samples, &a.wait).cmp(&(a.samples, &b.wait)));
                ObservedStatement {
                    fingerprint,
                    sql: fingerprint
                        .and_then(|one| texts.get(&one))
                        .map(|(sql, _)| sql.clone()),
                    counted: self.counted.get(&fingerprint).copied(),
                    samples: waits.iter().map(|wait| wait.samples).sum(),
                    waits,
                }
            })
            .collect();
        all.sort_by_key(|one| {
            (
                u64::MAX - one.total_ns(),
                u64::MAX - one.samples,
                one.fingerprint,
            )
        });
        (all, self.totals)
    }
}
