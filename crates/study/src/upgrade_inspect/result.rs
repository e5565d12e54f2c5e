//! Result of an inspection.

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::part;

/// Way of a major upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeMethod {
    /// `pg_upgrade`, which keeps the files of tables and indexes.
    PgUpgrade,
    /// A new server that is filled by dump and restore, or by logical replication.
    Dump,
}

/// Consequence of a finding, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeSeverity {
    /// The upgrade or the start of the new server fails.
    Blocks,
    /// The new server lacks something until a statement is executed.
    MendAfter,
    /// A difference or a limit to know of.
    Note,
}

/// Check of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpgradeCheck {
    /// Settings that the new version does not have.
    RemovedSettings,
    /// Values that the new version does not accept.
    RefusedValues,
    /// Properties of the data directory that `pg_upgrade` needs to be equal.
    ClusterProperties,
    /// Settings whose value differs on the upgraded server.
    DifferingSettings,
    /// Defaults that the new version changed.
    ChangedDefaults,
    /// Extensions that the new server does not offer or have.
    MissingExtensions,
    /// Extensions whose version differs from the one that the new server offers.
    ExtensionVersions,
    /// Libraries that the new server needs.
    Libraries,
    /// Columns of types that the new version does not have.
    RemovedTypes,
    /// Columns of types whose stored form is not valid in the new cluster.
    UnstableTypes,
    /// Tables that were created `WITH OIDS`.
    TablesWithOids,
    /// Operators, conversions, aggregates and constraints that the new version refuses.
    RefusedObjects,
    /// Views that use columns of system views that the new version does not have.
    SystemViews,
    /// Collations whose version differs from the recorded one.
    CollationVersions,
    /// Collations whose version is not known for the new server.
    UnknownCollations,
    /// Indexes that the release notes of the new version name for `REINDEX`.
    SearchIndexes,
    /// Databases with another encoding or locale on the upgraded server.
    DatabaseLocale,
    /// Databases that `pg_upgrade` cannot connect to, or that the upgraded server lacks.
    Databases,
    /// Tables without planner statistics.
    Statistics,
    /// Extended statistics without data.
    ExtendedStatistics,
    /// Tables and materialized views that the upgraded server lacks.
    MissingTables,
    /// Indexes, views, sequences and extended statistics that the upgraded server lacks.
    MissingObjects,
    /// Invalid indexes.
    InvalidIndexes,
    /// Constraints that were not validated.
    UnvalidatedConstraints,
    /// Prepared transactions.
    PreparedTransactions,
    /// Replication slots.
    ReplicationSlots,
    /// Subscriptions.
    Subscriptions,
    /// Published tables without replica identity.
    ReplicaIdentity,
    /// Unlogged tables.
    UnloggedTables,
    /// Large objects.
    LargeObjects,
    /// Roles with an MD5 password.
    Md5Passwords,
}

impl UpgradeCheck {
    /// All checks, in the order in which they are printed within a severity.
    pub const ALL: [UpgradeCheck; 31] = [
        UpgradeCheck::RemovedSettings,
        UpgradeCheck::RefusedValues,
        UpgradeCheck::ClusterProperties,
        UpgradeCheck::DifferingSettings,
        UpgradeCheck::ChangedDefaults,
        UpgradeCheck::MissingExtensions,
        UpgradeCheck::ExtensionVersions,
        UpgradeCheck::Libraries,
        UpgradeCheck::RemovedTypes,
        UpgradeCheck::UnstableTypes,
        UpgradeCheck::TablesWithOids,
        UpgradeCheck::RefusedObjects,
        UpgradeCheck::SystemViews,
        UpgradeCheck::CollationVersions,
        UpgradeCheck::UnknownCollations,
        UpgradeCheck::SearchIndexes,
        UpgradeCheck::DatabaseLocale,
        UpgradeCheck::Databases,
        UpgradeCheck::Statistics,
        UpgradeCheck::ExtendedStatistics,
        UpgradeCheck::MissingTables,
        UpgradeCheck::MissingObjects,
        UpgradeCheck::InvalidIndexes,
        UpgradeCheck::UnvalidatedConstraints,
        UpgradeCheck::PreparedTransactions,
        UpgradeCheck::ReplicationSlots,
        UpgradeCheck::Subscriptions,
        UpgradeCheck::ReplicaIdentity,
        UpgradeCheck::UnloggedTables,
        UpgradeCheck::LargeObjects,
        UpgradeCheck::Md5Passwords,
    ];

    /// Returns the name in texts and in the reference.
    pub fn name(self) -> &'static str {
        match self {
            UpgradeCheck::RemovedSettings => "removed-settings",
            UpgradeCheck::RefusedValues => "refused-values",
            UpgradeCheck::ClusterProperties => "cluster-properties",
            UpgradeCheck::DifferingSettings => "differing-settings",
            UpgradeCheck::ChangedDefaults => "changed-defaults",
            UpgradeCheck::MissingExtensions => "missing-extensions",
            UpgradeCheck::ExtensionVersions => "extension-versions",
            UpgradeCheck::Libraries => "libraries",
            UpgradeCheck::RemovedTypes => "removed-types",
            UpgradeCheck::UnstableTypes => "unstable-types",
            UpgradeCheck::TablesWithOids => "tables-with-oids",
            UpgradeCheck::RefusedObjects => "refused-objects",
            UpgradeCheck::SystemViews => "system-views",
            UpgradeCheck::CollationVersions => "collation-versions",
            UpgradeCheck::UnknownCollations => "unknown-collations",
            UpgradeCheck::SearchIndexes => "search-indexes",
            UpgradeCheck::DatabaseLocale => "database-locale",
            UpgradeCheck::Databases => "databases",
            UpgradeCheck::Statistics => "statistics",
            UpgradeCheck::ExtendedStatistics => "extended-statistics",
            UpgradeCheck::MissingTables => "missing-tables",
            UpgradeCheck::MissingObjects => "missing-objects",
            UpgradeCheck::InvalidIndexes => "invalid-indexes",
            UpgradeCheck::UnvalidatedConstraints => "unvalidated-constraints",
            UpgradeCheck::PreparedTransactions => "prepared-transactions",
            UpgradeCheck::ReplicationSlots => "replication-slots",
            UpgradeCheck::Subscriptions => "subscriptions",
            UpgradeCheck::ReplicaIdentity => "replica-identity",
            UpgradeCheck::UnloggedTables => "unlogged-tables",
            UpgradeCheck::LargeObjects => "large-objects",
            UpgradeCheck::Md5Passwords => "md5-passwords",
        }
    }
}

/// Object of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeObject {
    /// Database; `None` for an object of the whole server.
    pub database: Option<String>,
    /// Name, quoted as in SQL.
    pub name: String,
    /// Fact about it, such as its version.
    pub detail: Option<String>,
    /// Statement to execute in the database, or command.
    pub statement: Option<String>,
}

/// Finding of an inspection: one for each check and severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeFinding {
    /// Check.
    pub check: UpgradeCheck,
    /// Severity.
    pub severity: UpgradeSeverity,
    /// Sentence on what was found.
    pub message: String,
    /// Reason why it matters.
    pub reason: String,
    /// Action to take for all objects together.
    pub remedy: String,
    /// Objects.
    pub objects: Vec<UpgradeObject>,
}

/// New server of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewServerKind {
    /// A private server of the new version, without data.
    Private,
    /// The upgraded server of the user.
    Upgraded,
}

/// Part that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UncheckedPart {
    /// Whether it is a part of the new server.
    pub on_new_server: bool,
    /// Database; `None` for the whole server.
    pub database: Option<String>,
    /// Part; after a colon, the objects of it that could not be checked.
    pub part: String,
    /// Message of the server.
    pub reason: String,
}

/// Parts that no check of severity *blocks* reads, or that a role of a managed service can never read.
const HARMLESS_PARTS: [&str; 15] = [
    "passwords of roles",
    "settings that only some roles see",
    "lines of pg_hba.conf",
    "collation version",
    "collations",
    "constraints",
    part::EXTENDED_STATISTICS,
    part::EXTENDED_STATISTICS_DATA,
    part::INDEXES,
    "large objects",
    "libraries of functions",
    part::OFFERED,
    "privileges",
    "published tables",
    part::TABLE_STATISTICS,
];

/// Databases of managed services that none of their customers can connect to. The service upgrades them.
const SERVICE_DATABASES: [&str; 5] = [
    "rdsadmin",
    "cloudsqladmin",
    "alloydbadmin",
    "azure_maintenance",
    "azure_sys",
];

impl UncheckedPart {
    /// Whether a finding on this part can block the upgrade.
    pub fn can_block(&self) -> bool {
        !self.on_new_server
            && !self
                .part
                .split(": ")
                .next()
                .is_some_and(|kind| HARMLESS_PARTS.contains(&kind))
            && !self.is_of_service()
    }

    /// Whether it is of a database that a managed service alone reads.
    pub fn is_of_service(&self) -> bool {
        let name = self.database.as_deref();
        name.is_some_and(|name| SERVICE_DATABASES.contains(&name))
    }
}

/// Result of `upgrade inspect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpgradeInspection {
    /// Version of the old server.
    pub from_version: String,
    /// Version of the new server.
    pub to_version: String,
    /// Kind of the new server.
    pub new_server: NewServerKind,
    /// Way of the upgrade.
    pub method: UpgradeMethod,
    /// Databases that were read, by name on the old server.
    pub databases: Vec<String>,
    /// Findings, the gravest first.
    pub findings: Vec<UpgradeFinding>,
    /// Parts that could not be checked.
    pub unchecked: Vec<UncheckedPart>,
}

impl UpgradeInspection {
    /// Returns the number of findings of a severity.
    pub fn count(&self, severity: UpgradeSeverity) -> usize {
        let all = self.findings.iter();
        all.filter(|one| one.severity == severity).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_that_cannot_be_read_can_block_unless_it_is_of_a_managed_service() {
        let unread = |database: &str, on_new_server: bool| UncheckedPart {
            on_new_server,
            database: Some(database.to_owned()),
            part: "the whole database".to_owned(),
            reason: "no entry in pg_hba.conf".to_owned(),
        };
        assert!(unread("hidden", false).can_block());
        assert!(!unread("rdsadmin", false).can_block());
        assert!(!unread("hidden", true).can_block());
    }

    #[test]
    fn reference_lists_each_check_once_and_in_order() {
        let guide = include_str!("../../../../docs/reference/upgrade-checks.md");
        let (_, table) = guide.split_once("| check |").unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(listed, UpgradeCheck::ALL.map(UpgradeCheck::name));
        assert!(UpgradeCheck::ALL.is_sorted());
    }
}
