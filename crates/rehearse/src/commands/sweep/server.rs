//! Server of a sweep's trials: a server made for them, one of the user's sandboxes, or any
//! other.

use connect::login::{Dialer, Login};
use replay::Target;
use sandbox::Places;
use study::sweep::{Design, Script, Variant};
use study::{
    AtEnd, ChangeScript, Condition, DataSource, Environment, LeasePurpose, SandboxEnvironment,
    SandboxLease, TargetEnvironment, create_server, run_shell_command,
};

use crate::commands::sandbox as sandboxes;
use crate::options::{Server, Sweep};
use crate::terminal;
use study::Failure;
use study::keys;

/// Connections in addition to those of the clients: the server's reserved ones, and those of
/// this program.
const CONNECTIONS_BESIDE: u32 = 20;
/// Default of max_connections.
const CONNECTIONS: u32 = 100;

/// Server of the trials.
pub struct SweepServer {
    pub environment: Box<dyn Environment>,
    /// Name to show.
    pub name: String,
    /// Scale factor of the script's tables.
    pub scale: u32,
    /// Settings of a sandbox without those of variants.
    pub settings: Vec<(String, String)>,
}

/// Prepares the server. `known`: the settings of a sandbox when a resumed sweep began.
///
/// # Errors
/// If the server is not available, or does not fit the options.
pub fn make(
    options: &Sweep,
    design: &Design,
    restores: bool,
    known: Option<Vec<(String, String)>>,
) -> Result<SweepServer, Failure> {
    let place = &options.place;
    match (place.postgres_version, &place.sandbox, &place.target) {
        (Some(major), _, _) => own(options, major, design, restores),
        (_, Some(name), _) => kept(options, name, design, restores, known),
        (_, _, Some(url)) => foreign(options, url, design),
        _ => Err(Failure::usage(
            "nothing says where; give --postgres-version MAJOR for a private server that is made for the sweep, --sandbox NAME for one of yours, or --target URL",
        )),
    }
}

/// Returns whether data are restored before each trial.
///
/// # Errors
/// If they have to be restored and no option specifies how.
pub fn restores(options: &Sweep, writes: bool) -> Result<bool, Failure> {
    let place = &options.place;
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
    options: &Sweep,
    major: u16,
    design: &Design,
    restores: bool,
) -> Result<SweepServer, Failure> {
    if options.script.is_none() && options.place.load.is_none() {
        return Err(Failure::usage(
            "a server that is made for the sweep is empty, and a workload needs its tables; give --load 'COMMAND' that fills it, --sandbox NAME or --target URL",
        ));
    }
    let places = Places::from_environment()?;
    let server = Server {
        version: Some(major),
        directory: options.place.postgres.clone(),
    };
    let found = sandboxes::find(&server, &places)?;
    let most = design.clients.iter().copied().max().unwrap_or(0);
    let connections = CONNECTIONS.max(most + CONNECTIONS_BESIDE).to_string();
    let settings = vec![("max_connections".to_owned(), connections)];
    let database = database(options);
    let (sandbox, target) = create_server(&found, settings, database, &places)?;
    let name = format!("a private PostgreSQL {}", found.version);
    if options.script.is_some() {
        let scale = options.pgbench_scale;
        terminal::note(&format!(
            "Making the tables of pgbench at scale {scale} in {name}."
        ));
        ChangeScript::new("pgbench's tables", &Script::tables(scale).join(";"))?.apply(&target)?;
    }
    if let Some(command) = &options.place.load {
        run_shell_command(command, &target, "--load")?;
    }
    let lease = SandboxLease::acquire(sandbox, database, LeasePurpose::Sweep, None)?;
    Ok(SweepServer {
        settings: lease.settings().to_vec(),
        // The server is deleted.
        environment: environment(lease, design, restores, AtEnd::Leave),
        name,
        scale: options.pgbench_scale,
    })
}

fn database(options: &Sweep) -> &str {
    let given = options.place.session.as_database.as_deref();
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
    options: &Sweep,
    name: &str,
    design: &Design,
    restores: bool,
    known: Option<Vec<(String, String)>>,
) -> Result<SweepServer, Failure> {
    let sandbox = sandbox::open(name, None, &Places::from_environment()?)?;
    let version = sandbox.installation().version.clone();
    let database = database(options);
    let mut lease = SandboxLease::acquire(sandbox, database, LeasePurpose::Sweep, known)?;
    let scale = match options.script {
        None => 1,
        Some(_) => {
            let target = lease.start()?;
            scale_of(&target, &login(&target, options), name)?
        }
    };
    Ok(SweepServer {
        settings: lease.settings().to_vec(),
        environment: environment(lease, design, restores, AtEnd::Restore),
        name: format!("the sandbox {name} (PostgreSQL {version})"),
        scale,
    })
}

fn foreign(options: &Sweep, url: &str, design: &Design) -> Result<SweepServer, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let login = login(&target, options);
    let address = target.address();
    let scale = match options.script {
        None => 1,
        Some(_) => scale_of(&target, &login, &address)?,
    };
    if let Some(path) = &options.workload {
        let logins = options.place.session.replay_options().logins;
        if let Some(how) = replay::captured_on(&keys::open(path)?, &target, &logins) {
            return Err(Failure::usage(format!(
                "the target {address} is the server that the workload was captured on ({how}); sweep on a copy of it"
            )));
        }
    }
    let data = match &options.place.restore {
        Some(command) => DataSource::Command(command.clone()),
        None => DataSource::Unrestored,
    };
    let conditions = conditions(design);
    let environment = TargetEnvironment::new(target, login, data, conditions, AtEnd::Leave);
    Ok(SweepServer {
        environment: Box::new(environment),
        name: address,
        scale,
        settings: Vec::new(),
    })
}

fn login(target: &Target, options: &Sweep) -> Login {
    let logins = options.place.session.replay_options().logins;
    logins.login(target, "", "", "rehearse")
}

/// Reads the scale factor of the script's tables as pgbench does, from the number of branches.
fn scale_of(target: &Target, login: &Login, place: &str) -> Result<u32, Failure> {
    let dialer = Dialer::new(target)?;
    let mut questions = dialer
        .questions(login)
        .map_err(|error| Failure::could_not(format!("cannot connect to {place}: {error}")))?;
    let rows = questions.ask("SELECT count(*) FROM pgbench_branches").map_err(|error| {
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
