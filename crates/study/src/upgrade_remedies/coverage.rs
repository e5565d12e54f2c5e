//! Extent of a search for remedies: the statements that were examined, and the reasons for the others.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Extent of a search for remedies. It counts the distinct statements of the rehearsed database that a planner plans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchCoverage {
    /// Number of statements.
    pub statements: u64,
    /// Captured duration of their executions, in microseconds; 0 if the capture has none.
    pub captured_us: u64,
    /// Number of statements that were compared alone on both versions.
    pub examined: u64,
    /// Captured duration of these.
    pub examined_captured_us: u64,
    /// Number of statements with an expected plan, which `upgrade verify` compares.
    pub planned: u64,
    /// Captured duration of these.
    pub planned_captured_us: u64,
    /// Numbers of statements that were not examined, by reason.
    pub not_examined: BTreeMap<String, u64>,
}

impl SearchCoverage {
    /// Counts statements. `planned` states whether a statement has an expected plan.
    pub(super) fn of(
        statements: &[SearchedStatement],
        planned: impl Fn(&SearchedStatement) -> bool,
    ) -> Self {
        let mut coverage = SearchCoverage::default();
        for one in statements {
            coverage.statements += 1;
            coverage.captured_us += one.captured_us;
            match one.examination.reason() {
                None => {
                    coverage.examined += 1;
                    coverage.examined_captured_us += one.captured_us;
                }
                Some(reason) => *coverage.not_examined.entry(reason).or_default() += 1,
            }
            if planned(one) {
                coverage.planned += 1;
                coverage.planned_captured_us += one.captured_us;
            }
        }
        coverage
    }

    /// Returns the examined share of the captured duration, or of the statements if the capture has no durations: 1 is all.
    pub fn examined_share(&self) -> f64 {
        self.share(self.examined, self.examined_captured_us)
    }

    /// Returns the share with an expected plan, in the same way.
    pub fn planned_share(&self) -> f64 {
        self.share(self.planned, self.planned_captured_us)
    }

    fn share(&self, statements: u64, captured_us: u64) -> f64 {
        match (self.statements, self.captured_us) {
            (0, _) => 1.0,
            (all, 0) => statements as f64 / all as f64,
            (_, all) => captured_us as f64 / all as f64,
        }
    }
}

/// Statement of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SearchedStatement {
    pub(super) fingerprint: String,
    /// Captured duration of its executions, in microseconds.
    pub(super) captured_us: u64,
    pub(super) examination: Examination,
}

/// State of a statement in a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Examination {
    /// It was compared on both servers.
    Examined,
    /// The time was over before. A search with more time continues with it.
    NoTime,
    /// It was not compared, with the reason.
    Refused(String),
}

impl Examination {
    /// Returns the reason why a statement was not examined.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Examination::Examined => None,
            Examination::NoTime => Some("the time of the search was over".to_owned()),
            Examination::Refused(reason) => Some(reason.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(captured_us: u64, examination: Examination) -> SearchedStatement {
        SearchedStatement {
            fingerprint: captured_us.to_string(),
            captured_us,
            examination,
        }
    }

    #[test]
    fn share_is_that_of_captured_time_and_of_statements_without_it() {
        let refused = || Examination::Refused("refused".to_owned());
        let mut all = [
            statement(90, Examination::Examined),
            statement(4, Examination::NoTime),
            statement(5, refused()),
            statement(1, refused()),
        ];
        let coverage = SearchCoverage::of(&all, |one| one.captured_us > 4);
        assert_eq!((coverage.examined, coverage.statements), (1, 4));
        assert_eq!(coverage.examined_share(), 0.9);
        assert_eq!(coverage.planned_share(), 0.95);
        let reasons: Vec<u64> = coverage.not_examined.values().copied().collect();
        assert_eq!(reasons, [2, 1]);
        for one in &mut all {
            one.captured_us = 0;
        }
        assert_eq!(SearchCoverage::of(&all, |_| false).examined_share(), 0.25);
        assert_eq!(SearchCoverage::default().examined_share(), 1.0);
    }
}
