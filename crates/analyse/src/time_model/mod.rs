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
//! more than clients saw, all of them are scaled down to that ([`TimeOf::scale`]); what nobody looked
//! into is a part of its own ([`What::Unlooked`]), never spread over the others.
//!
//! The server's processor time is split beside it ([`processor_model`]): what waits is in the one account, what
//! works in both.
//!
//! Who drives: the program hands in what a run holds, or what several probes saw. Deliberately absent:
//! reading, and what a phase is (`phases`).

mod beginnings;
mod build;
mod processor;
mod sums;

pub use beginnings::whole_statements;
pub use build::{Seen, time_model};
pub use processor::{
    ProcessorEvidence, ProcessorModel, ProcessorOf, ProcessorPart, ProcessorRemark, ProcessorWhat,
    StacksMet, Who, processor_model,
};
pub use sums::{ResponseSums, Sums};

use std::collections::BTreeMap;

use workload::Fingerprint;

/// Where response time went.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeModel {
    /// All statements together.
    pub whole: TimeOf,
    /// Each, the longest service time first: lag comes of what others took.
    pub statements: Vec<TimeOf>,
    /// Time of backends with statements that are none of the run's, in nanoseconds: other clients, or
    /// functions and triggers that show their own.
    pub others_ns: f64,
    /// Of that, nanoseconds in which they waited for nothing: running, or ready to run.
    pub others_running_ns: f64,
    /// What the server's statistics measured of the run's statements: planning and execution, in nanoseconds,
    /// where planning is tracked.
    pub planned_and_executed_ns: Option<(f64, f64)>,
    /// Of the waits and of the processor's time, nanoseconds in backends that hid what they did.
    pub hidden_ns: f64,
    /// What is to be known about it.
    pub remarks: Vec<TimeRemark>,
}

/// The time of one statement, or of all.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeOf {
    /// Which; `None` for all.
    pub fingerprint: Option<Fingerprint>,
    /// How often it was sent.
    pub calls: u64,
    /// Due → done, in nanoseconds: the sum of the parts.
    pub response_ns: f64,
    /// Sent → done, in nanoseconds: the sum of the parts that are no lag.
    pub service_ns: f64,
    /// The parts, in the order of [`What`].
    pub parts: Vec<Part>,
    /// What samples were multiplied by, so that they fit into the service time: 1 where they do.
    pub scale: f64,
}

/// One part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is.
    pub what: What,
    /// How long, in nanoseconds.
    pub ns: f64,
    /// How that is known.
    pub known: Known,
}

/// What time went into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Our own delay.
    ToolLag,
    /// The session's previous statement was not done.
    SessionLag,
    /// Sent and not found in the server: network, and both machines' scheduling.
    Way,
    /// Planning.
    Planning,
    /// Running, or ready to run, in this phase of the server; `None` where no stacks tell.
    Processor(Option<String>),
    /// Waiting.
    Wait {
        /// The type (`Lock`).
        kind: String,
        /// The event (`transactionid`).
        event: String,
    },
    /// Execution, into which nobody looked.
    Execution,
    /// Service time of which nothing is known.
    Unlooked,
}

/// How a part is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// By a clock, around it.
    Measured,
    /// By so many samples that found it.
    Sampled {
        /// How many.
        samples: u64,
    },
    /// It is what the other parts leave.
    Inferred,
}

impl Known {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            Known::Measured => "measured",
            Known::Sampled { .. } => "sampled",
            Known::Inferred => "inferred",
        }
    }

    /// The relative error of what was sampled, at 95 %: 0.1 is ± 10 %.
    pub fn error(self) -> Option<f64> {
        match self {
            Known::Sampled { samples } => Some(1.96 / (samples.max(1) as f64).sqrt()),
            _ => None,
        }
    }
}

/// What is to be known about a time model.
#[derive(Debug, Clone, Copy, PartialEq)]
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
        /// Of 1.
        share: f64,
    },
    /// This share of the samples that were due was not taken.
    SamplesMissed {
        /// Of 1.
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
    /// How long each statement was met with nothing to wait for, planning included, in nanoseconds; under `None`
    /// those that are not the run's.
    pub fn running_ns(&self) -> BTreeMap<Option<Fingerprint>, f64> {
        let is_running = |part: &&Part| matches!(part.what, What::Planning | What::Processor(_));
        let of = |one: &TimeOf| {
            let parts = one.parts.iter().filter(is_running);
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
