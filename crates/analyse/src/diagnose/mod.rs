//! What is wrong, by rules over what was seen: each finding with its evidence, what it costs, the most
//! that fixing it can win, and one change that can be measured.
//!
//! ```text
//! run, observation or workload ─► Evidence ─► rules ─► Diagnosis (findings, what was well, what could not be looked at)
//!                                     └─────► suspect ─► what a statement can account for at all
//! ```
//!
//! - [`Evidence`]: all that rules may look at. Each part may be missing, with the reason;
//! - [`RULES`]: the table of rules, one a file. A rule that lacks its evidence says so ([`Missing`]) and is
//!   not silent;
//! - [`Thresholds`]: what is much, by name, each with where it comes from;
//! - [`suspect`]: how much of the time a statement can account for;
//! - [`index_candidates`]: indexes that may serve the plans, for a planner to choose from.
//!
//! Who drives: the program reads artefacts and hands in what is in them. Deliberately absent: reading, asking
//! servers, words for people beyond a sentence of each finding, and proof: a finding is a belief until it was
//! measured.

mod asked;
mod conditions;
mod evidence;
mod finding;
mod history;
mod index_candidates;
mod index_shape;
#[cfg(test)]
mod made_up;
mod rules;
mod statement_text;
mod suspect;
mod threshold;

pub use evidence::{
    Basis, Evidence, Gathered, Have, Missing, ServerLog, StackEvidence, StatementEvidence,
};
pub use finding::{Change, Cost, Fact, Finding, Form, Severity, Subject, Unit};
pub use history::{History, Repetition, SessionAccount, Step, TransactionAccount};
pub use index_candidates::{IndexCandidate, IndexCandidates, index_candidates};
pub use rules::{RULES, Rule};
pub use suspect::{Behind, Suspect, SuspectShare, like, suspect};
pub use threshold::{Threshold, ThresholdError, Thresholds};

/// What all rules said.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// Findings, those first whose fixing can win the most.
    pub findings: Vec<Finding>,
    /// Each rule and what became of it, in the order of [`RULES`].
    pub looked: Vec<Looked>,
}

/// What became of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    /// Which.
    pub rule: &'static Rule,
    /// How many findings it has, or why it could not look.
    pub outcome: Result<usize, Missing>,
}

impl Diagnosis {
    /// Whether there is a problem or a warning.
    pub fn is_finding(&self) -> bool {
        let mut all = self.findings.iter();
        all.any(|one| one.severity != Severity::Note)
    }
}

/// Asks every rule.
pub fn diagnose(evidence: &Evidence, thresholds: &Thresholds) -> Diagnosis {
    let mut findings = Vec::new();
    let mut looked = Vec::new();
    for rule in RULES {
        let outcome = (rule.look)(evidence, thresholds).map(|found| {
            let count = found.len();
            findings.extend(found.into_iter().map(|one| Finding {
                rule: rule.name,
                ..one
            }));
            count
        });
        looked.push(Looked { rule, outcome });
    }
    findings.sort_by(|a, b| {
        let won = |one: &Finding| one.most_to_win.unwrap_or(0.0);
        won(b)
            .total_cmp(&won(a))
            .then(a.severity.cmp(&b.severity))
            .then_with(|| a.rule.cmp(b.rule))
            .then_with(|| a.title.cmp(&b.title))
    });
    Diagnosis { findings, looked }
}
