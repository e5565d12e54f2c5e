//! Where the time of a run went: the response times of all statements, split without a rest.
//!
//! ```text
//! response time (due → done)
//! ├ tool lag       measured: our own delay
//! ├ session lag    measured: the session's previous statement was not done
//! └ service time   measured: sent → done
//!   ├ the way      inferred: what no sample found in the server: network, this machine, the
//!   │              server's process before it begins
//!   ├ waits        sampled: pg_stat_activity, by event
//!   ├ planning     measured: pg_stat_statements with track_planning; else sampled from stacks, where
//!   │              there are any
//!   └ processor    sampled: active and not waiting, so running or ready to; by phase of the server
//!                  where stacks were taken
//! ```
//!
//! A sample that finds a backend with a statement stands for the time until the next one: so many
//! samples times their distance is an estimate of the time, whose relative error is about two divided
//! by the root of the number of samples (95 %, for samples that do not hang together). Where samples find
//! more than clients saw, all of them are scaled down to that ([`StatementTime::scale`]); what nobody looked
//! into is a part of its own ([`TimeCategory::Unobserved`]), never spread over the others.
//!
//! The server's processor time is split beside it ([`processor_model`]): what waits is in the one account, what
//! works in both.
//!
//! Who drives: the program hands in what a run holds, or what several probes saw. Deliberately absent:
//! reading, and what a phase is (`phases`).

mod beginnings;
mod build;
mod change;
mod planning;
mod processor;
mod sums;

pub use beginnings::whole_statements;
pub use build::{Seen, time_model};
pub use change::{PartChange, PartsChange, TimeChange};
pub use planning::PlanningShare;
pub use processor::{
    CpuCounter, ProcessorCategory, ProcessorEvidence, ProcessorModel, ProcessorRemark, StacksMet,
    StatementCpuTime, Who, processor_model,
};
pub use sums::{ResponseSums, Sums};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::StatementText;

/// The response times of all statements (due → done), split without a rest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimeModel {
    /// All statements together.
    pub whole: StatementTime,
    /// Each, the longest service time first: lag comes of what others took.
    pub statements: Vec<StatementTime>,
    /// Time of backends with statements that are none of the run's: other clients, or functions and
    /// triggers that show their own.
    pub others_ns: f64,
    /// Of that, the time in which they waited for nothing: running, or ready to run.
    #[serde(skip)]
    pub others_running_ns: f64,
    /// Planning and execution of the run's statements by the server's statistics, in nanoseconds, if
    /// planning is tracked.
    #[serde(skip)]
    pub planned_and_executed_ns: Option<(f64, f64)>,
    /// Of the waits and of the processor's time, the time of backends that hid what they did.
    pub hidden_ns: f64,
    /// Remarks on how complete it is.
    pub remarks: Vec<TimeRemark>,
    /// Planning's share of planning and execution, if known. The caller adds it.
    pub planning: Option<PlanningShare>,
    /// The server's processor time, split likewise; `null` unless stacks were taken or the kernel's counts
    /// were read. The caller adds it.
    pub processor: Option<ProcessorModel>,
}

/// The time of one statement, or of all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementTime {
    /// The statement; `null` for all.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL, if known. [`TimeModel::name_statements`] adds it.
    pub sql: Option<String>,
    /// Number of times that it was sent.
    pub calls: u64,
    /// Due → done: the sum of the parts.
    pub response_ns: f64,
    /// Sent → done: the sum of the parts that are no lag.
    pub service_ns: f64,
    /// The parts, in the order of [`TimeCategory`].
    pub parts: Vec<TimePart<TimeCategory>>,
    /// Factor that samples were multiplied by to fit into the service time: 1 if they do.
    #[serde(skip)]
    pub scale: f64,
}

/// A part of a time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimePart<C> {
    /// What the time went into.
    #[serde(flatten)]
    pub category: C,
    /// How long.
    pub ns: f64,
    /// How it is known.
    #[serde(flatten)]
    pub basis: Basis,
}

/// What response time went into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "category", content = "detail", rename_all = "snake_case")]
pub enum TimeCategory {
    /// The replaying program's own delay.
    ToolLag,
    /// The session's previous statement was not done.
    SessionLag,
    /// Sent and not found in the server: network, and both machines' scheduling.
    OutsideServer,
    /// Planning.
    Planning,
    /// Running, or ready to run, in this phase of the server; `null` unless stacks tell.
    Processor(Option<String>),
    /// Waiting.
    Wait {
        /// The type of wait event, such as `Lock`.
        kind: String,
        /// The wait event, such as `transactionid`.
        event: String,
    },
    /// Execution, of which nothing more was observed.
    Execution,
    /// Service time in which nothing was observed.
    Unobserved,
}

/// How a part of a time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "basis", rename_all = "snake_case")]
pub enum Basis {
    /// A clock around it.
    Measured,
    /// Samples that found it. The relative error at 95 % is 1.96 / √samples.
    Sampled {
        /// Number of samples.
        samples: u64,
    },
    /// The rest that the other parts leave.
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

    /// Returns the relative error of what was sampled, at 95 %: 0.1 is ± 10 %.
    pub fn error(self) -> Option<f64> {
        match self {
            Basis::Sampled { samples } => Some(1.96 / (samples.max(1) as f64).sqrt()),
            _ => None,
        }
    }

    /// Returns the less certain of two.
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

/// A remark on how complete a time model is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "remark", rename_all = "snake_case")]
pub enum TimeRemark {
    /// The server's activity was not sampled: service time is split by its statistics at most.
    NotSampled,
    /// Planning is not tracked, and no stacks were taken: it is within the processor's time.
    PlanningUnknown,
    /// The samples found this many times what clients saw, and were scaled down.
    MoreThanSeen {
        /// More than 1.
        factor: f64,
    },
    /// In this share of the service time nobody sampled the server.
    Unwatched {
        /// From 0 to 1.
        share: f64,
    },
    /// This share of the samples that were due was not taken.
    SamplesMissed {
        /// From 0 to 1.
        share: f64,
    },
    /// `pg_stat_statements` counted this many times the calls of the run: others sent the same
    /// statements, and planning is what their share of it would be.
    OthersCalls {
        /// More than 1.
        factor: f64,
    },
}

impl TimeModel {
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

    /// Returns how long each statement was met with nothing to wait for, planning included, in
    /// nanoseconds; under `None` those that are not the run's.
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

/// What stacks say of a statement's time on the processor.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessorTime {
    /// The statement; `None`: of all together.
    pub fingerprint: Option<Fingerprint>,
    /// The phase's name.
    pub phase: String,
    /// It is planning.
    pub is_planning: bool,
    /// How much, in nanoseconds, or in any unit that is the same for all.
    pub time: f64,
}

#[cfg(test)]
mod tests;
