//! Inspection before or after a major upgrade: checks what upgrades forget, from the catalogues of both servers.
//!
//! The new server is the upgraded one of the user, or a private server of the new version without data. Both are only
//! read. Settings, types, system views and extensions are asked from the servers, so that versions that are not known
//! here are checked, too.

mod checks;
mod facts;
mod queries;
mod reading;
mod result;

use ::sandbox::{Dirs, Options, Sandbox, ServerRequirements};
use connect::Target;

use crate::environment::{FindInstallation, server_target};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;

pub(crate) use checks::IO_METHOD;
use checks::Sides;
use facts::ServerFacts;
use reading::Reader;
pub use result::{
    NewServerKind, UncheckedPart, UpgradeCheck, UpgradeFinding, UpgradeInspection, UpgradeMethod,
    UpgradeObject, UpgradeSeverity,
};

/// Types of `pg_catalog` whose stored values are OIDs or have a form that changed, with the first version whose
/// `pg_upgrade` refuses them if the old server is older; 0 for every version. Source: `pg_upgrade/check.c`.
const UNSTABLE_TYPES: [(&str, u32); 11] = [
    ("aclitem", 16),
    ("sql_identifier", 12),
    ("regcollation", 0),
    ("regconfig", 0),
    ("regdictionary", 0),
    ("regnamespace", 0),
    ("regoper", 0),
    ("regoperator", 0),
    ("regproc", 0),
    ("regprocedure", 0),
    ("unknown", 10),
];

/// New server of an inspection.
pub enum NewServer<'a> {
    /// Upgraded server of the user.
    Upgraded {
        /// Address.
        target: &'a Target,
        /// Major version that it must have.
        major: Option<u16>,
    },
    /// Private server of this major version.
    Private(u16),
}

/// Parameters of an inspection.
pub struct UpgradeInspectRequest<'a> {
    /// Old server.
    pub from: &'a Target,
    /// New server.
    pub to: NewServer<'a>,
    /// Way of the upgrade.
    pub method: UpgradeMethod,
    /// Finds installations.
    pub find: FindInstallation,
}

/// Inspects both servers.
///
/// # Errors
/// If a server cannot be reached or created, the new one is older, or it does not have the version of the request.
pub fn inspect_upgrade(
    request: &UpgradeInspectRequest<'_>,
    interrupt: &Interrupt,
) -> Result<UpgradeInspection, Failure> {
    let mut unchecked = Vec::new();
    let old_reader = Reader::new(request.from, false, interrupt)?;
    let mut old = old_reader.server(&mut unchecked)?;
    let (mut new, new_reader) = match request.to {
        NewServer::Upgraded { target, major } => {
            let reader = Reader::new(target, true, interrupt)?;
            let facts = read_new(&reader, &old, &mut unchecked)?;
            refuse_other_version(&facts, major)?;
            (facts, Some(reader))
        }
        NewServer::Private(major) => {
            refuse_older(&old, u32::from(major))?;
            (read_private(request, (major, &old), interrupt)?, None)
        }
    };
    refuse_older(&old, new.identity.major())?;
    if old.identity.major() < 19 && new.identity.major() >= 19 {
        old.refused = old_reader.refused_by_19(&mut unchecked)?;
    }
    let removed = removed_types(&old, &new);
    let unstable = unstable_types(&old, &new);
    let types: Vec<&str> = removed.iter().map(String::as_str).chain(unstable).collect();
    let readers = (&old_reader, new_reader.as_ref());
    let pairs = read_databases(readers, (&mut old, &mut new), &types, &mut unchecked)?;
    let sides = Sides {
        old: &old,
        new: &new,
        kind: match new_reader {
            Some(_) => NewServerKind::Upgraded,
            None => NewServerKind::Private,
        },
        method: request.method,
        removed_types: &removed,
        pairs: &pairs,
    };
    let mut findings = checks::all(&sides);
    findings.sort_by_key(|one| (one.severity, one.check));
    Ok(UpgradeInspection {
        from_version: old.identity.version.clone(),
        to_version: new.identity.version.clone(),
        new_server: sides.kind,
        method: request.method,
        databases: old.contents.iter().map(|one| one.name.clone()).collect(),
        findings,
        unchecked,
    })
}

/// Reads the databases of the old server, and those of the new one that correspond to them. Returns the names of both.
fn read_databases(
    (old_reader, new_reader): (&Reader<'_>, Option<&Reader<'_>>),
    (old, new): (&mut ServerFacts, &mut ServerFacts),
    types: &[&str],
    unchecked: &mut Vec<UncheckedPart>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs = Vec::new();
    let readable = old.databases.iter();
    let readable = readable
        .filter(|one| one.allows_connections && one.name != "template0" && !one.is_of_rehearsal);
    for entry in readable {
        let name = entry.name.as_str();
        let Some(facts) = old_reader.database((name, old.identity.number), types, unchecked)?
        else {
            continue;
        };
        old.contents.push(facts);
        if let Some(reader) = new_reader
            && let Some(other) = checks::counterpart(old, new, name)
            && new.databases.iter().any(|one| one.name == other)
            && let Some(facts) = reader.database((other, new.identity.number), &[], unchecked)?
        {
            pairs.push((name.to_owned(), other.to_owned()));
            new.contents.push(facts);
        }
    }
    Ok(pairs)
}

/// Reads the new server, and which settings of the old one it accepts.
fn read_new(
    reader: &Reader<'_>,
    old: &ServerFacts,
    unchecked: &mut Vec<UncheckedPart>,
) -> Result<ServerFacts, Failure> {
    let mut facts = reader.server(unchecked)?;
    let gone: Vec<&str> = checks::unlisted_settings(old, &facts);
    facts.aliases = reader.accepted_settings(&gone, unchecked)?;
    Ok(facts)
}

/// Reads what a private server of the new version offers. The server is deleted afterwards.
fn read_private(
    request: &UpgradeInspectRequest<'_>,
    (major, old): (u16, &ServerFacts),
    interrupt: &Interrupt,
) -> Result<ServerFacts, Failure> {
    let dirs = Dirs::from_environment()?;
    let installation = (request.find)(&ServerRequirements::major(major), &dirs)?;
    notes::note(&format!(
        "Reading what PostgreSQL {} offers from a private server.",
        installation.version
    ));
    let mut sandbox = Sandbox::create(&installation, Options::default(), &dirs)?;
    let target = server_target(&sandbox.start()?, "postgres")?;
    let mut unchecked = Vec::new();
    let reader = Reader::new(&target, true, interrupt)?;
    let facts = read_new(&reader, old, &mut unchecked)?;
    match unchecked.into_iter().next() {
        Some(part) => Err(Failure::could_not(format!(
            "the private server of PostgreSQL {} refuses the query for its {}: {}",
            installation.version, part.part, part.reason
        ))),
        None => Ok(facts),
    }
}

fn refuse_other_version(facts: &ServerFacts, major: Option<u16>) -> Result<(), Failure> {
    match major {
        Some(major) if u32::from(major) != facts.identity.major() => Err(Failure::usage(format!(
            "the server of --target is PostgreSQL {}, not {major}; give its version to --to, or leave --to out",
            facts.identity.version
        ))),
        _ => Ok(()),
    }
}

fn refuse_older(old: &ServerFacts, major: u32) -> Result<(), Failure> {
    match major < old.identity.major() {
        true => Err(Failure::usage(format!(
            "PostgreSQL {major} is older than the server of --from, which is {}; an upgrade goes to the same or a later version",
            old.identity.version
        ))),
        false => Ok(()),
    }
}

/// Returns the types of the old server's catalogue that the new version lacks.
fn removed_types(old: &ServerFacts, new: &ServerFacts) -> Vec<String> {
    // Names are put into a query.
    let is_plain = |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let removed = old.types.difference(&new.types).filter(is_plain);
    removed.cloned().collect()
}

/// Returns the types of which `pg_upgrade` between these versions refuses stored values.
fn unstable_types(old: &ServerFacts, new: &ServerFacts) -> Vec<&'static str> {
    let all = UNSTABLE_TYPES.iter().filter(|(_, first)| {
        *first == 0 || old.identity.major() < *first && new.identity.major() >= *first
    });
    all.map(|(name, _)| *name).collect()
}
