//! What is wrong, as rules found it.

use analyse::diagnose::{
    Change, Cost, Diagnosis, Evidence, Fact, Finding, Form, Subject, Suspect, Threshold, Thresholds,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::proof::ProofEffectView;

/// What rules found, the most that fixing can win first.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DiagnosisView {
    /// `rehearse/diagnose/1`.
    #[schemars(extend("const" = "rehearse/diagnose/1"))]
    pub schema: &'static str,
    /// The run, workload or server.
    pub of: String,
    /// What shares are of, in words.
    pub whole: &'static str,
    /// How much that is, in microseconds.
    pub whole_us: f64,
    /// Over so many seconds.
    pub elapsed_s: f64,
    /// Statements that were looked at.
    pub statements: u64,
    /// Whether there is a problem or a warning.
    pub is_finding: bool,
    /// The findings.
    pub findings: Vec<DiagnosisFindingView>,
    /// Every rule, and what became of it.
    pub rules: Vec<RuleView>,
    /// Thresholds that were set otherwise than they are.
    pub thresholds_set: Vec<ThresholdView>,
    /// The suspects that were asked for.
    pub suspects: Vec<SuspectView>,
    /// What proofs said of the findings that are problems or warnings, and which of these stay beliefs (`--prove`);
    /// nothing where they were not asked for.
    pub proofs: Vec<FindingProofView>,
}

/// A finding, and what a proof said of its changes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingProofView {
    /// The rule that found it.
    pub rule: &'static str,
    /// In a sentence.
    pub title: String,
    /// The most that fixing it could win as the rule has it, a share from 0 to 1.
    pub most_to_win: Option<f64>,
    /// Of its changes the best: `won`, `same`, `not proven` or `lost`; `believed` where none was measured.
    #[schemars(extend("enum" = ["won", "same", "not proven", "lost", "believed"]))]
    pub outcome: &'static str,
    /// Of a belief, why nothing was measured.
    pub because: Option<String>,
    /// Its changes that were measured.
    pub changes: Vec<FindingChangeView>,
    /// The directory of the proof.
    pub proof: Option<String>,
}

/// A change of a finding, as it was measured.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FindingChangeView {
    /// What it is.
    pub name: String,
    /// `won`, `lost`, `same` or `not proven`, of the goal.
    pub verdict: &'static str,
    /// The goal, with / without.
    pub effect: Option<ProofEffectView>,
    /// Something got worse: a statement, an error, or the goal.
    pub is_worse: bool,
    /// Statements that got slower.
    pub slower: u64,
}

/// What a rule found.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DiagnosisFindingView {
    /// Which rule.
    pub rule: &'static str,
    /// `problem`, `warning` or `note`.
    pub severity: &'static str,
    /// What it is about.
    pub subject: SubjectView,
    /// In a sentence.
    pub title: String,
    /// What it rests on.
    pub evidence: Vec<FactView>,
    /// What it costs, where that is known.
    pub cost: Option<FindingCostView>,
    /// The most that fixing it can win, a share of the whole from 0 to 1; `null` where nothing tells.
    pub most_to_win: Option<f64>,
    /// What could be done, the first first.
    pub changes: Vec<ChangeView>,
    /// What that may break or cost.
    pub risk: String,
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SubjectView {
    /// `statement`, `table`, `index`, `setting`, `queue` or `server`.
    pub kind: &'static str,
    /// Its name, or the statement's normal form; empty for the server.
    pub name: String,
    /// Of a statement.
    pub fingerprint: Option<String>,
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FactView {
    /// What it is.
    pub what: String,
    /// How much.
    pub number: f64,
    /// Of what: `count`, `mean`, `ns`, `share`, `bytes`, `per_s` or `times`.
    pub unit: &'static str,
    /// Where the number is from.
    pub from: &'static str,
    /// SQL, or a command, that shows it by hand.
    pub check: Option<String>,
}

/// What something costs.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct FindingCostView {
    /// In microseconds.
    pub us: f64,
    /// Of the whole, from 0 to 1.
    pub share: f64,
    /// Of the processor's time, from 0 to 1, where that is known.
    pub cpu_share: Option<f64>,
}

/// What could be done.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ChangeView {
    /// In words.
    pub words: String,
    /// `sql`, `setting`, `rewrite` or `by_hand`.
    pub kind: &'static str,
    /// The statements, the setting (`work_mem=64MB`) or the rewrite (`batch-inserts=50`).
    pub text: Option<String>,
    /// The option that tries it.
    pub option: Option<String>,
}

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RuleView {
    /// Its name.
    pub rule: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    /// `found`, `well` or `could_not_look`.
    pub outcome: &'static str,
    /// How many findings.
    pub findings: u64,
    /// Why it could not look.
    pub because: Option<String>,
}

/// A number that a rule goes by.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ThresholdView {
    /// Its name.
    pub name: &'static str,
    /// Its value now.
    pub value: f64,
    /// Its value where nobody sets another.
    pub default: f64,
    /// What it is of.
    pub unit: &'static str,
    /// What it decides.
    pub decides: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its rule; `null`: of all.
    pub rule: Option<&'static str>,
}

/// All thresholds.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ThresholdsView {
    /// `rehearse/diagnose-thresholds/1`.
    pub schema: &'static str,
    /// They, by rule.
    pub thresholds: Vec<ThresholdView>,
}

/// What a suspect can account for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SuspectView {
    /// As it was given.
    pub pattern: String,
    /// `cleared`, `could matter`, or `not seen` where no statement is like the pattern.
    pub verdict: &'static str,
    /// The most that removing it could bring, a share from 0 to 1.
    pub most_to_win: f64,
    /// Below this it is cleared.
    pub threshold: f64,
    /// The statements, the most time first.
    pub statements: Vec<SubjectView>,
    /// Calls.
    pub calls: u64,
    /// Of all calls, from 0 to 1.
    pub calls_share: f64,
    /// What of which time it has.
    pub shares: Vec<SuspectShareView>,
    /// What could not be looked at, and why.
    pub unknown: Vec<String>,
}

/// What of a time a suspect has.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SuspectShareView {
    /// Of what.
    pub of: &'static str,
    /// How much, in microseconds; `null` where only the share is known.
    pub us: Option<f64>,
    /// From 0 to 1.
    pub share: f64,
    /// Where it is from.
    pub from: &'static str,
}

impl DiagnosisView {
    /// Of what rules said. Suspects that no statement is like come as their pattern alone.
    pub fn new(
        of: &str,
        evidence: &Evidence,
        diagnosis: &Diagnosis,
        thresholds: &Thresholds,
        suspects: &[Result<Suspect, String>],
    ) -> Self {
        DiagnosisView {
            schema: "rehearse/diagnose/1",
            of: of.to_owned(),
            whole: evidence.basis.whole(),
            whole_us: evidence.whole_ns / 1e3,
            elapsed_s: evidence.elapsed_s,
            statements: evidence.statements.len() as u64,
            is_finding: diagnosis.is_finding(),
            findings: diagnosis.findings.iter().map(finding).collect(),
            rules: diagnosis
                .looked
                .iter()
                .map(|looked| RuleView {
                    rule: looked.rule.name,
                    looks_at: looked.rule.looks_at,
                    outcome: match &looked.outcome {
                        Ok(0) => "well",
                        Ok(_) => "found",
                        Err(_) => "could_not_look",
                    },
                    findings: *looked.outcome.as_ref().unwrap_or(&0) as u64,
                    because: looked.outcome.as_ref().err().map(ToString::to_string),
                })
                .collect(),
            thresholds_set: all_thresholds(thresholds)
                .filter(|one| one.value != one.default)
                .collect(),
            suspects: suspects.iter().map(suspect).collect(),
            proofs: Vec::new(),
        }
    }
}

impl ThresholdsView {
    /// All of them, as they are set.
    pub fn new(thresholds: &Thresholds) -> Self {
        ThresholdsView {
            schema: "rehearse/diagnose-thresholds/1",
            thresholds: all_thresholds(thresholds).collect(),
        }
    }
}

fn all_thresholds(thresholds: &Thresholds) -> impl Iterator<Item = ThresholdView> {
    Thresholds::all().map(move |(rule, one): (_, &Threshold)| ThresholdView {
        name: one.name,
        value: thresholds.of(one),
        default: one.value,
        unit: one.unit,
        decides: one.decides,
        source: one.source,
        rule,
    })
}

fn subject(subject: &Subject) -> SubjectView {
    SubjectView {
        kind: subject.kind(),
        name: subject.name().to_owned(),
        fingerprint: match subject {
            Subject::Statement(fingerprint, _) => Some(fingerprint.to_string()),
            _ => None,
        },
    }
}

fn finding(one: &Finding) -> DiagnosisFindingView {
    DiagnosisFindingView {
        rule: one.rule,
        severity: one.severity.name(),
        subject: subject(&one.subject),
        title: one.title.clone(),
        evidence: one.evidence.iter().map(fact).collect(),
        cost: one.cost.map(|cost: Cost| FindingCostView {
            us: cost.ns / 1e3,
            share: cost.share,
            cpu_share: cost.cpu_share,
        }),
        most_to_win: one.most_to_win,
        changes: one.changes.iter().map(change).collect(),
        risk: one.risk.clone(),
    }
}

fn fact(one: &Fact) -> FactView {
    FactView {
        what: one.what.clone(),
        number: if one.number.is_finite() {
            one.number
        } else {
            0.0
        },
        unit: one.unit.name(),
        from: one.from,
        check: one.check.clone(),
    }
}

fn change(one: &Change) -> ChangeView {
    let (kind, text) = match &one.form {
        Form::Sql(sql) => ("sql", Some(sql.clone())),
        Form::Setting(name, value) => ("setting", Some(format!("{name}={value}"))),
        Form::Rewrite(rewrite) => ("rewrite", Some(rewrite.clone())),
        Form::ByHand => ("by_hand", None),
    };
    ChangeView {
        words: one.words.clone(),
        kind,
        text,
        option: one.option(),
    }
}

fn suspect(one: &Result<Suspect, String>) -> SuspectView {
    match one {
        Err(pattern) => SuspectView {
            pattern: pattern.clone(),
            verdict: "not seen",
            most_to_win: 0.0,
            threshold: 0.0,
            statements: Vec::new(),
            calls: 0,
            calls_share: 0.0,
            shares: Vec::new(),
            unknown: Vec::new(),
        },
        Ok(one) => SuspectView {
            pattern: one.pattern.clone(),
            verdict: match one.cleared {
                true => "cleared",
                false => "could matter",
            },
            most_to_win: one.most_to_win,
            threshold: one.threshold,
            statements: one
                .statements
                .iter()
                .map(|(fingerprint, sql)| SubjectView {
                    kind: "statement",
                    name: sql.clone(),
                    fingerprint: Some(fingerprint.to_string()),
                })
                .collect(),
            calls: one.calls,
            calls_share: one.calls_share,
            shares: one
                .shares
                .iter()
                .map(|share| SuspectShareView {
                    of: share.of,
                    us: share.ns.map(|ns| ns / 1e3),
                    share: share.share,
                    from: share.from,
                })
                .collect(),
            unknown: one
                .unknown
                .iter()
                .map(|(what, why)| format!("{what}: {why}"))
                .collect(),
        },
    }
}
