//! Copies of the user: the old server and its upgraded copy. Nothing is changed there, except by the replays and by the
//! user's way to restore the data.

use std::path::PathBuf;

use connect::Target;
use workload::WorkloadReader;

use super::rehearsal_plan::RehearsalPlan;
use super::{PreparedServers, UpgradeRequest, major_of};
use crate::environment::{of_side, run_shell_command};
use crate::failure::Failure;
use crate::notes;
use crate::plan_export::export_planner;
use crate::proof::{Change, ProofPlace, data_source, refuse_captured_servers};
use crate::upgrade_inspect::UpgradeInspection;

/// Names of the sides in messages, and in the variable `REHEARSE_SIDE`.
const SIDES: [&str; 2] = ["old", "new"];

/// Refuses servers that a replay must not use.
///
/// # Errors
/// If both are the same server, one is the captured server, or the workload writes and nothing restores the data.
pub(super) fn refuse(
    request: &UpgradeRequest<'_>,
    (place, target): (&ProofPlace, &Target),
    whole: &WorkloadReader,
) -> Result<(), Failure> {
    let from = request.from;
    if from.address() == target.address() {
        return Err(Failure::usage(format!(
            "--from and --target are the same server, {}; give the old copy and the upgraded one",
            from.address()
        )));
    }
    if from.database != target.database {
        return Err(Failure::usage(format!(
            "--from names the database {}, and --target {}; name the same database of both servers",
            from.database.as_deref().unwrap_or("(none)"),
            target.database.as_deref().unwrap_or("(none)")
        )));
    }
    let data = data_source(place, whole, &[])?;
    refuse_captured_servers(place, whole, (from, &request.replay.logins), &data)
}

/// Restores both servers by the user's command, so that the inspection reads the data that each run begins with.
///
/// # Errors
/// If the command fails.
pub(super) fn restore(
    request: &UpgradeRequest<'_>,
    (place, target): (&ProofPlace, &Target),
) -> Result<(), Failure> {
    let Some(command) = &place.restore else {
        return Ok(());
    };
    for (side, server) in SIDES.into_iter().zip([request.from, target]) {
        notes::note(&format!("Restoring the data of the {side} server."));
        run_shell_command(&of_side(command, side), server, "--restore")?;
    }
    Ok(())
}

/// Returns the database that the catalogues are read from: that of the server, or the one that it is created from.
pub(super) fn catalogue(place: &ProofPlace, target: &Target) -> Target {
    Target {
        database: place.template.clone().or_else(|| target.database.clone()),
        ..target.clone()
    }
}

/// Exports what the planners of both servers read.
///
/// # Errors
/// If a server refuses it.
pub(super) fn prepare(
    request: &UpgradeRequest<'_>,
    (place, target): (&ProofPlace, &Target),
    plan: &RehearsalPlan,
    inspection: &UpgradeInspection,
) -> Result<PreparedServers, Failure> {
    let mut planners: Vec<PathBuf> = Vec::new();
    for (side, server) in SIDES.into_iter().zip([request.from, target]) {
        let planner = request.output.join(format!("{side}.planner"));
        if !planner.exists() {
            export_planner(&catalogue(place, server), &planner, None)?;
        }
        planners.push(planner);
    }
    let mut logins = request.replay.logins.clone();
    // Sessions of the workload's database go to the one that both URLs name.
    if let (None, Some(database)) = (&logins.database, &target.database) {
        let databases = &mut logins.databases;
        databases.insert(plan.database.clone(), database.clone());
    }
    let to = major_of(&inspection.to_version)?;
    Ok(PreparedServers {
        place: place.clone(),
        logins,
        change: Change::Target(format!("PostgreSQL {to} (--target)")),
        planners: [planners.remove(0), planners.remove(0)],
        majors: [major_of(&inspection.from_version)?, to],
        copy: None,
    })
}
