//! Server of a proof's replays: one of the user's sandboxes, or any other server.

use ::sandbox::Dirs;
use replay::{LoginMap, Options, Target};
use workload::WorkloadReader;

use super::privileged_roles::UnprivilegedEnvironment;
use super::request::{ProofPlace, ProofRequest};
use crate::captured_server::refuse_captured_server;
use crate::environment::{
    AtEnd, Condition, DataSource, Environment, LeasePurpose, NewServer, PairEnvironment,
    SandboxEnvironment, SandboxLease, TargetEnvironment, refuse_leased,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Server of the runs.
pub(super) struct ProofServer {
    pub environment: Box<dyn Environment>,
    /// Name to show.
    pub name: String,
    /// Settings of a sandbox without the changes.
    pub settings: Vec<(String, String)>,
    /// Options of the replays.
    pub options: Options,
    /// Whether data are restored before each run.
    pub restores: bool,
}

/// Prepares the server without changing it. `known`: the settings of a sandbox when a resumed
/// proof began. `interrupt` ends a command that fills or restores a server.
///
/// # Errors
/// If the server is not available, or does not fit the options.
pub(super) fn make(
    request: &ProofRequest,
    whole: &WorkloadReader,
    (conditions, known): (Vec<Condition>, Option<Vec<(String, String)>>),
    interrupt: &Interrupt,
) -> Result<ProofServer, Failure> {
    let place = &request.place;
    match (&place.sandbox, &place.target) {
        (Some(name), _) => kept(request, name, whole, (conditions, known), interrupt),
        (_, Some(url)) => foreign(request, url, (whole, conditions), interrupt),
        _ => Err(Failure::usage(
            "nothing says where; give --sandbox NAME for a private server of yours (`rehearse sandbox up`), or --target URL with --restore 'COMMAND' or --template DATABASE",
        )),
    }
}

fn kept(
    request: &ProofRequest,
    name: &str,
    whole: &WorkloadReader,
    (conditions, known): (Vec<Condition>, Option<Vec<(String, String)>>),
    interrupt: &Interrupt,
) -> Result<ProofServer, Failure> {
    let places = Dirs::from_environment()?;
    let mut sandbox = ::sandbox::open(name, &places)?;
    let copies = request.place.copies_sandbox;
    if copies {
        refuse_leased(&sandbox, None)?;
        sandbox = sandbox.copy(&places)?;
    }
    let version = sandbox.installation().version.clone();
    let new_server = match &request.place.new_server {
        Some(wanted) => Some(NewServer {
            installation: (wanted.find)(&wanted.requirements, &places)?,
            load: wanted.load.clone().unwrap_or_default(),
            is_upgraded: wanted.is_upgraded,
            places,
            interrupt: interrupt.clone(),
        }),
        None => None,
    };
    let database = request.place.database.as_deref().unwrap_or("postgres");
    let lease = SandboxLease::acquire(sandbox, database, LeasePurpose::Proof, known)?;
    let (whose, at_end) = match copies {
        true => ("a copy of the sandbox", AtEnd::Leave),
        false => ("the sandbox", AtEnd::Restore),
    };
    let settings = lease.settings().to_vec();
    let environment = SandboxEnvironment::new(lease, conditions, new_server)
        .restoring(true, at_end)
        .stopped_by(interrupt);
    let logins = request.replay.logins.clone();
    let environment: Box<dyn Environment> = match request.place.refuses_privileged_roles {
        true => Box::new(UnprivilegedEnvironment::new(environment, logins, whole)?),
        false => Box::new(environment),
    };
    Ok(ProofServer {
        name: format!("{whose} {name} (PostgreSQL {version})"),
        settings,
        environment,
        options: request.replay.clone(),
        restores: true,
    })
}

fn foreign(
    request: &ProofRequest,
    url: &str,
    (whole, conditions): (&WorkloadReader, Vec<Condition>),
    interrupt: &Interrupt,
) -> Result<ProofServer, Failure> {
    let target = Target::parse(url, |name| std::env::var(name).ok())?;
    let mut base = request.replay.clone();
    let place = &request.place;
    let data = data_source(place, whole, &conditions)?;
    if let DataSource::Template(_) = data {
        // Sessions go to the database that is made for them, whatever they were captured on.
        base.logins.database = base.logins.database.or_else(|| target.database.clone());
    }
    refuse_captured_servers(place, whole, (&target, &base.logins), &data)?;
    let login = |target: &Target| {
        let mut login = base.logins.login(target, "", "", "rehearse");
        if let Some(user) = &target.user {
            login.user = user.as_str().into();
        }
        login
    };
    let make = |target: &Target, data, conditions| {
        TargetEnvironment::new(
            target.clone(),
            login(target),
            data,
            conditions,
            AtEnd::Restore,
        )
        .owned_by(&request.output)
        .stopped_by(interrupt)
    };
    let restores = data != DataSource::Unrestored;
    let (name, environment): (String, Box<dyn Environment>) = match &place.other_target {
        None => (target.address(), Box::new(make(&target, data, conditions))),
        Some(other) => (
            format!("{} and {}", target.address(), other.address()),
            Box::new(PairEnvironment::new(
                &conditions,
                |is_other, conditions| match is_other {
                    true => make(other, data.clone().of_side("new"), conditions),
                    false => make(&target, data.clone().of_side("old"), conditions),
                },
            )),
        ),
    };
    Ok(ProofServer {
        name: place.name.clone().unwrap_or(name),
        settings: Vec::new(),
        options: base,
        restores,
        environment,
    })
}

/// Returns how the data of a server of the user are restored.
///
/// # Errors
/// If the proof writes, and nothing restores them.
pub(crate) fn data_source(
    place: &ProofPlace,
    whole: &WorkloadReader,
    conditions: &[Condition],
) -> Result<DataSource, Failure> {
    let has_scripts = conditions.iter().any(|one| !one.scripts.is_empty());
    let changes_data = whole.info().writes > 0 || has_scripts;
    let data = match (&place.restore, &place.template) {
        (Some(command), _) => DataSource::Command(command.clone()),
        (_, Some(template)) => DataSource::Template(template.clone()),
        _ if place.no_restore || !changes_data => DataSource::Unrestored,
        _ => {
            return Err(Failure::usage(
                "this proof writes, and nothing says how the target's data are restored before each run; give --restore 'COMMAND' or --template DATABASE, or --no-restore to let each run find what the one before it left",
            ));
        }
    };
    if data == DataSource::Unrestored && has_scripts {
        return Err(Failure::usage(
            "with --no-restore a --change would stay where the unchanged is replayed next; give --restore 'COMMAND' or --template DATABASE",
        ));
    }
    Ok(data)
}

/// Refuses to replay on the captured server, unless the user confirmed its address.
///
/// # Errors
/// If a target is the captured server, or the confirmed address is not that of a target.
pub(crate) fn refuse_captured_servers(
    place: &ProofPlace,
    whole: &WorkloadReader,
    (target, logins): (&Target, &LoginMap),
    data: &DataSource,
) -> Result<(), Failure> {
    let confirmed = place.allow_captured_server.as_deref();
    let targets = || {
        [Some(target), place.other_target.as_ref()]
            .into_iter()
            .flatten()
    };
    // An address that is the one of neither is refused.
    let names_one = targets().any(|one| confirmed == Some(&one.address()));
    for each in targets() {
        let mut known = each.clone();
        if let DataSource::Template(_) = data {
            known.database = Some("postgres".to_owned());
        }
        let confirmed = confirmed.filter(|named| !names_one || *named == each.address());
        refuse_captured_server(whole, (&known, logins), confirmed, false)?;
    }
    Ok(())
}
