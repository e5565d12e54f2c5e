//! Private servers of both versions, from a dump. The new one can be an upgraded copy of the old one.

use std::path::{Path, PathBuf};

use ::sandbox::{Dirs, Options as SandboxOptions, PgUpgradeCheck, ServerRequirements};
use workload::WorkloadReader;

use super::client_programs;
use super::data_copy::{CopySide, DataCopy};
use super::rehearsal_plan::RehearsalPlan;
use super::start_checks::StartChecks;
use super::{PreparedServers, UpgradeRequest, major_of, own_servers, unfinished};
use crate::change_script::ChangeScript;
use crate::environment::{
    NewServerRequest, quote_identifier, run_stoppable_command, server_target,
};
use crate::failure::{Failure, FailureKind};
use crate::interrupt::Interrupt;
use crate::notes;
use crate::plan_export::export_planner;
use crate::proof::{Change, ProofPlace};
use crate::upgrade_inspect::{UpgradeInspection, UpgradeMethod};

/// File of what `pg_upgrade --check` found; empty if it found nothing.
const CHECK_FILE: &str = "pg_upgrade-check.txt";

/// Dumps the old server, restores the dump into a private server of its version, and describes the new one, which the
/// proof creates. If pg_upgrade refuses the old one, the new one is restored from the dump, too.
///
/// # Errors
/// If a program is missing, a server cannot be dumped or created, or a stop is requested.
pub(super) fn prepare(
    request: &UpgradeRequest<'_>,
    (to, method, copy): (u16, UpgradeMethod, DataCopy),
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    inspection: &UpgradeInspection,
    interrupt: &Interrupt,
) -> Result<PreparedServers, Failure> {
    let from_major = major_of(&inspection.from_version)?;
    client_programs::check(from_major)?;
    let same_version = own_servers::same_version([from_major, to]);
    same_version.iter().for_each(|same| notes::note(same));
    let is_upgraded = method == UpgradeMethod::PgUpgrade;
    if is_upgraded {
        let dirs = Dirs::from_environment()?;
        let find = |major| (request.find)(&ServerRequirements::major(major), &dirs);
        ::sandbox::check_upgrade_programs(&find(from_major)?, &find(to)?)?;
    }
    if !unfinished::dump(request.output).exists() {
        notes::note("Dumping the old server.");
    }
    let planner = request.output.join("old.planner");
    if copy.dump(request.from, interrupt)? {
        forget_earlier(request.output, &planner);
    }
    let made = make_old(
        request,
        (plan, whole),
        from_major,
        (&copy, &planner),
        interrupt,
    );
    let checks = made.inspect_err(|failure| {
        // A dump of the wrong database is of no use.
        if failure.kind == FailureKind::Usage {
            let _ = std::fs::remove_file(unfinished::dump(request.output));
        }
        // The failure is reported. A server that cannot be deleted is listed by `rehearse sandbox list`.
        let _ = delete(plan);
    })?;
    let is_upgraded = is_upgraded && is_accepted(request, plan, to)?;
    let load = match is_upgraded {
        true => copy.upgraded_command(&plan.database, &vacuumdb(request, to)?)?,
        false => copy.load_command(CopySide::New, &plan.database)?,
    };
    Ok(PreparedServers {
        same_version,
        unequal_hosts: None,
        changed_rows: None,
        checks,
        place: ProofPlace {
            sandbox: Some(plan.sandbox.clone()),
            database: Some(plan.database.clone()),
            new_server: Some(NewServerRequest {
                requirements: ServerRequirements::major(to),
                load: Some(load),
                is_upgraded,
                find: request.find,
            }),
            ..ProofPlace::default()
        },
        logins: request.replay.logins.clone(),
        change: Change::Server(to),
        planners: [planner.clone(), planner],
        majors: [from_major, to],
        copy: Some(copy),
    })
}

/// Deletes what was found on the private server of an earlier dump, which has other data.
fn forget_earlier(output: &Path, planner: &Path) {
    let _ = std::fs::remove_file(planner);
    let _ = std::fs::remove_file(output.join(CHECK_FILE));
    StartChecks::forget(output);
}

/// Whether pg_upgrade accepts the old server. Its messages are kept in a file, so that a resumed rehearsal does the same.
fn is_accepted(
    request: &UpgradeRequest<'_>,
    plan: &RehearsalPlan,
    to: u16,
) -> Result<bool, Failure> {
    let file = request.output.join(CHECK_FILE);
    if let Ok(known) = std::fs::read_to_string(&file) {
        return Ok(known.is_empty());
    }
    notes::note("Checking whether pg_upgrade accepts the private server of the old version.");
    let dirs = Dirs::from_environment()?;
    let installation = (request.find)(&ServerRequirements::major(to), &dirs)?;
    let mut old = ::sandbox::open(&plan.sandbox, &dirs)?;
    let messages = match old.check_upgrade(&installation, &dirs)? {
        PgUpgradeCheck::Accepted => String::new(),
        PgUpgradeCheck::Refused(messages) => messages.join("\n") + "\n",
    };
    std::fs::write(&file, &messages)
        .map_err(|error| Failure::could_not(format!("cannot write {}: {error}", file.display())))?;
    Ok(messages.is_empty())
}

/// Returns the messages of `pg_upgrade --check` in the directory of a rehearsal.
pub(super) fn upgrade_refusal(directory: &Path) -> Vec<String> {
    let messages = std::fs::read_to_string(directory.join(CHECK_FILE)).unwrap_or_default();
    messages.lines().map(str::to_owned).collect()
}

/// Returns the `vacuumdb` of the new version.
fn vacuumdb(request: &UpgradeRequest<'_>, to: u16) -> Result<PathBuf, Failure> {
    let dirs = Dirs::from_environment()?;
    let installation = (request.find)(&ServerRequirements::major(to), &dirs)?;
    Ok(installation.bin_dir.join("vacuumdb"))
}

/// Deletes the private server of the old version.
///
/// # Errors
/// If it cannot be deleted.
pub(super) fn delete(plan: &RehearsalPlan) -> Result<(), Failure> {
    Ok(::sandbox::down(&plan.sandbox, &Dirs::from_environment()?)?)
}

/// Creates the private server of the old version, fills it, and exports what its planner reads.
fn make_old(
    request: &UpgradeRequest<'_>,
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    major: u16,
    (copy, planner): (&DataCopy, &Path),
    interrupt: &Interrupt,
) -> Result<StartChecks, Failure> {
    let dirs = Dirs::from_environment()?;
    let name = plan.sandbox.clone();
    // The export is the last step.
    if planner.exists() && ::sandbox::find_named(&name, &dirs).is_ok() {
        return Ok(StartChecks::read(request.output).unwrap_or_default());
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
        script.apply(&server_target(&named.endpoint, "postgres")?, interrupt)?;
    }
    let target = server_target(&named.endpoint, &plan.database)?;
    let load = copy.load_command(CopySide::Old, &plan.database)?;
    run_stoppable_command(&load, &target, "the restore", interrupt)?;
    let checks = StartChecks::perform(request, (plan, whole), (&target, &request.replay))?;
    let _ = std::fs::remove_file(planner);
    export_planner(&target, planner, None)?;
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_of_pg_upgrade_for_an_earlier_dump_is_forgotten() {
        let output = tempfile::tempdir().unwrap();
        let planner = output.path().join("old.planner");
        std::fs::write(&planner, "").unwrap();
        std::fs::write(output.path().join(CHECK_FILE), "refused\n").unwrap();
        assert_eq!(upgrade_refusal(output.path()), ["refused"]);
        forget_earlier(output.path(), &planner);
        assert_eq!(upgrade_refusal(output.path()), [""; 0]);
        assert!(!planner.exists());
    }
}
