//! Measured account of a statement's time, from its execution on a private copy.

use plans::TimePart;
use schemars::JsonSchema;
use serde::Serialize;

use super::change_trial::TrialOutcome;

/// Way in which a statement was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanningMode {
    /// For its values.
    Custom,
    /// As the server plans a prepared statement that was executed five times.
    Prepared,
    /// For any values.
    Generic,
}

/// Execution of a statement with one of its parameter sets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredExecution {
    /// Session of the captured execution that had these values.
    pub session: u64,
    /// Its position in the session.
    pub sequence: u64,
    /// Its captured time, in milliseconds, if known.
    pub captured_ms: Option<f64>,
    /// Way in which it was planned.
    pub mode: PlanningMode,
    /// Planning and execution on the copy, in milliseconds.
    pub ms: f64,
    /// Blocks that its plan read; those of triggers are not counted.
    pub blocks: f64,
}

/// Parts of a statement's time on a private copy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredAccount {
    /// Executions, one of each parameter set and planning mode.
    pub executions: Vec<MeasuredExecution>,
    /// Parts of the time of the execution that represents them. Their own times add up to it.
    pub parts: TimePart,
    /// Samples of its time in the traffic in which it waited for locks, a share from 0 to 1; `null` without samples.
    pub lock_wait_share: Option<f64>,
    /// Samples in which it waited for the flush of the write-ahead log.
    pub flush_share: Option<f64>,
    /// Share of its time in the traffic that this account does not explain, from 0 to 1.
    pub unmeasured_share: f64,
    /// Changes that were tried, also those that no finding proposes.
    pub tried: Vec<TriedChange>,
    /// Number of proposed changes that were not tried, since there was no time.
    pub untried: u64,
}

/// Change that was tried for a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TriedChange {
    /// The change: SQL, a setting, or words.
    pub change: String,
    /// Outcome.
    pub outcome: TrialOutcome,
    /// Part of the time that was left with it; 1 if the statement was not executed with it.
    pub left: f64,
}

/// Account of a statement's time, or the reason why it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "account")]
pub enum TimeAccount {
    /// It was executed on a private copy.
    Measured(Box<MeasuredAccount>),
    /// It was not.
    NotMeasured {
        /// The reason.
        reason: String,
    },
}
