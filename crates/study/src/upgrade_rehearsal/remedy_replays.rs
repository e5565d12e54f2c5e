//! Paired replays of the old server and of the new one with all remedies.
//!
//! They end when the response time of all statements is decided. If single statements are not, they continue with all rounds that there
//! is time for.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use compare::Comparison;
use compare::proof::{Effect, Goal, Verdict};
use sql::Fingerprint;
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
use super::{FinishProof, MARGIN, proof_request};
use crate::failure::Failure;
use crate::journal::recorded_runs;
use crate::notes;
use crate::proof::{
    Movement, ProofDisplay, ProofJournal, ProofReport, ProofRequest, ProofSide, ProofSideReport,
    compare_side, perform_proof,
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
    /// Replays with all remedies of a search, and sets the status of its regressions. `unexamined` are statements that were or looked
    /// slower, and that the search did not compare, by fingerprint. `spent_s` is the time that the steps before took.
    ///
    /// # Errors
    /// If a replay cannot be done, or there was no time for a round of runs.
    pub(super) fn prove(
        &self,
        (found, unexamined): (&mut RemedySearchResult, &[String]),
        spent_s: f64,
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<ProvedRemedies, Failure> {
        notes::note(&format!(
            "Replaying on both versions, the new one with {} of remedies.",
            match found.replayed_script().len() {
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
        let mut proved = self.judge((found, unexamined), &remedied, &journal, report)?;
        let is_open = is_open(&proved.proof, &found.regressions, unexamined.len());
        if !is_open || !has_time_for_a_block(&journal, proved.proof.blocks) {
            return Ok(proved);
        }
        notes::note(
            "All statements together are decided, and single ones are not: the replays continue with all rounds that there is time for.",
        );
        proof.goal.uses_all_time = true;
        let judged = std::mem::replace(&mut found.regressions, searched);
        let continued =
            self.replay(&proof, &sides, display, finish)
                .and_then(|(journal, report)| {
                    self.judge((found, unexamined), &remedied, &journal, report)
                });
        match continued {
            Ok(proved) => Ok(proved),
            Err(failure) if self.interrupt.is_requested() => Err(failure),
            Err(failure) => {
                found.regressions = judged;
                let reason = failure.message.trim_end_matches('.');
                let text = format!("the replays did not continue for single statements: {reason}");
                proved.notes.push(text);
                Ok(proved)
            }
        }
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
        (found, unexamined): (&mut RemedySearchResult, &[String]),
        remedied: &RemediedServers<'_>,
        journal: &ProofJournal,
        report: ProofReport,
    ) -> Result<ProvedRemedies, Failure> {
        let side = report.sides.into_iter().next();
        let side = side.ok_or_else(|| Failure::could_not("no round of runs was completed"))?;
        let comparison = compare_side(journal, (1, side.is_harmful), Literals::Hidden)?;
        let mut after = comparison.as_ref().map(median_factors).unwrap_or_default();
        let rare = without_interval(comparison.as_ref(), &found.regressions, &after);
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
        let statements = found.replayed_script();
        for one in &mut found.regressions {
            // It is as fast as before without it.
            if one.status == RemedyStatus::Resolved {
                one.remedy = None;
                one.remedied_work = None;
            }
        }
        let (verdict, effect) = lasting_verdict(&side);
        let proof = RemedyProof {
            statements,
            other_rows: evidence.other_rows,
            evidence,
            verdict,
            effect,
            work: work(&side),
            blocks: side.blocks,
            slower: side.slower,
            suspected: side.suspected,
            slower_only_with_remedies: Vec::new(),
            settled: settled(unexamined, &after),
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

/// Returns verdict and effect on all statements: those of the interim analysis that decided, unless all rounds show the opposite.
fn lasting_verdict(side: &ProofSideReport) -> (Verdict, Option<Effect>) {
    let mut numbers = side.numbers.iter();
    let total = numbers.find(|one| one.name == Goal::Total.name());
    let worse = total.filter(|total| total.moved == Some(Movement::Worse));
    match (side.verdict, worse) {
        (Verdict::Won | Verdict::Same, Some(worse)) => (Verdict::NotProven, worse.effect),
        (verdict, _) => (verdict, side.effect),
    }
}

/// Returns the statements whose ratios are within the margin, by fingerprint.
fn settled(unexamined: &[String], after: &HashMap<String, MeasuredFactor>) -> Vec<String> {
    let is_fast = |one: &&String| {
        after
            .get(*one)
            .is_some_and(|factor| factor.is_within(1.0 + MARGIN))
    };
    unexamined.iter().filter(is_fast).cloned().collect()
}

/// Whether a statement looks slower or is not shown to be as fast as before, although all together are decided in favour of the upgrade.
fn is_open(proof: &RemedyProof, regressions: &[UpgradeRegression], unexamined: usize) -> bool {
    let is_in_favour = matches!(proof.verdict, Verdict::Won | Verdict::Same);
    let has_undecided = !proof.suspected.is_empty()
        || proof.settled.len() < unexamined
        || regressions.iter().any(is_undecided);
    is_in_favour && proof.slower.is_empty() && has_undecided
}

/// Whether further replays can decide a statement.
fn is_undecided(one: &UpgradeRegression) -> bool {
    match (&one.remedy, one.status) {
        (Some(remedy), RemedyStatus::Screened) => {
            let is_advice = remedy.kind == RemedyKind::PlanAdvice;
            one.note.as_deref() != Some(ONE_ROLE_NOTE) && (!is_advice || was_slower(one))
        }
        (None, RemedyStatus::NotFound) => was_slower(one),
        _ => false,
    }
}

fn was_slower(one: &UpgradeRegression) -> bool {
    matches!(one.sign, RegressionSign::Slower | RegressionSign::Suspected)
}

fn has_time_for_a_block(journal: &ProofJournal, done: u32) -> bool {
    journal.decision().is_some_and(|decision| {
        let needed_s = RUNS_OF_BLOCK * decision.run_s;
        decision.ended.is_none()
            && done < decision.blocks
            && journal.spent_s() + needed_s <= journal.plan().within_s
    })
}

/// Returns the compared statements that are worse and have no interval in these ratios.
fn without_interval(
    comparison: Option<&Comparison>,
    regressions: &[UpgradeRegression],
    factors: &HashMap<String, MeasuredFactor>,
) -> BTreeSet<Fingerprint> {
    let compared = comparison.iter().flat_map(|one| &one.statements);
    let wanted = compared.map(|one| one.fingerprint).filter(|one| {
        let fingerprint = one.to_string();
        let factor = factors.get(&fingerprint);
        let is_worse = regressions.iter().any(|one| one.fingerprint == fingerprint);
        is_worse && factor.is_none_or(|factor| factor.high.is_none())
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_remedies::RegressionRemedy;

    fn factor(high: f64) -> MeasuredFactor {
        MeasuredFactor {
            ratio: 1.0,
            high: Some(high),
            mean: Some(1.0),
            mean_high: Some(high),
            ..MeasuredFactor::default()
        }
    }

    #[test]
    fn unexamined_statement_is_settled_only_within_the_margin() {
        let names = ["fast", "noisy", "unknown"].map(str::to_owned);
        let after = HashMap::from([
            (names[0].clone(), factor(1.04)),
            (names[1].clone(), factor(1.06)),
        ]);
        assert_eq!(settled(&names, &after), ["fast"]);
    }

    #[test]
    fn statement_is_open_until_the_replays_prove_or_settle_it() {
        let one = |sign, status, kind: Option<RemedyKind>| UpgradeRegression {
            status,
            remedy: kind.map(|kind| RegressionRemedy {
                kind,
                cause: String::new(),
                statements: Vec::new(),
                setting: None,
                role: None,
                risk: String::new(),
            }),
            ..UpgradeRegression::new("1", "", sign)
        };
        let (analyze, advice) = (Some(RemedyKind::Analyze), Some(RemedyKind::PlanAdvice));
        let (slower, work) = (RegressionSign::Slower, RegressionSign::Work);
        for (regression, is_expected) in [
            (one(work, RemedyStatus::Screened, analyze), true),
            (one(slower, RemedyStatus::Screened, advice), true),
            (one(work, RemedyStatus::Screened, advice), false),
            (one(slower, RemedyStatus::NotFound, None), true),
            (one(work, RemedyStatus::NotFound, None), false),
            (one(slower, RemedyStatus::Proved, analyze), false),
            (one(slower, RemedyStatus::Resolved, None), false),
        ] {
            assert_eq!(is_undecided(&regression), is_expected, "{regression:?}");
        }
    }
}
