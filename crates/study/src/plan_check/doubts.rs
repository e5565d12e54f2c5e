//! Statements without a verdict, and the question whether conditions are decided without them.

use super::plan_gaps::{PlanGap, PlanGaps};
use super::result::{CheckedStatement, ConditionHolds, Coverage};

/// Statements that are not checked, for reasons that can hide a change.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Number of statements that only the server before refuses.
    pub(super) refused_before_only: u64,
    /// Number of parts of the export that only the server before lacks.
    pub(super) missing_before: usize,
    /// Number of statements that read a table that the change creates.
    pub(super) of_created: u64,
}

impl Doubts {
    /// Returns the reason why a statement is not checked, and counts it.
    pub(super) fn unchecked_reason(
        &mut self,
        statement: &CheckedStatement,
        gaps: &PlanGaps,
    ) -> Option<String> {
        self.refused_before_only += u64::from(statement.is_refused_before_only());
        match gaps.of(statement) {
            Some(PlanGap::Created(reason)) => {
                self.of_created += 1;
                Some(reason)
            }
            Some(PlanGap::Part(reason)) => Some(statement.unchecked_reason().unwrap_or(reason)),
            None => statement.unchecked_reason(),
        }
    }

    /// Returns the reason why it is not decided whether the conditions hold, if none does.
    pub(super) fn undecided(
        &self,
        conditions: &[ConditionHolds],
        coverage: &Coverage,
    ) -> Option<String> {
        if conditions.is_empty() || conditions.iter().any(|one| one.holds) {
            return None;
        }
        if coverage.plans == 0 {
            return Some("no plan was compared".to_owned());
        }
        if self.of_created > 0 {
            return Some(format!(
                "the change creates tables that {} of the statements read, and their rows are not known",
                self.of_created
            ));
        }
        (self.refused_before_only > 0 && self.missing_before > 0).then(|| {
            format!(
                "the server before refuses {} of the statements, and lacks {} parts of the export that the server after has",
                self.refused_before_only, self.missing_before
            )
        })
    }
}
