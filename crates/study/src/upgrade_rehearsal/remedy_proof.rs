//! Remedies of a rehearsal: searched on both servers, and proved by paired replays of the old server and of the new
//! one with all remedies.
//!
//! The result of the search stays in the rehearsal's directory, so that a resumed proof has the same remedies.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use clock::{Clock, SystemClock};
use compare::Comparison;
use serde::{Deserialize, Serialize};
use sql::Fingerprint;
use workload::{Literals, WorkloadReader};

use super::assemble::work;
use super::evidence::RehearsalEvidence;
use super::rehearsal_plan::RehearsalPlan;
use super::remedied_side::{ONE_ROLE_NOTE, RemediedServers};
use super::result::RemedyProof;
use super::search_servers::{PROOF, SearchServers};
use super::time_needed::REPLAYS_SHARE;
use super::{FinishProof, MARGIN, PreparedServers, UpgradeRequest, proof_request, search_servers};
use crate::environment::MissingSetting;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::proof::{
    ProofDisplay, ProofJournal, ProofReport, ProofSide, ProofSideReport, compare_side,
    perform_proof,
};
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedyKind, RemedySearch, RemedySearchResult, RemedyStatus,
    UpgradeRegression, has_more_blocks, may_be_worse, search_remedies,
};
use crate::upgrade_verify::{KnownFindings, UpgradeExpectations};

/// Share of the time for the search.
const SEARCH_SHARE: f64 = 0.15;
/// Longest time of the search.
const SEARCH_MAX: Duration = Duration::from_secs(600);
/// Shortest time of the search.
const SEARCH_MIN: Duration = Duration::from_secs(20);
/// Result of the search, in the rehearsal's directory.
const SEARCH_FILE: &str = "remedies.json";
/// Beginning of the note that states why there are no replays with the remedies.
pub(super) const NOT_PROVED_NOTE: &str = "the remedies were not proved: ";
/// Reason of replays that ended before the first block.
const TOO_SHORT: &str = "the time that was left does not suffice for their replays; give more with --within, and --resume";

/// Returns the time for the replays of both versions, of the time for all.
pub(super) fn replays_time(within: Duration) -> Duration {
    within.mul_f64(REPLAYS_SHARE)
}

/// Result of a search, and the time that it took.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SearchFile {
    found: RemedySearchResult,
    /// Time limit of the search, in seconds.
    limit_s: f64,
    /// Time of the search, in seconds.
    search_s: f64,
    /// Settings of `--template` that the databases of the old server and of the new one do not have.
    #[serde(default)]
    missing_settings: [Vec<MissingSetting>; 2],
}

/// Remedies of a rehearsal.
#[derive(Debug, Default)]
pub(super) struct FoundRemedies {
    pub(super) regressions: Vec<UpgradeRegression>,
    pub(super) proof: Option<RemedyProof>,
    /// Extent of the comparison without remedies.
    pub(super) evidence: RehearsalEvidence,
    /// Expectations for the real upgrade.
    pub(super) expectations: UpgradeExpectations,
    pub(super) notes: Vec<String>,
    /// Settings of `--template` that the databases of the old server and of the new one do not have.
    pub(super) missing_settings: [Vec<MissingSetting>; 2],
}

/// Inputs of the search and of the proof.
pub(super) struct RemedyInputs<'a> {
    pub(super) request: &'a UpgradeRequest<'a>,
    pub(super) plan: &'a RehearsalPlan,
    pub(super) servers: &'a PreparedServers,
    pub(super) whole: &'a WorkloadReader,
    /// Replays of both versions.
    pub(super) journal: &'a ProofJournal,
    /// Objects that were to be mended on the old server.
    pub(super) known_findings: KnownFindings,
    pub(super) interrupt: &'a Interrupt,
}

/// Replays with all remedies.
struct ProvedRemedies {
    proof: RemedyProof,
    comparison: Option<Comparison>,
    /// Notes of these replays.
    notes: Vec<String>,
}

impl RemedyInputs<'_> {
    /// Searches remedies for the statements that are worse, and proves them. `without` has the replays without remedies.
    ///
    /// # Errors
    /// If a server cannot be created, or a replay cannot be done. A proof for which the time does not suffice is a note.
    pub(super) fn search_and_prove(
        &self,
        without: &ProofReport,
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<FoundRemedies, Failure> {
        let side = without.sides.first();
        let (mut searched, is_continued) = self.search(side)?;
        let mut found = FoundRemedies {
            notes: std::mem::take(&mut searched.found.notes),
            missing_settings: std::mem::take(&mut searched.missing_settings),
            ..FoundRemedies::default()
        };
        let mut rehearsed = compare_side(self.journal, 1, Literals::Hidden)?;
        found.evidence = RehearsalEvidence::new(self.journal, side, rehearsed.as_ref());
        found.evidence.search = Some(searched.found.coverage());
        let factors = rehearsed.as_ref().map(factors).unwrap_or_default();
        for one in &mut searched.found.regressions {
            one.before = factors.get(&one.fingerprint).copied();
        }
        if !searched.found.script().is_empty() {
            match self.prove(&mut searched, display, finish) {
                Ok(proved) => {
                    let blocks = proved.proof.blocks;
                    found
                        .notes
                        .extend(limits(blocks, &proved.notes, &without.notes));
                    found.proof = Some(proved.proof);
                    rehearsed = proved.comparison.or(rehearsed);
                }
                Err(_) if self.interrupt.is_requested() => super::refuse_stopped(self.interrupt)?,
                Err(failure) => found
                    .notes
                    .push(format!("{NOT_PROVED_NOTE}{}", failure.message)),
            }
        }
        // Each run of a proof restores the data, and its end does. If it was complete before a search that continued, it had none.
        if found.proof.is_none() || is_continued {
            // The request ended the search, and its traces must go.
            search_servers::restore(self.request, &self.interrupt.for_last_step())?;
        }
        found.expectations = UpgradeExpectations::new(
            (self.whole, &self.plan.database),
            rehearsed.as_ref(),
            &searched.found,
            self.known_findings.clone(),
        )?;
        found.regressions = searched.found.regressions;
        Ok(found)
    }

    /// Searches the remedies, or reads the result of the search before. One that ended for lack of time continues if there is
    /// more now; then `true` is returned, too.
    fn search(&self, side: Option<&ProofSideReport>) -> Result<(SearchFile, bool), Failure> {
        let file = self.request.output.join(SEARCH_FILE);
        let limit = self.request.within.mul_f64(SEARCH_SHARE);
        let limit = limit.clamp(SEARCH_MIN, SEARCH_MAX);
        let known = self.read_search(&file)?;
        let is_done =
            |known: &SearchFile| !known.found.lacks_time() || limit.as_secs_f64() <= known.limit_s;
        let known = match known {
            Some(known) if is_done(&known) => return Ok((known, false)),
            Some(known) => known,
            None => SearchFile::default(),
        };
        let is_continued = known.limit_s > 0.0;
        let remedies = known.found.script();
        let left = limit.saturating_sub(Duration::from_secs_f64(known.search_s));
        let clock = SystemClock::start();
        let begun_ns = clock.now_ns();
        let (found, missing_settings) =
            self.search_on_servers(side, left.max(SEARCH_MIN), known.found)?;
        super::refuse_stopped(self.interrupt)?;
        if found.script() != remedies {
            self.discard_proof()?;
        }
        let searched = SearchFile {
            found,
            limit_s: limit.as_secs_f64(),
            search_s: known.search_s + (clock.now_ns() - begun_ns) as f64 / 1e9,
            missing_settings,
        };
        let text = serde_json::to_string_pretty(&searched).expect("plain data");
        write(&file, &text)?;
        Ok((searched, is_continued))
    }

    fn read_search(&self, file: &Path) -> Result<Option<SearchFile>, Failure> {
        let Ok(text) = std::fs::read_to_string(file) else {
            return Ok(None);
        };
        let read = serde_json::from_str(&text).map_err(|error| {
            Failure::could_not(format!(
                "{} is damaged: {error}; delete it to search again",
                file.display()
            ))
        });
        read.map(Some)
    }

    /// Deletes the proof of other remedies. Its servers were restored before.
    fn discard_proof(&self) -> Result<(), Failure> {
        let proof = self.request.output.join(PROOF);
        if !proof.exists() {
            return Ok(());
        }
        notes::note(
            "More remedies were found. The proof of those before is deleted, and all are proved together.",
        );
        std::fs::remove_dir_all(&proof).map_err(|error| {
            Failure::could_not(format!("cannot delete {}: {error}", proof.display()))
        })
    }

    fn search_on_servers(
        &self,
        side: Option<&ProofSideReport>,
        limit: Duration,
        known: RemedySearchResult,
    ) -> Result<(RemedySearchResult, [Vec<MissingSetting>; 2]), Failure> {
        let mut slower: HashMap<Fingerprint, RegressionSign> = HashMap::new();
        for one in side.iter().flat_map(|side| &side.slower) {
            slower.insert(one.fingerprint, RegressionSign::Slower);
        }
        for one in side.iter().flat_map(|side| &side.suspected) {
            slower.insert(one.fingerprint, RegressionSign::Suspected);
        }
        notes::note(
            "Executing statements alone on both versions, in transactions that are rolled back.",
        );
        let servers = SearchServers::create(self.request, self.plan, self.servers, self.interrupt)?;
        let search = RemedySearch {
            old: &servers.old,
            new: &servers.new,
            logins: &self.servers.logins,
            access: servers.access,
            captured: &self.plan.database,
            slower: &slower,
            limit,
            literals: self.request.literals,
            interrupt: self.interrupt,
        };
        let found = search_remedies(&search, self.whole, known);
        let missing_settings = servers.missing_settings();
        servers.release()?;
        if self.interrupt.is_requested() {
            // The request ended the search, and its traces must go.
            search_servers::restore(self.request, &self.interrupt.for_last_step())?;
        }
        Ok((found?, missing_settings))
    }

    fn prove(
        &self,
        searched: &mut SearchFile,
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<ProvedRemedies, Failure> {
        let statements = searched.found.script();
        notes::note(&format!(
            "Replaying on both versions, the new one with {} of remedies.",
            match statements.len() {
                1 => "1 statement".to_owned(),
                number => format!("{number} statements"),
            }
        ));
        let mut proof = proof_request(self.request, self.servers);
        proof.output = self.request.output.join(PROOF);
        proof.resume = proof.output.exists();
        let spent_s = self.journal.spent_s() + searched.search_s;
        let spent = Duration::from_secs_f64(spent_s);
        proof.goal.time_budget = self.request.within.saturating_sub(spent);
        let remedied = RemediedServers {
            request: self.request,
            servers: self.servers,
            whole: self.whole,
        };
        let sides = vec![ProofSide::default(), remedied.side(&searched.found)?];
        let begun = &|_: &Path| Ok(());
        let (journal, ended) =
            perform_proof(&proof, sides, self.whole, self.interrupt, begun, display)?;
        let report = finish(&journal, ended)?;
        super::refuse_stopped(self.interrupt)?;
        let side = report.sides.into_iter().next();
        let side = side.ok_or_else(|| Failure::could_not("no round of runs was completed"))?;
        let comparison = compare_side(&journal, 1, Literals::Hidden)?;
        let after = comparison.as_ref().map(factors).unwrap_or_default();
        let evidence = RehearsalEvidence::new(&journal, Some(&side), comparison.as_ref());
        for one in &mut searched.found.regressions {
            one.after = after.get(&one.fingerprint).copied();
            one.status = match &one.remedy {
                Some(remedy) if !remedied.is_replayed(remedy)? => {
                    one.note = Some(ONE_ROLE_NOTE.to_owned());
                    RemedyStatus::Screened
                }
                _ => status(one, &side, evidence.other_rows),
            };
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

/// Returns the limits of replays with this number of blocks, in sentences: their notes that the replays before do not have,
/// `known`.
fn limits(blocks: u32, notes: &[String], known: &[String]) -> Vec<String> {
    let other = notes.iter().filter(|note| !known.contains(note));
    let mut limits: Vec<String> = other
        .map(|note| format!("replays with the remedies: {note}"))
        .collect();
    if blocks == 0 {
        limits.push(format!("{NOT_PROVED_NOTE}{TOO_SHORT}"));
    }
    limits
}

/// Returns what the replays with all remedies show of a statement.
fn status(regression: &UpgradeRegression, side: &ProofSideReport, other_rows: u64) -> RemedyStatus {
    let mut slower = side.slower.iter().chain(&side.suspected);
    let is_slower = slower.any(|one| one.fingerprint.to_string() == regression.fingerprint);
    match side.blocks {
        0 if regression.remedy.is_some() => RemedyStatus::Screened,
        0 => regression.status,
        _ => replayed_status(regression, is_slower, other_rows > 0),
    }
}

/// Returns the status after replays. That a statement was not found slower proves nothing.
fn replayed_status(
    regression: &UpgradeRegression,
    is_slower: bool,
    has_other_rows: bool,
) -> RemedyStatus {
    let was_slower = matches!(
        regression.sign,
        RegressionSign::Slower | RegressionSign::Suspected
    );
    let limit = 1.0 + MARGIN;
    let is_undone = |after: MeasuredFactor| match regression.remedy {
        Some(_) => after.undoes(regression.before, limit),
        None => after.is_within(limit),
    };
    let is_within = !is_slower && regression.after.is_some_and(is_undone);
    let is_judged = was_slower || regression.sign == RegressionSign::Work;
    let Some(remedy) = &regression.remedy else {
        return match was_slower && is_within {
            true => RemedyStatus::Resolved,
            false => regression.status,
        };
    };
    if is_slower || (regression.sign == RegressionSign::OtherRows && has_other_rows) {
        return RemedyStatus::Refuted;
    }
    // The sessions of the replays do not have advice.
    let is_replayed = remedy.kind != RemedyKind::PlanAdvice;
    let excludes = |after: MeasuredFactor| after.halves(regression.before, limit);
    let is_shown = is_within
        || has_old_blocks(regression)
        || does_old_work(regression) && regression.after.is_some_and(excludes);
    match is_replayed && (is_shown || !is_judged) {
        true => RemedyStatus::Proved,
        false => RemedyStatus::Screened,
    }
}

/// Whether a statement alone does with the remedy what it did on the old server, in the same time.
fn does_old_work(regression: &UpgradeRegression) -> bool {
    let works = regression.old_work.zip(regression.remedied_work);
    works.is_some_and(|(old, remedied)| !may_be_worse(old, remedied))
}

/// Whether a remedy removes all that a statement alone read more than on the old server.
fn has_old_blocks(regression: &UpgradeRegression) -> bool {
    let (old, new) = (regression.old_work, regression.new_work);
    match (old, new, regression.remedied_work) {
        (Some(old), Some(new), Some(remedied)) => {
            has_more_blocks(old, new) && !has_more_blocks(old, remedied)
        }
        _ => false,
    }
}

/// Returns the ratio of the median service times of each statement, by fingerprint.
fn factors(comparison: &Comparison) -> HashMap<String, MeasuredFactor> {
    let all = comparison.statements.iter();
    all.filter_map(|one| {
        let measure = one.service.measure();
        let found = one.service.ratio(measure)?;
        let factor = MeasuredFactor::new(found, one.service.mean_ratio);
        Some((one.fingerprint.to_string(), factor))
    })
    .collect()
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::could_not(format!("cannot write to {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_remedies::{RegressionRemedy, TrialWork};

    #[test]
    fn replays_that_ended_early_and_their_own_notes_are_limits() {
        let [stalls, delay] = ["stalls", "delay"].map(str::to_owned);
        let (notes, known) = ([stalls.clone(), delay], [stalls]);
        assert_eq!(
            limits(1, &notes, &known),
            ["replays with the remedies: delay"]
        );
        let ended = limits(0, &known, &known).concat();
        assert!(
            ended.starts_with(NOT_PROVED_NOTE) && ended.contains("--resume"),
            "{ended}"
        );
    }

    #[test]
    fn remedy_is_proved_only_if_the_replays_or_the_blocks_show_it() {
        let work = |blocks| Some(TrialWork { ms: 1.0, blocks });
        let within = |high| {
            Some(MeasuredFactor {
                ratio: 0.9,
                low: Some(0.8),
                high: Some(high),
                mean: Some(1.0),
                mean_high: Some(1.2),
            })
        };
        let mut one = UpgradeRegression {
            before: Some(MeasuredFactor {
                ratio: 2.0,
                mean: Some(2.0),
                ..within(2.2).unwrap()
            }),
            after: within(1.02),
            old_work: work(100.0),
            new_work: work(110.0),
            remedied_work: work(100.0),
            remedy: Some(RegressionRemedy {
                kind: RemedyKind::Setting,
                cause: String::new(),
                statements: Vec::new(),
                setting: None,
                role: None,
                risk: String::new(),
            }),
            status: RemedyStatus::Screened,
            ..UpgradeRegression::new("", "", RegressionSign::Slower)
        };
        let status = |one: &UpgradeRegression| replayed_status(one, false, false);
        assert_eq!(status(&one), RemedyStatus::Proved);
        assert_eq!(replayed_status(&one, true, false), RemedyStatus::Refuted);
        // Rare values may still be slow.
        let (before, alone) = (one.before.take(), one.remedied_work.take());
        assert_eq!(status(&one), RemedyStatus::Screened);
        (one.before, one.remedied_work) = (before, alone);
        one.after = within(1.3);
        assert_eq!(status(&one), RemedyStatus::Proved);
        one.after = within(1.6);
        assert_eq!(status(&one), RemedyStatus::Screened);
        one.new_work = work(5000.0);
        assert_eq!(status(&one), RemedyStatus::Proved);
        one.remedied_work = work(4000.0);
        one.after = within(1.2);
        assert_eq!(status(&one), RemedyStatus::Screened);
        one.after = within(1.0);
        if let Some(remedy) = &mut one.remedy {
            remedy.kind = RemedyKind::PlanAdvice;
        }
        assert_eq!(status(&one), RemedyStatus::Screened);
        one.remedy = None;
        assert_eq!(status(&one), RemedyStatus::Screened);
        if let Some(after) = &mut one.after {
            after.mean_high = Some(1.04);
        }
        assert_eq!(status(&one), RemedyStatus::Resolved);
        one.after = within(1.4);
        for found in [RemedyStatus::NotFound, RemedyStatus::Untried] {
            one.status = found;
            assert_eq!(status(&one), found);
        }
    }
}
