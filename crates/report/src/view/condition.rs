//! What came of the conditions that a comparison was asked for.

use analyse::Comparison;
use analyse::condition::{Checked, Condition, Kind, Reading};
use schemars::JsonSchema;
use serde::Serialize;

/// A condition of `--fail-on`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ConditionView {
    /// As it was given.
    pub condition: String,
    /// It holds.
    pub holds: bool,
    /// The names of all that it asks for.
    pub asks_for: Vec<&'static str>,
    /// It was asked of so many statements; of the whole where that is `null`.
    pub statements_asked: Option<usize>,
    /// Of so many of them, or of the whole (1), it could not be told for want of data.
    pub unknown: usize,
    /// What it asked for, where it holds of the whole, whatever the statement.
    pub readings: Vec<ReadingView>,
    /// The statements for which it holds; none where it holds of the whole.
    pub statements: Vec<ConditionStatementView>,
}

/// A statement for which a condition holds.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ConditionStatementView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// What the condition asked for.
    pub readings: Vec<ReadingView>,
}

/// What a quantity is.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ReadingView {
    /// As the condition names it.
    pub quantity: String,
    /// `ratio`, `us` (microseconds), `count` or `share` (from 0 to 1).
    #[schemars(extend("enum" = ["ratio", "us", "count", "share"]))]
    pub unit: &'static str,
    /// `null` where it is not known.
    pub value: Option<f64>,
}

impl ConditionView {
    /// What came of asking the comparison.
    pub fn new(condition: &Condition, checked: &Checked, comparison: &Comparison) -> Self {
        let readings = |found: &[Reading]| found.iter().map(reading).collect();
        let statements = checked.statements.iter().map(|held| {
            let statement = &comparison.statements[held.at];
            ConditionStatementView {
                fingerprint: statement.fingerprint.to_string(),
                sql: statement.sql.clone().unwrap_or_default(),
                readings: readings(&held.readings),
            }
        });
        Self {
            condition: condition.given().to_owned(),
            holds: checked.holds,
            asks_for: condition.asks_for(),
            statements_asked: condition.is_of_statements().then_some(checked.asked),
            unknown: checked.unknown,
            readings: checked.whole.as_deref().map_or_else(Vec::new, readings),
            statements: statements.collect(),
        }
    }
}

fn reading(reading: &Reading) -> ReadingView {
    let (unit, of_unit) = match reading.kind {
        Kind::Ratio => ("ratio", 1.0),
        Kind::Time => ("us", 1e-3),
        Kind::Count => ("count", 1.0),
        Kind::Share => ("share", 1.0),
    };
    ReadingView {
        quantity: reading.quantity.clone(),
        unit,
        value: reading.value.map(|value| value * of_unit),
    }
}
