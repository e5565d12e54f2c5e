//! Result of a verification.

use schemars::JsonSchema;
use serde::Serialize;

use crate::upgrade_inspect::UpgradeInspection;
use crate::upgrade_rehearsal::UpgradeDecision;

/// Verdict on the upgraded server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerificationVerdict {
    /// Nothing differs from the rehearsal.
    AsRehearsed,
    /// Something differs.
    Differs,
    /// Nothing differs, and no time or plan could be compared, or a remedy or a part of the inspection cannot be seen.
    NotObserved,
}

/// Remedy of the rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifiedRemedy {
    /// Statement of the remedy.
    pub statement: String,
    /// Whether its effect is on the server; `null` if that cannot be seen.
    pub in_place: Option<bool>,
    /// State that was found, as a sentence.
    pub found: String,
}

/// Plan that differs from the one of the rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DifferingPlan {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Session of the execution whose values were planned.
    pub session: u64,
    /// Sequence of that execution in its session.
    pub sequence: u64,
    /// Number of values with these plans. The session and the sequence are those of the first one.
    pub values: u64,
    /// Scans and joins in the rehearsal.
    pub expected: String,
    /// Scans and joins on the server.
    pub found: String,
}

/// Plans that were not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UncomparedPlans {
    /// Reason, without values.
    pub reason: String,
    /// Number of plans.
    pub plans: u64,
}

/// Judgement of a statement's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeJudgement {
    /// It is at most what the rehearsal leads to expect.
    AsExpected,
    /// It is longer, and chance is ruled out.
    Slower,
    /// It is longer, and chance is not ruled out.
    Unclear,
    /// There were too few executions, observed or captured.
    TooFew,
    /// The capture has no durations, so that no time is expected.
    NoExpectation,
}

/// Time of a statement on the server.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VerifiedStatement {
    /// Fingerprint.
    pub fingerprint: String,
    /// Normalised SQL.
    pub sql: String,
    /// Number of observed executions.
    pub calls: u64,
    /// Mean time of planning and execution, in microseconds.
    pub mean_us: f64,
    /// Expected mean in microseconds: the captured one times the ratio of the rehearsal.
    pub expected_us: Option<f64>,
    /// Longest mean that counts as expected, in microseconds.
    pub limit_us: Option<f64>,
    /// Probability of such a mean if the true one is at the limit, before the correction for the number of statements; `null`
    /// if it was not tested.
    pub p_value: Option<f64>,
    /// Judgement.
    pub judgement: TimeJudgement,
}

/// Result of `upgrade verify`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UpgradeVerification {
    /// Verdict.
    pub verdict: VerificationVerdict,
    /// Reasons for it, in sentences.
    pub reasons: Vec<String>,
    /// Directory of the rehearsal.
    pub rehearsal: String,
    /// Decision of the rehearsal.
    pub rehearsal_decision: UpgradeDecision,
    /// Address of the server.
    pub server: String,
    /// Time of the observation, in seconds.
    pub observed_s: f64,
    /// Remedies of the rehearsal.
    pub remedies: Vec<VerifiedRemedy>,
    /// Number of plans that the rehearsal leads to expect.
    pub plans_expected: u64,
    /// Number of plans that were compared.
    pub plans_checked: u64,
    /// Reasons why plans were not compared, with the number of plans, the most frequent first.
    pub uncompared_plans: Vec<UncomparedPlans>,
    /// Plans that differ, equal ones of a statement once.
    pub differing_plans: Vec<DifferingPlan>,
    /// Number of statements of the rehearsal.
    pub statements_expected: u64,
    /// Observed statements of the rehearsal: slower ones first, then by calls.
    pub statements: Vec<VerifiedStatement>,
    /// Inspection of the server, without the old one.
    pub inspection: UpgradeInspection,
    /// Limits, in sentences.
    pub notes: Vec<String>,
}
