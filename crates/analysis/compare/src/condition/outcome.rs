//! Outcome of a condition.

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use super::quantity::Kind;

/// Outcome of a condition.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConditionOutcome {
    /// Text of the condition, as it was given.
    pub condition: String,
    /// Whether it holds, for the whole comparison or for some statement.
    pub holds: bool,
    /// Names of all quantities in it.
    pub quantities: Vec<&'static str>,
    /// Number of statements that were checked; `null` for a condition on the whole comparison.
    pub statements_checked: Option<usize>,
    /// Number of statements, or 1 for the whole, for which there is too little data to tell.
    pub unknown: usize,
    /// Measured quantities; empty unless the condition holds independently of the statement.
    pub measured: Vec<MeasuredQuantity>,
    /// Statements for which it holds; empty if it holds for the whole comparison.
    pub statements: Vec<ConditionStatement>,
}

/// Statement for which a condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConditionStatement {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if known.
    pub sql: Option<String>,
    /// Measured quantities.
    pub measured: Vec<MeasuredQuantity>,
}

/// Measured value of a quantity.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredQuantity {
    /// The quantity as the condition names it.
    pub quantity: String,
    /// Unit of the value.
    pub unit: Kind,
    /// The value; `null` if unknown.
    pub value: Option<f64>,
}
