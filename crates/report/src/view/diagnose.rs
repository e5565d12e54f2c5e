//! JSON documents on a diagnosis.

use compare::proof::{Effect, Verdict};
use diagnose::{Diagnosis, Evidence, Suspect, ThresholdSetting, Thresholds};
use schemars::JsonSchema;
use serde::Serialize;

/// A diagnosis with what it is of.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DiagnosisReport {
    /// `rehearse/diagnose/1`.
    #[schemars(extend("const" = "rehearse/diagnose/1"))]
    pub schema: &'static str,
    /// The run, workload or server.
    pub source: String,
    /// Name of the time that shares are of.
    pub whole: &'static str,
    /// That time, in nanoseconds.
    pub whole_ns: f64,
    /// Time over which it was observed, in seconds.
    pub elapsed_s: f64,
    /// Number of different statements that were looked at.
    pub statements: u64,
    /// Whether there is a problem or a warning.
    pub is_finding: bool,
    /// Findings and rules.
    #[serde(flatten)]
    pub diagnosis: Diagnosis,
    /// Thresholds that were set to another value than their default.
    pub thresholds_set: Vec<ThresholdSetting>,
    /// The suspects that were asked for.
    pub suspects: Vec<Suspect>,
    /// Proofs of the findings that are problems or warnings (`--prove`); empty if they were not asked for.
    pub proofs: Vec<FindingProof>,
}

/// A finding, and the measurement of its changes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingProof {
    /// The rule that found it.
    pub rule: &'static str,
    /// A sentence without a full stop.
    pub title: String,
    /// The most that fixing it could gain by the rule, a share from 0 to 1.
    pub max_gain: Option<f64>,
    /// The best verdict on its changes; `null` if none was measured.
    pub verdict: Option<Verdict>,
    /// The reason why nothing was measured.
    pub not_measured_reason: Option<String>,
    /// Its changes that were measured.
    pub changes: Vec<FindingChange>,
    /// Directory of the proof.
    pub proof: Option<String>,
}

/// A change of a finding, as it was measured.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingChange {
    /// Name of the change.
    pub name: String,
    /// Verdict on the goal.
    pub verdict: Verdict,
    /// The goal with the change divided by the goal without it.
    pub effect: Option<Effect>,
    /// Something got worse: a statement, an error, or the goal.
    pub is_worse: bool,
    /// Number of statements that got slower.
    pub slower: u64,
}

impl DiagnosisReport {
    /// Makes the report of a diagnosis, without proofs.
    pub fn new(
        source: &str,
        evidence: &Evidence,
        diagnosis: Diagnosis,
        thresholds: &Thresholds,
        suspects: Vec<Suspect>,
    ) -> Self {
        DiagnosisReport {
            schema: "rehearse/diagnose/1",
            source: source.to_owned(),
            whole: evidence.basis.whole(),
            whole_ns: evidence.whole_ns,
            elapsed_s: evidence.elapsed_s,
            statements: evidence.statements.len() as u64,
            is_finding: diagnosis.is_finding(),
            diagnosis,
            thresholds_set: thresholds
                .settings()
                .filter(|one| one.value != one.threshold.value)
                .collect(),
            suspects,
            proofs: Vec::new(),
        }
    }
}
