//! Servers of the search of remedies: copies, so that nothing of a trial stays.
//!
//! | servers of the rehearsal | the search executes statements |
//! |---|---|
//! | private | on a copy of the old server, and on a new one that is filled from the dump |
//! | of the user, with `--template` | in databases that are created from it and dropped |
//! | of the user, with `--restore` | in place; the command runs afterwards |
//! | of the user, without both | in place, in transactions that are read only |

use std::path::PathBuf;

use ::sandbox::{Dirs, Sandbox, ServerRequirements};
use connect::Target;
use replay::LoginMap;

use super::data_copy::CopySide;
use super::own_servers::{self, OwnServers};
use super::rehearsal_plan::RehearsalPlan;
use super::server_state::Restoring;
use super::{PreparedServers, REPLAYS, RehearsalServers, UpgradeRequest};
use crate::environment::{
    AtEnd, Condition, DataSource, Environment, MissingSetting, TargetEnvironment, create_server,
    restore_interrupted, run_stoppable_command, server_target,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::upgrade_remedies::TrialAccess;

/// Step of the rehearsal that the databases of a search are marked with.
const SEARCH: &str = "remedies.search";
/// Directory of the proof of remedies, in the rehearsal's directory.
pub(super) const PROOF: &str = "remedies.proof";

/// Old and new server of a search. Dropping it deletes the copies.
pub(super) struct SearchServers {
    pub(super) old: Target,
    pub(super) new: Target,
    pub(super) access: TrialAccess,
    /// Private copies.
    _sandboxes: Vec<Sandbox>,
    /// Databases that were created for the search.
    databases: Vec<TargetEnvironment>,
}

impl SearchServers {
    /// Creates the copies.
    ///
    /// # Errors
    /// If a server or a database cannot be created or filled.
    pub(super) fn create(
        request: &UpgradeRequest<'_>,
        plan: &RehearsalPlan,
        servers: &PreparedServers,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        match &request.servers {
            RehearsalServers::Private { to, .. } => {
                Self::private(request, *to, (plan, servers), interrupt)
            }
            RehearsalServers::Own(own) => Self::of_user(request, own),
        }
    }

    fn private(
        request: &UpgradeRequest<'_>,
        to: u16,
        (plan, servers): (&RehearsalPlan, &PreparedServers),
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let dirs = Dirs::from_environment()?;
        let database = plan.database.as_str();
        // A proof of other remedies may have been killed.
        restore_interrupted(::sandbox::open(&plan.sandbox, &dirs)?)?;
        let mut old = ::sandbox::open(&plan.sandbox, &dirs)?.copy(&dirs)?;
        let old_target = server_target(&old.start()?, database)?;
        let installation = (request.find)(&ServerRequirements::major(to), &dirs)?;
        let (new, new_target) = create_server(&installation, Vec::new(), database, &dirs)?;
        if let Some(copy) = &servers.copy {
            let load = copy.load_command(CopySide::New, database)?;
            run_stoppable_command(&load, &new_target, "the restore", interrupt)?;
        }
        Ok(SearchServers {
            old: old_target,
            new: new_target,
            access: TrialAccess::Disposable,
            _sandboxes: vec![old, new],
            databases: Vec::new(),
        })
    }

    fn of_user(request: &UpgradeRequest<'_>, own: &OwnServers) -> Result<Self, Failure> {
        let mut servers = SearchServers {
            old: request.from.clone(),
            new: own.target.clone(),
            access: match own.restoring() {
                Restoring::Nothing => TrialAccess::ReadOnly,
                Restoring::Command | Restoring::Template => TrialAccess::Disposable,
            },
            _sandboxes: Vec::new(),
            databases: Vec::new(),
        };
        for server in [request.from, &own.target] {
            if let Some(mut database) = database(request, own, server, SEARCH) {
                let created = database.set_up(0);
                // A database that was created in part is dropped, too.
                servers.databases.push(database);
                created?;
            }
        }
        for target in [&mut servers.old, &mut servers.new] {
            // The replays log in as this role.
            let user = request.replay.logins.user.clone();
            target.user = target.user.take().or(user);
        }
        Ok(servers)
    }

    /// Returns the settings of `--template` that the databases of the old server and of the new one do not have. Those of the
    /// replays do not have them either.
    pub(super) fn missing_settings(&self) -> [Vec<MissingSetting>; 2] {
        let mut sides = self.databases.iter();
        [sides.next(), sides.next()].map(|side| {
            let missing = side.into_iter().flat_map(|one| &one.missing_settings);
            missing.cloned().collect()
        })
    }

    /// Deletes the copies.
    ///
    /// # Errors
    /// If a database cannot be dropped.
    pub(super) fn release(mut self) -> Result<(), Failure> {
        let databases = std::mem::take(&mut self.databases);
        let released: Vec<_> = (databases.into_iter())
            .map(|mut one| one.release())
            .collect();
        released.into_iter().try_for_each(|one| Ok(one?))
    }
}

impl Drop for SearchServers {
    fn drop(&mut self) {
        for one in &mut self.databases {
            // The failure of the search is reported. A resumed rehearsal drops the database.
            let _ = one.release();
        }
    }
}

/// Returns the database of a server that is created from `--template` for one step of the rehearsal.
fn database(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
    server: &Target,
    step: &str,
) -> Option<TargetEnvironment> {
    let template = own.place.template.clone()?;
    let login = LoginMap::default().login(server, "", "", "rehearse");
    let data = DataSource::Template(template);
    let conditions = vec![Condition::default()];
    let made = TargetEnvironment::new(server.clone(), login, data, conditions, AtEnd::Restore);
    let directory: PathBuf = request.output.join(step);
    Some(made.owned_by(&directory))
}

/// Drops the databases that killed steps of this rehearsal left: the first replays, the search, and the proof of the
/// remedies. Their settings would count as a changed state of the server.
///
/// # Errors
/// If a server cannot be asked, or a database cannot be dropped.
pub(super) fn drop_leftovers(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
) -> Result<(), Failure> {
    for server in [request.from, &own.target] {
        for step in [REPLAYS, SEARCH, PROOF] {
            if let Some(database) = database(request, own, server, step) {
                database.drop_leftover()?;
            }
        }
    }
    Ok(())
}

/// Restores the servers of the user by their command, since the search or a proof left traces.
///
/// # Errors
/// If the command fails.
pub(super) fn restore(request: &UpgradeRequest<'_>, interrupt: &Interrupt) -> Result<(), Failure> {
    match &request.servers {
        RehearsalServers::Own(own) => own_servers::restore_data(request, own, interrupt),
        RehearsalServers::Private { .. } => Ok(()),
    }
}
