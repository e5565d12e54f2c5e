//! Measurements of the case *heap*.

use cpu_profile::phases::{Phase, PhaseAccount, SampleTime};
use diagnose::Diagnosis;
use study::proof::ProofReport;
use workload::WorkloadInfo;

use super::{
    BATCH, Backlog, Caches, Cost, IngestCounts, PATTERNS, PatternCost, QueryResult, Store,
};

/// Measurements, in the order in which they are taken.
pub(super) struct Measurements {
    pub(super) store: Store,
    pub(super) asked: Vec<QueryResult>,
    pub(super) captured: IngestCounts,
    pub(super) costs: Vec<Cost>,
    pub(super) patterns: Vec<PatternCost>,
    pub(super) single_row_rate: f64,
    pub(super) backlog: Backlog,
    /// Profiles with one row per statement, and with a batch. The error is the reason why there is none.
    pub(super) profiles: [Result<IngestProfile, String>; 2],
    /// Phases of the replays of the captured and of the rewritten workload.
    pub(super) replays: [Result<Phases, String>; 2],
    pub(super) rewritten: WorkloadInfo,
    pub(super) diagnosis: Diagnosis,
    pub(super) proof: ProofReport,
}

/// Execution phases of a profile.
pub(super) struct Phases {
    pub(super) account: PhaseAccount,
    pub(super) sample_time: SampleTime,
}

impl Phases {
    /// Returns the phases with their samples, the largest first, without idle time.
    pub(super) fn working(&self) -> Vec<(Phase, u64)> {
        let mut all = self.account.all().largest_first();
        all.retain(|(phase, _)| *phase != Phase::Idle);
        all
    }

    pub(super) fn is_largest(&self, phase: Phase) -> bool {
        self.working()
            .first()
            .is_some_and(|(first, _)| *first == phase)
    }

    /// Returns the CPU time of a phase per event, in microseconds.
    pub(super) fn us_per_event(&self, phase: Phase, events: u64) -> f64 {
        self.account.all().samples(phase) as f64 * self.sample_time.ns / 1e3 / events.max(1) as f64
    }
}

/// CPU profile of the server while rows were written.
pub(super) struct IngestProfile {
    /// Number of events written meanwhile.
    pub(super) events: u64,
    pub(super) phases: Phases,
    /// Stacks with their numbers of samples.
    pub(super) folded: Vec<String>,
}

impl IngestProfile {
    /// Returns the share of samples whose stack contains a function.
    pub(super) fn share_within(&self, function: &str) -> f64 {
        let (mut all, mut within) = (0, 0);
        for line in &self.folded {
            let Some((stack, samples)) = line.rsplit_once(' ') else {
                continue;
            };
            let samples: u64 = samples.parse().unwrap_or(0);
            all += samples;
            if stack.split(';').any(|frame| frame == function) {
                within += samples;
            }
        }
        within as f64 / all.max(1) as f64
    }

    /// Returns the CPU time of a phase per event, in microseconds.
    pub(super) fn us_per_event(&self, phase: Phase) -> f64 {
        self.phases.us_per_event(phase, self.events)
    }
}

impl Measurements {
    /// Returns the CPU time of an event with one row per statement and with a batch, in microseconds, and their ratio.
    pub(super) fn batch_gain(&self, caches: Caches) -> Option<(f64, f64, f64)> {
        let cost = |rows: u32| {
            let mut all = self.costs.iter();
            let found = all.find(|one| one.rows == rows && one.caches == caches);
            found.map(|one| one.cpu_us)
        };
        let (single, batched) = (cost(1)?, cost(BATCH)?);
        Some((single, batched, single / batched.max(1e-9)))
    }

    /// Returns the CPU time of a row in a table with this many expressions, in microseconds.
    pub(super) fn pattern_cost(&self, patterns: u32, rows: u32) -> Option<f64> {
        let mut all = self.patterns.iter();
        let found = all.find(|one| one.patterns == patterns && one.rows == rows);
        found.map(|one| one.cpu_us)
    }

    /// Returns the CPU time of a row with as many expressions as a backend keeps compiled, and with a few more.
    pub(super) fn recompilation(&self) -> Option<(f64, f64)> {
        let [kept, exceeded] = PATTERNS;
        Some((
            self.pattern_cost(kept, BATCH)?,
            self.pattern_cost(exceeded, BATCH)?,
        ))
    }
}
