//! Values of one sequence: which statement took which.
//!
//! A sequence returns its values in the order of its calls. A log shows that order, except among statements that ran at the
//! same time. One call is before another if its session began its next statement before the other's first line, or if it
//! ended earlier by the times. So each call has a *window* of places among all calls.
//!
//! The first value of the sequence is not known. It is estimated by votes: a value that a session uses after its own call
//! gives the first value, up to the window. Without such uses, those by other sessions are used: a value is used after its
//! call.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::call_windows::windows;
use super::log_positions::LogPosition;
use super::sequence_arithmetic::{first_value, is_reachable, value_at};
use crate::event_id::EventId;

/// Votes that are counted together. A value that was taken without a statement (by a trigger) shifts all later ones.
const BLOCK_VOTES: usize = 64;
/// Least share of the calls with votes that must agree.
const AGREE_SHARE: f64 = 0.8;
/// Least share of the uses in later transactions that must agree, for sessions to use their own values. With a pool of
/// connections, a session uses those of others as well.
const OWN_SHARE: f64 = 0.98;
/// Least share of the uses that must follow directly upon the call, and most of them that may come before it, if sessions
/// never use their own values.
const PROMPT_SHARE: f64 = 0.1;
const EARLY_SHARE: f64 = 0.02;
/// Minimum number of uses that show the first value of a sequence.
const VOTES_MIN: usize = 3;
/// Maximum size of a window in which values are inferred.
const WINDOW_MAX: usize = 16;

/// Call of the sequence for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) statement: EventId,
    /// Statement whose result has the value; `None` if no result has it.
    pub(super) result: Option<EventId>,
    /// Whether the statement's result has the value only if no existing row conflicts. It is not inferred.
    pub(super) is_conditional: bool,
    pub(super) row: usize,
    pub(super) position: LogPosition,
    /// Position of the session's next event.
    pub(super) next_position: LogPosition,
    pub(super) began_us: i64,
    /// End by the durations of its steps alone.
    pub(super) least_end_us: i64,
    /// Usual and latest time at which it ended.
    pub(super) end_us: i64,
    pub(super) latest_us: i64,
    /// Statements before it of which the number of values is not known.
    pub(super) breaks: usize,
}

/// Use of a value by the session of a call, before its next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnUse {
    pub(super) call: usize,
    pub(super) value: i64,
    pub(super) in_transaction: bool,
}

/// Calls of a sequence and uses of its values in a workload.
#[derive(Debug, Default)]
pub(super) struct SequenceEvidence {
    pub(super) calls: Vec<Call>,
    pub(super) own_uses: Vec<OwnUse>,
    pub(super) first_uses: HashMap<i64, Use>,
}

/// First use of a value by any session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) position: LogPosition,
    pub(super) due_us: i64,
}

/// Precision of the order that the times and positions of a log give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Precision {
    /// Precision of times, in microseconds.
    pub(super) tolerance_us: i64,
    /// Whether positions show the order.
    pub(super) has_positions: bool,
}

/// Values of the calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceValues {
    /// By call; `None` if it is not known.
    pub(super) values: Vec<Option<i64>>,
    /// Used values that calls at the same time may have exchanged.
    pub(super) by_order: u64,
    pub(super) ambiguous: u64,
    pub(super) unused: u64,
}

/// Calls in the order of their beginning, with their windows.
struct Order<'e> {
    evidence: &'e SequenceEvidence,
    /// Index of the call at each rank.
    calls: Vec<usize>,
    rank_of: Vec<usize>,
    /// Numbers of ranks before and after at which a call usually is.
    windows: Vec<(usize, usize)>,
    /// Numbers of ranks before and after at which a call may be at all.
    widest: Vec<(usize, usize)>,
    /// Value of rank 0 from each rank on, if it is known there.
    starts: Vec<Option<i64>>,
    increment: i64,
    precision: Precision,
}

impl SequenceEvidence {
    /// Finds the values of the calls. `existing`: values that were there before.
    pub(super) fn solve(
        &self,
        increment: i64,
        existing: &HashSet<i64>,
        precision: Precision,
    ) -> SequenceValues {
        let mut order = Order::new(self, increment, precision);
        let is_new = |one: &&OwnUse| !existing.contains(&one.value);
        let own: Vec<OwnUse> = self.own_uses.iter().filter(is_new).copied().collect();
        order.estimate_starts(&own, existing);
        let mut values = vec![None; self.calls.len()];
        let mut taken: HashSet<i64> = existing.clone();
        let own = order.credible(own);
        order.take_own(&own, &mut values, &mut taken);
        order.fill(&mut values, &mut taken);
        let certain = values.clone();
        order.fill_by_order(&mut values, &mut taken);
        self.sort_rows(&mut values);
        let mut solved = SequenceValues::default();
        let by_order =
            (self.calls.iter().zip(&values).zip(&certain)).filter(|((call, value), certain)| {
                let is_used = value.is_some_and(|value| self.first_uses.contains_key(&value));
                call.result.is_some() && certain.is_none() && is_used
            });
        solved.by_order = by_order.count() as u64;
        for (index, call) in self.calls.iter().enumerate() {
            let may_be_used = match values[index] {
                None if call.result.is_some() || call.is_conditional => {
                    order.may_be_used(index, &taken)
                }
                Some(value) if call.is_conditional && call.result.is_none() => {
                    self.first_uses.contains_key(&value)
                }
                _ => continue,
            };
            match may_be_used {
                true => solved.ambiguous += 1,
                false => solved.unused += 1,
            }
        }
        solved.values = values;
        solved
    }

    /// Returns the share of these uses that agree with the order of calls, and the number of them that are new values.
    pub(super) fn agreement(
        &self,
        uses: &[OwnUse],
        increment: i64,
        existing: &HashSet<i64>,
        precision: Precision,
    ) -> (f64, usize) {
        let mut order = Order::new(self, increment, precision);
        let own = self.own_uses.iter().chain(uses);
        let own: Vec<OwnUse> = own
            .filter(|one| !existing.contains(&one.value))
            .copied()
            .collect();
        order.estimate_starts(&own, existing);
        let agree = |one: &&OwnUse| order.window_has(order.rank_of[one.call], one.value);
        let agreeing: HashSet<i64> = uses.iter().filter(agree).map(|one| one.value).collect();
        (
            agreeing.len() as f64 / uses.len().max(1) as f64,
            agreeing.len(),
        )
    }

    /// Gives the rows of one statement their values in order. If one value is not known, it is not known which row lacks it,
    /// and none is given.
    fn sort_rows(&self, values: &mut [Option<i64>]) {
        let mut at = 0;
        while at < values.len() {
            let result = self.calls[at].result;
            let same = self.calls[at..].iter();
            let rows = match result {
                Some(_) => same.take_while(|call| call.result == result).count(),
                None => 1,
            };
            let of_statement = &mut values[at..at + rows];
            match of_statement.iter().all(Option::is_some) {
                true => of_statement.sort_unstable(),
                false => of_statement.fill(None),
            }
            at += rows;
        }
    }
}

impl<'e> Order<'e> {
    fn new(evidence: &'e SequenceEvidence, increment: i64, precision: Precision) -> Self {
        let all = &evidence.calls;
        let mut calls: Vec<usize> = (0..all.len()).collect();
        calls.sort_by_key(|index| match precision.has_positions {
            true => (all[*index].position as i64, *index),
            false => (all[*index].began_us, *index),
        });
        let mut rank_of = vec![0; all.len()];
        for (rank, index) in calls.iter().enumerate() {
            rank_of[*index] = rank;
        }
        let ordered: Vec<Call> = calls.iter().map(|index| all[*index]).collect();
        Order {
            evidence,
            windows: windows(&ordered, precision, |call| call.end_us),
            widest: windows(&ordered, precision, |call| call.latest_us),
            starts: vec![None; calls.len()],
            calls,
            rank_of,
            increment,
            precision,
        }
    }

    /// Returns the values of rank 0 that a value at a rank allows, the least first; `None` if they are out of range.
    fn allowed_starts(&self, rank: usize, value: i64) -> Option<(i64, i64)> {
        let (before, after) = self.widest[rank];
        let start = |rank: usize| first_value(value, self.increment, rank);
        let (one, other) = (start(rank + after)?, start(rank - before)?);
        Some((one.min(other), one.max(other)))
    }

    /// Whether a value at a rank allows this value of rank 0.
    fn allows_start(&self, rank: usize, value: i64, start: i64) -> bool {
        let allowed = self.allowed_starts(rank, value);
        allowed.is_some_and(|(least, most)| (least..=most).contains(&start))
            && is_reachable(start, self.increment, value)
    }

    /// Whether a value is in the window of a rank.
    fn window_has(&self, rank: usize, value: i64) -> bool {
        self.starts[rank].is_some_and(|start| self.allows_start(rank, value, start))
    }

    fn call(&self, rank: usize) -> &Call {
        &self.evidence.calls[self.calls[rank]]
    }

    fn breaks(&self, rank: usize) -> usize {
        self.call(rank).breaks
    }

    fn began_before(&self, call: &Call, used: &Use) -> bool {
        match self.precision.has_positions {
            true => call.position < used.position,
            false => call.began_us <= used.due_us + self.precision.tolerance_us,
        }
    }

    /// Whether a call may have been over before a use.
    fn may_precede(&self, call: &Call, used: &Use) -> bool {
        self.began_before(call, used)
            && call.least_end_us <= used.due_us + self.precision.tolerance_us
    }

    /// Estimates the value of rank 0 for all ranks, separately between statements that took an unknown number.
    fn estimate_starts(&mut self, own: &[OwnUse], existing: &HashSet<i64>) {
        let votes = |in_transaction: bool| {
            let those = own
                .iter()
                .filter(|one| one.in_transaction == in_transaction);
            let mut votes: Vec<(usize, i64)> = those
                .map(|one| (self.rank_of[one.call], one.value))
                .collect();
            votes.sort_unstable();
            votes
        };
        let (certain, later) = (votes(true), votes(false));
        let mut from = 0;
        while from < self.calls.len() {
            let breaks = self.breaks(from);
            let ranks = (from..self.calls.len()).take_while(|rank| self.breaks(*rank) == breaks);
            let to = from + ranks.count();
            let of_segment = |votes: &[(usize, i64)]| {
                let first = votes.partition_point(|(rank, _)| *rank < from);
                let last = votes.partition_point(|(rank, _)| *rank < to);
                first..last
            };
            self.estimate_segment(from, to, &certain[of_segment(&certain)]);
            if self.starts[from..to].iter().all(Option::is_none) {
                // A session may also use what others made just before, so all of its uses must agree.
                let start = self
                    .start_by_other_sessions(from, to, existing)
                    .or_else(|| self.elect(&later[of_segment(&later)], 1.0));
                self.starts[from..to].fill(start);
            }
            from = to;
        }
    }

    fn estimate_segment(&mut self, from: usize, to: usize, votes: &[(usize, i64)]) {
        let mut previous: Option<(usize, i64)> = None;
        for block in votes.chunks(BLOCK_VOTES) {
            let (first, last) = (block[0].0, block[block.len() - 1].0);
            let Some(start) = self.elect(block, AGREE_SHARE) else {
                previous = None;
                continue;
            };
            let begins = match previous {
                None if block.as_ptr() == votes.as_ptr() => from,
                None => first,
                // Values were taken somewhere between the two.
                Some((_, other)) if other != start => first,
                Some((end, _)) => end,
            };
            self.starts[begins..=last].fill(Some(start));
            previous = Some((last + 1, start));
        }
        if let Some((end, start)) = previous {
            self.starts[end..to].fill(Some(start));
        }
    }

    /// Returns the value of rank 0 with which most votes agree, if at least this share of the calls does.
    fn elect(&self, votes: &[(usize, i64)], share: f64) -> Option<i64> {
        let exact = |(rank, value): &(usize, i64)| first_value(*value, self.increment, *rank);
        let agreeing = |start: i64| {
            let agree = |(rank, value): &&(usize, i64)| self.allows_start(*rank, *value, start);
            votes
                .iter()
                .filter(agree)
                .map(|(rank, _)| *rank)
                .collect::<HashSet<usize>>()
                .len()
        };
        // Most intervals overlap where one begins.
        let least = |(rank, value): &(usize, i64)| Some(self.allowed_starts(*rank, *value)?.0);
        let starts: HashSet<i64> = votes
            .iter()
            .flat_map(|vote| [exact(vote), least(vote)])
            .flatten()
            .collect();
        let rated = starts.into_iter().map(|start| {
            let same = votes
                .iter()
                .filter(|vote| exact(vote) == Some(start))
                .count();
            (agreeing(start), same, start)
        });
        let (agree, _, start) = rated.max()?;
        let calls: HashSet<usize> = votes.iter().map(|(rank, _)| *rank).collect();
        (agree as f64 >= share * calls.len() as f64).then_some(start)
    }

    /// Estimates the value of rank 0 from uses by other sessions: each gives the least one, since the call came before.
    fn start_by_other_sessions(
        &self,
        from: usize,
        to: usize,
        existing: &HashSet<i64>,
    ) -> Option<i64> {
        let began = |rank: usize| self.call(rank).began_us;
        let (first_us, last_us) = (began(from), began(to - 1));
        let uses = self.evidence.first_uses.iter();
        let of_segment =
            uses.filter(|(value, used)| !existing.contains(value) && used.due_us >= first_us);
        let mut least: Vec<i64> = of_segment
            .filter(|(_, used)| to == self.calls.len() || used.due_us <= last_us)
            .filter_map(|(value, used)| {
                let begun = self
                    .calls
                    .partition_point(|index| self.began_before(&self.evidence.calls[*index], used));
                first_value(*value, self.increment, begun.max(1) - 1)
            })
            .collect();
        least.sort_unstable();
        let early = (least.len() as f64 * EARLY_SHARE) as usize;
        let start = *least.get(least.len().checked_sub(1 + early)?)?;
        let prompt = least.iter().filter(|one| **one == start).count();
        let enough = prompt >= VOTES_MIN && prompt as f64 >= PROMPT_SHARE * least.len() as f64;
        enough.then_some(start)
    }

    /// Returns the uses that are taken for those of a session's own values.
    fn credible(&self, mut own: Vec<OwnUse>) -> Vec<OwnUse> {
        let later = || own.iter().filter(|one| !one.in_transaction);
        let agree = |one: &&OwnUse| self.window_has(self.rank_of[one.call], one.value);
        let agreeing = later().filter(agree).count();
        if (agreeing as f64) < OWN_SHARE * later().count() as f64 {
            own.retain(|one| one.in_transaction);
        }
        own
    }

    /// Gives the calls the values that their own sessions used.
    fn take_own(&self, own: &[OwnUse], values: &mut [Option<i64>], taken: &mut HashSet<i64>) {
        let mut by_call: HashMap<usize, Vec<OwnUse>> = HashMap::new();
        for one in own {
            if self.window_has(self.rank_of[one.call], one.value) {
                by_call.entry(one.call).or_default().push(*one);
            }
        }
        for (call, uses) in by_call {
            // What the transaction of the call uses is most likely its own.
            let own = match (uses.iter().find(|one| one.in_transaction), &uses[..]) {
                (Some(one), _) | (None, [one]) => one,
                _ => continue,
            };
            if taken.insert(own.value) {
                values[call] = Some(own.value);
            }
        }
    }

    /// Gives the other calls the only values that they can have, until there are no more such values.
    fn fill(&self, values: &mut [Option<i64>], taken: &mut HashSet<i64>) {
        let mut pending: BTreeSet<usize> = (0..self.calls.len()).collect();
        while let Some(rank) = pending.pop_first() {
            let call = self.calls[rank];
            if values[call].is_some() {
                continue;
            }
            if let [value] = self.possible_values(rank, taken)[..] {
                values[call] = Some(value);
                taken.insert(value);
                // Those that could have it have one possibility less.
                let near = rank.saturating_sub(2 * WINDOW_MAX)..rank + 2 * WINDOW_MAX;
                pending.extend(near.take_while(|rank| *rank < self.calls.len()));
            }
        }
    }

    /// Gives the rest their values in the order of the calls. Each of these values is of one of a few calls that ran at the same
    /// time, so that two of them may be exchanged.
    fn fill_by_order(&self, values: &mut [Option<i64>], taken: &mut HashSet<i64>) {
        for (rank, call) in self.calls.iter().enumerate() {
            if values[*call].is_none()
                && let Some(value) = self.possible_values(rank, taken).first()
            {
                values[*call] = Some(*value);
                taken.insert(*value);
            }
        }
    }

    /// Returns the values that a call may have, without those of others and those that were used before it.
    fn possible_values(&self, rank: usize, taken: &HashSet<i64>) -> Vec<i64> {
        let (Some(start), (before, after)) = (self.starts[rank], self.windows[rank]) else {
            return Vec::new();
        };
        if before + after >= WINDOW_MAX {
            return Vec::new();
        }
        let call = self.call(rank);
        let values = (rank - before..=rank + after).filter_map(|place| {
            let value = value_at(start, self.increment, place)?;
            let used = self.evidence.first_uses.get(&value);
            let too_early = used.is_some_and(|used| !self.may_precede(call, used));
            (!too_early && !taken.contains(&value)).then_some(value)
        });
        values.collect()
    }

    /// Whether a later statement may use the value of a call that is not known.
    fn may_be_used(&self, call: usize, taken: &HashSet<i64>) -> bool {
        let rank = self.rank_of[call];
        if self.starts[rank].is_none() || self.windows[rank].0 + self.windows[rank].1 >= WINDOW_MAX
        {
            return true;
        }
        let possible = self.possible_values(rank, taken);
        let uses = &self.evidence.first_uses;
        possible.iter().any(|value| uses.contains_key(value))
    }
}
