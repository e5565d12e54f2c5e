//! What is shown of an index that may serve: what the planner expects of it, before anything is replayed.

use diagnose::ScreeningMethod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An index that may serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexCandidateView {
    /// The statement that makes it.
    pub sql: String,
    /// Its table, with its schema.
    pub table: String,
    /// Its keys, what it has beside, and its condition: `(a, b) INCLUDE (c) WHERE d IS NULL`.
    pub shape: String,
    /// Columns of it that statements of the workload update: such an update cannot be HOT with it.
    pub updated: Vec<String>,
    /// Its keys are in the order that is taught: equality, order, ranges.
    pub is_classical: bool,
    /// How the planner was asked; `null` if it was not.
    pub screened: Option<ScreeningMethod>,
    /// Why the planner could not be asked.
    pub refused: Option<String>,
    /// Its size in bytes, estimated of a hypothetical one.
    pub bytes: Option<u64>,
    /// The share of the time of all statements, from 0 to 1, that it saves if time goes as the planner's costs do:
    /// an expectation, and without what writes pay.
    pub expected_share: f64,
    /// What the planner expects of each statement that it was made for.
    pub expected: Vec<ExpectedCostView>,
    /// The change of the proof that measures it; `null` if it was not measured.
    pub proved_as: Option<String>,
}

/// What the planner expects of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedCostView {
    /// Which.
    pub fingerprint: String,
    /// Its normal form.
    pub sql: String,
    /// Its cost without the candidate, in the planner's units.
    pub cost_before: f64,
    /// With it.
    pub cost_after: f64,
    /// Its plan uses the candidate.
    pub is_used: bool,
}
