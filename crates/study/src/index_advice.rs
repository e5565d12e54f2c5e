//! Index advice: derives candidates from plans, screens them with the planner, and measures the
//! best on the same traffic.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ::diagnose::{Evidence, IndexCandidate, IndexCandidates, Thresholds, index_candidates};
use sql::Fingerprint;
use workload::WorkloadReader;

use crate::baseline_run;
use crate::candidate_ranking::{expected_saving_ns, rank_candidates};
use crate::diagnosis_inputs;
use crate::diagnosis_inputs::QueriedFacts;
use crate::environment::SandboxLease;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::journal::refuse_existing;
use crate::notes;
use crate::observed_replay::ReplayDisplay;
use crate::proof::{
    CANDIDATES, Change, ProofDisplay, ProofJournal, ProofRequest, ProofSide, perform_proof,
};
use crate::runner::EndReason;
use crate::screened_candidate::{ExpectedCost, ScreenedCandidate};
use crate::screening::{Screening, ScreeningResult};

/// Baseline run in the proof's directory, if one was made for the candidates.
const LOOK: &str = "look.run";

/// Parameters of index advice.
pub struct AdviceRequest<'a> {
    /// Measurement in a sandbox.
    pub proof: &'a ProofRequest,
    /// Largest number of candidates to measure.
    pub most: usize,
    /// Whether candidates are built for the planner, even if the server has HypoPG.
    pub built: bool,
    /// Thresholds of the diagnosis.
    pub thresholds: &'a Thresholds,
}

/// Result of index advice.
pub enum Advice {
    /// Journal of the measurement of the best candidates.
    Measured(Box<ProofJournal>, EndReason),
    /// Reason why there is nothing to measure.
    Nothing(String),
}

/// Derives candidates, asks the planner, and measures the best. Without `evidence` of a replay
/// of the workload, it makes a baseline run first.
///
/// # Errors
/// If a step fails. The sandbox is restored then, too.
pub fn advise(
    wanted: &AdviceRequest<'_>,
    workload: &WorkloadReader,
    evidence: Option<Evidence>,
    interrupt: &Interrupt,
    (replay_display, proof_display): (&mut dyn ReplayDisplay, &mut dyn ProofDisplay),
) -> Result<Advice, Failure> {
    let output = wanted.proof.output.clone();
    refuse_existing(&output)?;
    let parent_directory = match output.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let place = tempfile::tempdir_in(&parent_directory).map_err(|error| {
        Failure::could_not(format!(
            "cannot write into {}: {error}",
            parent_directory.display()
        ))
    })?;
    let look = place.path().join(LOOK);
    let place_request = &wanted.proof.place;
    let database = baseline_run::choose_database(workload, place_request.database.as_deref())?;
    let mut lease = baseline_run::lease_sandbox(place_request.sandbox.as_deref(), &database)?;
    let found = found(
        (&mut lease, &database),
        wanted,
        workload,
        evidence,
        &look,
        (interrupt, replay_display),
    );
    lease.release()?;
    let found = found?;
    let (sides, views) = match found {
        Found::Sides(sides, views) => (sides, views),
        Found::Nothing(why) => return Ok(Advice::Nothing(why)),
    };
    let begun = |directory: &Path| {
        let file = directory.join(CANDIDATES);
        let text = serde_json::to_string_pretty(&views).expect("plain data") + "\n";
        std::fs::write(&file, text).map_err(|error| {
            Failure::could_not(format!("cannot write {}: {error}", file.display()))
        })?;
        if look.exists() {
            std::fs::rename(&look, directory.join(LOOK)).map_err(Failure::could_not)?;
        }
        Ok(())
    };
    let mut proof = wanted.proof.clone();
    proof.place.database = Some(database);
    let (journal, ended) =
        perform_proof(&proof, sides, workload, interrupt, &begun, proof_display)?;
    Ok(Advice::Measured(Box::new(journal), ended))
}

enum Found {
    Sides(Vec<ProofSide>, Vec<ScreenedCandidate>),
    Nothing(String),
}

fn found(
    (lease, database): (&mut SandboxLease, &str),
    wanted: &AdviceRequest<'_>,
    workload: &WorkloadReader,
    evidence: Option<Evidence>,
    look: &Path,
    (interrupt, display): (&Interrupt, &mut dyn ReplayDisplay),
) -> Result<Found, Failure> {
    let engine = wanted.proof.replay.clone();
    let evidence = match evidence {
        Some(evidence) => evidence,
        None => {
            let run =
                baseline_run::replay_baseline(lease, workload, &engine, look, interrupt, display)?;
            diagnosis_inputs::read_run_evidence(&run, QueriedFacts::default())?
        }
    };
    for have in [
        &evidence.plans,
        &evidence.facts.as_ref().map(|_| ()).map_err(Clone::clone),
    ] {
        if let Err(missing) = have {
            return Err(Failure::could_not(format!(
                "candidates are made of plans and of the schema: {missing}"
            )));
        }
    }
    let mut made = index_candidates(&evidence, wanted.thresholds);
    let all = made.candidates.len();
    // Changes are carried out in one database.
    made.candidates.retain(|one| one.database == database);
    if made.candidates.len() < all {
        notes::note(&format!(
            "{} candidates are of other databases than {database}; --as-database NAME takes another one.",
            all - made.candidates.len()
        ));
    }
    if made.candidates.is_empty() {
        return Ok(Found::Nothing(format!(
            "No index comes to mind: of {} statements that take a noticeable share of the time and have a plan, none reads a large table by a condition or in an order that no index has. `--threshold missing-index-rows=N` sets what is large, `--threshold warning-share=N` what is noticeable.",
            made.statements.len()
        )));
    }
    // As it was, and not as the replay left it: a queue may be empty by now.
    let target = engine.target_with_settings(&lease.restart_clean(&[])?);
    let ids: HashSet<Fingerprint> = made
        .candidates
        .iter()
        .flat_map(|one| one.serves.iter().copied())
        .collect();
    let examples = observe::examples(workload, &ids)?;
    notes::note(&format!(
        "Asking the planner for costs. Candidates: {}. Statements: {}.",
        made.candidates.len(),
        ids.len()
    ));
    let stop = || interrupt.is_requested();
    let screening = Screening {
        target: &target,
        logins: &engine.logins,
        examples: &examples,
        built: wanted.built,
    };
    let screened = screening.screen(&made.candidates, &stop)?;
    if interrupt.is_requested() {
        return Err(Failure::could_not(
            "it was stopped before anything was measured",
        ));
    }
    let ns: HashMap<Fingerprint, f64> = evidence
        .statements
        .iter()
        .map(|one| (one.fingerprint, one.ns))
        .collect();
    let chosen = rank_candidates(&made.candidates, &screened, &ns, wanted.most);
    let views = views(&evidence, &made, &screened, &ns, &chosen);
    if chosen.is_empty() {
        let refused = screened
            .iter()
            .flatten()
            .find_map(|one| one.refusal_reason.clone());
        return Ok(Found::Nothing(format!(
            "Of {} candidates the planner would take none for less than it expects to need now{}. Nothing was measured.",
            made.candidates.len(),
            refused.map_or_else(String::new, |why| format!(" (one was refused: {why})"))
        )));
    }
    let mut sides = vec![ProofSide::default()];
    sides.extend(chosen.iter().map(|at| side(&made.candidates[*at])));
    Ok(Found::Sides(sides, views))
}

fn side(candidate: &IndexCandidate) -> ProofSide {
    ProofSide {
        name: candidate.name(),
        changes: vec![Change::Sql {
            path: candidate.name(),
            text: format!("{};\n", candidate.sql()),
        }],
    }
}

/// Builds the views of all candidates, those with the largest estimated gain first.
fn views(
    evidence: &Evidence,
    made: &IndexCandidates,
    screened: &[Option<ScreeningResult>],
    ns: &HashMap<Fingerprint, f64>,
    chosen: &[usize],
) -> Vec<ScreenedCandidate> {
    let mut views: Vec<ScreenedCandidate> = made
        .candidates
        .iter()
        .zip(screened)
        .enumerate()
        .map(|(at, (candidate, screened))| {
            let expected = screened.iter().flat_map(|one| &one.expected);
            ScreenedCandidate {
                sql: format!("{};", candidate.sql()),
                table: candidate.table_name(),
                shape: candidate.shape(),
                updated: candidate.updated.clone(),
                is_classical: candidate.is_classical,
                screened: screened.as_ref().map(|one| one.method),
                refused: screened.as_ref().and_then(|one| one.refusal_reason.clone()),
                bytes: screened.as_ref().and_then(|one| one.bytes),
                expected_share: screened
                    .as_ref()
                    .map_or(0.0, |one| evidence.share(expected_saving_ns(one, ns))),
                expected: expected
                    .map(|one| ExpectedCost {
                        fingerprint: one.fingerprint.to_string(),
                        sql: evidence
                            .statement(one.fingerprint)
                            .map_or_else(String::new, |statement| statement.sql.clone()),
                        cost_before: one.before,
                        cost_after: one.after,
                        is_used: one.uses,
                    })
                    .collect(),
                proved_as: chosen.contains(&at).then(|| candidate.name()),
            }
        })
        .collect();
    views.sort_by(|a, b| {
        let measured = |one: &ScreenedCandidate| one.proved_as.is_some();
        measured(b)
            .cmp(&measured(a))
            .then(b.expected_share.total_cmp(&a.expected_share))
    });
    views
}
