//! Statistics of one run for a comparison, in bounded memory.

use std::collections::{BTreeMap, HashMap};

use run::{
    Execution, Outcome, RunInfo, SkipReason, StatementKind, StatementStatistics, ToolStall,
    is_in_stall,
};
use sql::Fingerprint;
use workload::{Sqlstate, StatementText};

use crate::error_key::ErrorKey;
use crate::over_time::TimesByStretch;
use crate::read_only_refusals::ReadOnlyRefusals;
use crate::root_error::RootFinder;
use crate::statement_stats::{FailureCount, StatementStats};
use crate::work::{WorkPerCall, describes};
use statistics::Histogram;
use statistics::LatencySummary;
use statistics::STRETCHES_MAX;
use statistics::series::Series;
use statistics::timeline::Timeline;
use time_breakdown::observed::StatementTotals;

/// Seeds of the series that have no fingerprint.
const SEED_ALL: u64 = 1;
const SEED_CONNECTS: u64 = 2;
const SEED_RESPONSE: u64 = 3;

/// Statistics of one run, which is read once. Memory: 4 bytes for each execution up to
/// [`SAMPLES_MAX`](statistics::SAMPLES_MAX) for each fingerprint, and about a kilobyte for each
/// fingerprint.
#[derive(Debug, Clone)]
pub struct RunStats {
    /// Name of the run, as the user gave it.
    pub name: String,
    pub(crate) info: RunInfo,
    pub(crate) timeline: Timeline,
    /// All statements.
    pub(crate) all: StatementStats,
    /// Opening of connections.
    pub(crate) connects: StatementStats,
    pub(crate) statements: HashMap<Fingerprint, StatementStats>,
    pub(crate) no_connection: u64,
    /// Statements that ended otherwise than in the capture.
    pub(crate) diverged: u64,
    /// Statements that failed only because the replay was read-only. They count as skipped.
    pub(crate) refused_read_only: u64,
    pub(crate) last_done_ns: i64,
    /// Response time (due → done) of the statements that succeeded.
    pub(crate) response: Series,
    pub(crate) tool_lag: Histogram,
    pub(crate) session_lag: Histogram,
    pub(crate) service_by_stretch: TimesByStretch,
    pub(crate) response_by_stretch: TimesByStretch,
    pub(crate) tool_lag_by_stretch: TimesByStretch,
    /// Statements sent and failed, by stretch.
    pub(crate) counts_by_stretch: [(u64, u64); STRETCHES_MAX],
    texts: BTreeMap<Fingerprint, StatementText>,
    /// Work of statements, as the server counted it.
    work: HashMap<Fingerprint, StatementTotals>,
    /// Stalls of the tool whose executions are not compared.
    stalls: Vec<ToolStall>,
}

/// Numbers of one statement in one run, or of all statements.
#[derive(Debug, Clone, Copy)]
pub struct StatementNumbers<'a> {
    /// Fingerprint; `None` for all statements together.
    pub fingerprint: Option<Fingerprint>,
    /// Normal form; empty for all statements together.
    pub sql: &'a str,
    /// Number of executions that succeeded.
    pub done: u64,
    /// Number of executions that failed.
    pub failed: u64,
    /// Service times of those that succeeded; `None` if none did.
    pub latency: Option<LatencySummary>,
    /// Work that the server counted; `None` without statistics of these executions.
    pub work: Option<WorkPerCall>,
}

impl RunStats {
    /// Returns the numbers of all statements together, and of each one in any order.
    pub fn numbers(&self) -> impl Iterator<Item = StatementNumbers<'_>> {
        let all = StatementNumbers::new(None, "", &self.all, None);
        let each = self.statements.iter().map(|(fingerprint, stats)| {
            let work = self.work_of(*fingerprint);
            let text = self.text(*fingerprint).map_or("", |text| &text.sql);
            StatementNumbers::new(Some(*fingerprint), text, stats, work)
        });
        std::iter::once(all).chain(each)
    }

    /// Reads a run: its manifest, its executions, in order within each session, and its statement texts.
    ///
    /// # Errors
    /// If either iterator fails; the first error is returned.
    pub fn collect<E>(
        info: RunInfo,
        executions: impl IntoIterator<Item = Result<Execution, E>>,
        statements: impl IntoIterator<Item = Result<StatementText, E>>,
    ) -> Result<Self, E> {
        let stalls = info.tool_stalls.clone();
        Self::collect_outside(stalls, info, executions, statements)
    }

    /// Reads a run as [`Self::collect`] does. The times of executions within `stalls`, which are ordered and disjoint,
    /// are not compared. Runs of the same work at the same times leave out the stalls of all of them, so that they
    /// still compare the same work.
    ///
    /// # Errors
    /// If either iterator fails; the first error is returned.
    pub fn collect_outside<E>(
        stalls: Vec<ToolStall>,
        info: RunInfo,
        executions: impl IntoIterator<Item = Result<Execution, E>>,
        statements: impl IntoIterator<Item = Result<StatementText, E>>,
    ) -> Result<Self, E> {
        let mut profile = Self {
            name: String::new(),
            info,
            timeline: Timeline::new(),
            all: StatementStats::new(SEED_ALL),
            connects: StatementStats::new(SEED_CONNECTS),
            statements: HashMap::new(),
            no_connection: 0,
            diverged: 0,
            refused_read_only: 0,
            last_done_ns: 0,
            response: Series::new(SEED_RESPONSE),
            tool_lag: Histogram::new(),
            session_lag: Histogram::new(),
            service_by_stretch: TimesByStretch::new(),
            response_by_stretch: TimesByStretch::new(),
            tool_lag_by_stretch: TimesByStretch::new(),
            counts_by_stretch: [(0, 0); STRETCHES_MAX],
            texts: BTreeMap::new(),
            work: HashMap::new(),
            stalls,
        };
        let mut roots = RootFinder::default();
        let mut refusals = ReadOnlyRefusals::of(&profile.info.options);
        for text in statements {
            let text = text?;
            roots.set_text(text.fingerprint, &text.sql);
            refusals.set_text(text.fingerprint, &text.sql);
            profile.texts.insert(text.fingerprint, text);
        }
        for execution in executions {
            let mut execution = execution?;
            let text = execution
                .fingerprint
                .and_then(|one| profile.texts.get(&one));
            let root = roots.add(&execution, text.map(|text| text.sql.as_str()));
            if refusals.cause(&execution, root) {
                // What the server refuses is as little compared as what the replay itself withholds.
                profile.refused_read_only += 1;
                execution.outcome = Outcome::Skipped(SkipReason::ReadOnly);
                execution.sent_ns = None;
            }
            profile.add(&execution);
            if let Some(root) = root.filter(|root| !refusals.is_refusal(*root)) {
                profile.count_consequence(&execution, root);
            }
        }
        Ok(profile)
    }

    /// Adds the server's statement statistics. Statements within functions are part of those that called them.
    ///
    /// # Errors
    /// If the iterator fails.
    pub fn add_statistics<E>(
        &mut self,
        statistics: impl IntoIterator<Item = Result<StatementStatistics, E>>,
    ) -> Result<(), E> {
        for row in statistics {
            let row = row?;
            if let Some(fingerprint) = row.fingerprint
                && row.top_level != Some(false)
            {
                self.work.entry(fingerprint).or_default().add(&row);
            }
        }
        Ok(())
    }

    /// Returns the work of a statement, if the statistics are those of its executions.
    pub(crate) fn work_of(&self, fingerprint: Fingerprint) -> Option<StatementTotals> {
        let sent = self.statements.get(&fingerprint)?.outcomes.done;
        let counted = self.work.get(&fingerprint)?;
        describes(counted.calls, sent).then_some(*counted)
    }

    fn add(&mut self, execution: &Execution) {
        // Stretches follow the due time, which is the same in both runs.
        for _ in 0..self.timeline.doublings_for(execution.due_ns) {
            self.double_stretches();
        }
        let slot = self.timeline.slot(execution.due_ns);
        self.last_done_ns = self.last_done_ns.max(execution.done_ns.unwrap_or(0));
        let in_stall = is_in_stall(&self.stalls, execution);
        if execution.kind == StatementKind::Connect {
            self.connects.add(execution, slot, in_stall);
        }
        if !execution.is_statement() {
            return;
        }
        self.diverged += u64::from(diverges(execution, self.info.workload.failures_named));
        self.all.add(execution, slot, in_stall);
        if let Some(fingerprint) = execution.fingerprint {
            self.statements
                .entry(fingerprint)
                .or_insert_with(|| StatementStats::new(fingerprint.0))
                .add(execution, slot, in_stall);
        }
        if execution.outcome == Outcome::Skipped(SkipReason::NoConnection) {
            self.no_connection += 1;
        }
        if execution.outcome == Outcome::Done
            && let (Some(response_ns), Some(service_ns)) =
                (execution.response_ns(), execution.service_ns())
        {
            let response_ns = response_ns.max(0) as u64;
            if !in_stall {
                self.response.record(response_ns, slot);
            }
            self.response_by_stretch.record(response_ns, slot);
            self.service_by_stretch
                .record(service_ns.max(0) as u64, slot);
        }
        if let Some(tool_lag_ns) = execution.tool_lag_ns() {
            self.tool_lag.record(tool_lag_ns as u64);
            self.session_lag.record(execution.session_lag_ns);
            self.tool_lag_by_stretch.record(tool_lag_ns as u64, slot);
            let (sent, failed) = &mut self.counts_by_stretch[usize::from(slot)];
            *sent += 1;
            *failed += u64::from(matches!(execution.outcome, Outcome::Failed(_)));
        }
    }

    /// Counts a failure as a consequence of an earlier one.
    fn count_consequence(&mut self, execution: &Execution, root: ErrorKey) {
        let Outcome::Failed(sqlstate) = execution.outcome else {
            return;
        };
        if let Some(fingerprint) = execution.fingerprint {
            self.change_failures((fingerprint, sqlstate), |one| {
                one.consequences += 1;
                *one.causes.entry(root).or_default() += 1;
            });
        }
        self.change_failures(root, |one| one.following += 1);
    }

    fn change_failures(
        &mut self,
        (fingerprint, sqlstate): ErrorKey,
        change: impl FnOnce(&mut FailureCount),
    ) {
        if let Some(statement) = self.statements.get_mut(&fingerprint) {
            change(statement.outcomes.errors.entry(sqlstate).or_default());
        }
    }

    fn double_stretches(&mut self) {
        self.timeline.double();
        self.all.service.double_stretches();
        self.connects.service.double_stretches();
        self.response.double_stretches();
        self.service_by_stretch.double_stretches();
        self.response_by_stretch.double_stretches();
        self.tool_lag_by_stretch.double_stretches();
        let mut halved = [(0, 0); STRETCHES_MAX];
        for (slot, (sent, failed)) in self.counts_by_stretch.iter().enumerate() {
            halved[slot / 2].0 += sent;
            halved[slot / 2].1 += failed;
        }
        self.counts_by_stretch = halved;
        for stats in self.statements.values_mut() {
            stats.service.double_stretches();
        }
    }

    /// Widens the stretches to those of another run, if they are narrower.
    pub(crate) fn widen_to(&mut self, other: Timeline) {
        for _ in 0..self.timeline.doublings_to(other) {
            self.double_stretches();
        }
    }

    /// Returns the number of statements whose times are not compared because of stalls of the tool.
    pub(crate) fn statements_in_stalls(&self) -> u64 {
        self.all.in_stalls
    }

    /// Returns the replay's speed option.
    pub(crate) fn speed(&self) -> &str {
        self.info.options.get("speed").map_or("1", String::as_str)
    }

    pub(crate) fn text(&self, fingerprint: Fingerprint) -> Option<&StatementText> {
        self.texts.get(&fingerprint)
    }

    pub(crate) fn tool_lag(&self) -> Option<LatencySummary> {
        self.tool_lag.latency_summary()
    }
}

impl<'a> StatementNumbers<'a> {
    fn new(
        fingerprint: Option<Fingerprint>,
        sql: &'a str,
        stats: &StatementStats,
        work: Option<StatementTotals>,
    ) -> Self {
        StatementNumbers {
            fingerprint,
            sql,
            done: stats.outcomes.done,
            failed: stats.outcomes.failed(),
            latency: stats.service.latency_summary(&stats.service.sorted()),
            work: work.as_ref().and_then(WorkPerCall::of),
        }
    }
}

/// SQLSTATE with which a server refuses the statements of a failed transaction. They follow from the error
/// that broke it.
const REFUSED: Sqlstate = Sqlstate(*b"25P02");

/// Returns whether an execution ended otherwise than in the capture. If the capture does not name every
/// failure, a captured duration or number of rows shows that a statement succeeded.
fn diverges(execution: &Execution, failures_named: bool) -> bool {
    let captured = &execution.captured;
    match execution.outcome {
        Outcome::Skipped(_) | Outcome::Failed(REFUSED) => false,
        Outcome::Failed(code) => match captured.sqlstate {
            Some(captured) => captured != code,
            None => failures_named || captured.duration_us.is_some() || captured.rows.is_some(),
        },
        Outcome::Done => match captured.sqlstate {
            Some(code) => code != REFUSED,
            None => execution.differs_from_capture(),
        },
    }
}
