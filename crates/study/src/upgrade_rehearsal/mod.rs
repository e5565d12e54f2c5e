//! Rehearsal of a major upgrade: from a workload and a copy to a decision.
//!
//! ```text
//! --from ─► dump ─┬─► private server of the old version ─┐
//!                 └─► private server of the new version ─┤
//!                               or --from, and --target ─┴─► paired replays ─► comparison ─┐
//! --from ─► inspection;  both servers ─► planner's copies ─► plans on both versions ───────┴─► decision
//! ```
//!
//! The dump, the old server and the replays stay in the rehearsal's directory, and are not repeated when it is resumed. The
//! inspection is.

mod assemble;
mod asynchronous_reads;
mod client_programs;
mod clone_lock;
mod clones;
mod copied_settings;
mod data_comparison;
mod data_copy;
mod database_definition;
mod database_names;
mod decision;
mod evidence;
mod host_speed;
mod isolation;
mod own_servers;
mod private_servers;
mod rare_statements;
mod rehearsal_plan;
mod remedied_side;
mod remedy_proof;
mod remedy_replays;
mod remedy_status;
mod result;
mod search_servers;
mod server_facts;
mod server_limits;
mod server_state;
mod slower_with_remedies;
mod start_checks;
mod statement_factors;
mod time_needed;
mod unfinished;
mod watched_script;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::DirectoryLock;
use compare::proof::Goal;
use connect::Target;
use replay::{LoginMap, Options, ResultChecksums};
use workload::{Literals, WorkloadReader};

use crate::environment::FindInstallation;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan_check::{PlanCheck, PlanCheckRequest, SideRequest, check_plans};
use crate::proof::{
    Change, ProofDisplay, ProofGoal, ProofJournal, ProofPlace, ProofReport, ProofRequest,
    ProofSide, perform_proof,
};
use crate::runner::EndReason;
use crate::upgrade_inspect::{
    NewServer, UpgradeInspectRequest, UpgradeInspection, UpgradeMethod, inspect_upgrade,
};
use crate::upgrade_verify::{KnownFindings, inspect_alone};
pub use clones::{CloneRequest, rehearse_on_clones};
pub use data_comparison::{DataComparison, DifferingTable};
use data_copy::DataCopy;
pub use evidence::RehearsalEvidence;
pub use own_servers::OwnServers;
use rehearsal_plan::RehearsalPlan;
use remedy_proof::RemedyInputs;
pub use result::{
    RehearsalMethod, RemedyProof, UpgradeCoverage, UpgradeDecision, UpgradeRemedy, UpgradeReport,
};
use start_checks::StartChecks;
pub use time_needed::AdvisedTime;

/// Differences up to this share count as none.
const MARGIN: f64 = 0.05;
/// Directory of the first replays, in the rehearsal's directory.
const REPLAYS: &str = "replays.proof";
/// Largest number of blocks of runs.
const BLOCKS_MAX: u32 = 16;
/// Runs of the old version before the first block.
const NOISE_RUNS: u32 = 3;

/// Perturbed copies of the statistics, which tell whether a change of a plan is stable.
const PERTURBED_COPIES: u32 = 4;

/// Servers that the workload is replayed on.
pub enum RehearsalServers {
    /// Private servers, filled from a dump of the old server.
    Private {
        /// New major version.
        to: u16,
        /// Way in which the new server gets the data of the old one.
        method: UpgradeMethod,
        /// Whether they keep default settings, instead of those of the old server.
        has_default_settings: bool,
    },
    /// The old server and an upgraded one of the user.
    Own(Box<OwnServers>),
}

/// Parameters of a rehearsal.
pub struct UpgradeRequest<'a> {
    /// Old server, a copy of production, and its database.
    pub from: &'a Target,
    /// Servers to replay on.
    pub servers: RehearsalServers,
    /// Directory to write.
    pub output: &'a Path,
    /// Whether a rehearsal that was stopped or killed is resumed.
    pub resume: bool,
    /// Time for all replays.
    pub within: Duration,
    /// Options of every replay.
    pub replay: Options,
    /// Options of the sessions by name, for the manifest.
    pub session_options: Vec<(&'static str, Option<String>)>,
    /// Finds installations.
    pub find: FindInstallation,
    /// Whether values are shown.
    pub literals: Literals,
}

impl UpgradeRequest<'_> {
    /// Returns the new major version, if it was given.
    fn to(&self) -> Option<u16> {
        match &self.servers {
            RehearsalServers::Private { to, .. } => Some(*to),
            RehearsalServers::Own(own) => own.to,
        }
    }

    /// Returns the way in which the new side is made.
    fn method(&self) -> RehearsalMethod {
        match &self.servers {
            RehearsalServers::Private {
                method: UpgradeMethod::PgUpgrade,
                ..
            } => RehearsalMethod::PgUpgrade,
            RehearsalServers::Private { .. } => RehearsalMethod::Dump,
            RehearsalServers::Own(_) => RehearsalMethod::Target,
        }
    }
}

/// Servers of a rehearsal that are ready for replays.
struct PreparedServers {
    /// Servers, and how their data are restored.
    place: ProofPlace,
    /// Mapping of captured users and databases.
    logins: LoginMap,
    /// Difference between the sides.
    change: Change,
    /// Exports of what the planner reads, of the old side and of the new one.
    planners: [PathBuf; 2],
    /// Major versions of both sides.
    majors: [u16; 2],
    /// Dump of private servers.
    copy: Option<DataCopy>,
    /// Statement that both servers have one major version, if so.
    same_version: Option<String>,
    /// Reason why response times compare the hosts, too.
    unequal_hosts: Option<String>,
    /// Rows that had been changed on the old server and on the new one before the replays; `None` if their data are restored.
    changed_rows: Option<[u64; 2]>,
    /// Checks of the old side before its first run.
    checks: StartChecks,
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
    rehearse_with_lock(request, (None, ""), whole, interrupt, display, finish)
}

/// Rehearses the upgrade. `lock` is that of the directory, if it is locked already. `left_clones` describes the clones that are left
/// if the process ends at once; empty without any.
fn rehearse_with_lock(
    request: &UpgradeRequest<'_>,
    (lock, left_clones): (Option<DirectoryLock>, &str),
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    display: &mut dyn ProofDisplay,
    finish: FinishProof<'_>,
) -> Result<UpgradeReport, Failure> {
    if let RehearsalServers::Own(own) = &request.servers {
        own_servers::refuse(request, own, whole)?;
    }
    time_needed::refuse_too_short(request, whole)?;
    let plan = rehearsal_plan::begin(request, whole)?;
    let _lock = match lock {
        Some(lock) => lock,
        None => rehearsal_plan::lock(request.output)?,
    };
    let left = match request.servers {
        RehearsalServers::Private { .. } => unfinished::left_server(&plan.sandbox),
        RehearsalServers::Own(_) => left_clones.to_owned(),
    };
    interrupt.set_note_at_once(unfinished::note_at_once(request.output, &left));
    let report = rehearse(request, &plan, whole, interrupt, display, finish);
    report.map_err(|failure| {
        unfinished::end(request, &plan.sandbox, interrupt.is_requested(), failure)
    })
}

/// Performs the steps of the rehearsal, and deletes the private servers.
fn rehearse(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    display: &mut dyn ProofDisplay,
    finish: FinishProof<'_>,
) -> Result<UpgradeReport, Failure> {
    if let RehearsalServers::Own(own) = &request.servers {
        if request.resume {
            search_servers::drop_leftovers(request, own)?;
        }
        own_servers::restore(request, own, interrupt)?;
        if !own.may_reach_others {
            let [from, target] = &own_servers::catalogues(request, own);
            isolation::refuse([("--from", from), ("--target", target)])?;
        }
    }
    let inspection = inspect(request, plan, interrupt)?;
    let known_findings = inspect_old(request, plan, interrupt)?;
    let (servers, data) = match &request.servers {
        RehearsalServers::Private {
            to,
            method,
            has_default_settings,
        } => {
            let copy = DataCopy::in_directory(request.output, !has_default_settings);
            let new = (*to, *method, copy);
            let servers =
                private_servers::prepare(request, new, (plan, whole), &inspection, interrupt)?;
            (servers, None)
        }
        RehearsalServers::Own(own) => {
            let servers = own_servers::prepare(request, own, (plan, whole), &inspection)?;
            let [old, new] = &own_servers::catalogues(request, own);
            let data = data_comparison::compare_data(old, new, interrupt)?;
            (servers, Some(data))
        }
    };
    refuse_stopped(interrupt)?;
    let proof = proof_request(request, &servers);
    let sides = vec![
        ProofSide::default(),
        ProofSide {
            name: servers.change.name(),
            changes: vec![servers.change.clone()],
        },
    ];
    let begun = &|_: &Path| Ok(());
    let performed = perform_proof(&proof, sides, whole, interrupt, begun, display);
    refuse_stopped(interrupt)?;
    let (journal, ended) = performed?;
    let proof = finish(&journal, ended)?;
    let inputs = RemedyInputs {
        request,
        plan,
        servers: &servers,
        whole,
        journal: &journal,
        known_findings,
        interrupt,
        has_traces: Cell::new(false),
    };
    let mut remedies = inputs.search_and_prove(&proof, display, finish)?;
    let expectations = std::mem::take(&mut remedies.expectations);
    let plans = compare_plans(request, &servers, whole, interrupt);
    refuse_stopped(interrupt)?;
    let mut report = assemble::assemble(
        request,
        (plan, whole),
        (inspection, &servers, data),
        (&journal, proof, remedies),
        plans,
    )?;
    expectations.with_decision(&report).write(request.output)?;
    if let RehearsalServers::Private { .. } = request.servers
        && let Err(failure) = private_servers::delete(plan)
    {
        report.notes.push(format!(
            "the private server of the old version was not deleted: {}; delete it with `rehearse sandbox down {}`",
            failure.message, plan.sandbox
        ));
    }
    Ok(report)
}

fn refuse_stopped(interrupt: &Interrupt) -> Result<(), Failure> {
    match interrupt.is_requested() {
        true => Err(Failure::could_not("the rehearsal was stopped")),
        false => Ok(()),
    }
}

/// Inspects the upgrade, with the names of production.
fn inspect(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    interrupt: &Interrupt,
) -> Result<UpgradeInspection, Failure> {
    let find = request.find;
    let mut inspection = match &request.servers {
        RehearsalServers::Private { to, method, .. } => {
            let request = UpgradeInspectRequest {
                from: request.from,
                to: NewServer::Private(*to),
                method: *method,
                find,
            };
            inspect_upgrade(&request, interrupt)
        }
        RehearsalServers::Own(own) => {
            let [from, target] = &own_servers::catalogues(request, own);
            let request = UpgradeInspectRequest {
                from,
                to: NewServer::Upgraded {
                    target,
                    major: own.to,
                },
                method: own.method,
                find,
            };
            inspect_upgrade(&request, interrupt)
        }
    }?;
    name_captured(&mut inspection, request, plan);
    Ok(inspection)
}

/// Inspects the old server alone. Returns what was to be mended there, with the names of production.
fn inspect_old(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    interrupt: &Interrupt,
) -> Result<KnownFindings, Failure> {
    let old = match &request.servers {
        RehearsalServers::Own(own) => {
            let [old, _] = own_servers::catalogues(request, own);
            old
        }
        RehearsalServers::Private { .. } => request.from.clone(),
    };
    let mut inspection = inspect_alone(&old, request.find, interrupt)?;
    name_captured(&mut inspection, request, plan);
    Ok(KnownFindings::new(&inspection))
}

/// Replaces the name of `--template` in an inspection.
fn name_captured(
    inspection: &mut UpgradeInspection,
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
) {
    if let RehearsalServers::Own(own) = &request.servers
        && let Some(template) = &own.place.template
    {
        database_names::name_captured(inspection, template, &plan.database);
    }
}

/// Returns the major version in a version, such as 18 of `18.6` and 19 of `19rc1`.
pub(crate) fn major_of(version: &str) -> Result<u16, Failure> {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    let major = digits.and_then(|digits| digits.parse().ok());
    major.ok_or_else(|| {
        Failure::could_not(format!(
            "a server reports the version '{version}', which is no number"
        ))
    })
}

fn proof_request(request: &UpgradeRequest<'_>, servers: &PreparedServers) -> ProofRequest {
    let output = request.output.join(REPLAYS);
    ProofRequest {
        resume: output.exists(),
        output,
        goal: ProofGoal {
            goal: Goal::Total,
            margin: MARGIN,
            time_budget: remedy_proof::replays_time(request.within),
            can_change_time: true,
            ends_if_too_short: true,
            uses_all_time: false,
            blocks: BLOCKS_MAX,
            noise_runs: NOISE_RUNS,
            seed: None,
        },
        place: servers.place.clone(),
        replay: Options {
            checksums: ResultChecksums::Rows,
            logins: servers.logins.clone(),
            ..request.replay.clone()
        },
        session_options: request.session_options.clone(),
    }
}

/// Compares the plans of all statements on both versions, each with the statistics and settings of its side.
fn compare_plans(
    request: &UpgradeRequest<'_>,
    servers: &PreparedServers,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
) -> Result<PlanCheck, Failure> {
    let [old, new] = &servers.planners;
    let side = |at: usize| SideRequest {
        version: Some(servers.majors[at]),
        ..SideRequest::default()
    };
    let check = PlanCheckRequest {
        planner: old,
        before: side(0),
        after: SideRequest {
            planner: (new != old).then(|| new.clone()),
            ..side(1)
        },
        find: request.find,
        literals: request.literals,
        perturbed_copies: PERTURBED_COPIES,
        conditions: &[],
    };
    check_plans(&check, whole, interrupt)
}
