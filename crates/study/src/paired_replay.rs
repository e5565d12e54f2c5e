//! Replays a workload on two servers in pairs, so that what changes over time affects both sides equally.
//!
//! ```text
//! pair 1: before, after    pair 2: after, before    …    (in a random order, with a stored seed)
//!   each: restore the data if the workload writes ─► warm caches of a sandbox ─► replay ─► before-1.run, after-1.run …
//! ```

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use connect::login::{Dialer, Login};
use connect::{Host, hide_password};
use replay::{Options, Target};
use run::{PAIR_OPTION, PAIR_SEED_OPTION, PAIR_SIDE_OPTION, RunStatus};
use sandbox::{Dirs, Endpoint};
use workload::WorkloadReader;

use crate::cache_warming::{open_own_connection, own_login, warm_caches};
use crate::captured_server::refuse_captured_server;
use crate::environment::{
    AtEnd, Condition, DataSource, Environment, LeasePurpose, SandboxEnvironment, SandboxLease,
    TargetEnvironment,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;
use crate::observed_replay::{ReplayDisplay, replay_observed};
use crate::pair_directory::{CompletedPairs, SIDES, run_path};
use crate::target_snapshot::ObservationPlan;
use crate::trial_order::randomised_blocks;

/// Prefix of a side that is a private server.
const SANDBOX: &str = "sandbox:";

/// Whether a side is a private server.
pub fn is_sandbox(server: &str) -> bool {
    server.starts_with(SANDBOX)
}

/// Request of replays in pairs.
#[derive(Debug, Clone)]
pub struct PairedReplayRequest {
    /// Servers before and after the change: `sandbox:NAME` or a connection string.
    pub servers: [String; 2],
    /// Number of replays on each side.
    pub runs: u32,
    /// Seed of the order; random if it is `None`.
    pub seed: Option<u64>,
    /// Directory that gets the runs. It must not exist, unless interrupted replays are continued.
    pub output: PathBuf,
    /// Continues replays that were interrupted: complete pairs of the directory are kept.
    pub continues: bool,
    /// Shell command that restores the data of a server that is no sandbox, before each replay.
    pub restore: Option<String>,
    /// Whether a replay may find what the previous one wrote.
    pub no_restore: bool,
    /// Address of a target that the user confirmed to be the captured server.
    pub allow_captured_server: Option<String>,
    /// Options of each replay.
    pub engine: Options,
    /// Data that each replay collects from its server.
    pub observation: ObservationPlan,
}

/// Runs that were completed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairedRuns {
    /// Runs before the change, in order.
    pub before: Vec<PathBuf>,
    /// Runs after the change, in order.
    pub after: Vec<PathBuf>,
    /// Whether the replays were stopped before the last pair.
    pub is_stopped: bool,
}

impl PairedRuns {
    /// Returns the command that compares them.
    pub fn command(&self) -> String {
        let list = |runs: &[PathBuf]| {
            let names = runs.iter().map(|run| run.display().to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        let (before, after) = (list(&self.before), list(&self.after));
        format!("rehearse compare --before {before} --after {after}")
    }
}

/// A server that is brought to the same state before each replay.
struct PairedServer {
    /// Name to show.
    name: String,
    environment: Box<dyn Environment>,
    is_private: bool,
}

/// Replays the workload on both servers, in pairs of a random order.
///
/// # Errors
/// If a server cannot be used, its data cannot be restored, or a run cannot be written. Refusals come before the first
/// replay and leave no files.
pub fn replay_in_pairs(
    request: &PairedReplayRequest,
    reader: &WorkloadReader,
    interrupt: &Interrupt,
    display: &mut dyn FnMut() -> Box<dyn ReplayDisplay>,
) -> Result<PairedRuns, Failure> {
    let [before, after] = &request.servers;
    let writes = reader.info().writes > 0 && !request.engine.read_only.is_on();
    if is_one_sandbox(request)? {
        let [before, after] = request.servers.each_ref().map(|side| hide_password(side));
        let sides = match before == after {
            true => format!("both sides are {before}"),
            false => format!("{before} and {after} are one server"),
        };
        return Err(Failure::usage(format!(
            "{sides}; give two sandboxes, or measure a change in one with `rehearse prove`"
        )));
    }
    if request.restore.is_some() && request.servers.iter().all(|side| is_sandbox(side)) {
        return Err(Failure::usage(
            "--restore has no effect on sandboxes, which are restored from a snapshot; leave it out",
        ));
    }
    let is_unrestored = writes && !request.no_restore && request.restore.is_none();
    if is_unrestored && is_same_database(request, reader)? {
        let [before, after] = [before, after].map(|side| hide_password(side));
        let sides = match before == after {
            true => format!("both sides are {before}"),
            false => format!("{before} and {after} are one database"),
        };
        return Err(Failure::usage(format!(
            "{sides}, and the workload writes, so that a replay finds what the previous one wrote; give two copies, or --restore 'COMMAND', or --no-restore"
        )));
    }
    let mut servers = Vec::new();
    for server in &request.servers {
        servers.push(open_server(request, server, (reader, writes), interrupt)?);
    }
    let completed = prepare_directory(request, reader)?;
    let seed = completed.seed.or(request.seed);
    let seed = seed.unwrap_or_else(|| rand::random::<u32>().into());
    note(&format!(
        "Replaying in pairs: before is {}, after is {}; {} of each, in a random order (seed {seed}).",
        servers[0].name, servers[1].name, request.runs
    ));
    if !completed.pairs.is_empty() {
        let pairs: Vec<String> = completed.pairs.iter().map(u32::to_string).collect();
        note(&format!("Complete already: pair {}.", pairs.join(", ")));
    }
    let order = (seed, &completed.pairs[..]);
    let result = replay_all(request, (reader, &mut servers), order, interrupt, display);
    let mut released = Ok(());
    for server in &mut servers {
        released = server.environment.release().and(released);
    }
    let runs = result.map_err(|failure| Failure {
        message: format!(
            "{}. The same command with --continue makes the pairs that are missing",
            failure.message
        ),
        ..failure
    })?;
    released?;
    Ok(runs)
}

/// Creates the directory of the runs, or reads which pairs it has.
fn prepare_directory(
    request: &PairedReplayRequest,
    reader: &WorkloadReader,
) -> Result<CompletedPairs, Failure> {
    if request.continues {
        let options = request.engine.to_manifest();
        let found = CompletedPairs::read(&request.output, reader, &options, request.runs)?;
        return match (request.seed, found.seed) {
            (Some(given), Some(seed)) if given != seed => Err(Failure::usage(format!(
                "cannot continue with --seed {given}: the order of these pairs has the seed {seed}; leave --seed out"
            ))),
            _ => Ok(found),
        };
    }
    DirBuilder::new()
        .mode(0o700)
        .create(&request.output)
        .map_err(|error| {
            Failure::usage(format!(
                "cannot create {}: {error}; choose another -o, a directory that does not exist, or pass --continue for pairs that were interrupted",
                request.output.display()
            ))
        })?;
    Ok(CompletedPairs::default())
}

fn replay_all(
    request: &PairedReplayRequest,
    (reader, servers): (&WorkloadReader, &mut [PairedServer]),
    (seed, completed): (u64, &[u32]),
    interrupt: &Interrupt,
    display: &mut dyn FnMut() -> Box<dyn ReplayDisplay>,
) -> Result<PairedRuns, Failure> {
    let mut runs = PairedRuns::default();
    let orders = randomised_blocks(SIDES.len(), request.runs, seed);
    for (pair, order) in (1..).zip(orders) {
        if completed.contains(&pair) {
            runs.before.push(run_path(&request.output, 0, pair));
            runs.after.push(run_path(&request.output, 1, pair));
            continue;
        }
        for side in order {
            let (server, name) = (&mut servers[side], SIDES[side]);
            let (target, _) = server.environment.set_up(0)?;
            if server.is_private
                && let Err(reason) = warm(&target, reader, &request.engine)?
            {
                note(&format!(
                    "The caches of {} are not all warm: {reason}.",
                    server.name
                ));
            }
            let run = run_path(&request.output, side, pair);
            interrupt.set_partial(PathBuf::from(format!("{}.partial", run.display())));
            note(&format!("Pair {pair} of {}: {name}.", request.runs));
            let mut engine = request.engine.clone();
            engine.part.extend([
                (PAIR_SIDE_OPTION.to_owned(), name.to_owned()),
                (PAIR_OPTION.to_owned(), pair.to_string()),
                (PAIR_SEED_OPTION.to_owned(), seed.to_string()),
            ]);
            let info = replay_observed(
                reader,
                &engine.target_with_settings(&target),
                &engine,
                request.observation.clone(),
                &run,
                interrupt,
                &mut *display(),
            )?;
            if let Some(reason) = info.given_up {
                return Err(Failure::could_not(format!(
                    "{reason}; the replays were stopped, and {} has what was done until then",
                    run.display()
                )));
            }
            if info.status == RunStatus::Stopped {
                runs.is_stopped = true;
                return Ok(runs);
            }
            match side {
                0 => runs.before.push(run),
                _ => runs.after.push(run),
            }
        }
    }
    Ok(runs)
}

/// Opens a side's server without changing it. `interrupt` ends the command that restores its data.
fn open_server(
    request: &PairedReplayRequest,
    server: &str,
    (reader, writes): (&WorkloadReader, bool),
    interrupt: &Interrupt,
) -> Result<PairedServer, Failure> {
    if let Some(name) = server.strip_prefix(SANDBOX) {
        return open_sandbox(request, name, (reader, writes));
    }
    let target = Target::parse(server, |name| std::env::var(name).ok())?;
    refuse_captured(request, reader, &target)?;
    let engine = &request.engine;
    let data = match &request.restore {
        Some(command) if writes => DataSource::Command(command.clone()),
        _ if !writes || request.no_restore || request.runs == 1 => DataSource::Unrestored,
        _ => {
            return Err(Failure::usage(format!(
                "missing restore of the data of {}, which the workload writes: pass --restore 'COMMAND', sandboxes (sandbox:NAME) as sides, or --no-restore to let each replay find what the previous one wrote",
                target.address()
            )));
        }
    };
    let login = engine.logins.login(&target, "", "", "rehearse");
    let name = target.address();
    let conditions = vec![Condition::default()];
    let environment = TargetEnvironment::new(target, login, data, conditions, AtEnd::Leave);
    Ok(PairedServer {
        name,
        environment: Box::new(environment.stopped_by(interrupt)),
        is_private: false,
    })
}

fn open_sandbox(
    request: &PairedReplayRequest,
    name: &str,
    (reader, writes): (&WorkloadReader, bool),
) -> Result<PairedServer, Failure> {
    let opened = sandbox::open(name, &Dirs::from_environment()?)?;
    let version = opened.installation().version.clone();
    let database = request
        .engine
        .logins
        .database
        .as_deref()
        .unwrap_or("postgres");
    let mut lease = SandboxLease::acquire(opened, database, LeasePurpose::Exploration, None)?;
    let conditions = vec![Condition::default()];
    let environment: Box<dyn Environment> = if writes && !request.no_restore {
        Box::new(SandboxEnvironment::new(lease, conditions, None))
    } else {
        let target = lease.start()?;
        // A sandbox that is restored has its data again at the end.
        refuse_captured(request, reader, &target)?;
        let login = request.engine.logins.login(&target, "", "", "rehearse");
        let data = DataSource::Unrestored;
        Box::new(TargetEnvironment::new(
            target,
            login,
            data,
            conditions,
            AtEnd::Leave,
        ))
    };
    Ok(PairedServer {
        name: format!("the sandbox {name} (PostgreSQL {version})"),
        environment,
        is_private: true,
    })
}

/// Refuses a side that is the captured server, unless the user confirmed its address.
fn refuse_captured(
    request: &PairedReplayRequest,
    reader: &WorkloadReader,
    target: &Target,
) -> Result<(), Failure> {
    let engine = &request.engine;
    let confirmed = request.allow_captured_server.as_deref();
    let confirmed = confirmed.filter(|address| *address == target.address());
    let read_only = engine.read_only.is_on();
    refuse_captured_server(reader, (target, &engine.logins), confirmed, read_only)
}

/// Returns the login of the workload's first session at a target.
fn first_login(
    target: &Target,
    reader: &WorkloadReader,
    engine: &Options,
) -> Result<Login, Failure> {
    let first = reader.logins()?.first();
    let (user, database) = first.map_or(("", ""), |one| (&*one.user, &*one.database));
    Ok(engine.logins.login(target, user, database, "rehearse"))
}

/// Reads tables and indexes into the buffers of a sandbox that was restarted. The inner error is the reason why some of
/// them were not read.
fn warm(
    target: &Target,
    reader: &WorkloadReader,
    engine: &Options,
) -> Result<Result<(), String>, Failure> {
    let login = own_login(target, &first_login(target, reader, engine)?);
    let dialer = Dialer::new(target)?;
    let opened = open_own_connection(&dialer, &login);
    Ok(opened.and_then(|mut connection| warm_caches(&mut connection, true)))
}

/// Whether both sides are one sandbox, by its name or its address.
///
/// # Errors
/// If there is no sandbox of a name, or a side cannot be read.
fn is_one_sandbox(request: &PairedReplayRequest) -> Result<bool, Failure> {
    let dirs = Dirs::from_environment()?;
    let (mut endpoints, mut targets) = (Vec::new(), Vec::new());
    for server in &request.servers {
        match server.strip_prefix(SANDBOX) {
            Some("") => {
                return Err(Failure::usage(
                    "sandbox: names no sandbox; give sandbox:NAME (`rehearse sandbox list` has the names)",
                ));
            }
            Some(name) => endpoints.push(sandbox::find_named(name, &dirs)?.endpoint),
            None => targets.push(Target::parse(server, |name| std::env::var(name).ok())?),
        }
    }
    Ok(match (&endpoints[..], &targets[..]) {
        ([one, other], _) => one == other,
        ([endpoint], [target]) => target
            .servers
            .iter()
            .any(|server| is_address_of(endpoint, server)),
        _ => false,
    })
}

/// Whether an address is that of a sandbox: its socket, or its port of this machine.
fn is_address_of(endpoint: &Endpoint, server: &connect::Server) -> bool {
    let is_here = match &server.host {
        Some(Host::Unix(directory)) => endpoint.socket_dir.as_ref() == Some(directory),
        Some(Host::Tcp(host)) => {
            endpoint.host.is_some() && ["localhost", "127.0.0.1"].contains(&host.as_str())
        }
        Some(Host::Abstract(_)) => false,
        None => server.address.is_some_and(|address| address.is_loopback()),
    };
    is_here && server.port == endpoint.port
}

/// Query of the database and the server process. Copies of one cluster share the system identifier, and not the time at
/// which their servers started.
const IDENTITY_SQL: &str = "SELECT pg_catalog.current_database(), \
     extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text";

/// Whether both sides are one database, by their texts or by the servers' own answers.
///
/// # Errors
/// If a server cannot be asked.
fn is_same_database(
    request: &PairedReplayRequest,
    reader: &WorkloadReader,
) -> Result<bool, Failure> {
    let [before, after] = &request.servers;
    if before == after {
        return Ok(true);
    }
    let servers = request.servers.iter();
    if servers.clone().any(|server| is_sandbox(server)) {
        return Ok(false);
    }
    let mut identities = Vec::new();
    for server in servers {
        let target = Target::parse(server, |name| std::env::var(name).ok())?;
        let login = first_login(&target, reader, &request.engine)?;
        let answer = Dialer::new(&target)?.query(&login, IDENTITY_SQL);
        let answer = answer.map_err(|error| {
            Failure::could_not(format!(
                "cannot tell whether both sides are one database: {}: {}; correct the address or the login",
                target.address(),
                error.message
            ))
        })?;
        identities.push(answer.rows);
    }
    Ok(identities[0] == identities[1])
}
