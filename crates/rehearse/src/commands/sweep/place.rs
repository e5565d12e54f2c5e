//! Where trials happen: a server that is made for them, one of the user's sandboxes, or any other.

use experiment::{Design, Foreign, Ground, Sandboxed, Script, command_at};
use postgres::{Client, NoTls};
use replay::{Options, Target};
use sandbox::{Options as SandboxOptions, Places, Sandbox};
use target::login::{Dialer, Login};

use crate::commands::sandbox as sandboxes;
use crate::ending::Failure;
use crate::keys;
use crate::options::{Server, Sweep};
use crate::terminal;

/// A server's own connections, and ours beside the clients'.
const CONNECTIONS_BESIDE: u32 = 20;
/// A server's default.
const CONNECTIONS: u32 = 100;

/// Where trials happen.
pub struct Place {
    pub ground: Box<dyn Ground>,
    /// What it is called.
    pub name: String,
    /// The scale of a script's tables.
    pub scale: u32,
    /// What the server has been set besides the variants', where it is a sandbox.
    pub settings: Vec<(String, String)>,
}

/// Makes it ready. `known`: the settings of a sandbox that the sweep was begun with, where it goes on.
///
/// # Errors
/// Where it cannot be had, or is not fit for what is to be done.
pub fn make(
    options: &Sweep,
    design: &Design,
    base: &Options,
    known: Option<Vec<(String, String)>>,
) -> Result<Place, Failure> {
    match (
        &options.place.server,
        &options.place.sandbox,
        &options.place.target,
    ) {
        (Some(major), _, _) => own(options, *major, design),
        (_, Some(name), _) => kept(options, name, base, known),
        (_, _, Some(url)) => foreign(options, url, base),
        _ => Err(Failure::usage(
            "nothing says where; give --server MAJOR for a private server that is made for the sweep, --sandbox NAME for one of yours, or --target URL",
        )),
    }
}

/// Whether data are restored before each trial.
///
/// # Errors
/// Where they have to be and nothing says how.
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

fn own(options: &Sweep, major: u16, design: &Design) -> Result<Place, Failure> {
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
    let settings = vec![(
        "max_connections".to_owned(),
        CONNECTIONS.max(most + CONNECTIONS_BESIDE).to_string(),
    )];
    let made = SandboxOptions {
        settings: settings.clone(),
        ..SandboxOptions::default()
    };
    let mut sandbox = Sandbox::create(&found, made, &places)?;
    let endpoint = sandbox.start()?;
    let database = options.place.database.as_deref().unwrap_or("postgres");
    if database != "postgres" {
        let name = database.replace('"', "\"\"");
        statements(
            &endpoint.url("postgres"),
            &[format!("CREATE DATABASE \"{name}\"")],
        )?;
    }
    let url = endpoint.url(database);
    if options.script.is_some() {
        terminal::note(&format!(
            "Making the tables of pgbench at scale {} in a private PostgreSQL {}.",
            options.pgbench_scale, found.version
        ));
        statements(&url, &Script::tables(options.pgbench_scale))?;
    }
    if let Some(command) = &options.place.load {
        let target = Target::parse(&url, |_| None)?;
        command_at(command, &target, "--load")?;
    }
    let name = format!("a private PostgreSQL {}", found.version);
    let ground = Sandboxed::new(sandbox, database, settings.clone(), false, false)?;
    Ok(Place {
        ground: Box::new(ground),
        name,
        scale: options.pgbench_scale,
        settings,
    })
}

fn statements(url: &str, statements: &[String]) -> Result<(), Failure> {
    let failed = |error: postgres::Error| {
        Failure::could_not(match error.as_db_error() {
            Some(said) => format!("the private server could not be filled: {}", said.message()),
            None => format!("the private server could not be filled: {error}"),
        })
    };
    let mut client = Client::connect(url, NoTls).map_err(failed)?;
    statements
        .iter()
        .try_for_each(|one| client.batch_execute(one))
        .map_err(failed)
}

fn kept(
    options: &Sweep,
    name: &str,
    base: &Options,
    known: Option<Vec<(String, String)>>,
) -> Result<Place, Failure> {
    let places = Places::from_environment()?;
    let mut sandbox = sandbox::open(name, None, &places)?;
    let version = sandbox.installation().version.clone();
    let database = options.place.database.as_deref().unwrap_or("postgres");
    let scale = match options.script {
        None => 1,
        Some(_) => {
            let url = sandbox.start()?.url(database);
            let target = Target::parse(&url, |_| None)?;
            scale_of(&target, &login(&target, base), name)?
        }
    };
    let goes_on = known.is_some();
    let settings = known.unwrap_or_else(|| sandbox.settings().to_vec());
    let ground = Sandboxed::new(sandbox, database, settings.clone(), true, goes_on)?;
    Ok(Place {
        ground: Box::new(ground),
        name: format!("the sandbox {name} (PostgreSQL {version})"),
        scale,
        settings,
    })
}

fn foreign(options: &Sweep, url: &str, base: &Options) -> Result<Place, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let login = login(&target, base);
    let address = target.address();
    let scale = match options.script {
        None => 1,
        Some(_) => scale_of(&target, &login, &address)?,
    };
    if let Some(path) = &options.workload {
        let reader = keys::open(path)?;
        if let Some(how) = replay::captured_on(&reader, &target, &base.logins) {
            return Err(Failure::usage(format!(
                "the target {address} is the server that the workload was captured on ({how}); sweep on a copy of it"
            )));
        }
    }
    Ok(Place {
        ground: Box::new(Foreign::new(target, login, options.place.restore.clone())),
        name: address,
        scale,
        settings: Vec::new(),
    })
}

fn login(target: &Target, base: &Options) -> Login {
    base.logins.login(target, "", "", "rehearse")
}

/// The scale of the script's tables, as pgbench finds it: by its branches.
fn scale_of(target: &Target, login: &Login, place: &str) -> Result<u32, Failure> {
    let dialer = Dialer::new(target)?;
    let mut questions = dialer
        .questions(login)
        .map_err(|error| Failure::could_not(format!("cannot connect to {place}: {error}")))?;
    let rows = questions.ask("SELECT count(*) FROM pgbench_branches").map_err(|error| {
        Failure::usage(format!(
            "{place} does not have the script's tables ({error}); make them with `pgbench -i -s SCALE`, or let --server make a server with them"
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
