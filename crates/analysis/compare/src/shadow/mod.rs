//! Shadow comparison: compares the captured and the replayed executions of one run while the run is being written.
//!
//! Give [`Shadow`] the executions in the order in which they ended. Time is cut into windows. A window gives each statement
//! a sign for each measure: whether the candidate's median exceeds the reference, whether more executions failed than in
//! the capture, whether more returned fewer rows. A sequential test of these signs ([`statistics::sequential`]) may be read
//! at any time.
//!
//! A window with an outage of the candidate ([`outage`]), the windows after it, and those in which the replay lagged are not compared,
//! and counted.

mod condition;
mod measure_test;
mod outage;
mod report;
mod statement;

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use run::{Execution, LostConnection, Outcome, SkipReason, StatementKind};
use sql::Fingerprint;
use statistics::sequential::TestFamily;

use crate::read_only_refusals::ReadOnlyRefusals;
use crate::root_error::RootFinder;

pub use condition::{ShadowCondition, ShadowConditionOutcome};
pub use measure_test::LAST_WINDOWS;
use outage::{BrokenExecutions, ConnectionFailure, Losses, LossesOfRange, OutageSigns};
pub use report::{
    ShadowChange, ShadowGap, ShadowMeasure, ShadowOptions, ShadowReport, ShadowStatement,
    ShadowTest, ShadowVerdict, WindowExclusion,
};
use statement::{Differences, StatementShadow};

/// Number of windows after an outage that are not compared.
pub const SETTLING_WINDOWS: u32 = 3;
/// Most gaps that are kept.
const GAPS_MAX: usize = 100;
/// Share of a window's executions from which those that the tool delayed exclude the window, as its inverse.
const STALLED_SHARE_INVERSE: u64 = 10;

/// Comparison of a run that is being written.
#[derive(Debug)]
pub struct Shadow {
    options: ShadowOptions,
    statements: BTreeMap<Fingerprint, StatementShadow>,
    texts: HashMap<Fingerprint, String>,
    family: TestFamily,
    window: WindowState,
    /// Windows that are still excluded after an outage.
    settling: u32,
    losses: Losses,
    connections_lost: u64,
    until_ns: i64,
    windows: u64,
    windows_excluded: BTreeMap<WindowExclusion, u64>,
    replayed: u64,
    not_replayed: BTreeMap<&'static str, u64>,
    without_duration: u64,
    roots: RootFinder,
    refusals: ReadOnlyRefusals,
    refused_read_only: u64,
    rows_after_refusals: u64,
    gaps: VecDeque<ShadowGap>,
    gap_count: u64,
    changes: Vec<ShadowChange>,
}

/// State of the current window.
#[derive(Debug, Default)]
struct WindowState {
    /// Number of the window, from the replay's start.
    number: i64,
    executions: u64,
    stalled: u64,
    outage: OutageSigns,
    broken: BrokenExecutions,
    lags: bool,
}

impl Shadow {
    /// Creates a comparison of a run that was replayed with these options, as its manifest has them, without executions.
    pub fn of_replay(options: ShadowOptions, replay: &BTreeMap<String, String>) -> Self {
        Shadow {
            refusals: ReadOnlyRefusals::of(replay),
            ..Shadow::new(options)
        }
    }

    /// Creates a comparison of a run that was replayed without options, without executions.
    pub fn new(options: ShadowOptions) -> Self {
        Shadow {
            options,
            statements: BTreeMap::new(),
            texts: HashMap::new(),
            family: TestFamily::default(),
            window: WindowState::default(),
            settling: 0,
            losses: Losses::default(),
            connections_lost: 0,
            until_ns: 0,
            windows: 0,
            windows_excluded: BTreeMap::new(),
            replayed: 0,
            not_replayed: BTreeMap::new(),
            without_duration: 0,
            roots: RootFinder::default(),
            refusals: ReadOnlyRefusals::default(),
            refused_read_only: 0,
            rows_after_refusals: 0,
            gaps: VecDeque::new(),
            gap_count: 0,
            changes: Vec::new(),
        }
    }

    /// Sets the text of a statement, before its executions.
    pub fn set_text(&mut self, fingerprint: Fingerprint, sql: &str) {
        if let Entry::Vacant(text) = self.texts.entry(fingerprint) {
            text.insert(sql.to_owned());
            self.roots.set_text(fingerprint, sql);
            self.refusals.set_text(fingerprint, sql);
        }
    }

    /// Takes the next execution.
    pub fn add(&mut self, execution: &Execution) {
        let text = execution.fingerprint.and_then(|one| self.texts.get(&one));
        let root = self.roots.add(execution, text.map(String::as_str));
        if execution.kind == StatementKind::Prepare {
            // The time of preparing a statement is in no capture of a log.
            return;
        }
        if execution.outcome == Outcome::Skipped(SkipReason::Stopped) {
            // A stop skips queued statements before they are due, so their times were not replayed.
            self.add_skipped(execution, SkipReason::Stopped);
            return;
        }
        self.until_ns = self.until_ns.max(execution.ended_ns());
        let number = self.until_ns.div_euclid(self.options.window_ns);
        if number > self.window.number {
            self.end_windows(number);
        }
        if let Outcome::Skipped(reason) = execution.outcome {
            self.add_skipped(execution, reason);
            return;
        }
        let failure = self.window.outage.add(execution, &self.losses);
        if failure == ConnectionFailure::Refused {
            self.note_gap(execution.due_ns, 0);
        }
        let (true, Some(fingerprint)) = (execution.is_statement(), execution.fingerprint) else {
            return;
        };
        if failure == ConnectionFailure::Broken {
            self.window.broken.add(fingerprint, execution.due_ns);
            return;
        }
        self.replayed += 1;
        self.window.executions += 1;
        if self.refusals.cause(execution, root) {
            self.refused_read_only += 1;
            self.refusals.note_unwritten(fingerprint);
            return;
        }
        if execution.stalled_ns > 0 {
            self.window.stalled += 1;
            return;
        }
        let mut differences = differences(execution);
        if differences.rows != 0 && self.reads_unwritten(fingerprint) {
            differences.rows = 0;
            self.rows_after_refusals += 1;
        }
        self.without_duration += u64::from(execution.captured.duration_us.is_none());
        self.add_differences(fingerprint, differences);
    }

    /// Takes a connection that was lost, before the executions that ended with it or later. A restart of an idle candidate fails
    /// no statement, and makes its caches cold nevertheless.
    pub fn add_lost(&mut self, lost: LostConnection) {
        self.losses.add(lost);
    }

    /// Whether a window has an outage. Adds its lost connections to the gaps.
    fn ends_with_outage(&mut self, window: &WindowState) -> bool {
        let losses = self.take_losses(window.number + 1);
        let has_outage = losses.outage_ns.is_some() || window.outage.are_outage(window.executions);
        match has_outage {
            true => self.note_lost(&losses.lost),
            false => self.connections_lost += losses.lost.len() as u64,
        }
        has_outage
    }

    /// Takes the connections that were lost before window `next`.
    fn take_losses(&mut self, next: i64) -> LossesOfRange {
        let until_ns = next.saturating_mul(self.options.window_ns);
        self.losses.take_until(until_ns)
    }

    fn note_lost(&mut self, lost: &[LostConnection]) {
        for lost in lost {
            self.note_gap(lost.at_ns, 0).connections_lost += 1;
        }
    }

    /// Ends windows without executions before `next`, of which a candidate may have been restarted in any.
    fn end_empty_windows(&mut self, empty: u64, next: i64) {
        let count = self.windows_excluded.entry(WindowExclusion::Empty);
        *count.or_default() += empty;
        let passed = |windows: u64| u32::try_from(windows).unwrap_or(u32::MAX);
        self.settling = self.settling.saturating_sub(passed(empty));
        let losses = self.take_losses(next);
        match losses.outage_ns {
            Some(outage_ns) => {
                let last = outage_ns.div_euclid(self.options.window_ns);
                let since = passed((next - 1 - last).unsigned_abs());
                self.settling = SETTLING_WINDOWS.saturating_sub(since);
                self.note_lost(&losses.lost);
            }
            None => self.connections_lost += losses.lost.len() as u64,
        }
    }

    /// Counts the executions of a window that broke their connection: as errors of statements that do so repeatedly, and else as
    /// not replayed.
    fn end_broken(&mut self, window: &mut WindowState, has_outage: bool) {
        let mut broken = std::mem::take(&mut window.broken);
        if !has_outage {
            let statements = &self.statements;
            let errors = broken.take_errors(|fingerprint| {
                let statement = statements.get(&fingerprint);
                statement.map_or(0, StatementShadow::executions_of_window)
            });
            for (fingerprint, number) in errors {
                window.executions += number;
                self.replayed += number;
                for _ in 0..number {
                    self.add_differences(fingerprint, Differences::new_error());
                }
            }
        }
        for due_ns in broken.into_due_ns() {
            self.note_gap(due_ns, 1);
            *self.not_replayed.entry("connection_lost").or_default() += 1;
        }
    }

    fn add_differences(&mut self, fingerprint: Fingerprint, differences: Differences) {
        let options = &self.options;
        self.statements
            .entry(fingerprint)
            .or_insert_with(|| StatementShadow::new(fingerprint, options))
            .add(differences);
    }

    /// Whether a statement names a table that lacks rows, since the replay is read-only.
    fn reads_unwritten(&mut self, fingerprint: Fingerprint) -> bool {
        let text = self.texts.get(&fingerprint);
        text.is_some_and(|sql| self.refusals.reads_unwritten(fingerprint, sql))
    }

    fn add_skipped(&mut self, execution: &Execution, reason: SkipReason) {
        if !execution.is_statement() {
            return;
        }
        *self.not_replayed.entry(reason.name()).or_default() += 1;
        match reason {
            SkipReason::ReadOnly => {
                let withheld = execution.fingerprint;
                withheld
                    .into_iter()
                    .for_each(|one| self.refusals.note_unwritten(one));
            }
            // It follows from a lost connection, which is known, or from a lag.
            SkipReason::TransactionLost => {
                self.note_gap(execution.due_ns, 1);
            }
            SkipReason::NoConnection => {
                self.window.outage.without_connection += 1;
                self.note_gap(execution.due_ns, 1);
            }
            SkipReason::LagLimit => {
                self.window.lags = true;
                self.note_gap(execution.due_ns, 1);
            }
            _ => {}
        }
    }

    /// Adds a statement to the last gap, or begins a new one.
    fn note_gap(&mut self, due_ns: i64, not_replayed: u64) -> &mut ShadowGap {
        let near_ns = self.options.window_ns;
        let is_near = |gap: &ShadowGap| due_ns < gap.until_ns.saturating_add(near_ns);
        if !self.gaps.back().is_some_and(is_near) {
            if self.gaps.len() == GAPS_MAX {
                self.gaps.pop_front();
            }
            self.gap_count += 1;
            self.gaps.push_back(ShadowGap {
                from_ns: due_ns,
                until_ns: due_ns,
                not_replayed: 0,
                connections_lost: 0,
            });
        }
        let last = self.gaps.len() - 1;
        let gap = &mut self.gaps[last];
        gap.until_ns = gap.until_ns.max(due_ns);
        gap.from_ns = gap.from_ns.min(due_ns);
        gap.not_replayed += not_replayed;
        gap
    }

    /// Ends the current window and those without executions before `next`.
    fn end_windows(&mut self, next: i64) {
        let window = std::mem::take(&mut self.window);
        let empty = (next - window.number - 1).unsigned_abs();
        self.end_window(window);
        if empty > 0 {
            self.end_empty_windows(empty, next);
        }
        self.window.number = next;
    }

    fn end_window(&mut self, mut window: WindowState) {
        let has_outage = self.ends_with_outage(&window);
        self.end_broken(&mut window, has_outage);
        // If sessions skip statements because the candidate is slow, what it executed meanwhile is evidence.
        let is_idle = window.lags && window.executions == 0;
        if has_outage || is_idle {
            self.settling = SETTLING_WINDOWS;
        }
        let exclusion = if has_outage {
            Some(WindowExclusion::Outage)
        } else if is_idle {
            Some(WindowExclusion::Lag)
        } else if self.settling > 0 {
            self.settling -= 1;
            Some(WindowExclusion::Settling)
        } else if window.stalled * STALLED_SHARE_INVERSE > window.executions {
            Some(WindowExclusion::Lag)
        } else if window.executions == 0 {
            Some(WindowExclusion::Empty)
        } else {
            None
        };
        if let Some(exclusion) = exclusion {
            *self.windows_excluded.entry(exclusion).or_default() += 1;
            for statement in self.statements.values_mut() {
                statement.discard_window();
            }
            return;
        }
        self.windows += 1;
        let from_ns = window.number * self.options.window_ns;
        let range_ns = (from_ns, from_ns + self.options.window_ns);
        let mut changed = Vec::new();
        // The order, by fingerprint, does not depend on signs.
        for (fingerprint, statement) in &mut self.statements {
            let measures =
                statement.end_window(self.windows, range_ns, &self.options, &mut self.family);
            changed.extend(measures.into_iter().map(|measure| (*fingerprint, measure)));
        }
        for (fingerprint, measure) in changed {
            let statement = &self.statements[&fingerprint];
            let Some(test) = statement.test(measure) else {
                continue;
            };
            self.changes.push(ShadowChange {
                at_ns: range_ns.1,
                measure,
                is_proof: test.verdict().is_proof(),
                verdict: test.verdict(),
                statement: statement.report(self.text(fingerprint)),
            });
        }
    }

    /// Ends the comparison with the window that has begun.
    pub fn finish(&mut self) {
        self.end_windows(self.window.number + 1);
        self.connections_lost += self.take_losses(i64::MAX).lost.len() as u64;
    }

    /// Takes the changes of verdicts since the last call, in the order of time.
    pub fn take_changes(&mut self) -> Vec<ShadowChange> {
        std::mem::take(&mut self.changes)
    }

    fn text(&self, fingerprint: Fingerprint) -> String {
        self.texts.get(&fingerprint).cloned().unwrap_or_default()
    }

    /// Returns the result so far, with at most `statements_max` statements without findings.
    pub fn report(&self, statements_max: usize) -> ShadowReport {
        let mut statements: Vec<_> = self.statements.iter().collect();
        statements.sort_by_key(|(fingerprint, statement)| {
            let is_finding = Reverse(statement.is_finding());
            (is_finding, Reverse(statement.total_ns), **fingerprint)
        });
        let findings = statements.partition_point(|(_, statement)| statement.is_finding());
        statements.truncate(findings.saturating_add(statements_max));
        ShadowReport {
            options: self.options.clone(),
            until_ns: self.until_ns,
            windows: self.windows,
            windows_excluded: self.windows_excluded.clone(),
            replayed: self.replayed,
            not_replayed: self.not_replayed.clone(),
            without_duration: self.without_duration,
            refused_read_only: self.refused_read_only,
            rows_after_refusals: self.rows_after_refusals,
            gaps: self.gaps.iter().copied().collect(),
            gap_count: self.gap_count,
            connections_lost: self.connections_lost,
            tests: self.family.tests(),
            statements: statements
                .into_iter()
                .map(|(fingerprint, statement)| statement.report(self.text(*fingerprint)))
                .collect(),
        }
    }
}

fn differences(execution: &Execution) -> Differences {
    let captured = &execution.captured;
    let failed = matches!(execution.outcome, Outcome::Failed(_));
    if failed || captured.sqlstate.is_some() {
        let error = i64::from(failed) - i64::from(captured.sqlstate.is_some());
        return Differences {
            error,
            ..Differences::default()
        };
    }
    let service_ns = execution.service_ns().and_then(|ns| u64::try_from(ns).ok());
    let captured_ns = captured.duration_us.map(|us| us.saturating_mul(1_000));
    let rows = captured
        .rows
        .map_or(Ordering::Equal, |rows| execution.rows.cmp(&rows));
    Differences {
        times: captured_ns.zip(service_ns),
        error: 0,
        rows: rows as i64,
    }
}

#[cfg(test)]
mod tests;
