//! Server of a sweep's trials: a server made for them, one of the user's sandboxes, or any
//! other.

use ::sandbox::Dirs;
use connect::login::{Dialer, Login};
use replay::Target;

use super::request::SweepRequest;
use super::{Design, Script, Variant};
use crate::captured_server::refuse_captured_server;
use crate::change_script::ChangeScript;
use crate::environment::{
    AtEnd, Condition, DataSource, Environment, LeasePurpose, NewServerRequest, SandboxEnvironment,
    SandboxLease, TargetEnvironment, create_server, run_stoppable_command,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;
use crate::notes;

/// Connections in addition to those of the clients: the server's reserved ones, and those of
/// this program.
const CONNECTIONS_BESIDE: u32 = 20;
/// Default of max_connections.
const CONNECTIONS: u32 = 100;

/// Server of the trials.
pub(super) struct SweepServer {
    pub environment: Box<dyn Environment>,
    /// Name to show.
    pub name: String,
    /// Scale factor of the script's tables.
    pub scale: u32,
    /// Settings of a sandbox without those of variants.
    pub settings: Vec<(String, String)>,
}

/// Prepares the server. `known`: the settings of a sandbox when a resumed sweep began. `interrupt` ends a command that fills or
/// restores a server.
///
/// # Errors
/// If the server is not available, or does not fit the request.
pub(super) fn make(
    request: &SweepRequest,
    design: &Design,
    restores: bool,
    known: Option<Vec<(String, String)>>,
    interrupt: &Interrupt,
) -> Result<SweepServer, Failure> {
    let place = &request.place;
    match (&place.new_server, &place.sandbox, &place.target) {
        (Some(new), _, _) => own(request, new, (design, restores), interrupt),
        (_, Some(name), _) => kept(request, name, design, restores, known),
        (_, _, Some(url)) => foreign(request, url, design, interrupt),
        _ => Err(Failure::usage(
            "nothing says where; give --postgres-version MAJOR for a private server that is made for the sweep, --sandbox NAME for one of yours, or --target URL",
        )),
    }
}

/// Returns whether data are restored before each trial.
///
/// # Errors
/// If they have to be restored and no option specifies how.
pub(super) fn restores(request: &SweepRequest, writes: bool) -> Result<bool, Failure> {
    let place = &request.place;
    match (writes, &place.target, &place.restore, place.no_restore) {
        (_, Some(_), Some(_), _) => Ok(true),
        (false, ..) | (true, _, _, true) => Ok(false),
        (true, Some(_), None, false) => Err(Failure::usage(
            "this load writes, and nothing says how the target's data are restored before each trial; give --restore 'COMMAND', or --no-restore to let each trial find what the one before it left",
        )),
        (true, None, _, false) => Ok(true),
    }
}

fn own(
    request: &SweepRequest,
    new: &NewServerRequest,
    (design, restores): (&Design, bool),
    interrupt: &Interrupt,
) -> Result<SweepServer, Failure> {
    if request.script.is_none() && new.load.is_none() {
        return Err(Failure::usage(
            "a server that is made for the sweep is empty, and a workload needs its tables; give --load 'COMMAND' that fills it, --sandbox NAME or --target URL",
        ));
    }
    let places = Dirs::from_environment()?;
    let found = (new.find)(&new.requirements, &places)?;
    let most = design.clients.iter().copied().max().unwrap_or(0);
    let connections = CONNECTIONS.max(most + CONNECTIONS_BESIDE).to_string();
    let settings = vec![("max_connections".to_owned(), connections)];
    let database = database(request);
    let (sandbox, target) = create_server(&found, settings, database, &places)?;
    let name = format!("a private PostgreSQL {}", found.version);
    if request.script.is_some() {
        let scale = request.pgbench_scale;
        notes::note(&format!(
            "Making the tables of pgbench at scale {scale} in {name}."
        ));
        ChangeScript::new("pgbench's tables", &Script::tables(scale).join(";"))?
            .apply(&target, interrupt)?;
    }
    if let Some(command) = &new.load {
        run_stoppable_command(command, &target, "--load", interrupt)?;
    }
    let lease = SandboxLease::acquire(sandbox, database, LeasePurpose::Sweep, None)?;
    Ok(SweepServer {
        settings: lease.settings().to_vec(),
        // The server is deleted.
        environment: environment(lease, design, restores, AtEnd::Leave),
        name,
        scale: request.pgbench_scale,
    })
}

fn database(request: &SweepRequest) -> &str {
    let given = request.replay.logins.database.as_deref();
    given.unwrap_or("postgres")
}

fn environment(
    lease: SandboxLease,
    design: &Design,
    restores: bool,
    at_end: AtEnd,
) -> Box<dyn Environment> {
    let environment = SandboxEnvironment::new(lease, conditions(design), None);
    Box::new(environment.restoring(restores, at_end))
}

fn conditions(design: &Design) -> Vec<Condition> {
    design.variants.iter().map(Variant::condition).collect()
}

fn kept(
    request: &SweepRequest,
    name: &str,
    design: &Design,
    restores: bool,
    known: Option<Vec<(String, String)>>,
) -> Result<SweepServer, Failure> {
    let sandbox = ::sandbox::open(name, &Dirs::from_environment()?)?;
    let version = sandbox.installation().version.clone();
    let database = database(request);
    let mut lease = SandboxLease::acquire(sandbox, database, LeasePurpose::Sweep, known)?;
    let scale = match request.script {
        None => 1,
        Some(_) => {
            let target = lease.start()?;
            scale_of(&target, &login(&target, request), name)?
        }
    };
    Ok(SweepServer {
        settings: lease.settings().to_vec(),
        environment: environment(lease, design, restores, AtEnd::Restore),
        name: format!("the sandbox {name} (PostgreSQL {version})"),
        scale,
    })
}

fn foreign(
    request: &SweepRequest,
    url: &str,
    design: &Design,
    interrupt: &Interrupt,
) -> Result<SweepServer, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let login = login(&target, request);
    let address = target.address();
    let scale = match request.script {
        None => 1,
        Some(_) => scale_of(&target, &login, &address)?,
    };
    if let Some(path) = &request.workload {
        let logins = &request.replay.logins;
        let confirmed = request.place.allow_captured_server.as_deref();
        let workload = keys::open_workload(path)?;
        refuse_captured_server(&workload, (&target, logins), confirmed, false)?;
    }
    let data = match &request.place.restore {
        Some(command) => DataSource::Command(command.clone()),
        None => DataSource::Unrestored,
    };
    let conditions = conditions(design);
    let environment =
        TargetEnvironment::new(target, login, data, conditions, AtEnd::Leave).stopped_by(interrupt);
    Ok(SweepServer {
        environment: Box::new(environment),
        name: address,
        scale,
        settings: Vec::new(),
    })
}

fn login(target: &Target, request: &SweepRequest) -> Login {
    request.replay.logins.login(target, "", "", "rehearse")
}

/// Reads the scale factor of the script's tables as pgbench does, from the number of branches.
fn scale_of(target: &Target, login: &Login, place: &str) -> Result<u32, Failure> {
    let dialer = Dialer::new(target)?;
    let mut questions = dialer
        .open_query_connection(login)
        .map_err(|error| Failure::could_not(format!("cannot connect to {place}: {error}")))?;
    let rows = questions.query("SELECT count(*) FROM pgbench_branches").map_err(|error| {
        Failure::usage(format!(
            "{place} does not have the script's tables ({error}); make them with `pgbench -i -s SCALE`, or let --postgres-version make a server with them"
        ))
    })?;
    let count = rows
        .first()
        .and_then(|row| row.first()?.as_deref()?.parse().ok());
    count.filter(|&count| count > 0).ok_or_else(|| {
        Failure::usage(format!(
            "pgbench_branches is empty at {place}; fill the script's tables with `pgbench -i -s SCALE`"
        ))
    })
}
