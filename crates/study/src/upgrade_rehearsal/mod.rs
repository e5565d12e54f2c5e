//! Rehearsal of a major upgrade by dump and restore: from a workload and a copy to a decision.
//!
//! ```text
//! --from ─► dump ─┬─► private server of the old version ─┐
//!                 └─► private server of the new version ─┴─► paired replays ─► comparison ─┐
//! --from ─► inspection;  old server ─► planner's copy ─► plans on both versions ───────────┴─► decision
//! ```
//!
//! The dump, the old server and the replays stay in the rehearsal's directory, and are not repeated when it is resumed. The
//! inspection is.

mod client_programs;
mod data_copy;
mod decision;
mod result;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ::sandbox::{Dirs, Options as SandboxOptions, ServerRequirements};
use clock::Speed;
use compare::proof::{Effect, Goal};
use connect::Target;
use replay::{LoginMap, Options, ResultChecksums};
use run::{Outcome, RunReader};
use serde::{Deserialize, Serialize};
use workload::{Literals, WorkloadReader};

use crate::baseline_run::choose_database;
use crate::change_script::ChangeScript;
use crate::environment::{
    FindInstallation, NewServerRequest, quote_identifier, run_shell_command, server_target,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::plan_check::{PlanCheck, PlanCheckRequest, SideRequest, check_plans};
use crate::plan_export::export_planner;
use crate::proof::{
    Change, ProofDisplay, ProofGoal, ProofJournal, ProofPlace, ProofReport, ProofRequest,
    ProofSide, ProofSideReport, perform_proof,
};
use crate::runner::EndReason;
use crate::upgrade_inspect::{
    NewServer, UpgradeInspectRequest, UpgradeInspection, UpgradeMethod, inspect_upgrade,
};
use data_copy::{CopySide, DataCopy};
pub use result::{UpgradeCoverage, UpgradeDecision, UpgradeRemedy, UpgradeReport};

/// Differences up to this share count as none.
const MARGIN: f64 = 0.05;
/// Largest number of blocks of runs.
const BLOCKS_MAX: u32 = 16;
/// Runs of the old version before the first block.
const NOISE_RUNS: u32 = 3;

/// Parameters of a rehearsal.
pub struct UpgradeRequest<'a> {
    /// Server to dump: the copy of production, and its database.
    pub from: &'a Target,
    /// New major version.
    pub to: u16,
    /// Directory to write.
    pub output: &'a Path,
    /// Whether a rehearsal that was stopped or killed is resumed.
    pub resume: bool,
    /// Time for all replays.
    pub within: Duration,
    /// Speed of the replays.
    pub speed: Speed,
    /// Finds installations.
    pub find: FindInstallation,
    /// Whether values are shown.
    pub literals: Literals,
}

/// Identity of a rehearsal, in its directory.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RehearsalPlan {
    workload: String,
    from: String,
    to: u16,
    database: String,
    /// Private server of the old version.
    sandbox: String,
}

/// Function that summarises a finished proof, and writes its files.
pub type FinishProof<'a> =
    &'a mut dyn FnMut(&ProofJournal, EndReason) -> Result<ProofReport, Failure>;

/// Rehearses the upgrade.
///
/// # Errors
/// If a program is missing, a server cannot be reached or created, or a stop is requested.
pub fn rehearse_upgrade(
    request: &UpgradeRequest<'_>,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    display: &mut dyn ProofDisplay,
    finish: FinishProof<'_>,
) -> Result<UpgradeReport, Failure> {
    let plan = begin(request, whole)?;
    let inspection = inspect(request, interrupt)?;
    let from_major = major_of(&inspection.from_version)?;
    client_programs::check(from_major)?;
    let copy = DataCopy::in_directory(request.output);
    notes::note("Dumping the old server.");
    copy.dump(request.from)?;
    let planner = request.output.join("old.planner");
    let old = make_old(request, &plan, from_major, (&copy, &planner))?;
    refuse_stopped(interrupt)?;
    let proof = proof_request(request, &plan, &copy);
    let sides = vec![
        ProofSide::default(),
        ProofSide {
            name: Change::Server(request.to).name(),
            changes: vec![Change::Server(request.to)],
        },
    ];
    let begun = &|_: &Path| Ok(());
    let performed = perform_proof(&proof, sides, whole, interrupt, begun, display);
    refuse_stopped(interrupt)?;
    let (journal, ended) = performed.map_err(|failure| discard(&old, failure))?;
    let proof = finish(&journal, ended)?;
    let plans = compare_plans(request, (from_major, &planner), whole, interrupt);
    let report = assemble(
        request,
        (&plan, whole),
        inspection,
        (&journal, proof),
        (plans, &copy),
    )?;
    ::sandbox::down(&old, &Dirs::from_environment()?)?;
    Ok(report)
}

/// Deletes the private server after a failure. A resumed rehearsal creates it again.
fn discard(sandbox: &str, failure: Failure) -> Failure {
    // The failure is reported. A server that cannot be deleted is listed by `rehearse sandbox list`.
    let _ = Dirs::from_environment().and_then(|dirs| ::sandbox::down(sandbox, &dirs));
    Failure {
        message: failure.message.replace("--time-budget", "--within"),
        ..failure
    }
}

fn refuse_stopped(interrupt: &Interrupt) -> Result<(), Failure> {
    match interrupt.is_requested() {
        true => Err(Failure::could_not(
            "the rehearsal was stopped; continue it with --resume and the same options",
        )),
        false => Ok(()),
    }
}

/// Creates the directory, or reads the plan of the rehearsal that is resumed.
fn begin(request: &UpgradeRequest<'_>, whole: &WorkloadReader) -> Result<RehearsalPlan, Failure> {
    let output = request.output;
    let file = output.join("upgrade.json");
    let name = output.file_stem().unwrap_or_default().to_string_lossy();
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(20)
        .collect();
    let mut plan = RehearsalPlan {
        workload: whole.id().to_owned(),
        from: request.from.address(),
        to: request.to,
        database: choose_database(whole, None)?,
        sandbox: format!(
            "upgrade-{}-{:08x}",
            plain.to_lowercase(),
            rand::random::<u32>()
        ),
    };
    if let Ok(text) = std::fs::read_to_string(&file) {
        let known: RehearsalPlan = serde_json::from_str(&text).map_err(|error| {
            Failure::could_not(format!("{} is damaged: {error}", file.display()))
        })?;
        plan.sandbox.clone_from(&known.sandbox);
        return match (request.resume, known == plan) {
            (false, _) => Err(exists(output)),
            (true, false) => Err(Failure::usage(format!(
                "{} is the rehearsal of another workload, server or version; give the same options to --resume",
                output.display()
            ))),
            (true, true) => Ok(known),
        };
    }
    if output.symlink_metadata().is_ok() {
        return Err(exists(output));
    }
    let failed = |error: std::io::Error| {
        Failure::could_not(format!("cannot write to {}: {error}", output.display()))
    };
    std::fs::create_dir_all(output).map_err(failed)?;
    let text = serde_json::to_string_pretty(&plan).expect("plain data");
    std::fs::write(&file, text).map_err(failed)?;
    Ok(plan)
}

fn exists(output: &Path) -> Failure {
    Failure::usage(format!(
        "cannot write to {}: it already exists; give another -o, or --resume to continue a rehearsal",
        output.display()
    ))
}

fn inspect(
    request: &UpgradeRequest<'_>,
    interrupt: &Interrupt,
) -> Result<UpgradeInspection, Failure> {
    let request = UpgradeInspectRequest {
        from: request.from,
        to: NewServer::Private(request.to),
        method: UpgradeMethod::Dump,
        find: request.find,
    };
    inspect_upgrade(&request, interrupt)
}

fn major_of(version: &str) -> Result<u16, Failure> {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    let major = digits.and_then(|digits| digits.parse().ok());
    major.ok_or_else(|| {
        Failure::could_not(format!(
            "the old server reports the version '{version}', which is no number"
        ))
    })
}

/// Creates the private server of the old version, fills it, and exports what its planner reads. Returns its name.
fn make_old(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    major: u16,
    (copy, planner): (&DataCopy, &Path),
) -> Result<String, Failure> {
    let dirs = Dirs::from_environment()?;
    let name = plan.sandbox.clone();
    // The export is the last step.
    if planner.exists() && ::sandbox::find_named(&name, &dirs).is_ok() {
        return Ok(name);
    }
    if ::sandbox::find_named(&name, &dirs).is_ok() {
        ::sandbox::down(&name, &dirs)?;
    }
    notes::note("Restoring the dump into a private server of the old version.");
    let installation = (request.find)(&ServerRequirements::major(major), &dirs)?;
    let options = SandboxOptions {
        statement_statistics: true,
        ..SandboxOptions::default()
    };
    let named = ::sandbox::up(&name, &installation, options, &dirs)?;
    if plan.database != "postgres" {
        let sql = format!("CREATE DATABASE {}", quote_identifier(&plan.database));
        let script = ChangeScript::new("CREATE DATABASE", &sql)?;
        script.apply(&server_target(&named.endpoint, "postgres")?)?;
    }
    let target = server_target(&named.endpoint, &plan.database)?;
    run_shell_command(&copy.load_command(CopySide::Old), &target, "the restore")?;
    let _ = std::fs::remove_file(planner);
    export_planner(&target, planner)?;
    Ok(name)
}

fn proof_request(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    copy: &DataCopy,
) -> ProofRequest {
    let output = request.output.join("replays.proof");
    ProofRequest {
        resume: output.exists(),
        output,
        goal: ProofGoal {
            goal: Goal::Total,
            margin: MARGIN,
            time_budget: request.within,
            blocks: BLOCKS_MAX,
            noise_runs: NOISE_RUNS,
            seed: None,
        },
        place: ProofPlace {
            sandbox: Some(plan.sandbox.clone()),
            database: Some(plan.database.clone()),
            new_server: Some(NewServerRequest {
                requirements: ServerRequirements::major(request.to),
                load: Some(copy.load_command(CopySide::New)),
                find: request.find,
            }),
            ..ProofPlace::default()
        },
        replay: Options {
            speed: request.speed,
            checksums: ResultChecksums::Rows,
            logins: LoginMap::default(),
            ..Options::default()
        },
        session_options: Vec::new(),
    }
}

/// Compares the plans of all statements on both versions with the statistics of the old one.
fn compare_plans(
    request: &UpgradeRequest<'_>,
    (major, planner): (u16, &Path),
    whole: &WorkloadReader,
    interrupt: &Interrupt,
) -> Result<PlanCheck, Failure> {
    let side = |version| SideRequest {
        version: Some(version),
        ..SideRequest::default()
    };
    let check = PlanCheckRequest {
        planner,
        before: side(major),
        after: side(request.to),
        find: request.find,
        literals: request.literals,
        conditions: &[],
    };
    check_plans(&check, whole, interrupt)
}

fn assemble(
    request: &UpgradeRequest<'_>,
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    inspection: UpgradeInspection,
    (journal, proof): (&ProofJournal, ProofReport),
    (plans, copy): (Result<PlanCheck, Failure>, &DataCopy),
) -> Result<UpgradeReport, Failure> {
    let after = journal.records().find(|one| one.trial.side == 1);
    let coverage = match after {
        Some(record) => Some(coverage(&journal.run_path(record.trial.number))?),
        None => None,
    };
    let mut notes = proof.notes.clone();
    if let Err(failure) = &plans {
        notes.push(format!("plans were not compared: {}", failure.message));
    }
    let known = copy.errors(CopySide::Old);
    let (same, restore_errors): (Vec<String>, Vec<String>) = copy
        .errors(CopySide::New)
        .into_iter()
        .partition(|error| known.contains(error));
    notes.extend(
        same.iter()
            .map(|error| format!("the restore failed on both versions: {error}")),
    );
    let side = proof.sides.into_iter().next();
    let mut report = UpgradeReport {
        decision: UpgradeDecision::Undecided,
        reasons: Vec::new(),
        remedies: decision::remedies(&inspection),
        workload: whole.path().display().to_string(),
        database: plan.database.clone(),
        from_version: inspection.from_version.clone(),
        to_version: inspection.to_version.clone(),
        coverage,
        verdict: side.as_ref().map(|side| side.verdict),
        effect: side.as_ref().and_then(|side| side.effect),
        work: side.as_ref().and_then(work),
        blocks: side.as_ref().map_or(0, |side| side.blocks),
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: 0,
        errors: Vec::new(),
        other_rows: 0,
        plans: plans.ok(),
        restore_errors,
        inspection,
        proof: request.output.join("replays.proof").display().to_string(),
        notes,
    };
    if let Some(side) = side {
        report.slower = side.slower;
        report.suspected = side.suspected;
        report.faster = side.faster.len() as u64;
        report.errors = side.errors;
        report.other_rows = side.other_rows;
    }
    (report.decision, report.reasons) = decision::decide(&report);
    Ok(report)
}

/// Returns the effect on the work of whole runs.
fn work(side: &ProofSideReport) -> Option<Effect> {
    let blocks = side.numbers.iter().find(|one| one.name == "blocks");
    blocks.and_then(|one| one.effect)
}

/// Counts the statements of a run that were sent.
fn coverage(path: &Path) -> Result<UpgradeCoverage, Failure> {
    let run = RunReader::open(path)?;
    let mut coverage = UpgradeCoverage::default();
    let mut not_sent: BTreeMap<String, u64> = BTreeMap::new();
    for execution in run.executions()? {
        let execution = execution?;
        if execution.fingerprint.is_none() {
            continue;
        }
        let captured_us = execution.captured.duration_us.unwrap_or(0);
        coverage.statements += 1;
        coverage.captured_us += captured_us;
        match execution.outcome {
            Outcome::Skipped(reason) => {
                *not_sent.entry(reason.name().to_owned()).or_default() += 1;
            }
            Outcome::Done | Outcome::Failed(_) => {
                coverage.sent += 1;
                coverage.sent_captured_us += captured_us;
            }
        }
    }
    coverage.not_sent = not_sent;
    Ok(coverage)
}
