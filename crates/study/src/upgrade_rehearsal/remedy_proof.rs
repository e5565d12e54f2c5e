//! Remedies of a rehearsal: searched on both servers, and proved by paired replays of the old server and of the new
//! one with all remedies.
//!
//! The result of the search stays in the rehearsal's directory, so that a resumed proof has the same remedies.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use sql::Fingerprint;
use workload::{Literals, WorkloadReader};

use super::evidence::RehearsalEvidence;
use super::rehearsal_plan::RehearsalPlan;
use super::result::RemedyProof;
use super::search_servers::{PROOF, SearchServers};
use super::slower_with_remedies::slower_with_remedies;
use super::statement_factors::first_factors;
use super::time_needed::REPLAYS_SHARE;
use super::{FinishProof, PreparedServers, UpgradeRequest, search_servers};
use crate::environment::MissingSetting;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::proof::{ProofDisplay, ProofJournal, ProofReport, ProofSideReport, compare_side};
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedySearch, RemedySearchResult, UpgradeRegression,
    search_remedies,
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
    /// Findings of the replays before the search, by fingerprint.
    #[serde(default)]
    signs: BTreeMap<String, RegressionSign>,
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
    /// Whether a search left traces on the servers since they were restored.
    pub(super) has_traces: Cell<bool>,
}

impl RemedyInputs<'_> {
    /// Searches remedies for the statements that are worse, and proves them. `without` has the replays without remedies.
    ///
    /// # Errors
    /// If a server cannot be created, or a replay cannot be done. The servers are restored then, too. A proof for which the time
    /// does not suffice is a note.
    pub(super) fn search_and_prove(
        &self,
        without: &ProofReport,
        display: &mut dyn ProofDisplay,
        finish: FinishProof<'_>,
    ) -> Result<FoundRemedies, Failure> {
        let found = self.search_then_prove(without, display, finish);
        if found.is_err() && self.has_traces.get() {
            let interrupt = self.interrupt.for_last_step();
            if let Err(failure) = search_servers::restore(self.request, &interrupt) {
                notes::note(&format!(
                    "The servers were not restored: {}.",
                    failure.message.trim_end_matches('.')
                ));
            }
        }
        found
    }

    fn search_then_prove(
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
        let mut rehearsed = compare_side(self.journal, (1, is_harmful(side)), Literals::Hidden)?;
        found.evidence = RehearsalEvidence::new(self.journal, side, rehearsed.as_ref());
        found.evidence.search = Some(searched.found.coverage());
        let factors = rehearsed.as_ref().map(first_factors).unwrap_or_default();
        for one in &mut searched.found.regressions {
            one.before = factors.get(&one.fingerprint).copied();
        }
        if !searched.found.script().is_empty() {
            let signs = signs_of(side);
            let unexamined = unexamined(&signs, &searched.found.regressions, &factors);
            let spent_s = self.journal.spent_s() + searched.search_s;
            match self.prove((&mut searched.found, &unexamined), spent_s, display, finish) {
                Ok(mut proved) => {
                    let with = proved.comparison.as_ref().map(first_factors);
                    let with = with.unwrap_or_default();
                    proved.proof.slower_only_with_remedies = slower_with_remedies(
                        &proved.proof,
                        &searched.found,
                        &signs,
                        (&factors, &with),
                    );
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
            search_servers::restore(self.request, &self.interrupt.for_last_step())?;
            self.has_traces.set(false);
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
        let signs = signs_of(side);
        let texts = signs_by_text(&signs);
        let mut known = match self.read_search(&file)? {
            Some(known) if known.is_done(&texts, limit) => return Ok((known, false)),
            Some(known) => known,
            None => SearchFile::default(),
        };
        let is_continued = known.limit_s > 0.0;
        let remedies = known.found.script();
        known.forget_other_signs(&texts);
        let left = limit.saturating_sub(Duration::from_secs_f64(known.search_s));
        let clock = SystemClock::start();
        let begun_ns = clock.now_ns();
        let (found, missing_settings) =
            self.search_on_servers(&signs, left.max(SEARCH_MIN), known.found)?;
        super::refuse_stopped(self.interrupt)?;
        if found.script() != remedies {
            self.discard_proof()?;
        }
        let searched = SearchFile {
            found,
            limit_s: limit.as_secs_f64(),
            search_s: known.search_s + (clock.now_ns() - begun_ns) as f64 / 1e9,
            signs: texts,
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
        slower: &HashMap<Fingerprint, RegressionSign>,
        limit: Duration,
        known: RemedySearchResult,
    ) -> Result<(RemedySearchResult, [Vec<MissingSetting>; 2]), Failure> {
        notes::note(
            "Executing statements alone on both versions, in transactions that are rolled back.",
        );
        let servers = SearchServers::create(self.request, self.plan, self.servers, self.interrupt)?;
        self.has_traces.set(true);
        let search = RemedySearch {
            old: &servers.old,
            new: &servers.new,
            logins: &self.servers.logins,
            access: servers.access,
            captured: &self.plan.database,
            slower,
            limit,
            literals: self.request.literals,
            interrupt: self.interrupt,
        };
        let found = search_remedies(&search, self.whole, known);
        let missing_settings = servers.missing_settings();
        servers.release()?;
        Ok((found?, missing_settings))
    }
}

impl SearchFile {
    /// Whether the search was made for what the replays show, and more time would not examine more.
    fn is_done(&self, signs: &BTreeMap<String, RegressionSign>, limit: Duration) -> bool {
        self.signs == *signs && (!self.found.lacks_time() || limit.as_secs_f64() <= self.limit_s)
    }

    /// Removes the statements of which the replays show something else now, so that they are examined again.
    fn forget_other_signs(&mut self, signs: &BTreeMap<String, RegressionSign>) {
        let known = std::mem::take(&mut self.signs);
        self.found
            .forget(|fingerprint| known.get(fingerprint) != signs.get(fingerprint));
    }
}

/// Returns the statements that were or looked slower, and that the search did not compare, such as COMMIT and CALL, by fingerprint. Those
/// whose slowest executions were suspected are left out: shorter replays do not show these.
fn unexamined(
    signs: &HashMap<Fingerprint, RegressionSign>,
    regressions: &[UpgradeRegression],
    factors: &HashMap<String, MeasuredFactor>,
) -> Vec<String> {
    let is_of_slowest = |one: &String| factors.get(one).is_some_and(MeasuredFactor::is_of_slowest);
    let is_compared = |one: &String| regressions.iter().any(|known| known.fingerprint == *one);
    let all = signs.keys().map(Fingerprint::to_string);
    all.filter(|one| !is_compared(one) && !is_of_slowest(one))
        .collect()
}

fn is_harmful(side: Option<&ProofSideReport>) -> bool {
    side.is_some_and(|side| side.is_harmful)
}

/// Returns what replays show of statements: those that are or look slower.
fn signs_of(side: Option<&ProofSideReport>) -> HashMap<Fingerprint, RegressionSign> {
    let slower = side.iter().flat_map(|side| &side.slower);
    let suspected = side.iter().flat_map(|side| &side.suspected);
    let slower = slower.map(|one| (one.fingerprint, RegressionSign::Slower));
    slower
        .chain(suspected.map(|one| (one.fingerprint, RegressionSign::Suspected)))
        .collect()
}

fn signs_by_text(signs: &HashMap<Fingerprint, RegressionSign>) -> BTreeMap<String, RegressionSign> {
    let all = signs.iter();
    all.map(|(fingerprint, sign)| (fingerprint.to_string(), *sign))
        .collect()
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

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::could_not(format!("cannot write to {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_examines_statements_again_of_which_later_replays_show_something_else() {
        let names = ["same", "newly slower", "no longer", "never"];
        let statements = names.map(|name| {
            serde_json::json!({"fingerprint": name, "captured_us": 1, "examination": "examined"})
        });
        let mut found = serde_json::to_value(RemedySearchResult::default()).unwrap();
        found["statements"] = serde_json::json!(statements);
        found["works"] = serde_json::json!({"same": null, "no longer": null});
        let signs = |slower: [(&str, RegressionSign); 2]| {
            BTreeMap::from(slower.map(|(name, sign)| (name.to_owned(), sign)))
        };
        let mut known = SearchFile {
            found: serde_json::from_value(found).unwrap(),
            signs: signs([
                ("same", RegressionSign::Slower),
                ("no longer", RegressionSign::Suspected),
            ]),
            ..SearchFile::default()
        };
        known.limit_s = 20.0;
        let day = Duration::from_secs(86_400);
        let later = signs([
            ("same", RegressionSign::Slower),
            ("newly slower", RegressionSign::Slower),
        ]);
        assert!(known.is_done(&known.signs, day) && !known.is_done(&later, day));
        known.forget_other_signs(&later);
        let left = serde_json::to_value(&known.found).unwrap();
        let left = left["statements"].as_array().unwrap();
        let left: Vec<&str> = left
            .iter()
            .map(|one| one["fingerprint"].as_str().unwrap())
            .collect();
        assert_eq!(left, ["same", "never"]);
        let works: Vec<&String> = known.found.works.keys().collect();
        assert_eq!(works, ["same"]);
    }

    #[test]
    fn search_that_lacked_time_is_done_only_with_as_little_time() {
        let mut found = serde_json::to_value(RemedySearchResult::default()).unwrap();
        found["statements"] = serde_json::json!([
            {"fingerprint": "1", "captured_us": 1, "examination": "no_time"}
        ]);
        let known = SearchFile {
            found: serde_json::from_value(found).unwrap(),
            limit_s: 20.0,
            ..SearchFile::default()
        };
        let is_done = |s| known.is_done(&BTreeMap::new(), Duration::from_secs(s));
        assert_eq!([19, 20, 21].map(is_done), [true, true, false]);
    }

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
}
