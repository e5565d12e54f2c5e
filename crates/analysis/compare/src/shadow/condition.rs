//! Conditions on the result of a shadow comparison, which decide an exit code.

use schemars::JsonSchema;
use serde::Serialize;

use super::report::{ShadowMeasure, ShadowReport};

/// Condition: a proven difference of one of its measures, at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowCondition {
    name: &'static str,
    measures: &'static [ShadowMeasure],
}

use ShadowMeasure::{Errors, FewerRows, MoreRows, Slower};

const CONDITIONS: [ShadowCondition; 6] = [
    ShadowCondition {
        name: "regression",
        measures: &[Slower, Errors],
    },
    ShadowCondition {
        name: "slower",
        measures: &[Slower],
    },
    ShadowCondition {
        name: "errors",
        measures: &[Errors],
    },
    ShadowCondition {
        name: "rows",
        measures: &[FewerRows, MoreRows],
    },
    ShadowCondition {
        name: "fewer_rows",
        measures: &[FewerRows],
    },
    ShadowCondition {
        name: "more_rows",
        measures: &[MoreRows],
    },
];

/// Condition with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShadowConditionOutcome {
    /// Condition as it was given.
    pub condition: String,
    /// Whether it holds.
    pub holds: bool,
    /// Number of statements with the difference.
    pub statements: usize,
}

impl ShadowCondition {
    /// Parses a condition.
    ///
    /// # Errors
    /// If there is no such condition; the message lists all.
    pub fn parse(text: &str) -> Result<Self, String> {
        let found = CONDITIONS
            .iter()
            .find(|condition| condition.name == text.trim());
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = CONDITIONS.iter().map(|condition| condition.name).collect();
            format!(
                "'{text}' is no condition of a comparison with --follow; give {}",
                names.join(", ")
            )
        })
    }

    /// Checks the condition.
    pub fn check(&self, report: &ShadowReport) -> ShadowConditionOutcome {
        let has_finding = |measure: &ShadowMeasure| report.findings(*measure) > 0;
        ShadowConditionOutcome {
            condition: self.name.to_owned(),
            holds: self.measures.iter().any(has_finding),
            statements: report.findings_of(self.measures),
        }
    }
}
