//! Candidate index, with the planner's expectation before anything is replayed.

use diagnose::ScreeningMethod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Candidate index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenedCandidate {
    /// CREATE INDEX statement.
    pub sql: String,
    /// Its table, including the schema.
    pub table: String,
    /// Its keys, included columns and condition: `(a, b) INCLUDE (c) WHERE d IS NULL`.
    pub shape: String,
    /// Columns of the index that statements of the workload update; such an update cannot be HOT.
    pub updated: Vec<String>,
    /// Whether its keys are in the recommended order: equality, sort columns, ranges.
    pub is_classical: bool,
    /// Method by which the planner evaluated it; `null` if it was not evaluated.
    pub screened: Option<ScreeningMethod>,
    /// Reason why the planner could not evaluate it.
    pub refused: Option<String>,
    /// Its size in bytes, estimated for a hypothetical index.
    pub bytes: Option<u64>,
    /// Share of the time of all statements, from 0 to 1, that it saves if time is proportional to
    /// the planner's costs: an expectation, without the cost for writes.
    pub expected_share: f64,
    /// The planner's expectation for each statement that the candidate serves.
    pub expected: Vec<ExpectedCost>,
    /// Name of the change of the proof that measures it; `null` if it was not measured.
    pub proved_as: Option<String>,
}

/// The planner's expectation for a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedCost {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Cost without the candidate, in the planner's units.
    pub cost_before: f64,
    /// Cost with the candidate.
    pub cost_after: f64,
    /// Whether the plan uses the candidate.
    pub is_used: bool,
}
