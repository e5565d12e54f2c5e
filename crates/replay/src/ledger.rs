//! What is kept of executions while a replay runs, for whoever shows it: times, finely counted, and
//! totals by statement.
//!
//! The recorder's thread keeps it, from what workers hand over anyway, and only where somebody asked
//! ([`crate::Meter::keep_ledger`]): a worker does nothing for it. Memory is bounded by a number of
//! statements; what there is no room for is counted together, so that all add up.
//!
//! Deliberately absent: what becomes of it over time (a reader takes differences), and texts of
//! statements, which the workload has.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use run::{Execution, Outcome};
use sql::Fingerprint;

/// Different statements that are told apart; the calls of further ones are counted together.
const STATEMENTS_MAX: usize = 16_384;

/// Cells for each doubling: a cell is a sixteenth wide of where it begins.
const PARTS: u64 = 16;
const PARTS_BITS: u32 = PARTS.trailing_zeros();
/// Times are counted in units of 64 ns.
const UNIT_BITS: u32 = 6;
/// Up to 2⁴⁴ ns, which is 4.9 hours; what is longer is in the last cell.
const CELLS: usize = (44 - UNIT_BITS - PARTS_BITS + 1) as usize * PARTS as usize;

/// Times, counted by size: any quantile of them is known within 7 %, from 1 µs to 4.9 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    cells: Vec<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Times {
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

/// Where a cell begins, in nanoseconds.
fn beginning_of(cell: usize) -> u64 {
    let (doublings, part) = (cell as u64 / PARTS, cell as u64 % PARTS);
    let units = match doublings {
        0 => part,
        more => (PARTS + part) << (more - 1),
    };
    units << UNIT_BITS
}

impl Times {
    /// Counts a time, in nanoseconds; one below 0 as 0.
    pub fn count(&mut self, ns: i64) {
        self.cells[cell_of(ns)] += 1;
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Those that came since `earlier`, a former state of this.
    pub fn since(&self, earlier: &Times) -> Times {
        let pairs = self.cells.iter().zip(&earlier.cells);
        Times {
            cells: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }

    /// Adds others to these.
    pub fn add(&mut self, others: &Times) {
        for (cell, other) in self.cells.iter_mut().zip(&others.cells) {
            *cell += other;
        }
    }

    /// The time, in nanoseconds, that this part of them (0 to 1) did not exceed; `None` of none.
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
                // What is too short to be told from nothing is nothing.
                if cell == 0 {
                    return Some(0);
                }
                // Within a cell they are taken as evenly spread.
                let (from, to) = (beginning_of(cell), beginning_of(cell + 1));
                let within = (rank - before) as f64 / count as f64;
                return Some(from + ((to - from) as f64 * within) as u64);
            }
            before += count;
        }
        None
    }

    /// Cells that are not empty, with their numbers: small where times are alike.
    pub fn packed(&self) -> Vec<(u16, u64)> {
        let all = self.cells.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(cell, count)| (cell as u16, *count))
            .collect()
    }

    /// What [`Self::packed`] made.
    pub fn unpacked(packed: &[(u16, u64)]) -> Times {
        let mut times = Times::default();
        for &(cell, count) in packed {
            times.cells[usize::from(cell)] += count;
        }
        times
    }
}

/// The times of all statements that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerTimes {
    /// Due → done, of what was answered.
    pub response: Times,
    /// Tool lag of what was sent.
    pub tool_lag: Times,
    /// Session lag of what was sent.
    pub session_lag: Times,
}

/// A statement's totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementTotals {
    /// Which statement; `None` for those that are counted together.
    pub fingerprint: Option<Fingerprint>,
    /// How often it was answered, failures among it.
    pub calls: u64,
    /// How often it failed.
    pub failed: u64,
    /// The sum of its service times (sent → done), in nanoseconds.
    pub service_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// How often the capture knew how long it took.
    pub captured_calls: u64,
    /// What it took there in all, in microseconds: the captured server's own time.
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

/// The statements that took the most time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Costliest {
    /// The most first.
    pub statements: Vec<StatementTotals>,
    /// All others together.
    pub others: StatementTotals,
    /// How many different ones the others are, as far as they are told apart.
    pub others_different: u64,
}

/// A fingerprint is a hash already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
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

/// What the recorder keeps.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    times: LedgerTimes,
    statements: HashMap<Fingerprint, StatementTotals, BuildHasherDefault<AsItIs>>,
    /// Those that there was no room for.
    beyond: StatementTotals,
}

impl Ledger {
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
            None => &mut self.beyond,
            Some(fingerprint) if there_is_room => self
                .statements
                .entry(fingerprint)
                .or_insert_with(|| StatementTotals {
                    fingerprint: Some(fingerprint),
                    ..StatementTotals::default()
                }),
            Some(fingerprint) => match self.statements.get_mut(&fingerprint) {
                Some(totals) => totals,
                None => &mut self.beyond,
            },
        };
        totals.count(execution, service_ns);
    }

    pub(crate) fn times(&self) -> LedgerTimes {
        self.times.clone()
    }

    pub(crate) fn costliest(&self, most: usize) -> Costliest {
        let mut all: Vec<&StatementTotals> = self.statements.values().collect();
        let key = |one: &&StatementTotals| (u64::MAX - one.service_ns, one.fingerprint);
        if most < all.len() {
            all.select_nth_unstable_by_key(most, key);
        }
        let many = most.min(all.len());
        let (first, rest) = all.split_at_mut(many);
        first.sort_unstable_by_key(key);
        let mut others = self.beyond;
        for one in rest.iter() {
            others.add(one);
        }
        Costliest {
            statements: first.iter().map(|one| **one).collect(),
            others,
            others_different: rest.len() as u64,
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
    fn every_time_is_in_the_cell_that_holds_it() {
        let mut ns: i64 = 1;
        while ns < 1 << 43 {
            for at in [ns, ns + ns / 3, ns + ns / 2] {
                let cell = cell_of(at);
                let (from, to) = (beginning_of(cell), beginning_of(cell + 1));
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
    fn quantiles_are_those_of_the_sorted_times_within_a_cell() {
        let mut times = Times::default();
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
        let packed = times.packed();
        assert_eq!(Times::unpacked(&packed), times);
        let before = times.clone();
        times.count(5_000_000);
        let new = times.since(&before);
        assert_eq!((new.total(), before.total()), (1, 1_000));
        let mut both = before;
        both.add(&new);
        assert_eq!(both, times);
    }

    #[test]
    fn the_costliest_and_the_others_add_up_to_all() {
        let mut ledger = Ledger::default();
        for fingerprint in 0..20_000 {
            for _ in 0..2 {
                // The statements that come last, for which there is no room, are the longest.
                ledger.count(&execution(fingerprint, 1_000 + fingerprint as i64));
            }
        }
        let failed = Execution {
            outcome: Outcome::Failed(Sqlstate(*b"23505")),
            ..execution(7, 1_000_000_000)
        };
        ledger.count(&failed);
        // Neither a connect nor what was never sent counts.
        ledger.count(&Execution {
            kind: StatementKind::Connect,
            fingerprint: None,
            ..execution(0, 5)
        });
        ledger.count(&Execution {
            sent_ns: None,
            ..execution(8, 5)
        });
        let found = ledger.costliest(3);
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
        assert_eq!(found.others_different, STATEMENTS_MAX as u64 - 3);
        let calls: u64 = found.statements.iter().map(|one| one.calls).sum();
        assert_eq!(calls + found.others.calls, 40_001);
        assert_eq!(found.others.longest_ns, 1_000 + 19_999);
        assert_eq!(ledger.times().response.total(), 40_001);
        assert_eq!(ledger.times().session_lag.total(), 40_001);

        let all = ledger.costliest(usize::MAX);
        assert_eq!(all.statements.len(), STATEMENTS_MAX);
        assert_eq!(all.others.calls, 2 * (20_000 - STATEMENTS_MAX as u64));
        assert_eq!(Ledger::default().costliest(3), Costliest::default());
    }
}
