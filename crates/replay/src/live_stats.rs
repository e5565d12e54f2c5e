//! Statistics of a running replay: latency histograms with fine resolution, and totals by statement.
//!
//! The recorder thread keeps them, from the records it gets from the workers, and only if
//! [`crate::Metrics::enable_live_stats`] was called. Memory is bounded by a number of statements; further statements are
//! counted together. A reader takes differences to get a course over time. The texts of statements are in the
//! workload.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use run::{Execution, Outcome};
use sql::Fingerprint;

/// Most statements with separate totals; the calls of others are counted together.
const STATEMENTS_MAX: usize = 16_384;

/// Cells for each doubling: a cell is at most a sixteenth of its lower bound wide.
const PARTS: u64 = 16;
const PARTS_BITS: u32 = PARTS.trailing_zeros();
/// Binary logarithm of the unit, 64 ns.
const UNIT_BITS: u32 = 6;
/// Number of cells: up to 2⁴⁴ ns, which is 4.9 hours. Longer times are in the last cell.
const CELLS: usize = (44 - UNIT_BITS - PARTS_BITS + 1) as usize * PARTS as usize;

/// Histogram of durations. Its quantiles are exact to 7 %, from 1 µs to 4.9 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    cells: Vec<u64>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram {
            cells: vec![0; CELLS],
        }
    }
}

fn cell_of(ns: i64) -> usize {
    let units = ns.max(0) as u64 >> UNIT_BITS;
    if units < PARTS {
        return units as usize;
    }
    let doublings = units.ilog2() - PARTS_BITS;
    let part = (units >> doublings) & (PARTS - 1);
    let cell = (u64::from(doublings) + 1) * PARTS + part;
    (cell as usize).min(CELLS - 1)
}

/// Returns the lower bound of a cell, in nanoseconds.
fn start_of(cell: usize) -> u64 {
    let (doublings, part) = (cell as u64 / PARTS, cell as u64 % PARTS);
    let units = match doublings {
        0 => part,
        more => (PARTS + part) << (more - 1),
    };
    units << UNIT_BITS
}

impl LatencyHistogram {
    /// Counts a duration in nanoseconds; a negative one as 0.
    pub fn count(&mut self, ns: i64) {
        self.cells[cell_of(ns)] += 1;
    }

    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Returns the durations counted since `earlier`, a former state of this histogram.
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let pairs = self.cells.iter().zip(&earlier.cells);
        LatencyHistogram {
            cells: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, others: &LatencyHistogram) {
        for (cell, other) in self.cells.iter_mut().zip(&others.cells) {
            *cell += other;
        }
    }

    /// Returns the quantile `part` (0 to 1), in nanoseconds; `None` if the histogram is empty.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        // The rank from 1, as in a sorted list.
        let rank = ((part * total as f64).ceil() as u64).clamp(1, total);
        let mut before = 0;
        for (cell, &count) in self.cells.iter().enumerate() {
            if before + count >= rank {
                // Durations below the resolution count as 0.
                if cell == 0 {
                    return Some(0);
                }
                // Durations within a cell are assumed to be uniform.
                let (from, to) = (start_of(cell), start_of(cell + 1));
                let within = (rank - before) as f64 / count as f64;
                return Some(from + ((to - from) as f64 * within) as u64);
            }
            before += count;
        }
        None
    }

    /// Returns the cells that are not empty, as pairs of index and count.
    pub fn to_sparse(&self) -> Vec<(u16, u64)> {
        let all = self.cells.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(cell, count)| (cell as u16, *count))
            .collect()
    }

    /// Restores a histogram from the pairs of [`Self::to_sparse`].
    pub fn from_sparse(packed: &[(u16, u64)]) -> LatencyHistogram {
        let mut times = LatencyHistogram::default();
        for &(cell, count) in packed {
            times.cells[usize::from(cell)] += count;
        }
        times
    }
}

/// Histograms of all statements that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatencyHistograms {
    /// Response times, from due to done, of answered statements.
    pub response: LatencyHistogram,
    /// Tool lag of sent statements.
    pub tool_lag: LatencyHistogram,
    /// Session lag of sent statements.
    pub session_lag: LatencyHistogram,
}

/// Totals of one statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementTotals {
    /// The statement; `None` for the totals of several.
    pub fingerprint: Option<Fingerprint>,
    /// Number of answers, failures included.
    pub calls: u64,
    /// Number of failures.
    pub failed: u64,
    /// Sum of its service times (sent to done), in nanoseconds.
    pub service_ns: u64,
    /// Longest service time, in nanoseconds.
    pub longest_ns: u64,
    /// Number of calls with a captured duration.
    pub captured_calls: u64,
    /// Sum of the captured durations, in microseconds, as the captured server measured them.
    pub captured_us: u64,
}

impl StatementTotals {
    fn count(&mut self, execution: &Execution, service_ns: i64) {
        let service_ns = service_ns.max(0) as u64;
        self.calls += 1;
        self.failed += u64::from(matches!(execution.outcome, Outcome::Failed(_)));
        self.service_ns += service_ns;
        self.longest_ns = self.longest_ns.max(service_ns);
        if let Some(captured_us) = execution.captured.duration_us {
            self.captured_calls += 1;
            self.captured_us += captured_us;
        }
    }

    fn add(&mut self, other: &StatementTotals) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.service_ns += other.service_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.captured_calls += other.captured_calls;
        self.captured_us += other.captured_us;
    }
}

/// Statements with the most service time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopStatements {
    /// Totals in descending order of service time.
    pub statements: Vec<StatementTotals>,
    /// Totals of all other statements together.
    pub others: StatementTotals,
    /// Number of other statements that have separate totals.
    pub other_statements: u64,
}

/// Hasher that returns a fingerprint unchanged, since it is a hash already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Statistics that the recorder keeps.
#[derive(Debug, Default)]
pub(crate) struct LiveStats {
    times: LatencyHistograms,
    statements: HashMap<Fingerprint, StatementTotals, BuildHasherDefault<IdentityHasher>>,
    /// Totals of the statements beyond [`STATEMENTS_MAX`].
    overflow: StatementTotals,
}

impl LiveStats {
    pub(crate) fn count(&mut self, execution: &Execution) {
        if !execution.is_statement() {
            return;
        }
        let Some(tool_lag_ns) = execution.tool_lag_ns() else {
            return;
        };
        self.times.tool_lag.count(tool_lag_ns);
        let session_lag_ns = i64::try_from(execution.session_lag_ns).unwrap_or(i64::MAX);
        self.times.session_lag.count(session_lag_ns);
        let (Some(service_ns), Some(response_ns)) =
            (execution.service_ns(), execution.response_ns())
        else {
            return;
        };
        self.times.response.count(response_ns);
        let there_is_room = self.statements.len() < STATEMENTS_MAX;
        let totals = match execution.fingerprint {
            None => &mut self.overflow,
            Some(fingerprint) if there_is_room => self
                .statements
                .entry(fingerprint)
                .or_insert_with(|| StatementTotals {
                    fingerprint: Some(fingerprint),
                    ..StatementTotals::default()
                }),
            Some(fingerprint) => match self.statements.get_mut(&fingerprint) {
                Some(totals) => totals,
                None => &mut self.overflow,
            },
        };
        totals.count(execution, service_ns);
    }

    pub(crate) fn times(&self) -> LatencyHistograms {
        self.times.clone()
    }

    pub(crate) fn costliest(&self, most: usize) -> TopStatements {
        let mut all: Vec<&StatementTotals> = self.statements.values().collect();
        let key = |one: &&StatementTotals| (u64::MAX - one.service_ns, one.fingerprint);
        if most < all.len() {
            all.select_nth_unstable_by_key(most, key);
        }
        let many = most.min(all.len());
        let (first, rest) = all.split_at_mut(many);
        first.sort_unstable_by_key(key);
        let mut others = self.overflow;
        for one in rest.iter() {
            others.add(one);
        }
        TopStatements {
            statements: first.iter().map(|one| **one).collect(),
            others,
            other_statements: rest.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use run::{Captured, StatementKind};
    use workload::Sqlstate;

    use super::*;

    fn execution(fingerprint: u64, service_ns: i64) -> Execution {
        Execution {
            session: 1,
            sequence: 1,
            fingerprint: Some(Fingerprint(fingerprint)),
            kind: StatementKind::Simple,
            outcome: Outcome::Done,
            due_ns: 0,
            sent_ns: Some(1_000),
            first_byte_ns: Some(1_000),
            done_ns: Some(1_000 + service_ns),
            session_lag_ns: 400,
            stalled_ns: 0,
            rows: 0,
            bytes: 0,
            digest: None,
            message: None,
            captured: Captured {
                duration_us: Some(3),
                ..Captured::default()
            },
        }
    }

    #[test]
    fn latency_cell_contains_its_durations() {
        let mut ns: i64 = 1;
        while ns < 1 << 43 {
            for at in [ns, ns + ns / 3, ns + ns / 2] {
                let cell = cell_of(at);
                let (from, to) = (start_of(cell), start_of(cell + 1));
                assert!((from..to).contains(&(at as u64)), "{at}: {from} to {to}");
                assert!(to - from <= (from / 16).max(64), "{at}: {from} to {to}");
            }
            ns = ns * 5 / 4 + 1;
        }
        assert_eq!(cell_of(-5), 0);
        assert_eq!(cell_of(i64::MAX), CELLS - 1);
        assert_eq!(cell_of((1 << 44) - 1), CELLS - 1);
        assert_eq!(cell_of((1 << 44) - (1 << 39)), CELLS - 1);
        assert_eq!(cell_of((1 << 44) - (1 << 39) - 1), CELLS - 2);
    }

    #[test]
    fn latency_quantiles_match_sorted_durations_within_a_cell() {
        let mut times = LatencyHistogram::default();
        assert_eq!(times.quantile(0.5), None);
        let mut sorted: Vec<i64> = (1..=1_000).map(|at| at * at * 137 % 9_000_001).collect();
        sorted.iter().for_each(|ns| times.count(*ns));
        sorted.sort_unstable();
        for part in [0.0, 0.01, 0.5, 0.95, 0.99, 0.999, 1.0] {
            let rank = ((part * 1_000.0) as usize).clamp(1, 1_000);
            let (exact, got) = (
                sorted[rank - 1] as f64,
                times.quantile(part).unwrap() as f64,
            );
            assert!(
                (got - exact).abs() <= exact / 14.0 + 64.0,
                "{part}: {got} for {exact}"
            );
        }
        let packed = times.to_sparse();
        assert_eq!(LatencyHistogram::from_sparse(&packed), times);
        let before = times.clone();
        times.count(5_000_000);
        let new = times.since(&before);
        assert_eq!((new.total(), before.total()), (1, 1_000));
        let mut both = before;
        both.add(&new);
        assert_eq!(both, times);
    }

    #[test]
    fn top_statements_and_others_add_up_to_all() {
        let mut stats = LiveStats::default();
        for fingerprint in 0..20_000 {
            for _ in 0..2 {
                // The statements that come last, for which there is no room, are the longest.
                stats.count(&execution(fingerprint, 1_000 + fingerprint as i64));
            }
        }
        let failed = Execution {
            outcome: Outcome::Failed(Sqlstate(*b"23505")),
            ..execution(7, 1_000_000_000)
        };
        stats.count(&failed);
        // Neither a connect nor what was never sent counts.
        stats.count(&Execution {
            kind: StatementKind::Connect,
            fingerprint: None,
            ..execution(0, 5)
        });
        stats.count(&Execution {
            sent_ns: None,
            ..execution(8, 5)
        });
        let found = stats.costliest(3);
        let ids: Vec<u64> = found
            .statements
            .iter()
            .map(|one| one.fingerprint.unwrap().0)
            .collect();
        assert_eq!(ids, [7, 16_383, 16_382]);
        let first = found.statements[0];
        assert_eq!((first.calls, first.failed), (3, 1));
        assert_eq!(first.longest_ns, 1_000_000_000);
        assert_eq!((first.captured_calls, first.captured_us), (3, 9));
        assert_eq!(found.other_statements, STATEMENTS_MAX as u64 - 3);
        let calls: u64 = found.statements.iter().map(|one| one.calls).sum();
        assert_eq!(calls + found.others.calls, 40_001);
        assert_eq!(found.others.longest_ns, 1_000 + 19_999);
        assert_eq!(stats.times().response.total(), 40_001);
        assert_eq!(stats.times().session_lag.total(), 40_001);

        let all = stats.costliest(usize::MAX);
        assert_eq!(all.statements.len(), STATEMENTS_MAX);
        assert_eq!(all.others.calls, 2 * (20_000 - STATEMENTS_MAX as u64));
        assert_eq!(LiveStats::default().costliest(3), TopStatements::default());
    }
}
