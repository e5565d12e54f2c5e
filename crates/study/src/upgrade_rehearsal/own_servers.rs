//! Copies of the user: the old server and its upgraded copy. Nothing is changed there, except by the replays and by the
//! user's way to restore the data.

use std::path::PathBuf;

use connect::Target;
use replay::{LoginMap, Options};
use workload::WorkloadReader;

use super::host_speed::{HostSpeeds, inequality_of_all_clones};
use super::rehearsal_plan::RehearsalPlan;
use super::server_facts::{ServerIdentity, ServerUse};
use super::server_state::{Restoring, ServerState, record_or_compare};
use super::start_checks::StartChecks;
use super::{PreparedServers, UpgradeRequest, major_of};
use crate::captured_server::refuse_captured_server;
use crate::environment::{DataSource, of_side, run_stoppable_command};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;
use crate::plan_export::export_planner;
use crate::proof::{Change, ProofPlace, data_source, refuse_captured_servers};
use crate::upgrade_inspect::{UpgradeInspection, UpgradeMethod};

/// Names of the sides in messages, and in the variable `REHEARSE_SIDE`.
const SIDES: [&str; 2] = ["old", "new"];

/// Servers of the user, and what the user confirmed.
pub struct OwnServers {
    /// Both servers, and how their data are restored.
    pub place: ProofPlace,
    /// Upgraded server.
    pub target: Target,
    /// Major version that it must have.
    pub to: Option<u16>,
    /// Way in which it was upgraded.
    pub method: UpgradeMethod,
    /// Whether the databases may reach other systems.
    pub may_reach_others: bool,
    /// Addresses of servers that may be written although they look like production.
    pub confirmed: Vec<String>,
    /// Origin of the servers, if commands of the user made them for this rehearsal.
    pub cloned: Option<ClonedFrom>,
}

/// Origin of clones, which identifies a rehearsal. Their addresses differ when it is resumed.
pub struct ClonedFrom {
    /// Address, database and role of the server that is cloned.
    pub production: String,
    /// Commands that made and upgraded the clones.
    pub commands: String,
}

impl OwnServers {
    pub(super) fn restoring(&self) -> Restoring {
        match (&self.place.restore, &self.place.template) {
            (Some(_), _) => Restoring::Command,
            (_, Some(_)) => Restoring::Template,
            _ => Restoring::Nothing,
        }
    }

    fn is_confirmed(&self, address: &str) -> bool {
        let captured = self.place.allow_captured_server.iter();
        self.confirmed
            .iter()
            .chain(captured)
            .any(|one| one == address)
    }
}

/// Refuses servers that a replay must not use. Nothing is written.
///
/// # Errors
/// If both are the same server, one is the captured server or is in use by others, a version is not the expected one, or the
/// workload writes and nothing restores the data.
pub(super) fn refuse(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
    whole: &WorkloadReader,
) -> Result<(), Failure> {
    let (from, target, place) = (request.from, &own.target, &own.place);
    if from.address() == target.address() {
        return Err(same_server(from, target));
    }
    refuse_other_databases(request, target)?;
    let data = data_source(place, whole, &[])?;
    if own.cloned.is_none() {
        refuse_unknown_addresses(own, [from, target])?;
    }
    refuse_captured_servers(place, whole, (from, &request.replay.logins), &data)?;
    // A workload that seems to read only may call functions that write.
    refuse_unrecognised(own, [from, target], whole)?;
    let mut identities = Vec::new();
    for server in [from, target] {
        match read_before_restore(place, server) {
            Ok(identity) => identities.push(identity),
            // The command may start the server.
            Err(_) if place.restore.is_some() => notes::note(&format!(
                "The server {} cannot be reached before the first --restore. It is checked afterwards.",
                server.address()
            )),
            Err(failure) => return Err(failure),
        }
    }
    if let [old, new] = &identities[..] {
        refuse_identities(request, own, [old, new])?;
    }
    for server in [from, target] {
        refuse_in_use(&own.place, server, own.is_confirmed(&server.address()))?;
    }
    if whole.info().writes > 0 || data != DataSource::Unrestored {
        announce(own, [from, target]);
    }
    Ok(())
}

/// Refuses a clone that is the captured server, or that others use, before a command of the user changes it. The workload's logins
/// are those of the replays.
///
/// # Errors
/// If it is such a server, or cannot be asked.
pub(super) fn refuse_clone(
    (place, confirmed): (&ProofPlace, &[String]),
    clone: &Target,
    (whole, logins): (&WorkloadReader, &LoginMap),
) -> Result<(), Failure> {
    let address = clone.address();
    let captured = place.allow_captured_server.as_deref();
    // The address may be that of the other clone.
    let captured = captured.filter(|named| *named == address);
    let is_confirmed = captured.is_some() || confirmed.contains(&address);
    // A physical copy in the same directory cannot be told apart. Both clones may be such copies.
    if !is_confirmed {
        let known = catalogue(place, clone);
        refuse_captured_server(whole, (&known, logins), None, false).map_err(|failure| {
            Failure::usage(format!(
                "{}; a second clone is confirmed with --overwrite '{address}'",
                failure.message
            ))
        })?;
    }
    refuse_in_use(place, clone, is_confirmed)
}

fn same_server(from: &Target, target: &Target) -> Failure {
    let (one, other) = (from.address(), target.address());
    let names = match one == other {
        true => one,
        false => format!("{one} and {other}"),
    };
    Failure::usage(format!(
        "--from and --target are the same server, {names}; give the old copy and the upgraded one"
    ))
}

fn refuse_other_databases(request: &UpgradeRequest<'_>, target: &Target) -> Result<(), Failure> {
    let name = |database: &Option<String>| database.clone().unwrap_or("(none)".to_owned());
    let from = request.from;
    if from.database != target.database {
        return Err(Failure::usage(format!(
            "--from names the database {}, and --target {}; name the same database of both servers",
            name(&from.database),
            name(&target.database)
        )));
    }
    let database = &request.replay.logins.database;
    match database.is_some() && *database != target.database {
        true => Err(Failure::usage(format!(
            "--as-database names {}, and the URLs the database {}, which is the one that is restored; name the same",
            name(database),
            name(&target.database)
        ))),
        false => Ok(()),
    }
}

fn refuse_unknown_addresses(own: &OwnServers, servers: [&Target; 2]) -> Result<(), Failure> {
    let addresses = servers.map(Target::address);
    match own.confirmed.iter().find(|one| !addresses.contains(one)) {
        Some(other) => Err(Failure::usage(format!(
            "--overwrite names {other}, and the servers are {}; repeat the address of one of them",
            addresses.join(" and ")
        ))),
        None => Ok(()),
    }
}

/// Refuses servers of which the workload cannot show that they are not the captured one.
fn refuse_unrecognised(
    own: &OwnServers,
    servers: [&Target; 2],
    whole: &WorkloadReader,
) -> Result<(), Failure> {
    // A clone was compared with the server that it was made of.
    if !whole.info().provenance.servers.is_empty() || own.cloned.is_some() {
        return Ok(());
    }
    let addresses = servers.map(Target::address);
    let open: Vec<&String> = addresses
        .iter()
        .filter(|one| !own.is_confirmed(one))
        .collect();
    match open.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "the workload does not name the server that it was captured on, so nothing shows that {} is a copy, and the rehearsal may write there; confirm it with {}",
            addresses.join(" or "),
            open.iter()
                .map(|one| format!("--overwrite '{one}'"))
                .collect::<Vec<_>>()
                .join(" ")
        ))),
    }
}

/// Refuses a server with sessions of others, receivers of its WAL, or slots in use, unless its address was confirmed.
fn refuse_in_use(place: &ProofPlace, server: &Target, is_confirmed: bool) -> Result<(), Failure> {
    let address = server.address();
    if is_confirmed {
        return Ok(());
    }
    // One that is started by --restore must be confirmed, too: a busy server refuses connections like a stopped one.
    let used = ServerUse::read(&administrative(place, server))
        .or_else(|_| ServerUse::read(&catalogue(place, server)));
    let used = used.map_err(|failure| {
        Failure::usage(format!(
            "the server {address} could not be asked whether it is in use, and the rehearsal may write there; if it is a copy that nothing else uses, confirm it with --overwrite '{address}' ({})",
            failure.message
        ))
    })?;
    match used.describe() {
        Some(used) => Err(Failure::usage(format!(
            "the server {address} is in use ({used}), and the rehearsal may write there; give a copy that nothing else uses, or confirm it with --overwrite '{address}'"
        ))),
        None => Ok(()),
    }
}

fn announce(own: &OwnServers, servers: [&Target; 2]) {
    let [old, new] = servers.map(Target::address);
    let database = own.target.database.as_deref().unwrap_or("(of the role)");
    let restored = match own.restoring() {
        Restoring::Command => "--restore runs for each",
        Restoring::Template => "that database is created from --template, and dropped",
        Restoring::Nothing => "nothing restores the data",
    };
    notes::note(&format!(
        "The workload is replayed, and writes, on the old server {old} and on the new one {new}, database {database}; {restored}."
    ));
}

/// Returns the server with a database that exists before its data are restored.
fn administrative(place: &ProofPlace, server: &Target) -> Target {
    match place.restore {
        Some(_) => Target {
            database: Some("postgres".to_owned()),
            ..server.clone()
        },
        None => catalogue(place, server),
    }
}

/// A command may create the database, and `postgres` may not exist.
fn read_before_restore(place: &ProofPlace, server: &Target) -> Result<ServerIdentity, Failure> {
    let first = ServerIdentity::read(&catalogue(place, server));
    first.or_else(|failure| {
        ServerIdentity::read(&administrative(place, server)).map_err(|_| failure)
    })
}

/// Refuses two addresses of one server, an older new server, and one that is not of the version of `--to`.
fn refuse_identities(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
    [old, new]: [&ServerIdentity; 2],
) -> Result<(), Failure> {
    if old.is_same_server(new) {
        return Err(same_server(request.from, &own.target));
    }
    if let Some(to) = own.to.filter(|to| u32::from(*to) != new.major()) {
        return Err(Failure::usage(format!(
            "the server of --target is PostgreSQL {}, not {to}; give its version to --to, or leave --to out",
            new.version
        )));
    }
    match new.major() < old.major() {
        true => Err(Failure::usage(format!(
            "PostgreSQL {} is older than the server of --from, which is {}; an upgrade goes to the same or a later version",
            new.version, old.version
        ))),
        false => Ok(()),
    }
}

/// Restores both servers by the user's command, so that the inspection reads the data that each run begins with. Then
/// records the states of the servers, or compares them with those before the rehearsal was stopped.
///
/// # Errors
/// If the command fails or a stop is requested, a server must not be used, or its state is another one.
pub(super) fn restore(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    restore_data(request, own, interrupt)?;
    let [from, target] = catalogues(request, own);
    let (old, new) = (ServerIdentity::read(&from)?, ServerIdentity::read(&target)?);
    refuse_identities(request, own, [&old, &new])?;
    // A command of the user makes other clones when the rehearsal is resumed.
    let restoring = match own.cloned {
        Some(_) => Restoring::Command,
        None => own.restoring(),
    };
    let states = [
        (SIDES[0], ServerState::read(&from, restoring)?),
        (SIDES[1], ServerState::read(&target, restoring)?),
    ];
    record_or_compare(request.output, &states)
}

/// Restores both servers by the user's command, if there is one.
///
/// # Errors
/// If the command fails.
pub(super) fn restore_data(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let Some(command) = &own.place.restore else {
        return Ok(());
    };
    for (side, server) in SIDES.into_iter().zip([request.from, &own.target]) {
        notes::note(&format!("Restoring the data of the {side} server."));
        run_stoppable_command(&of_side(command, side), server, "--restore", interrupt)?;
    }
    Ok(())
}

pub(super) fn catalogues(request: &UpgradeRequest<'_>, own: &OwnServers) -> [Target; 2] {
    [request.from, &own.target].map(|server| catalogue(&own.place, server))
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
    own: &OwnServers,
    (plan, whole): (&RehearsalPlan, &WorkloadReader),
    inspection: &UpgradeInspection,
) -> Result<PreparedServers, Failure> {
    let (place, target) = (&own.place, &own.target);
    let mut logins = request.replay.logins.clone();
    // Sessions of the workload's database go to the one that both URLs name.
    if let (None, Some(database)) = (&logins.database, &target.database) {
        let databases = &mut logins.databases;
        databases.insert(plan.database.clone(), database.clone());
    }
    let to = major_of(&inspection.to_version)?;
    let majors = [major_of(&inspection.from_version)?, to];
    let same_version = same_version(majors);
    same_version.iter().for_each(|same| notes::note(same));
    let [old, new] = &catalogues(request, own);
    let identities = [&ServerIdentity::read(old)?, &ServerIdentity::read(new)?];
    let speeds = HostSpeeds::measure([old, new], identities)?;
    let unequal_hosts = match &own.cloned {
        Some(_) => inequality_of_all_clones(request.output, speeds.inequality())?,
        None => speeds.inequality(),
    };
    if unequal_hosts.is_none() {
        notes::note(&format!("The hosts are alike: {}.", speeds.describe()));
    }
    let checked = Options {
        logins: before_first_run(&logins, own),
        ..request.replay.clone()
    };
    let checks = StartChecks::perform(request, (plan, whole), (old, &checked))?;
    let mut planners: Vec<PathBuf> = Vec::new();
    for (side, server) in SIDES.into_iter().zip([request.from, target]) {
        let planner = request.output.join(format!("{side}.planner"));
        if !planner.exists() {
            export_planner(&catalogue(place, server), &planner, None)?;
        }
        planners.push(planner);
    }
    Ok(PreparedServers {
        checks,
        same_version,
        unequal_hosts,
        changed_rows: match own.restoring() {
            Restoring::Nothing => Some(changed_rows(request, own)?),
            Restoring::Command | Restoring::Template => None,
        },
        place: place.clone(),
        logins,
        change: Change::Target(format!("PostgreSQL {to} (--target)")),
        planners: [planners.remove(0), planners.remove(0)],
        majors,
        copy: None,
    })
}

/// Returns the rows that were changed on the old server and on the new one since their counters began.
///
/// # Errors
/// If a server cannot be reached, or refuses the query.
pub(super) fn changed_rows(
    request: &UpgradeRequest<'_>,
    own: &OwnServers,
) -> Result<[u64; 2], Failure> {
    let [old, new] = [request.from, &own.target].map(ServerUse::changed_rows);
    Ok([old?, new?])
}

/// Returns the logins of a check before the first run: that of `--template` has the data, and the database of the URLs does not
/// exist.
fn before_first_run(logins: &LoginMap, own: &OwnServers) -> LoginMap {
    let mut logins = logins.clone();
    if let (Some(template), Some(restored)) = (&own.place.template, &own.target.database) {
        let mapped = logins.databases.values_mut();
        for database in mapped.chain(logins.database.as_mut()) {
            if database == restored {
                database.clone_from(template);
            }
        }
    }
    logins
}

/// Returns the limit of a rehearsal whose servers have one major version.
pub(super) fn same_version([from, to]: [u16; 2]) -> Option<String> {
    (from == to).then(|| {
        format!(
            "Both servers are PostgreSQL {to}: this rehearsal compares two servers of one major version, and no upgrade to another."
        )
    })
}
