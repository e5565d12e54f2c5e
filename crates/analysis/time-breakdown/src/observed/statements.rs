//! Statements: the server's statistics, and wait events from samples.

use std::collections::HashMap;

use run::{Activity, StatementStatistics};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::observed::Wait;

/// Statement, or all statements that the role may not see.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ObservedStatement {
    /// Fingerprint; `None` for statements that the role may not see.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL.
    pub sql: Option<String>,
    /// Statistics of the server; `None` if it was only found in samples.
    pub counted: Option<StatementTotals>,
    /// Number of samples that found a process executing it.
    pub samples: u64,
    /// Wait events, the most frequent first.
    pub waits: Vec<Wait>,
}

impl ObservedStatement {
    /// Returns its planning and execution time, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.counted
            .map_or(0, |one| one.plan_ns.unwrap_or(0) + one.exec_ns)
    }
}

/// Statistics that the server counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StatementTotals {
    /// Executions.
    pub calls: u64,
    /// Number of times that it was planned; `None` if not tracked.
    pub plans: Option<u64>,
    /// Planning time, in nanoseconds.
    pub plan_ns: Option<u64>,
    /// Execution time, in nanoseconds.
    pub exec_ns: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Shared buffer hits.
    pub shared_hit: u64,
    /// Shared buffer reads.
    pub shared_read: u64,
    /// Blocks of temporary tables, found, read, dirtied and written.
    pub local_blocks: u64,
    /// Blocks of temporary files, read and written.
    pub temp_blocks: u64,
    /// Time of reading and writing blocks, in nanoseconds; 0 if not tracked.
    pub io_ns: u64,
    /// Records of WAL; `None` if not tracked.
    pub wal_records: Option<u64>,
    /// Bytes of WAL; `None` if not tracked.
    pub wal_bytes: Option<u64>,
    /// Full-page images in it; `None` if not tracked.
    pub wal_full_pages: Option<u64>,
    /// Sum of the squares of the execution times, in square microseconds; `None` if not tracked.
    pub exec_square_us2: Option<u64>,
    /// Functions that were JIT-compiled; `None` if not tracked.
    pub jit_functions: Option<u64>,
    /// Time of JIT compilation, in nanoseconds, which is part of the execution time; `None` if not tracked.
    pub jit_ns: Option<u64>,
    /// Parallel workers that plans asked for; `None` if not tracked.
    pub workers_planned: Option<u64>,
    /// Parallel workers that were launched; `None` if not tracked.
    pub workers_launched: Option<u64>,
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    }
}

impl StatementTotals {
    /// Adds other totals.
    pub fn merge(&mut self, other: &StatementTotals) {
        self.calls += other.calls;
        self.plans = sum(self.plans, other.plans);
        self.plan_ns = sum(self.plan_ns, other.plan_ns);
        self.exec_ns += other.exec_ns;
        self.rows += other.rows;
        self.shared_hit += other.shared_hit;
        self.shared_read += other.shared_read;
        self.local_blocks += other.local_blocks;
        self.temp_blocks += other.temp_blocks;
        self.io_ns += other.io_ns;
        self.wal_records = sum(self.wal_records, other.wal_records);
        self.wal_bytes = sum(self.wal_bytes, other.wal_bytes);
        self.wal_full_pages = sum(self.wal_full_pages, other.wal_full_pages);
        self.exec_square_us2 = sum(self.exec_square_us2, other.exec_square_us2);
        self.jit_functions = sum(self.jit_functions, other.jit_functions);
        self.jit_ns = sum(self.jit_ns, other.jit_ns);
        self.workers_planned = sum(self.workers_planned, other.workers_planned);
        self.workers_launched = sum(self.workers_launched, other.workers_launched);
    }

    /// Adds the counts of an entry between two readings.
    pub fn add(&mut self, row: &StatementStatistics) {
        self.merge(&StatementTotals {
            calls: row.calls,
            plans: row.plans,
            plan_ns: row.plan_ns,
            exec_ns: row.exec_ns,
            rows: row.rows,
            shared_hit: row.shared_hit,
            shared_read: row.shared_read,
            local_blocks: row.local_blocks,
            temp_blocks: row.temp_read + row.temp_written,
            io_ns: row.read_ns + row.write_ns,
            wal_records: row.wal_records,
            wal_bytes: row.wal_bytes,
            wal_full_pages: row.wal_full_pages,
            exec_square_us2: row.exec_square_us2,
            jit_functions: row.jit_functions,
            jit_ns: row.jit_ns,
            workers_planned: row.workers_planned,
            workers_launched: row.workers_launched,
        });
    }
}

/// Samples by type and event of the wait.
type ByWait = HashMap<(Option<String>, Option<String>), u64>;

/// Sums statement statistics and samples.
#[derive(Default)]
pub(super) struct Statements {
    totals: StatementTotals,
    statistics: HashMap<Option<Fingerprint>, StatementTotals>,
    samples: HashMap<Option<Fingerprint>, ByWait>,
    /// Query identifiers of statements whose full text is known.
    by_query_id: HashMap<i64, Fingerprint>,
}

impl Statements {
    pub(super) fn add_statistics(&mut self, row: &StatementStatistics) {
        // Statements of functions are included in the statement that called them.
        if row.top_level != Some(false) {
            self.totals.add(row);
        }
        self.statistics.entry(row.fingerprint).or_default().add(row);
        if let (Some(id), Some(fingerprint)) = (row.query_id, row.fingerprint) {
            self.by_query_id.insert(id, fingerprint);
        }
    }

    /// Adds samples. `cut` says that the sample has a truncated text.
    pub(super) fn add_samples(&mut self, row: &Activity, cut: bool) {
        let whole = row.query_id.filter(|_| cut);
        let whole = whole.and_then(|id| self.by_query_id.get(&id).copied());
        let waits = self.samples.entry(whole.or(row.fingerprint)).or_default();
        let wait = (row.wait_type.clone(), row.wait.clone());
        *waits.entry(wait).or_default() += row.count;
    }

    pub(super) fn finish(
        mut self,
        texts: &HashMap<Fingerprint, (String, bool)>,
    ) -> (Vec<ObservedStatement>, StatementTotals) {
        let mut fingerprints: Vec<Option<Fingerprint>> = self.statistics.keys().copied().collect();
        let uncounted = self
            .samples
            .keys()
            .filter(|one| !self.statistics.contains_key(one));
        fingerprints.extend(uncounted);
        let mut all: Vec<ObservedStatement> = fingerprints
            .into_iter()
            .map(|fingerprint| {
                let waits = self.samples.remove(&fingerprint).unwrap_or_default();
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
                    counted: self.statistics.get(&fingerprint).copied(),
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
