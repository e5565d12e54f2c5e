//! Stalls of the tool: intervals in which the replay was stopped or starved, and statements were late because of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution::Execution;

/// Shortest delay, in nanoseconds, that is recorded as a stall. A run on a busy machine has many shorter ones, which
/// count as tool lag only.
pub const TOOL_STALL_NS_MIN: i64 = 20_000_000;

/// How long a delay is taken to disturb others, as a multiple of the delay. A statement of half an hour that was sent
/// late does not disturb for half an hour.
const DISTURBANCE: i64 = 10;

/// Most stalls in a manifest. Past this number, the two with the shortest time between them become one.
const STALLS_MAX: usize = 1_000;

/// Interval from the time at which the tool stood still until no statement was late because of it, or ten times the
/// delay after a late one was sent. What was measured
/// within it does not show the server's speed under the captured load. Times are nanoseconds from the replay's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStall {
    /// Time at which the stall began.
    pub from_ns: i64,
    /// Time at which its effects ended.
    pub until_ns: i64,
    /// Longest delay that the tool caused, in nanoseconds.
    pub longest_ns: i64,
}

impl ToolStall {
    /// Whether an interval and the stall have time in common.
    pub fn overlaps(&self, from_ns: i64, until_ns: i64) -> bool {
        from_ns <= self.until_ns && self.from_ns <= until_ns
    }
}

/// Whether one of the stalls, which are ordered and disjoint, overlaps the time from due to done of an execution.
pub fn is_in_stall(stalls: &[ToolStall], execution: &Execution) -> bool {
    let until_ns = execution.done_ns.unwrap_or(execution.due_ns);
    let first = stalls.partition_point(|stall| stall.until_ns < execution.due_ns);
    let stall = stalls.get(first);
    stall.is_some_and(|stall| stall.overlaps(execution.due_ns, until_ns))
}

/// Returns the union of the stalls of several runs, ordered and disjoint.
pub fn merge_stalls<'s>(runs: impl IntoIterator<Item = &'s [ToolStall]>) -> Vec<ToolStall> {
    let mut merged = StallList::default();
    for stall in runs.into_iter().flatten() {
        merged.add(*stall);
    }
    merged.stalls
}

/// Stalls of a run: ordered, disjoint, and of a limited number.
#[derive(Debug, Default)]
pub(crate) struct StallList {
    stalls: Vec<ToolStall>,
}

impl StallList {
    /// Adds a stall, and merges those that overlap it.
    pub(crate) fn add(&mut self, mut stall: ToolStall) {
        let first = self
            .stalls
            .partition_point(|other| other.until_ns < stall.from_ns);
        let after = self
            .stalls
            .partition_point(|other| other.from_ns <= stall.until_ns);
        for other in self.stalls.drain(first..after) {
            stall.from_ns = stall.from_ns.min(other.from_ns);
            stall.until_ns = stall.until_ns.max(other.until_ns);
            stall.longest_ns = stall.longest_ns.max(other.longest_ns);
        }
        self.stalls.insert(first, stall);
        if self.stalls.len() > STALLS_MAX {
            self.merge_nearest();
        }
    }

    /// Adds the interval in which the tool delayed an execution, if it was long enough.
    pub(crate) fn add_execution(&mut self, execution: &Execution) {
        let (Some(sent_ns), Some(done_ns)) = (execution.sent_ns, execution.done_ns) else {
            return;
        };
        let free_ns = execution
            .due_ns
            .saturating_add_unsigned(execution.session_lag_ns);
        let late_ns = sent_ns.saturating_sub(free_ns);
        let done_ns = done_ns.max(sent_ns).max(free_ns);
        let stalled_ns = i64::try_from(execution.stalled_ns).unwrap_or(i64::MAX);
        let is_late = late_ns >= TOOL_STALL_NS_MIN;
        let is_stalled = stalled_ns >= TOOL_STALL_NS_MIN;
        let disturbed_ns = sent_ns.saturating_add(late_ns.saturating_mul(DISTURBANCE));
        let (from_ns, until_ns) = match (is_late, is_stalled) {
            (true, true) => (free_ns, done_ns),
            (true, false) => (free_ns, done_ns.min(disturbed_ns)),
            (false, true) => (done_ns.saturating_sub(stalled_ns), done_ns),
            (false, false) => return,
        };
        self.add(ToolStall {
            from_ns,
            until_ns,
            longest_ns: late_ns.max(stalled_ns),
        });
    }

    pub(crate) fn stalls(&self) -> &[ToolStall] {
        &self.stalls
    }

    fn merge_nearest(&mut self) {
        let distance = |at: &usize| {
            let next_ns = self.stalls[*at + 1].from_ns;
            next_ns.saturating_sub(self.stalls[*at].until_ns)
        };
        let Some(at) = (0..self.stalls.len() - 1).min_by_key(distance) else {
            return;
        };
        let next = self.stalls.remove(at + 1);
        let stall = &mut self.stalls[at];
        stall.until_ns = next.until_ns;
        stall.longest_ns = stall.longest_ns.max(next.longest_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{Captured, Outcome, StatementKind};

    fn stall(from_ns: i64, until_ns: i64) -> ToolStall {
        ToolStall {
            from_ns,
            until_ns,
            longest_ns: until_ns - from_ns,
        }
    }

    #[test]
    fn stalls_that_overlap_become_one_in_any_order() {
        let mut list = StallList::default();
        for (from_ns, until_ns) in [(50, 60), (10, 20), (30, 40), (15, 32), (70, 80)] {
            list.add(stall(from_ns, until_ns));
        }
        let spans: Vec<_> = list
            .stalls()
            .iter()
            .map(|one| (one.from_ns, one.until_ns, one.longest_ns))
            .collect();
        assert_eq!(spans, [(10, 40, 17), (50, 60, 10), (70, 80, 10)]);
    }

    #[test]
    fn more_stalls_than_fit_are_merged_with_their_neighbours() {
        let mut list = StallList::default();
        for at in 0..3_000 {
            list.add(stall(at * 100, at * 100 + 10));
        }
        assert_eq!(list.stalls().len(), STALLS_MAX);
        assert_eq!(list.stalls()[0].from_ns, 0);
        assert_eq!(list.stalls()[STALLS_MAX - 1].until_ns, 299_910);
        let disjoint = |pair: &[ToolStall]| pair[0].until_ns < pair[1].from_ns;
        assert!(list.stalls().windows(2).all(disjoint));
    }

    /// Creates an execution that is due at 100 ms. Times are milliseconds.
    fn execution(sent: i64, done: i64, stalled: u64) -> Execution {
        Execution {
            session: 1,
            sequence: 1,
            fingerprint: None,
            kind: StatementKind::Simple,
            outcome: Outcome::Done,
            due_ns: 100_000_000,
            sent_ns: Some(sent * 1_000_000),
            first_byte_ns: None,
            done_ns: Some(done * 1_000_000),
            session_lag_ns: 0,
            stalled_ns: stalled * 1_000_000,
            rows: 0,
            bytes: 0,
            digest: None,
            message: None,
            captured: Captured::default(),
        }
    }

    #[test]
    fn delayed_statement_of_any_length_disturbs_for_ten_times_its_delay_at_most() {
        const HALF_AN_HOUR: i64 = 1_800_000;
        for (execution, expected) in [
            (execution(119, 150, 19), None),
            (execution(130, 135, 0), Some((100, 135))),
            (execution(130, HALF_AN_HOUR, 0), Some((100, 430))),
            // Its answer waited for the tool.
            (
                execution(100, HALF_AN_HOUR, 1_000),
                Some((HALF_AN_HOUR - 1_000, HALF_AN_HOUR)),
            ),
            (
                execution(130, HALF_AN_HOUR, 1_000),
                Some((100, HALF_AN_HOUR)),
            ),
        ] {
            let mut list = StallList::default();
            list.add_execution(&execution);
            let found = list.stalls().first();
            let found = found.map(|one| (one.from_ns / 1_000_000, one.until_ns / 1_000_000));
            assert_eq!(found, expected, "{execution:?}");
        }
    }
}
