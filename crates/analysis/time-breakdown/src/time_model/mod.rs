//! Breaks down the response times of all statements of a run into parts that add up.
//!
//! ```text
//! response time (due → done)
//! ├ tool lag       measured: our own delay
//! ├ session lag    measured: the session's previous statement was not done
//! └ service time   measured: sent → done
//!   ├ outside      inferred: not found in the server by any sample: network, this machine, the
//!   │              server's process before it begins
//!   ├ waits        sampled: pg_stat_activity, by event
//!   ├ planning     measured: pg_stat_statements with track_planning; else sampled from stacks, if
//!   │              there are any
//!   └ processor    sampled: active and not waiting, so running or runnable; by phase of the server
//!                  if stacks were taken
//! ```
//!
//! A sample that finds a backend executing a statement represents the time until the next sample.
//! The number of samples times their distance estimates the time, with a relative error of about
//! two divided by the square root of the number of samples (95 %, for independent samples). If
//! samples find more than clients saw, all are scaled down to that ([`StatementTime::scale`]). Time
//! without any observation is a separate part ([`TimeCategory::Unobserved`]), never distributed
//! over the others.
//!
//! The server's processor time has a separate breakdown ([`break_down_processor_time`]). Waiting is only in
//! the first breakdown, processor work in both.
//!
//! The program passes the content of a run or of several probes. Reading it, and the definition of
//! phases (`cpu_profile::phases`), are not part of this module.

mod build;
mod change;
mod planning;
mod processor;
mod sums;
mod truncated_queries;

pub use build::{ServerObservations, break_down_time};
pub use change::{PartChange, PartsChange, TimeChange};
pub use planning::PlanningShare;
pub use processor::{
    CpuCounter, ProcessorBreakdown, ProcessorCategory, ProcessorEvidence, ProcessorRemark,
    ProcessorUser, StackCount, StatementCpuTime, break_down_processor_time,
};
pub use sums::{ResponseSums, ResponseTotals};
pub use truncated_queries::match_truncated_queries;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::StatementText;

/// Breakdown of the response times of all statements (due → done); the parts add up.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeBreakdown {
    /// All statements together.
    pub whole: StatementTime,
    /// Each statement, by descending service time.
    pub statements: Vec<StatementTime>,
    /// Time of backends with statements that are not the run's: those of other clients, or of
    /// functions and triggers that report their own.
    pub others_ns: f64,
    /// Part of that time without a wait event: running or runnable.
    #[serde(skip)]
    pub others_running_ns: f64,
    /// Planning and execution time of the run's statements by the server's statistics, in
    /// nanoseconds, if planning is tracked.
    #[serde(skip)]
    pub planned_and_executed_ns: Option<(f64, f64)>,
    /// Time of waits and of the processor in backends that the role may not inspect.
    pub hidden_ns: f64,
    /// Remarks on completeness.
    pub remarks: Vec<TimeRemark>,
    /// Planning's share of planning and execution, if known. The caller adds it.
    pub planning: Option<PlanningShare>,
    /// Breakdown of the server's processor time; `null` unless stacks were taken or the kernel's
    /// counters were read. The caller adds it.
    pub processor: Option<ProcessorBreakdown>,
}

/// Time of one statement, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementTime {
    /// Fingerprint; `null` for all statements.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL, if known. [`TimeBreakdown::name_statements`] adds it.
    pub sql: Option<String>,
    /// Number of executions that were sent.
    pub calls: u64,
    /// Response time (due → done): the sum of the parts.
    pub response_ns: f64,
    /// Service time (sent → done): the sum of the parts except lag.
    pub service_ns: f64,
    /// Parts, in the order of [`TimeCategory`].
    pub parts: Vec<TimePart<TimeCategory>>,
    /// Factor by which samples were scaled down to fit into the service time; 1 if they fit.
    #[serde(skip)]
    pub scale: f64,
}

/// Part of a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimePart<C> {
    /// Category of the part.
    #[serde(flatten)]
    pub category: C,
    /// Duration in nanoseconds.
    pub ns: f64,
    /// Basis of the value.
    #[serde(flatten)]
    pub basis: Basis,
}

/// Categories of response time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum TimeCategory {
    /// Delay of the replaying program.
    ToolLag,
    /// Waiting for the session's previous statement.
    SessionLag,
    /// Time between sending and completion that was not found in the server: network, and
    /// scheduling on both machines.
    OutsideServer,
    /// Planning.
    Planning,
    /// Running or runnable, in this phase of the server; `null` without stacks.
    Processor(Option<String>),
    /// Waiting for an event.
    Wait {
        /// Type of wait event, such as `Lock`.
        kind: String,
        /// Wait event, such as `transactionid`.
        event: String,
    },
    /// Execution without further observations.
    Execution,
    /// Service time without any observation.
    Unobserved,
}

/// Basis of a part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum Basis {
    /// Measured by a clock.
    Measured,
    /// Estimated from samples. The relative error at 95 % is 1.96 / √samples.
    Sampled {
        /// Number of samples.
        samples: u64,
    },
    /// Remainder of the other parts.
    Inferred,
}

impl Basis {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Sampled { .. } => "sampled",
            Basis::Inferred => "inferred",
        }
    }

    /// Returns the relative error of a sampled value at 95 %: 0.1 is ± 10 %.
    pub fn error(self) -> Option<f64> {
        match self {
            Basis::Sampled { samples } => Some(1.96 / (samples.max(1) as f64).sqrt()),
            _ => None,
        }
    }

    /// Returns the less certain of two bases.
    fn weaker(self, other: Basis) -> Basis {
        let rank = |basis| match basis {
            Basis::Measured => 0,
            Basis::Sampled { .. } => 1,
            Basis::Inferred => 2,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

/// Remark on the completeness of a time model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "remark", rename_all = "snake_case")]
pub enum TimeRemark {
    /// The server's activity was not sampled, so service time is only divided by statistics.
    NotSampled,
    /// Planning is not tracked, and no stacks were taken, so planning is part of the processor's
    /// time.
    PlanningUnknown,
    /// The samples found more time than clients saw, and were scaled down.
    MoreThanSeen {
        /// Ratio of the two, more than 1.
        factor: f64,
    },
    /// Part of the service time had no samples.
    Unwatched {
        /// Share of the service time, from 0 to 1.
        share: f64,
    },
    /// Some samples that were due were not taken.
    SamplesMissed {
        /// Share of the samples, from 0 to 1.
        share: f64,
    },
    /// `pg_stat_statements` counted more calls than the run made. Others sent the same statements,
    /// and planning is scaled to the run's share.
    OthersCalls {
        /// Ratio of the two, more than 1.
        factor: f64,
    },
}

impl TimeBreakdown {
    /// Adds the statements' texts, also to the processor's time.
    pub fn name_statements(&mut self, texts: &BTreeMap<Fingerprint, StatementText>) {
        let text = |fingerprint: Option<Fingerprint>| Some(texts.get(&fingerprint?)?.sql.clone());
        for one in &mut self.statements {
            one.sql = text(one.fingerprint);
        }
        for one in self
            .processor
            .iter_mut()
            .flat_map(|one| &mut one.statements)
        {
            one.sql = text(one.fingerprint);
        }
    }

    /// Returns the time for which samples found each statement without a wait event, including
    /// planning, in nanoseconds. `None` is the key of statements that are not the run's.
    pub fn running_ns(&self) -> BTreeMap<Option<Fingerprint>, f64> {
        let is_running = |category: &TimeCategory| {
            matches!(
                category,
                TimeCategory::Planning | TimeCategory::Processor(_)
            )
        };
        let of = |one: &StatementTime| {
            let parts = one.parts.iter().filter(|part| is_running(&part.category));
            (one.fingerprint, parts.map(|part| part.ns).sum())
        };
        let mut running: BTreeMap<_, f64> = self.statements.iter().map(of).collect();
        running.insert(None, self.others_running_ns);
        running
    }
}

/// Processor time of a statement in a phase, from stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorTime {
    /// Statement; `None` for all together.
    pub fingerprint: Option<Fingerprint>,
    /// Name of the phase.
    pub phase: String,
    /// Whether it is planning.
    pub is_planning: bool,
    /// Time in nanoseconds, or in any unit that is equal for all.
    pub time: f64,
}

#[cfg(test)]
mod tests;
