//! All that a comparison needs to know of one run, in bounded memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use run::{Execution, Outcome, RunInfo, SkipReason, StatementKind};
use workload::{Fingerprint, Sqlstate, StatementText};

use crate::histogram::Histogram;
use crate::landmarks::Landmarks;
use crate::rows_change::RowsSeen;
use crate::series::Series;
use crate::timeline::Timeline;

/// Seeds for what has no fingerprint.
const SEED_ALL: u64 = 1;
const SEED_CONNECTS: u64 = 2;

/// One run, read once. Memory: 4 bytes for each execution up to
/// [`SAMPLES_MAX`](crate::SAMPLES_MAX) of each fingerprint, and about a kilobyte for each
/// fingerprint.
#[derive(Debug, Clone)]
pub struct RunProfile {
    pub(crate) info: RunInfo,
    pub(crate) timeline: Timeline,
    /// All statements.
    pub(crate) all: Tracked,
    /// Opening connections.
    pub(crate) connects: Tracked,
    pub(crate) statements: HashMap<Fingerprint, Tracked>,
    pub(crate) no_connection: u64,
    pub(crate) last_done_ns: i64,
    response: Histogram,
    tool_lag: Histogram,
    session_lag: Histogram,
    texts: BTreeMap<Fingerprint, StatementText>,
}

/// What is kept of one statement, of all of them, or of connecting.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    /// Service times of what was done. What failed is not among them: an error is often faster
    /// than an answer, and would pass for an improvement.
    pub(crate) service: Series,
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) errors: BTreeMap<Sqlstate, Failures>,
    pub(crate) captured_errors: BTreeMap<Sqlstate, u64>,
    /// Rows of what was done.
    pub(crate) rows: RowsSeen,
    /// Captured durations, in nanoseconds like all others.
    pub(crate) captured: Histogram,
}

/// How often something failed, and with which message first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    pub(crate) message: Option<String>,
}

impl Tracked {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            service: Series::new(seed),
            done: 0,
            skipped: 0,
            errors: BTreeMap::new(),
            captured_errors: BTreeMap::new(),
            rows: RowsSeen::default(),
            captured: Histogram::new(),
        }
    }

    /// What was sent, done or not.
    pub(crate) fn calls(&self) -> u64 {
        self.done + self.failed()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().map(|failures| failures.count).sum()
    }

    /// How often this error, or one whose code the source hid, was captured.
    pub(crate) fn captured_as(&self, sqlstate: Sqlstate) -> u64 {
        let of = |code| self.captured_errors.get(&code).copied().unwrap_or(0);
        let hidden = if sqlstate == Sqlstate::UNKNOWN {
            0
        } else {
            of(Sqlstate::UNKNOWN)
        };
        of(sqlstate) + hidden
    }

    fn add(&mut self, execution: &Execution, slot: u8) {
        match execution.outcome {
            Outcome::Done => {
                self.done += 1;
                self.rows.add(
                    execution.session,
                    execution.sequence,
                    execution.rows,
                    execution.digest,
                );
                if let Some(service_ns) = execution.service_ns() {
                    self.service.record(service_ns.max(0) as u64, slot);
                }
            }
            Outcome::Failed(sqlstate) => {
                let failures = self.errors.entry(sqlstate).or_default();
                failures.count += 1;
                if failures.message.is_none() {
                    failures.message.clone_from(&execution.message);
                }
            }
            Outcome::Skipped(_) => self.skipped += 1,
        }
        if let Some(duration_us) = execution.captured.duration_us {
            self.captured.record(duration_us.saturating_mul(1_000));
        }
        if let Some(sqlstate) = execution.captured.sqlstate {
            *self.captured_errors.entry(sqlstate).or_default() += 1;
        }
    }
}

impl RunProfile {
    /// Reads a run: its manifest's part, its executions in any order, and its statements' texts.
    /// The first error of either iterator is handed back.
    pub fn collect<E>(
        info: RunInfo,
        executions: impl IntoIterator<Item = Result<Execution, E>>,
        statements: impl IntoIterator<Item = Result<StatementText, E>>,
    ) -> Result<Self, E> {
        let mut profile = Self {
            info,
            timeline: Timeline::new(),
            all: Tracked::new(SEED_ALL),
            connects: Tracked::new(SEED_CONNECTS),
            statements: HashMap::new(),
            no_connection: 0,
            last_done_ns: 0,
            response: Histogram::new(),
            tool_lag: Histogram::new(),
            session_lag: Histogram::new(),
            texts: BTreeMap::new(),
        };
        for execution in executions {
            profile.add(&execution?);
        }
        for text in statements {
            let text = text?;
            profile.texts.insert(text.fingerprint, text);
        }
        Ok(profile)
    }

    fn add(&mut self, execution: &Execution) {
        // Stretches are of the time when things were due: that is the same in both runs.
        for _ in 0..self.timeline.doublings_for(execution.due_ns) {
            self.double_stretches();
        }
        let slot = self.timeline.slot(execution.due_ns);
        self.last_done_ns = self.last_done_ns.max(execution.done_ns.unwrap_or(0));
        if execution.kind == StatementKind::Connect {
            self.connects.add(execution, slot);
        }
        if !execution.is_statement() {
            return;
        }
        self.all.add(execution, slot);
        if let Some(fingerprint) = execution.fingerprint {
            self.statements
                .entry(fingerprint)
                .or_insert_with(|| Tracked::new(fingerprint.0))
                .add(execution, slot);
        }
        if execution.outcome == Outcome::Skipped(SkipReason::NoConnection) {
            self.no_connection += 1;
        }
        if execution.outcome == Outcome::Done
            && let Some(response_ns) = execution.response_ns()
        {
            self.response.record(response_ns.max(0) as u64);
        }
        if let Some(tool_lag_ns) = execution.tool_lag_ns() {
            self.tool_lag.record(tool_lag_ns as u64);
            self.session_lag.record(execution.session_lag_ns);
        }
    }

    fn double_stretches(&mut self) {
        self.timeline.double();
        self.all.service.double_stretches();
        self.connects.service.double_stretches();
        for tracked in self.statements.values_mut() {
            tracked.service.double_stretches();
        }
    }

    /// Makes the stretches as wide as the other run's, where they are narrower.
    pub(crate) fn widen_to(&mut self, other: &RunProfile) {
        for _ in 0..self.timeline.doublings_to(other.timeline) {
            self.double_stretches();
        }
    }

    /// The replay's speed, as its options have it.
    pub(crate) fn speed(&self) -> &str {
        self.info.options.get("speed").map_or("1", String::as_str)
    }

    pub(crate) fn text(&self, fingerprint: Fingerprint) -> Option<&StatementText> {
        self.texts.get(&fingerprint)
    }

    /// The fingerprints of both runs.
    pub(crate) fn fingerprints_with(&self, other: &RunProfile) -> BTreeSet<Fingerprint> {
        let both = self.statements.keys().chain(other.statements.keys());
        both.copied().collect()
    }

    pub(crate) fn response(&self) -> Option<Landmarks> {
        self.response.landmarks()
    }

    pub(crate) fn tool_lag(&self) -> Option<Landmarks> {
        self.tool_lag.landmarks()
    }

    pub(crate) fn session_lag(&self) -> Option<Landmarks> {
        self.session_lag.landmarks()
    }
}
