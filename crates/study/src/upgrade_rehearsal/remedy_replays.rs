//! Paired replays of the old server and of the new one with all remedies.
//!
//! They end when the response time of all statements is decided. If single statements are not, they continue until the time is over.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use compare::Comparison;
use compare::proof::Verdict;
use workload::Literals;

use super::assemble::work;
use super::evidence::RehearsalEvidence;
use super::rare_statements::rare_factors;
use super::remedied_side::{ONE_ROLE_NOTE, RemediedServers};
use super::remedy_proof::RemedyInputs;
use super::remedy_status::status;
use super::result::RemedyProof;
use super::search_servers::PROOF;
use super::statement_factors::median_factors;
use super::{FinishProof, proof_request};
use crate::failure::Failure;
use crate::journal::recorded_runs;
use crate::notes;
use crate::proof::{
    ProofDisplay, ProofJournal, ProofReport, ProofRequest, ProofSide, compare_side, perform_proof,
};
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedyKind, RemedySearchResult, RemedyStatus, UpgradeRegression,
};

/// Runs of a block of two sides.
const RUNS_OF_BLOCK: f64 = 4.0;

/// Replays with all remedies.
pub(super) struct ProvedRemedies {
    pub(super) proof: RemedyProof,
    pub(super) comparison: Option<Comparison>,
    /// Notes of these replays.
    pub(super) notes: Vec<String>,
}

impl RemedyInputs<'_> {
    /// Replays with all remedies of a search, and sets the status of its regressions. `spent_s` is the time that the steps before took.
    ///
    /// # Errors
    /// If a replay cannot be done, or there was no time for a round of runs.
    pub(super) fn prove(
        &self,
        found: &mut RemedySearchResult,
        spent_s: f64,
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<ProvedRemedies, Failure> {
        notes::note(&format!(
            "Replaying on both versions, the new one with {} of remedies.",
            match found.script().len() {
                1 => "1 statement".to_owned(),
                number => format!("{number} statements"),
            }
        ));
        let mut proof = proof_request(self.request, self.servers);
        proof.output = self.request.output.join(PROOF);
        let spent = Duration::from_secs_f64(spent_s);
        proof.goal.time_budget = self.request.within.saturating_sub(spent);
        let remedied = RemediedServers {
            request: self.request,
            servers: self.servers,
            whole: self.whole,
        };
        let sides = vec![ProofSide::default(), remedied.side(found)?];
        let searched = found.regressions.clone();
        let (journal, report) = self.replay(&proof, &sides, display, finish)?;
        let proved = self.judge(found, &remedied, &journal, report)?;
        if !is_open(&proved.proof, &found.regressions) || !has_time_for_a_block(&journal) {
            return Ok(proved);
        }
        notes::note(
            "All statements together are decided, and single ones are not: the replays continue until the time is over.",
        );
        proof.goal.uses_all_time = true;
        found.regressions = searched;
        let (journal, report) = self.replay(&proof, &sides, display, finish)?;
        self.judge(found, &remedied, &journal, report)
    }

    fn replay(
        &self,
        proof: &ProofRequest,
        sides: &[ProofSide],
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<(ProofJournal, ProofReport), Failure> {
        let request = ProofRequest {
            resume: proof.output.exists(),
            ..proof.clone()
        };
        let begun = &|_: &Path| Ok(());
        let known = recorded_runs(&proof.output);
        let sides = sides.to_vec();
        let performed = perform_proof(&request, sides, self.whole, self.interrupt, begun, display);
        let (journal, ended) = performed?;
        // Replays restore the data of both sides before their first run, and after the last one.
        if recorded_runs(&proof.output) > known {
            self.has_traces.set(false);
        }
        let report = finish(&journal, ended)?;
        super::refuse_stopped(self.interrupt)?;
        Ok((journal, report))
    }

    /// Judges each regression by the replays.
    fn judge(
        &self,
        found: &mut RemedySearchResult,
        remedied: &RemediedServers<'_>,
        journal: &ProofJournal,
        report: ProofReport,
    ) -> Result<ProvedRemedies, Failure> {
        let side = report.sides.into_iter().next();
        let side = side.ok_or_else(|| Failure::could_not("no round of runs was completed"))?;
        let comparison = compare_side(journal, (1, side.is_harmful), Literals::Hidden)?;
        let mut after = comparison.as_ref().map(median_factors).unwrap_or_default();
        let rare = without_interval(&found.regressions, &after);
        after.extend(rare_factors(journal, 1, &rare)?);
        let evidence = RehearsalEvidence::new(journal, Some(&side), comparison.as_ref());
        for one in &mut found.regressions {
            one.after = after.get(&one.fingerprint).copied();
            one.status = match &one.remedy {
                Some(remedy) if !remedied.is_replayed(remedy)? => {
                    one.note = Some(ONE_ROLE_NOTE.to_owned());
                    RemedyStatus::Screened
                }
                _ => status(one, &side, evidence.other_rows),
            };
        }
        let statements = found.script();
        for one in &mut found.regressions {
            // It is as fast as before without it.
            if one.status == RemedyStatus::Resolved {
                one.remedy = None;
                one.remedied_work = None;
            }
        }
        let proof = RemedyProof {
            statements,
            other_rows: evidence.other_rows,
            evidence,
            verdict: side.verdict,
            effect: side.effect,
            work: work(&side),
            blocks: side.blocks,
            slower: side.slower,
            suspected: side.suspected,
            slower_only_with_remedies: Vec::new(),
            settled: Vec::new(),
            errors: side.errors,
            proof: self.request.output.join(PROOF).display().to_string(),
        };
        Ok(ProvedRemedies {
            proof,
            comparison,
            notes: report.notes,
        })
    }
}

/// Whether more runs can decide a statement: the total is decided in favour of the upgrade, no statement is slower, and one looks slower,
/// or is not shown to be as fast as before.
fn is_open(proof: &RemedyProof, regressions: &[UpgradeRegression]) -> bool {
    let is_undecided = |one: &UpgradeRegression| match (&one.remedy, one.status) {
        (Some(remedy), RemedyStatus::Screened) => {
            remedy.kind != RemedyKind::PlanAdvice && one.note.as_deref() != Some(ONE_ROLE_NOTE)
        }
        (None, RemedyStatus::NotFound) => {
            matches!(one.sign, RegressionSign::Slower | RegressionSign::Suspected)
        }
        _ => false,
    };
    let is_in_favour = matches!(proof.verdict, Verdict::Won | Verdict::Same);
    let is_undecided = !proof.suspected.is_empty() || regressions.iter().any(is_undecided);
    is_in_favour && proof.slower.is_empty() && is_undecided
}

fn has_time_for_a_block(journal: &ProofJournal) -> bool {
    let done = journal.records().map(|one| one.trial.block).max();
    journal.decision().is_some_and(|decision| {
        let needed_s = RUNS_OF_BLOCK * decision.run_s;
        done.is_some_and(|done| done < decision.blocks)
            && journal.spent_s() + needed_s <= journal.plan().within_s
    })
}

/// Returns the statements that are worse and have no interval in these ratios, by fingerprint.
fn without_interval<'a>(
    regressions: &'a [UpgradeRegression],
    factors: &HashMap<String, MeasuredFactor>,
) -> BTreeSet<&'a str> {
    let all = regressions.iter().map(|one| one.fingerprint.as_str());
    let has_interval = |one: &&str| {
        factors
            .get(*one)
            .is_some_and(|factor| factor.high.is_some())
    };
    all.filter(|one| !has_interval(one)).collect()
}
