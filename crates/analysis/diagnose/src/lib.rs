//! Diagnoses problems by rules. Each finding has its evidence, its cost, the maximum gain of a fix,
//! and changes that can be measured.
//!
//! ```text
//! run, observation or workload ─► Evidence ─► rules ─► Diagnosis (findings, outcome of each rule)
//!                                     └─────► suspect ─► maximum share of a statement
//! ```
//!
//! - [`Evidence`]: the input of the rules. Each part may be unavailable, with the reason.
//! - [`RULES`]: the table of rules, each in its own file. A rule without its evidence returns
//!   [`Unavailable`].
//! - [`Thresholds`]: the named numbers that rules use, each with its source.
//! - [`suspect()`]: the share of the time that a statement can account for.
//! - [`index_candidates()`]: indexes that may serve the plans, for the planner to choose from.
//!
//! The program reads artefacts and passes their content. This crate neither reads files nor queries
//! servers. A finding is a hypothesis until it is measured; proofs are made elsewhere.

mod access_predicates;
mod change_trial;
mod conditions;
mod evidence;
mod explained_time;
mod expression_indexes;
mod finding;
mod hidden_data;
mod history;
mod index_candidates;
mod index_shape;
mod measured_account;
mod proposed_indexes;
mod rules;
mod statement_text;
mod suspect;
mod suspect_shares;
mod suspected_change;
#[cfg(test)]
mod synthetic;
mod threshold;
mod time_shares;
mod usual_work;

pub use access_predicates::condition_columns;
pub use change_trial::{ChangeTrial, TrialOutcome, TrialTimes, WriteTrial};
pub use evidence::{
    Available, Basis, Evidence, EvidenceInputs, ServerLog, StackEvidence, StatementEvidence,
    Unavailable,
};
pub use explained_time::StatementAccount;
pub use finding::{
    COMPILATION_RISK, CauseStatus, Change, Cost, Fact, Finding, Form, Severity, Subject,
    SubjectKind, Unit,
};
pub use hidden_data::HiddenData;
pub use history::{History, Repetition, SessionAccount, SessionStep, TransactionAccount};
pub use index_candidates::{IndexCandidate, IndexCandidates, ScreeningMethod, index_candidates};
pub use measured_account::{
    MeasuredAccount, MeasuredExecution, PlanningMode, TimeAccount, TriedChange,
};
pub use proposed_indexes::{ProposedIndex, proposed_indexes};
pub use rules::{RULES, Rule};
pub use statement_text::qualified_name;
pub use suspect::{Suspect, SuspectResponseTime, SuspectVerdict, suspect};
pub use suspect_shares::{SuspectShare, matches_like_pattern};
pub use suspected_change::{SuspectExperiment, SuspectedChange};
pub use threshold::{Threshold, ThresholdError, ThresholdSetting, Thresholds};
pub use usual_work::is_fast_alone;

use std::collections::HashMap;

use explained_time::{account_statements, unexplained_statements};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

/// Results of all rules.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// Statements that no finding explains, then the other findings by severity and descending maximum
    /// gain.
    pub findings: Vec<Finding>,
    /// Statements that make up 95 % of the time, and how much of it the findings explain.
    pub accounts: Vec<StatementAccount>,
    /// Every rule with its outcome.
    pub rules: Vec<RuleResult>,
}

/// A rule and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RuleResult {
    /// The rule.
    #[serde(flatten)]
    pub rule: &'static Rule,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It found nothing.
    Well,
    /// It found something.
    Found {
        /// Number of findings.
        findings: usize,
    },
    /// It lacked its evidence.
    CouldNotLook {
        /// The reason, as what follows "because".
        reason: String,
    },
}

impl Diagnosis {
    /// Whether there is a problem or a warning.
    pub fn is_finding(&self) -> bool {
        let mut all = self.findings.iter();
        all.any(|one| one.severity != Severity::Note)
    }

    /// Accounts the statements again after experiments changed the findings.
    pub fn account_again(&mut self, evidence: &Evidence, thresholds: &Thresholds) {
        self.findings.retain(|one| !one.is_unexplained());
        let mut measured: Vec<_> = self
            .accounts
            .drain(..)
            .map(|one| (one.fingerprint, one.measured))
            .collect();
        self.accounts = account_statements(evidence, thresholds, &self.findings);
        for account in &mut self.accounts {
            let known = measured
                .iter_mut()
                .find(|(fingerprint, _)| *fingerprint == account.fingerprint);
            account.measured = known.and_then(|(_, measured)| measured.take());
        }
        let unexplained = unexplained_statements(evidence, thresholds, &self.accounts);
        self.findings.extend(unexplained);
        self.sort();
    }

    /// Sorts the findings by severity and maximum gain. That of a statement that none explains is its unexplained
    /// share of the time, so it follows the cause of more: a busy server makes statements slow that do little. If findings
    /// explain a part of a statement, what they leave follows them.
    pub fn sort(&mut self) {
        let mut explained: HashMap<Fingerprint, f64> = HashMap::new();
        for one in &self.findings {
            if let Some(fingerprint) = one.subject.fingerprint
                && !one.is_unexplained()
                && one.severity != Severity::Note
            {
                let most = explained.entry(fingerprint).or_default();
                *most = most.max(one.max_gain.unwrap_or(0.0));
            }
        }
        let explanation = |one: &Finding| {
            let fingerprint = one.subject.fingerprint.filter(|_| one.is_unexplained());
            fingerprint.and_then(|fingerprint| explained.get(&fingerprint))
        };
        self.findings.sort_by(|a, b| {
            let won = |one: &Finding| {
                let gain = one.max_gain.unwrap_or(0.0);
                explanation(one).map_or(gain, |most| gain.min(*most))
            };
            let is_rest = |one: &Finding| explanation(one).is_some();
            // Of several findings with the same cause, the one whose change can be tested comes first.
            let by_hand = |one: &Finding| {
                let first = one.changes.first().map(|change| &change.form);
                first.is_none_or(|form| *form == Form::ByHand)
            };
            let is_explanation = |one: &Finding| !one.is_unexplained();
            a.severity
                .cmp(&b.severity)
                .then(won(b).total_cmp(&won(a)))
                .then(is_rest(a).cmp(&is_rest(b)))
                .then(is_explanation(a).cmp(&is_explanation(b)))
                .then(by_hand(a).cmp(&by_hand(b)))
                .then_with(|| a.rule.cmp(b.rule))
                .then_with(|| a.title.cmp(&b.title))
        });
    }
}

/// Runs every rule.
pub fn diagnose(evidence: &Evidence, thresholds: &Thresholds) -> Diagnosis {
    let mut findings = Vec::new();
    let mut rules = Vec::new();
    for rule in RULES {
        let outcome = match (rule.evaluate)(evidence, thresholds) {
            Err(Unavailable(reason)) => Outcome::CouldNotLook { reason },
            Ok(found) if found.is_empty() => Outcome::Well,
            Ok(found) => {
                let count = found.len();
                findings.extend(found.into_iter().map(|one| Finding {
                    rule: rule.name,
                    ..one
                }));
                Outcome::Found { findings: count }
            }
        };
        rules.push(RuleResult { rule, outcome });
    }
    leave_out_consequences(&mut findings);
    let accounts = account_statements(evidence, thresholds, &findings);
    findings.extend(unexplained_statements(evidence, thresholds, &accounts));
    let mut diagnosis = Diagnosis {
        findings,
        accounts,
        rules,
    };
    diagnosis.sort();
    diagnosis
}

/// Leaves out wrong estimates of statements that another finding explains: an expression or a pattern without an index
/// has no statistics either.
fn leave_out_consequences(findings: &mut Vec<Finding>) {
    let explained: Vec<_> = findings
        .iter()
        .filter(|one| one.severity != Severity::Note && one.max_gain.is_some_and(|gain| gain > 0.0))
        .filter_map(|one| one.subject.fingerprint)
        .collect();
    findings.retain(|one| {
        let own = one.subject.fingerprint;
        let is_wrong_estimate = one.rule == "misestimates" && one.max_gain.is_none();
        !is_wrong_estimate || own.is_none_or(|own| !explained.contains(&own))
    });
}

#[cfg(test)]
mod tests {
    use super::synthetic::{EvidenceBuilder, statement, table};
    use super::*;

    #[test]
    fn unexplained_statement_follows_the_cause_of_more() {
        let finding = |rule: &'static str, gain: f64| Finding {
            rule,
            status: Default::default(),
            severity: Severity::Problem,
            subject: finding::Subject::setting("work_mem".to_owned()),
            title: String::new(),
            evidence: Vec::new(),
            cost: None,
            max_gain: Some(gain),
            changes: Vec::new(),
            risk: String::new(),
        };
        for (gain, first) in [(0.6, "missing-index"), (0.1, "unexplained")] {
            let mut diagnosis = Diagnosis {
                findings: vec![finding("unexplained", 0.16), finding("missing-index", gain)],
                accounts: Vec::new(),
                rules: Vec::new(),
            };
            diagnosis.sort();
            assert_eq!(diagnosis.findings[0].rule, first);
        }
    }

    #[test]
    fn testable_finding_precedes_others_of_the_same_cause() {
        let claim = "update jobs set queued_at = now() from (select id from jobs where queued_at is null \
            and due < now() order by due limit $1 for update skip locked) as c where jobs.id = c.id";
        let plan = r#"[{"Plan": {"Node Type": "Limit", "Plan Rows": 10, "Plans": [{"Node Type": "Sort",
            "Sort Key": ["jobs.due"], "Plans": [{"Node Type": "Seq Scan", "Relation Name": "jobs", "Plan Rows": 10,
            "Filter": "((queued_at IS NULL) AND (due < now()))"}]}]}}]"#;
        let evidence = EvidenceBuilder::new()
            .statement(
                statement(1, claim)
                    .took(100, 9.0)
                    .with_rows(1_000)
                    .with_counted(|counted| counted.shared_hit = 1_000_000)
                    .with_plan(plan),
            )
            .table(table(
                "jobs",
                100_000,
                &["id int8", "due timestamptz", "queued_at timestamptz"],
            ))
            .evidence();
        let findings = diagnose(&evidence, &Thresholds::default()).findings;
        let rules: Vec<&str> = findings.iter().take(2).map(|one| one.rule).collect();
        assert_eq!(rules, ["missing-index", "claims"]);
        assert_eq!(findings[0].max_gain, findings[1].max_gain);
    }
}
