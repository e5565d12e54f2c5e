//! Where a proof's replays happen: one of the user's sandboxes, or any other server.

use std::collections::BTreeMap;

use experiment::proof::{
    ChangeScript, Contents, ProofGround, ProofSandbox, ProofSide, ProofTarget, ServerOf,
};
use replay::{Options, Target};
use sandbox::Places;
use workload::WorkloadReader;

use crate::commands::sandbox as sandboxes;
use crate::ending::Failure;
use crate::options::{Prove, Server};

/// Where runs happen.
pub struct Place {
    pub ground: Box<dyn ProofGround>,
    /// What it is called.
    pub name: String,
    /// What the server has been set besides the changes, where it is a sandbox.
    pub settings: Vec<(String, String)>,
    /// How the workload is replayed there.
    pub options: Options,
    /// Data are the same before each run.
    pub restores: bool,
}

/// Makes it ready, and touches nothing yet. `known`: the settings of a sandbox that the proof was begun with, where
/// it goes on.
///
/// # Errors
/// Where it cannot be had, or is not fit for what is to be done.
pub fn make(
    options: &Prove,
    whole: &WorkloadReader,
    base: &Options,
    sides: (Vec<ProofSide>, Vec<Vec<ChangeScript>>),
    known: Option<Vec<(String, String)>>,
) -> Result<Place, Failure> {
    match (&options.place.sandbox, &options.place.target) {
        (Some(name), _) => kept(options, name, base, sides, known),
        (_, Some(url)) => foreign(options, url, whole, base, sides),
        _ => Err(Failure::usage(
            "nothing says where; give --sandbox NAME for a private server of yours (`rehearse sandbox up`), or --target URL with --restore 'COMMAND' or --template DATABASE",
        )),
    }
}

fn kept(
    options: &Prove,
    name: &str,
    base: &Options,
    sides: (Vec<ProofSide>, Vec<Vec<ChangeScript>>),
    known: Option<Vec<(String, String)>>,
) -> Result<Place, Failure> {
    let places = Places::from_environment()?;
    let sandbox = sandbox::open(name, None, &places)?;
    let version = sandbox.installation().version.clone();
    let mut servers = BTreeMap::new();
    if let (Some(major), Some(load)) = (options.changes.server, &options.changes.load) {
        let server = Server {
            version: Some(major),
            directory: options.changes.postgres.clone(),
        };
        let of = ServerOf {
            installation: sandboxes::find(&server, &places)?,
            load: load.clone(),
        };
        servers.insert(major, of);
    }
    let place = &options.place;
    let database = place.changed_database.as_ref().or(place.database.as_ref());
    let database = database.map_or("postgres", String::as_str);
    let goes_on = known.is_some();
    let settings = known.unwrap_or_else(|| sandbox.settings().to_vec());
    let ground = ProofSandbox::new(
        sandbox,
        database,
        settings.clone(),
        sides,
        (servers, places),
        goes_on,
    )?;
    Ok(Place {
        ground: Box::new(ground),
        name: format!("the sandbox {name} (PostgreSQL {version})"),
        settings,
        options: base.clone(),
        restores: true,
    })
}

fn foreign(
    options: &Prove,
    url: &str,
    whole: &WorkloadReader,
    base: &Options,
    (sides, scripts): (Vec<ProofSide>, Vec<Vec<ChangeScript>>),
) -> Result<Place, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let mut base = base.clone();
    let place = &options.place;
    let changes_data = whole.info().writes > 0 || scripts.iter().any(|one| !one.is_empty());
    let contents = match (&place.restore, &place.template) {
        (Some(command), _) => Contents::Restored(command.clone()),
        (_, Some(template)) => {
            // Sessions go to the database that is made for them, whatever they were captured on.
            base.logins.database = base.logins.database.or_else(|| target.database.clone());
            Contents::Template(template.clone())
        }
        _ if place.no_restore || !changes_data => Contents::Left,
        _ => {
            return Err(Failure::usage(
                "this proof writes, and nothing says how the target's data are restored before each run; give --restore 'COMMAND' or --template DATABASE, or --no-restore to let each run find what the one before it left",
            ));
        }
    };
    if contents == Contents::Left && scripts.iter().any(|one| !one.is_empty()) {
        return Err(Failure::usage(
            "with --no-restore a --change would stay where the unchanged is replayed next; give --restore 'COMMAND' or --template DATABASE",
        ));
    }
    let mut met = target.clone();
    if let Contents::Template(_) = contents {
        met.database = Some("postgres".to_owned());
    }
    if let Some(how) = replay::captured_on(whole, &met, &base.logins) {
        return Err(Failure::usage(format!(
            "the target {} is the server that the workload was captured on ({how}); prove on a copy of it",
            target.address()
        )));
    }
    let mut login = base.logins.login(&target, "", "", "rehearse");
    if let Some(user) = &target.user {
        login.user = user.as_str().into();
    }
    Ok(Place {
        name: target.address(),
        settings: Vec::new(),
        options: base,
        restores: contents != Contents::Left,
        ground: Box::new(ProofTarget::new(target, login, contents, sides, scripts)),
    })
}
