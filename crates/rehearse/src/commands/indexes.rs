//! `rehearse indexes`: derives candidates from plans, screens them with the planner, and
//! measures the best on the same traffic.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ::diagnose::{Evidence, IndexCandidate, IndexCandidates, Thresholds, index_candidates};
use archive::ArchiveError;
use report::{ExpectedCostView, IndexCandidateView, to_json};
use run::RunReader;
use sql::Fingerprint;
use study::proof::{Change, ProofJournal, ProofSide};
use study::{End, SandboxLease, Screening, ScreeningResult, expected_saving_ns, rank_candidates};
use workload::WorkloadReader;

use crate::commands::{diagnose, experiments, prove};
use crate::display::Display;
use crate::exit_status::ExitStatus;
use crate::options::Prove;
use crate::options::indexes::Indexes;
use crate::terminal;
use study::Failure;
use study::Interrupt;
use study::baseline_run;
use study::diagnosis_inputs;
use study::diagnosis_inputs::Asked;
use study::keys;

/// Baseline run in the proof's directory, if one was made for the candidates.
const LOOK: &str = "look.run";

/// Suggests and measures indexes, or shows a finished proof again.
pub fn run(options: &Indexes) -> Result<ExitStatus, Failure> {
    let mut proof = Prove::in_sandbox(
        options.of.clone(),
        options.output.clone().unwrap_or_default(),
        options.goal.clone(),
        &options.place,
    );
    proof.output.clone_from(&options.output);
    proof.resume = options.resume;
    proof.json = options.json;
    proof.show_literals = options.show_literals;
    if ProofJournal::is_at(&options.of) {
        return prove::run(&proof);
    }
    prove::check(&proof)?;
    let thresholds = diagnose::thresholds(&options.threshold)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let (workload, evidence) = match RunReader::open(&options.of) {
        Ok(run) => {
            let workload = baseline_run::workload_of(&run, options.workload.as_ref())?;
            (
                workload,
                Some(diagnosis_inputs::of_run(&run, Asked::default())?),
            )
        }
        Err(ArchiveError::Foreign { .. }) => (keys::open(&options.of)?, None),
        Err(error) => return Err(error.into()),
    };
    proof.workload = workload.path().to_owned();
    let (journal, ended) = match options.resume {
        true => {
            let output = options.output.clone().unwrap_or_default();
            let sides = ProofJournal::open(&output)?.plan().sides.clone();
            let database =
                baseline_run::database_of(&workload, options.place.session.as_database.as_deref())?;
            proof.place.changed_database = Some(database);
            prove::perform(&proof, sides, &workload, &interrupt, &|_| Ok(()))?
        }
        false => {
            let wanted = AdviceRequest {
                proof: &proof,
                place: &options.place,
                most: options.max_candidates as usize,
                built: options.no_hypopg,
                thresholds: &thresholds,
            };
            match advise(&wanted, &workload, evidence, &interrupt)? {
                Advice::Measured(journal, ended) => (*journal, ended),
                Advice::Nothing(why) => {
                    match options.json {
                        true => terminal::say_line("null"),
                        false => terminal::say_line(&why),
                    }
                    return Ok(ExitStatus::Success);
                }
            }
        }
    };
    prove::show(&journal, ended, &proof)
}

/// Parameters of index advice.
pub struct AdviceRequest<'a> {
    /// Options of the measurement, whose changes are ignored.
    pub proof: &'a Prove,
    pub place: &'a crate::options::prove::SandboxPlaceArgs,
    /// Largest number of candidates to measure.
    pub most: usize,
    /// Whether candidates are built for the planner, even if the server has HypoPG.
    pub built: bool,
    pub thresholds: &'a Thresholds,
}

/// Result of index advice.
pub enum Advice {
    /// Journal of the measurement of the best candidates.
    Measured(Box<ProofJournal>, End),
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
) -> Result<Advice, Failure> {
    let output = wanted.proof.output.clone().unwrap_or_default();
    study::refuse_taken(&output)?;
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
    let database =
        baseline_run::database_of(workload, wanted.place.session.as_database.as_deref())?;
    let mut lease = baseline_run::lease(wanted.place.sandbox.as_deref(), &database)?;
    let found = found(
        (&mut lease, &database),
        wanted,
        workload,
        evidence,
        &look,
        interrupt,
    );
    lease.release()?;
    let found = found?;
    let (sides, views) = match found {
        Found::Sides(sides, views) => (sides, views),
        Found::Nothing(why) => return Ok(Advice::Nothing(why)),
    };
    let begun = |directory: &Path| {
        let file = directory.join(prove::view::CANDIDATES);
        experiments::write(&file, &to_json(&views))?;
        if look.exists() {
            std::fs::rename(&look, directory.join(LOOK)).map_err(Failure::could_not)?;
        }
        Ok(())
    };
    let mut proof = wanted.proof.clone();
    proof.place.changed_database = Some(database);
    let (journal, ended) = prove::perform(&proof, sides, workload, interrupt, &begun)?;
    Ok(Advice::Measured(Box::new(journal), ended))
}

enum Found {
    Sides(Vec<ProofSide>, Vec<IndexCandidateView>),
    Nothing(String),
}

fn found(
    (lease, database): (&mut SandboxLease, &str),
    wanted: &AdviceRequest<'_>,
    workload: &WorkloadReader,
    evidence: Option<Evidence>,
    look: &Path,
    interrupt: &Interrupt,
) -> Result<Found, Failure> {
    let engine = prove::replay_options(wanted.proof);
    let evidence = match evidence {
        Some(evidence) => evidence,
        None => {
            let run = baseline_run::look(
                lease,
                workload,
                &engine,
                look,
                interrupt,
                &mut Display::on_terminal(),
            )?;
            diagnosis_inputs::of_run(&run, Asked::default())?
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
        terminal::note(&format!(
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
    let target = engine.prepared(&lease.restart_clean(&[])?);
    let ids: HashSet<Fingerprint> = made
        .candidates
        .iter()
        .flat_map(|one| one.serves.iter().copied())
        .collect();
    let examples = observe::examples(workload, &ids)?;
    terminal::note(&format!(
        "Asking the planner of {} candidates for {} statements.",
        made.candidates.len(),
        ids.len()
    ));
    let stop = || interrupt.is_asked();
    let screening = Screening {
        target: &target,
        logins: &engine.logins,
        examples: &examples,
        built: wanted.built,
    };
    let screened = screening.screen(&made.candidates, &stop)?;
    if interrupt.is_asked() {
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
            .find_map(|one| one.refused.clone());
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
) -> Vec<IndexCandidateView> {
    let mut views: Vec<IndexCandidateView> = made
        .candidates
        .iter()
        .zip(screened)
        .enumerate()
        .map(|(at, (candidate, screened))| {
            let expected = screened.iter().flat_map(|one| &one.expected);
            IndexCandidateView {
                sql: format!("{};", candidate.sql()),
                table: candidate.table_name(),
                shape: candidate.shape(),
                updated: candidate.updated.clone(),
                is_classical: candidate.is_classical,
                screened: screened.as_ref().map(|one| one.method),
                refused: screened.as_ref().and_then(|one| one.refused.clone()),
                bytes: screened.as_ref().and_then(|one| one.bytes),
                expected_share: screened
                    .as_ref()
                    .map_or(0.0, |one| evidence.share(expected_saving_ns(one, ns))),
                expected: expected
                    .map(|one| ExpectedCostView {
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
        let measured = |one: &IndexCandidateView| one.proved_as.is_some();
        measured(b)
            .cmp(&measured(a))
            .then(b.expected_share.total_cmp(&a.expected_share))
    });
    views
}
