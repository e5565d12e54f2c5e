//! Experiment with a change: the statement of a finding, executed on a private copy with and without it.

use schemars::JsonSchema;
use serde::Serialize;

/// Outcome of the experiment with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// It left half of the statement's time or less, so that it removed a cause.
    RemovesCause,
    /// The statement was faster, with most of its time left.
    Faster,
    /// The statement took about as long, or the planner did not use what was made.
    NoEffect,
    /// The statement was clearly slower with one of its parameter sets.
    Slower,
    /// It could not be made, or the statement failed with it.
    Failed,
}

impl TrialOutcome {
    /// Whether the change helped.
    pub fn is_gain(self) -> bool {
        matches!(self, TrialOutcome::RemovesCause | TrialOutcome::Faster)
    }
}

/// Experiment with a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangeTrial {
    /// Outcome.
    pub outcome: TrialOutcome,
    /// Reason for the outcome, if it is not in the numbers.
    pub reason: Option<String>,
    /// Times of each parameter set.
    pub sets: Vec<TrialTimes>,
    /// Size in bytes of the indexes that it creates.
    pub index_bytes: Option<u64>,
    /// Number of columns of the indexes that it creates, included ones too.
    pub index_columns: Option<u64>,
    /// Statements that write the same table.
    pub writes: Vec<WriteTrial>,
}

/// Times of a statement with one of its parameter sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TrialTimes {
    /// Median time without the change, in milliseconds.
    pub before_ms: f64,
    /// Median time with the change, in milliseconds.
    pub after_ms: f64,
    /// Blocks read without the change; triggers are not counted.
    pub before_blocks: f64,
    /// Blocks read with the change.
    pub after_blocks: f64,
}

/// Times of a statement that writes the table of a new index.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WriteTrial {
    /// Normalised SQL.
    pub sql: String,
    /// Time without the index, in milliseconds.
    pub before_ms: f64,
    /// Time with the index, in milliseconds.
    pub after_ms: f64,
}

impl TrialTimes {
    /// Returns the part of the time that is left with the change.
    pub fn left(&self) -> f64 {
        self.after_ms / self.before_ms.max(f64::MIN_POSITIVE)
    }
}

impl ChangeTrial {
    /// Creates a trial without times.
    pub fn without_times(outcome: TrialOutcome, reason: impl Into<String>) -> Self {
        ChangeTrial {
            outcome,
            reason: Some(reason.into()),
            sets: Vec::new(),
            index_bytes: None,
            index_columns: None,
            writes: Vec::new(),
        }
    }

    /// Returns the times of all parameter sets together; `None` if it was not executed.
    pub fn total(&self) -> Option<TrialTimes> {
        let sum = |of: fn(&TrialTimes) -> f64| self.sets.iter().map(of).sum::<f64>();
        (!self.sets.is_empty()).then(|| TrialTimes {
            before_ms: sum(|one| one.before_ms),
            after_ms: sum(|one| one.after_ms),
            before_blocks: sum(|one| one.before_blocks),
            after_blocks: sum(|one| one.after_blocks),
        })
    }

    /// Returns the part of the time that is left, of all sets together; 1 if it was not executed.
    pub fn left(&self) -> f64 {
        self.total().map_or(1.0, |total| total.left())
    }

    /// Returns the least and the greatest part of the time that is left with one of the sets.
    pub fn range(&self) -> Option<(f64, f64)> {
        let all = self.sets.iter().map(TrialTimes::left);
        let least = all.clone().min_by(f64::total_cmp)?;
        Some((least, all.max_by(f64::total_cmp)?))
    }
}
