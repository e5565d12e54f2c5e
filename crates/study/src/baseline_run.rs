//! The baseline run: one replay in the user's sandbox that collects everything a diagnosis needs, before any change
//! is measured.
//!
//! The caller releases the sandbox afterwards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environment::{LeasePurpose, SandboxLease};
use ::sandbox::Dirs;
use observe::MonitorOptions;
use replay::Options;
use run::{RunInfo, RunReader, RunStatus};
use workload::WorkloadReader;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::notes;
use crate::observed_replay::{ReplayDisplay, replay_observed};
use crate::target_snapshot::ObservationPlan;

/// Maximum number of statements whose plans are collected.
const PLANS_MAX: usize = 200;

/// Leases the sandbox that the user named.
///
/// # Errors
/// If none was named, or it cannot be leased.
pub fn lease_sandbox(name: Option<&str>, database: &str) -> Result<SandboxLease, Failure> {
    let Some(name) = name else {
        return Err(Failure::usage(
            "nothing says where it is measured; give --sandbox NAME, a private server of yours with the data (`rehearse sandbox up`)",
        ));
    };
    let sandbox = ::sandbox::open(name, &Dirs::from_environment()?)?;
    let purpose = LeasePurpose::Exploration;
    Ok(SandboxLease::acquire(sandbox, database, purpose, None)?)
}

/// Replays the workload once with facts, plans, statistics and samples.
///
/// # Errors
/// If the workload cannot be replayed, or the replay was stopped.
pub fn replay_baseline(
    lease: &mut SandboxLease,
    workload: &WorkloadReader,
    engine: &Options,
    output: &Path,
    interrupt: &Interrupt,
    display: &mut dyn ReplayDisplay,
) -> Result<RunReader, Failure> {
    notes::note("One replay to look at it, before anything is changed.");
    let target = lease.restart_with_statistics()?;
    let asked = ObservationPlan {
        facts: true,
        plans: Some(PLANS_MAX),
        profile: None,
        watch: Some(MonitorOptions::default()),
    };
    let info = replay_observed(workload, &target, engine, asked, output, interrupt, display)?;
    require_complete(&info)?;
    Ok(RunReader::open(output)?)
}

/// Refuses a replay that was given up or stopped.
///
/// # Errors
/// If it was.
pub(crate) fn require_complete(info: &RunInfo) -> Result<(), Failure> {
    if info.status == RunStatus::Complete {
        return Ok(());
    }
    let reason = info.given_up.as_deref().unwrap_or("it was stopped");
    Err(Failure::could_not(format!(
        "the replay that was to be looked at did not come to its end ({reason}); nothing was measured"
    )))
}

/// Returns the given database, or else the one that receives most of the workload's statements.
///
/// # Errors
/// If the workload cannot be read.
pub fn choose_database(workload: &WorkloadReader, given: Option<&str>) -> Result<String, Failure> {
    if let Some(database) = given {
        return Ok(database.to_owned());
    }
    let mut statements: BTreeMap<String, u64> = BTreeMap::new();
    for used in workload.logins()? {
        *statements.entry(used.database.clone()).or_default() += used.statements;
    }
    let most = statements
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .max_by_key(|(_, statements)| *statements);
    Ok(most.map_or_else(|| "postgres".to_owned(), |(name, _)| name))
}

/// Opens the workload that a run was made from.
///
/// # Errors
/// If no path is given, or it is another workload.
pub fn open_workload_of_run(
    run: &RunReader,
    given: Option<&PathBuf>,
) -> Result<WorkloadReader, Failure> {
    let name = run.path().display();
    let Some(path) = given else {
        return Err(Failure::usage(format!(
            "{name} is a run, and what is replayed to measure is its workload; give it with --workload NAME.workload"
        )));
    };
    let workload = keys::open_workload(path)?;
    match workload.id() == run.info().workload.id {
        true => Ok(workload),
        false => Err(Failure::usage(format!(
            "{name} is a run of another workload ({}) than {}; give that one with --workload",
            run.info().workload.name,
            path.display()
        ))),
    }
}
