//! Checks: functions from the facts of both servers to findings.

mod collations;
mod contents;
mod data_types;
mod extensions;
mod io_method;
mod replication;
mod settings;
mod statistics;

use super::facts::{DatabaseFacts, ServerFacts};
use super::result::{
    NewServerKind, UpgradeCheck, UpgradeFinding, UpgradeMethod, UpgradeObject, UpgradeSeverity,
};

pub(crate) use io_method::IO_METHOD;
pub(super) use settings::unlisted_settings;

/// Facts of both servers, and the request.
pub(super) struct Sides<'a> {
    pub(super) old: &'a ServerFacts,
    pub(super) new: &'a ServerFacts,
    pub(super) kind: NewServerKind,
    pub(super) method: UpgradeMethod,
    /// Types in `pg_catalog` that the new version lacks.
    pub(super) removed_types: &'a [String],
    /// Names of corresponding databases, on the old and on the new server.
    pub(super) pairs: &'a [(String, String)],
}

impl<'a> Sides<'a> {
    fn is_upgraded(&self) -> bool {
        self.kind == NewServerKind::Upgraded
    }

    fn is_pg_upgrade(&self) -> bool {
        self.method == UpgradeMethod::PgUpgrade
    }

    /// Whether the upgrade passes a version: the old server is older than it, the new one is not.
    fn passes(&self, major: u32) -> bool {
        self.old.identity.major() < major && self.new.identity.major() >= major
    }

    /// Returns the databases that were read on both servers.
    fn both(&self) -> impl Iterator<Item = (&'a DatabaseFacts, &'a DatabaseFacts)> {
        let (old, new) = (self.old, self.new);
        self.pairs.iter().filter_map(move |(one, other)| {
            let find =
                |all: &'a [DatabaseFacts], name: &str| all.iter().find(|facts| facts.name == *name);
            Some((find(&old.contents, one)?, find(&new.contents, other)?))
        })
    }

    /// Returns a severity that applies to `pg_upgrade` only; a dump has the other one.
    fn for_pg_upgrade(
        &self,
        severity: UpgradeSeverity,
        otherwise: UpgradeSeverity,
    ) -> UpgradeSeverity {
        match self.is_pg_upgrade() {
            true => severity,
            false => otherwise,
        }
    }

    /// Names the new server in a sentence.
    fn new_name(&self) -> String {
        let version = &self.new.identity.version;
        match self.kind {
            NewServerKind::Private => {
                format!("PostgreSQL {version}, as installed on this machine,")
            }
            NewServerKind::Upgraded => format!("the new server (PostgreSQL {version})"),
        }
    }
}

/// Returns the name of the database on the new server that corresponds to one of the old server. The databases of both URLs
/// correspond, whatever their names. `None` if the URLs name another database as the counterpart.
pub(super) fn counterpart<'a>(
    old: &ServerFacts,
    new: &'a ServerFacts,
    name: &'a str,
) -> Option<&'a str> {
    let (from, to) = (
        old.identity.database.as_str(),
        new.identity.database.as_str(),
    );
    match name {
        _ if name == from => Some(to),
        _ if name == to => None,
        _ => Some(name),
    }
}

/// Performs all checks.
pub(super) fn all(sides: &Sides<'_>) -> Vec<UpgradeFinding> {
    let groups = [
        settings::check(sides),
        extensions::check(sides),
        data_types::check(sides),
        collations::check(sides),
        statistics::check(sides),
        contents::check(sides),
        replication::check(sides),
    ];
    groups.into_iter().flatten().flatten().collect()
}

/// Builds a finding; `None` without objects.
fn finding(
    (check, severity): (UpgradeCheck, UpgradeSeverity),
    objects: Vec<UpgradeObject>,
    message: impl Into<String>,
    reason: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<UpgradeFinding> {
    (!objects.is_empty()).then(|| UpgradeFinding {
        check,
        severity,
        message: message.into(),
        reason: reason.into(),
        remedy: remedy.into(),
        objects,
    })
}

/// Builds an object of a database.
fn object(database: &DatabaseFacts, name: impl Into<String>) -> UpgradeObject {
    UpgradeObject {
        database: Some(database.name.clone()),
        name: name.into(),
        ..UpgradeObject::default()
    }
}

/// Builds an object of the whole server.
fn server_object(name: impl Into<String>) -> UpgradeObject {
    UpgradeObject {
        name: name.into(),
        ..UpgradeObject::default()
    }
}

impl UpgradeObject {
    fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    fn statement(mut self, statement: impl Into<String>) -> Self {
        self.statement = Some(statement.into());
        self
    }
}

/// Formats a number of things.
fn counted(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}
