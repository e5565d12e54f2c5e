//! Expectations of a rehearsal for the real upgrade: times, plans and remedies. They are a file in its directory.

use std::collections::HashMap;
use std::path::Path;

use compare::Comparison;
use serde::{Deserialize, Serialize};
use sql::Fingerprint;
use statistics::{Measure, SampleMean};
use workload::WorkloadReader;

use super::captured_times::captured_times;
use super::known_findings::KnownFindings;
use crate::failure::Failure;
use crate::upgrade_rehearsal::{UpgradeDecision, UpgradeReport, major_of};
use crate::upgrade_remedies::{
    ExpectedPlans, MeasuredFactor, RegressionRemedy, RemedySearchResult, SearchCoverage,
};

/// Name of the file.
const FILE: &str = "expectations.json";

/// Expectations of a rehearsal.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct UpgradeExpectations {
    /// Path of the workload, whose values are planned.
    pub(crate) workload: String,
    /// Identity of the workload.
    pub(crate) workload_id: String,
    /// Copied database.
    pub(crate) database: String,
    /// Version of the new side.
    pub(crate) to_version: String,
    /// Decision of the rehearsal.
    pub(crate) decision: UpgradeDecision,
    /// Statements with times or plans.
    pub(crate) statements: Vec<ExpectedStatement>,
    /// Remedies of regressions, each once.
    pub(crate) remedies: Vec<RegressionRemedy>,
    /// Findings of the old server, which are not new after the upgrade.
    pub(crate) known: KnownFindings,
    /// Extent of the search of remedies, which made the expected plans.
    #[serde(default)]
    pub(crate) search: SearchCoverage,
}

/// Expected time and plans of a statement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ExpectedStatement {
    pub(crate) fingerprint: String,
    pub(crate) sql: String,
    /// Captured times in microseconds.
    pub(crate) captured: Option<SampleMean>,
    /// Service time in the rehearsal, new / old.
    pub(crate) factor: Option<MeasuredFactor>,
    pub(crate) plans: Option<ExpectedPlans>,
}

impl UpgradeExpectations {
    /// Collects the expectations of an undecided rehearsal. The comparison is that of the old version and of the new one with all remedies.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn new(
        (workload, database): (&WorkloadReader, &str),
        rehearsed: Option<&Comparison>,
        searched: &RemedySearchResult,
        known: KnownFindings,
    ) -> Result<Self, Failure> {
        let captured = captured_times(workload, database)?;
        let mut statements: HashMap<String, ExpectedStatement> = HashMap::new();
        for one in rehearsed.iter().flat_map(|one| &one.statements) {
            let fingerprint = one.fingerprint.to_string();
            let mean = one.service.mean_ratio;
            let expected = ExpectedStatement {
                fingerprint: fingerprint.clone(),
                sql: one.sql.clone().unwrap_or_default(),
                captured: captured.get(&one.fingerprint).copied(),
                factor: mean.map(|found| MeasuredFactor::new(Measure::Mean, found, mean)),
                plans: None,
            };
            statements.insert(fingerprint, expected);
        }
        for one in &searched.plans {
            let known = statements.entry(one.fingerprint.clone());
            let known = known.or_insert_with(|| ExpectedStatement {
                fingerprint: one.fingerprint.clone(),
                sql: one.sql.clone(),
                ..ExpectedStatement::default()
            });
            known.plans = Some(one.clone());
        }
        let mut remedies: Vec<RegressionRemedy> = Vec::new();
        let found = searched.regressions.iter();
        let found = found.filter_map(|one| one.remedy.as_ref());
        for remedy in searched.missing.iter().chain(found) {
            if !remedies.contains(remedy) {
                remedies.push(remedy.clone());
            }
        }
        let mut statements: Vec<ExpectedStatement> = statements.into_values().collect();
        statements.sort_by(|a, b| a.fingerprint.cmp(&b.fingerprint));
        // A verification may begin in another directory.
        let path = std::path::absolute(workload.path());
        let path = path.unwrap_or_else(|_| workload.path().to_owned());
        Ok(UpgradeExpectations {
            workload: path.display().to_string(),
            workload_id: workload.id().to_owned(),
            database: database.to_owned(),
            statements,
            remedies,
            search: searched.coverage(),
            known,
            ..UpgradeExpectations::default()
        })
    }

    /// Adds the decision and the version of the finished rehearsal.
    pub(crate) fn with_decision(self, report: &UpgradeReport) -> Self {
        UpgradeExpectations {
            to_version: report.to_version.clone(),
            decision: report.decision,
            ..self
        }
    }

    /// Refuses a server of another major version than the new side of the rehearsal.
    pub(super) fn refuse_other_version(&self, version: &str) -> Result<(), Failure> {
        match major_of(version)? == major_of(&self.to_version)? {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "the server of --target is PostgreSQL {version}, and the rehearsal was of an upgrade to {}; give the URL of the \
                 upgraded server, or a rehearsal of its version",
                self.to_version
            ))),
        }
    }

    /// Writes the file into a rehearsal's directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), Failure> {
        let file = directory.join(FILE);
        let text = serde_json::to_string_pretty(self).expect("plain data");
        std::fs::write(&file, text).map_err(|error| {
            Failure::could_not(format!("cannot write to {}: {error}", file.display()))
        })
    }

    /// Reads the file of a rehearsal's directory.
    ///
    /// # Errors
    /// If the directory is no finished rehearsal.
    pub fn read(directory: &Path) -> Result<Self, Failure> {
        let file = directory.join(FILE);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Failure::usage(format!(
                "{} has no expectations ({error}); give the directory of a finished rehearsal, as `rehearse upgrade -o` wrote it",
                directory.display()
            ))
        })?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::could_not(format!("{} is damaged: {error}", file.display())))
    }
}

impl ExpectedStatement {
    /// Returns the fingerprint as a number.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        let number = u64::from_str_radix(&self.fingerprint, 16).ok()?;
        Some(Fingerprint(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_of_another_major_version_is_refused_and_another_minor_one_is_not() {
        let expected = UpgradeExpectations {
            to_version: "18.6".to_owned(),
            ..UpgradeExpectations::default()
        };
        for accepted in ["18.6", "18.7 (Debian 18.7-1)", "18rc1"] {
            expected.refuse_other_version(accepted).unwrap();
        }
        for refused in ["15.18 (Debian 15.18-0+deb12u1)", "19rc1"] {
            let failure = expected.refuse_other_version(refused).unwrap_err();
            assert_eq!(failure.kind, crate::FailureKind::Usage);
            assert!(failure.message.contains(refused), "{}", failure.message);
        }
    }
}
