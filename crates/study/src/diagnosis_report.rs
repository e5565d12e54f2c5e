//! Report of a diagnosis.

use compare::proof::{Effect, Verdict};
use diagnose::{Diagnosis, Evidence, HiddenData, Suspect, ThresholdSetting, Thresholds};
use schemars::JsonSchema;
use serde::Serialize;

use crate::statement_senders::StatementSenders;

/// Diagnosis, with its source.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DiagnosisReport {
    /// `rehearse/diagnose/1`.
    #[schemars(extend("const" = "rehearse/diagnose/1"))]
    pub schema: &'static str,
    /// Run, workload or server.
    pub source: String,
    /// Name of the time that shares refer to.
    pub whole: &'static str,
    /// That time, in nanoseconds.
    pub whole_ns: f64,
    /// Observed time, in seconds.
    pub elapsed_s: f64,
    /// Number of distinct statements.
    pub statements: u64,
    /// Data that the role of the observation could not see for lack of a grant.
    pub hidden: Vec<HiddenData>,
    /// Whether there is a problem or a warning.
    pub is_finding: bool,
    /// Findings and rules.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// Thresholds with values other than the default.
    pub thresholds_set: Vec<ThresholdSetting>,
    /// Requested suspects.
    pub suspects: Vec<Suspect>,
    /// Places of the application that sent the statements of the findings. Empty without comments that name them.
    pub senders: Vec<StatementSenders>,
    /// Proofs of the findings that are problems or warnings (`--prove`); empty if they were not
    /// requested.
    pub proofs: Vec<FindingProof>,
}

/// Finding, and the measurement of its changes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingProof {
    /// Rule that found it.
    pub rule: &'static str,
    /// Title, a sentence without a full stop.
    pub title: String,
    /// Maximum gain of a fix according to the rule, a share from 0 to 1.
    pub max_gain: Option<f64>,
    /// Best verdict on its changes; `null` if none was measured.
    pub verdict: Option<Verdict>,
    /// Reason why nothing was measured.
    pub not_measured_reason: Option<String>,
    /// Measured changes.
    pub changes: Vec<FindingChange>,
    /// Suggested changes that were not measured although others were.
    pub unmeasured: Vec<UnmeasuredChange>,
    /// Directory of the proof.
    pub proof: Option<String>,
}

/// Measured change of a finding.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingChange {
    /// Name of the change.
    pub name: String,
    /// Verdict on the goal.
    pub verdict: Verdict,
    /// Goal with the change divided by the goal without it.
    pub effect: Option<Effect>,
    /// Whether something got worse: a statement, an error, or the goal.
    pub is_worse: bool,
    /// Number of statements that got slower.
    pub slower: u64,
}

/// Suggested change of a finding that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UnmeasuredChange {
    /// Description of the change.
    pub name: String,
    /// Reason why it was not measured.
    pub reason: String,
}

impl DiagnosisReport {
    /// Creates the report of a diagnosis, without proofs.
    pub fn new(
        source: &str,
        evidence: &Evidence,
        diagnosis: Diagnosis,
        thresholds: &Thresholds,
        suspects: Vec<Suspect>,
        senders: Vec<StatementSenders>,
    ) -> Self {
        DiagnosisReport {
            schema: "rehearse/diagnose/1",
            source: source.to_owned(),
            whole: evidence.basis.whole(),
            whole_ns: evidence.whole_ns,
            elapsed_s: evidence.elapsed_s,
            statements: evidence.statements.len() as u64,
            hidden: evidence.hidden_data(),
            is_finding: diagnosis.is_finding(),
            diagnosis,
            thresholds_set: thresholds
                .settings()
                .filter(|one| one.value != one.threshold.value)
                .collect(),
            suspects,
            senders,
            proofs: Vec::new(),
        }
    }
}
