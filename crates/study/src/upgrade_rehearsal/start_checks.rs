//! Checks of the old side before its first run: statements that fail there, data of another moment, and JIT compilation.
//!
//! They are made once, with the data of the first run, and stay in the rehearsal's directory.

use std::path::Path;

use connect::Target;
use connect::login::Dialer;
use replay::Options;
use serde::{Deserialize, Serialize};
use workload::WorkloadReader;

use super::UpgradeRequest;
use super::rehearsal_plan::RehearsalPlan;
use super::server_facts::{columns, open};
use crate::failure::Failure;
use crate::preflight::{self, PreflightFinding, Severity};

/// File of the result.
const FILE: &str = "start-checks.json";
/// Share of the checked statements that fail, from which on nothing is replayed.
const FAILING_MAX: f64 = 0.5;
/// True if the library is there and `jit` is on. The function is missing before version 11.
const JIT: &str = "SELECT pg_catalog.pg_jit_available()";

/// Result of the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartChecks {
    /// Differences from the data that the capture began with, in sentences without a full stop.
    pub(super) other_data: Vec<String>,
    /// Whether the server of `--from` compiles statements just in time.
    pub(super) does_production_compile: bool,
    /// Whether the old side of the replays does.
    pub(super) does_old_side_compile: bool,
}

impl StartChecks {
    /// Checks the old side, or returns the result of the first time.
    ///
    /// # Errors
    /// If most statements fail there, or the workload cannot be read.
    pub(super) fn perform(
        request: &UpgradeRequest<'_>,
        (plan, whole): (&RehearsalPlan, &WorkloadReader),
        (old, options): (&Target, &Options),
    ) -> Result<Self, Failure> {
        if let Some(known) = Self::read(request.output) {
            return Ok(known);
        }
        let result = preflight::check_first(whole, old, options)?;
        let from = request.from.database.as_deref().unwrap_or("of the role");
        if let Some(message) =
            most_fail(&result.findings, result.executions, [from, &plan.database])
        {
            return Err(Failure::usage(message));
        }
        let findings = result.findings.into_iter();
        let checks = StartChecks {
            other_data: findings
                .filter(|one| one.severity == Severity::OtherData)
                .map(|one| one.message)
                .collect(),
            does_production_compile: compiles(request.from),
            does_old_side_compile: compiles(old),
        };
        let file = request.output.join(FILE);
        let text = serde_json::to_string_pretty(&checks).expect("plain data");
        std::fs::write(&file, text).map_err(|error| {
            Failure::could_not(format!("cannot write to {}: {error}", file.display()))
        })?;
        Ok(checks)
    }

    /// Removes the result, which is of other data.
    pub(super) fn forget(output: &Path) {
        let _ = std::fs::remove_file(output.join(FILE));
    }

    /// Returns the result of the first time; `None` if there is none.
    pub(super) fn read(output: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(output.join(FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Describes that most of the executions that were checked fail, and names both databases.
fn most_fail(
    findings: &[PreflightFinding],
    executions: u64,
    [from, captured]: [&str; 2],
) -> Option<String> {
    let fails = findings
        .iter()
        .filter(|one| one.severity == Severity::Fails);
    let failing: u64 = fails.clone().map(|one| one.statements).sum();
    let first = fails.max_by_key(|one| one.statements)?;
    (failing as f64 > FAILING_MAX * executions as f64).then(|| {
        format!(
            "{failing} of the first {executions} statements fail in preparation on the copy ({}): --from names the database {from}, \
             and the workload is of {captured}; give a copy of the database that the workload was captured on",
            first.message,
        )
    })
}

/// Whether a server compiles statements just in time; false if it cannot be asked.
fn compiles(target: &Target) -> bool {
    let Ok(dialer) = Dialer::new(target) else {
        return false;
    };
    let answer = open(target, &dialer).ok();
    let answer = answer.and_then(|mut connection| connection.query(JIT).ok());
    let value = answer.and_then(|rows| columns(rows).next()?);
    value.as_deref() == Some("t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_on_which_most_statements_fail_is_refused_with_both_databases() {
        let findings = |statements| {
            [PreflightFinding {
                severity: Severity::Fails,
                statements,
                message: "relation \"orders\" does not exist".to_owned(),
                remedy: String::new(),
            }]
        };
        let message = most_fail(&findings(674), 867, ["other", "shop"]).unwrap();
        assert!(message.contains("674 of the first 867"), "{message}");
        assert!(
            message.contains("the database other, and the workload is of shop"),
            "{message}"
        );
        assert_eq!(most_fail(&findings(430), 867, ["shop", "shop"]), None);
        assert_eq!(most_fail(&[], 0, ["shop", "shop"]), None);
    }
}
