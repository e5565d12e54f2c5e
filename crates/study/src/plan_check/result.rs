//! Result of a check.

use std::path::Path;

use planner_copy::PlannerExport;
use plans::{PlanRisk, PlanSide, StatementPlans};
use schemars::JsonSchema;
use serde::Serialize;

use super::SideRequest;
use super::examples::StatementToCheck;
use crate::change_script::ChangeScript;

/// Plans of a workload's statements on two servers without data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanCheck {
    /// Path of the workload.
    pub workload: String,
    /// Export that both sides plan with.
    pub planner: PlannerSource,
    /// Side before.
    pub before: CheckedSide,
    /// Side after.
    pub after: CheckedSide,
    /// Part of the workload that was checked.
    pub coverage: Coverage,
    /// Parts of the database that the servers do not have as it is.
    pub limitations: Vec<Limitation>,
    /// Checked statements: errors first, then changed plans, each by captured time.
    pub statements: Vec<CheckedStatement>,
    /// Statements that could not be checked.
    pub unchecked: Vec<UncheckedStatement>,
    /// Number of perturbed copies of the statistics.
    pub perturbed_copies: u32,
    /// Conditions of the user.
    pub conditions: Vec<ConditionHolds>,
    /// Reason why it is not decided whether the conditions hold, although none does; `null` if it is decided.
    pub undecided: Option<String>,
}

/// Export that both sides plan with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannerSource {
    /// Path of the file.
    pub path: String,
    /// Version of the exported server.
    pub server_version: String,
    /// Exported database.
    pub database: String,
    /// Time of the export, in ISO 8601.
    pub exported_at: String,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckedSide {
    /// Version of its server.
    pub server_version: String,
    /// Change of the schema, as a path.
    pub change: Option<String>,
    /// Settings in addition to those of the export, as `NAME=VALUE`.
    pub settings: Vec<String>,
    /// Export that this side plans with; `null` for that of the check.
    pub planner: Option<PlannerSource>,
}

/// Part of the workload that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Number of checked statements.
    pub statements: u64,
    /// Number of plans that were compared.
    pub plans: u64,
    /// Executions of the checked statements.
    pub executions: u64,
    /// Captured time of the checked statements, in microseconds.
    pub captured_us: u64,
    /// Number of statements that could not be checked.
    pub unchecked_statements: u64,
    /// Their executions.
    pub unchecked_executions: u64,
    /// Their captured time, in microseconds.
    pub unchecked_captured_us: u64,
    /// Number of statements of kinds without a plan, such as `BEGIN` and `SET`.
    pub without_plan: u64,
}

/// Part of the database that a server does not have as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limitation {
    /// Side that lacks it.
    pub side: LimitedSide,
    /// Kind and name.
    pub subject: String,
    /// Reason.
    pub reason: String,
}

/// Place of a limitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitedSide {
    /// The export, and so both sides.
    Export,
    /// The side before.
    Before,
    /// The side after.
    After,
    /// Both sides.
    Both,
}

/// Checked statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckedStatement {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Executions in the workload.
    pub executions: u64,
    /// Captured time of all executions, in microseconds.
    pub captured_us: u64,
    /// Verdict over all plans.
    pub verdict: PlanVerdict,
    /// Plans, one for each set of values, and the generic one of a prepared statement.
    pub plans: Vec<PlanPair>,
}

/// Verdict on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    /// All plans have the same shape.
    Same,
    /// A side has no plan: both servers refuse it, the one before does, or the one after takes too long. Statements with this
    /// verdict are not checked.
    NotCompared,
    /// A plan has another shape, or newly uses JIT.
    Changed,
    /// The server after refuses it, and the one before does not.
    Error,
}

/// Plans of a statement for the same values.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlanPair {
    /// Values that were planned.
    pub values: PlanValues,
    /// Estimated cost before, in the planner's units.
    pub cost_before: Option<f64>,
    /// Estimated cost after, in the planner's units.
    pub cost_after: Option<f64>,
    /// Cost after divided by cost before, which counts as at least 0.01. Versions and cost settings differ in their units.
    pub cost_ratio: Option<f64>,
    /// Changes that often make a statement slower.
    pub risks: Vec<PlanRisk>,
    /// Plans with perturbed statistics; `null` unless both sides have a plan and perturbations were requested.
    pub perturbed: Option<PerturbedPlans>,
    /// The plans and their differences.
    pub plans: StatementPlans,
}

/// Plans of a statement with perturbed copies of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PerturbedPlans {
    /// Number of copies in which both sides have a plan.
    pub copies: u64,
    /// Number of them in which the plan changes between the sides.
    pub changed: u64,
    /// Number of them in which the plan before differs from that with the exported statistics.
    pub other_before: u64,
    /// The same of the plan after.
    pub other_after: u64,
    /// Number of them in which the plan after has fewer nested loops than with the exported statistics. It is 0 unless that
    /// plan has more of them than the plan before.
    pub lost_nested_loops: u64,
    /// Smallest ratio of the costs over the copies and the exported statistics.
    pub cost_ratio_min: f64,
    /// Largest such ratio.
    pub cost_ratio_max: f64,
}

/// Values for which a statement was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlanValues {
    /// Those of an execution.
    Captured {
        /// Number of the session.
        session: u64,
        /// Sequence of the event in its session.
        sequence: u64,
    },
    /// None: the generic plan of a prepared statement.
    Generic,
}

/// Statement that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UncheckedStatement {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Executions in the workload.
    pub executions: u64,
    /// Captured time of all executions, in microseconds.
    pub captured_us: u64,
    /// Reason.
    pub reason: String,
}

/// Condition of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConditionHolds {
    /// The condition.
    pub condition: String,
    /// Whether it holds for any statement.
    pub holds: bool,
    /// Fingerprints of the statements for which it holds.
    pub statements: Vec<String>,
}

/// SQLSTATEs of a statement that took too long: `query_canceled` and `lock_not_available`.
const OUT_OF_TIME: [[u8; 5]; 2] = [*b"57014", *b"55P03"];
/// Smallest cost that `EXPLAIN` shows, in the planner's units.
const COST_MIN: f64 = 0.01;

/// Returns cost after divided by cost before. A cost of 0, such as that of a query whose partitions are all pruned, counts as
/// the smallest that is shown, so that growth from it has a finite factor.
pub(super) fn cost_ratio(before: f64, after: f64) -> f64 {
    match before <= 0.0 && after <= 0.0 {
        true => 1.0,
        false => after / before.max(COST_MIN),
    }
}

impl PlannerSource {
    pub(super) fn of(path: &Path, export: &PlannerExport) -> Self {
        PlannerSource {
            path: path.display().to_string(),
            server_version: export.server_version.clone(),
            database: export.database.clone(),
            exported_at: export.exported_at.clone(),
        }
    }
}

impl CheckedSide {
    pub(super) fn new(
        request: &SideRequest,
        server_version: String,
        export: Option<&PlannerExport>,
    ) -> Self {
        let settings = request.settings.iter();
        let planner = request.planner.as_deref().zip(export);
        CheckedSide {
            planner: planner.map(|(path, export)| PlannerSource::of(path, export)),
            server_version,
            change: request.change.as_ref().map(|change| match change {
                ChangeScript::Statements { path, .. } => path.clone(),
                ChangeScript::Command(command) => command.clone(),
            }),
            settings: settings
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        }
    }
}

impl Coverage {
    pub(super) fn of(
        checked: &[CheckedStatement],
        unchecked: &[UncheckedStatement],
        without_plan: u64,
    ) -> Self {
        Coverage {
            statements: checked.len() as u64,
            plans: checked.iter().map(CheckedStatement::compared).sum(),
            executions: checked.iter().map(|one| one.executions).sum(),
            captured_us: checked.iter().map(|one| one.captured_us).sum(),
            unchecked_statements: unchecked.len() as u64,
            unchecked_executions: unchecked.iter().map(|one| one.executions).sum(),
            unchecked_captured_us: unchecked.iter().map(|one| one.captured_us).sum(),
            without_plan,
        }
    }

    /// Returns the captured time of all statements that have a plan, checked or not, in microseconds.
    pub fn all_captured_us(&self) -> u64 {
        self.captured_us + self.unchecked_captured_us
    }
}

impl CheckedStatement {
    pub(super) fn new(statement: &StatementToCheck, plans: Vec<PlanPair>) -> Self {
        let verdict = plans.iter().map(PlanPair::verdict).max();
        CheckedStatement {
            fingerprint: statement.fingerprint.to_string(),
            sql: statement.sql.clone(),
            executions: statement.executions,
            captured_us: statement.captured_us,
            verdict: verdict.unwrap_or(PlanVerdict::Same),
            plans,
        }
    }

    /// Returns the number of sets of values for which both sides have a plan.
    fn compared(&self) -> u64 {
        let pairs = self.plans.iter();
        let is_compared = |pair: &&PlanPair| pair.plans.comparison.is_some();
        pairs.filter(is_compared).count() as u64
    }

    /// Returns the reason why it is not checked: a set of values has no plan to compare, and no other set is a finding.
    pub(super) fn unchecked_reason(&self) -> Option<String> {
        if self.verdict > PlanVerdict::NotCompared {
            return None;
        }
        let all = self.plans.iter();
        let is_missing = |pair: &&PlanPair| pair.verdict() == PlanVerdict::NotCompared;
        let missing: Vec<&PlanPair> = all.filter(is_missing).collect();
        let Some(pair) = missing.first() else {
            let none = self.plans.is_empty();
            return none.then(|| "no server has a plan of this kind".to_owned());
        };
        let (by, side) = match (pair.plans.before.plan(), pair.plans.after.plan()) {
            (None, None) => ("both servers", &pair.plans.before),
            (None, _) => ("only the server before", &pair.plans.before),
            _ => ("only the server after", &pair.plans.after),
        };
        let reason = match side {
            PlanSide::Refused { sqlstate, message } => {
                format!("it is refused by {by} ({sqlstate}: {message})")
            }
            _ => format!("no plan that can be read is given by {by}"),
        };
        Some(match missing.len() < self.plans.len() {
            true => format!(
                "for {} of {} sets of values {reason}",
                missing.len(),
                self.plans.len()
            ),
            false => reason,
        })
    }

    /// Whether the server before refuses a set of values that the one after plans.
    pub(super) fn is_refused_before_only(&self) -> bool {
        self.plans.iter().any(PlanPair::is_refused_before_only)
    }

    /// Returns the key of the order, the greatest first.
    pub(super) fn order(&self) -> (PlanVerdict, u64, u64) {
        (self.verdict, self.captured_us, self.executions)
    }
}

impl PlanPair {
    /// Whether the plan changes, with the exported statistics and with every perturbed copy.
    pub fn is_stable_change(&self) -> bool {
        let in_all = |found: &PerturbedPlans| found.copies > 0 && found.changed == found.copies;
        self.verdict() == PlanVerdict::Changed && self.perturbed.as_ref().is_some_and(in_all)
    }

    /// Whether the plan is the same with the exported statistics, and changes with a perturbed copy.
    pub fn is_unstable_same(&self) -> bool {
        let in_one = |found: &PerturbedPlans| found.changed > 0;
        self.verdict() == PlanVerdict::Same && self.perturbed.as_ref().is_some_and(in_one)
    }

    /// Whether the plan after has a new nested loop that a perturbed copy replaces by another join.
    pub fn is_uncertain_nested_loop(&self) -> bool {
        let is_lost = |found: &PerturbedPlans| found.lost_nested_loops > 0;
        self.perturbed.as_ref().is_some_and(is_lost)
    }

    /// Whether the time or the locks of a side did not suffice, which is no property of the statement.
    fn is_out_of_time(side: &PlanSide) -> bool {
        matches!(side, PlanSide::Refused { sqlstate, .. } if OUT_OF_TIME.contains(&sqlstate.0))
    }

    /// Whether only the side after has a plan.
    pub(super) fn is_refused_before_only(&self) -> bool {
        self.plans.before.plan().is_none() && self.plans.after.plan().is_some()
    }

    /// Returns the verdict on this pair.
    pub fn verdict(&self) -> PlanVerdict {
        match (self.plans.before.plan(), self.plans.after.plan()) {
            (Some(_), None) if Self::is_out_of_time(&self.plans.after) => PlanVerdict::NotCompared,
            (Some(_), None) => PlanVerdict::Error,
            (None, _) => PlanVerdict::NotCompared,
            _ if self.plans.is_changed() || self.risks.contains(&PlanRisk::Jit) => {
                PlanVerdict::Changed
            }
            _ => PlanVerdict::Same,
        }
    }
}
