//! Facts of a server and of its databases, as the queries of [`super::queries`] return them.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

/// Names of parts, an empty answer of which is evidence only if the part was read.
pub(super) mod part {
    pub(in super::super) const EXTENDED_STATISTICS: &str = "extended statistics";
    pub(in super::super) const EXTENDED_STATISTICS_DATA: &str = "data of extended statistics";
    pub(in super::super) const EXTENSIONS: &str = "extensions";
    pub(in super::super) const INDEXES: &str = "indexes";
    pub(in super::super) const OFFERED: &str = "offered extensions";
    pub(in super::super) const ROLE_SETTINGS: &str = "settings of roles and databases";
    pub(in super::super) const SLOTS: &str = "replication slots";
    pub(in super::super) const SUBSCRIPTIONS: &str = "subscriptions";
    pub(in super::super) const SUBSCRIPTION_TABLES: &str = "subscribed tables";
    pub(in super::super) const TABLES: &str = "tables";
    pub(in super::super) const TABLE_STATISTICS: &str = "planner statistics of tables";
}

/// Facts of one server.
#[derive(Debug, Default)]
pub(super) struct ServerFacts {
    pub(super) identity: Identity,
    pub(super) settings: HashMap<String, Setting>,
    pub(super) role_settings: Vec<RoleSetting>,
    pub(super) databases: Vec<DatabaseEntry>,
    pub(super) prepared: Vec<PreparedTransaction>,
    pub(super) slots: Vec<Slot>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) md5_roles: Vec<String>,
    /// Objects outside of databases that the new version refuses.
    pub(super) refused: Vec<RefusedObject>,
    /// Names of types in `pg_catalog`.
    pub(super) types: HashSet<String>,
    /// Columns of the relations in `pg_catalog`, as `relation.column`, and the relations.
    pub(super) system_columns: HashSet<String>,
    /// Default versions of the extensions that the server offers.
    pub(super) offered: HashMap<String, String>,
    /// Names of the other server's settings that this one accepts although it does not list them.
    pub(super) aliases: HashSet<String>,
    /// Facts of the databases that were read.
    pub(super) contents: Vec<DatabaseFacts>,
    /// Parts that were not read.
    pub(super) unread: HashSet<String>,
}

impl ServerFacts {
    /// Whether the server answered the query for a part.
    pub(super) fn was_read(&self, part: &str) -> bool {
        !self.unread.contains(part)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Identity {
    pub(super) version: String,
    pub(super) number: u32,
    pub(super) database: String,
}

impl Identity {
    /// Returns the major version.
    pub(super) fn major(&self) -> u32 {
        self.number / 10_000
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) setting: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) source: String,
    pub(super) boot_val: Option<String>,
    pub(super) category: String,
    pub(super) context: String,
    pub(super) vartype: String,
    pub(super) min_val: Option<String>,
    pub(super) max_val: Option<String>,
    pub(super) enumvals: Option<Vec<String>>,
}

impl Setting {
    /// Whether a configuration sets it: a file, the command line or the environment.
    pub(super) fn is_configured(&self) -> bool {
        matches!(
            self.source.as_str(),
            "configuration file" | "command line" | "environment variable" | "global"
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RoleSetting {
    pub(super) role: Option<String>,
    pub(super) database: Option<String>,
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct DatabaseEntry {
    pub(super) name: String,
    /// Whether a rehearsal made it.
    #[serde(default)]
    pub(super) is_of_rehearsal: bool,
    pub(super) allows_connections: bool,
    pub(super) encoding: String,
    pub(super) collate: Option<String>,
    pub(super) ctype: Option<String>,
    /// `c` for libc, `i` for ICU, `b` for the builtin provider.
    pub(super) provider: String,
    pub(super) locale: Option<String>,
    /// Version of the collation at the creation of the database.
    pub(super) recorded: Option<String>,
}

impl DatabaseEntry {
    /// Whether its default collation has no version: the order of bytes or of code points. Source:
    /// `get_collation_actual_version`.
    pub(super) fn is_stable(&self) -> bool {
        self.provider == "b"
            || self.provider == "c"
                && self.collate.as_deref().is_some_and(|name| {
                    matches!(name, "C" | "POSIX") || name.to_ascii_lowercase().starts_with("c.")
                })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct PreparedTransaction {
    pub(super) gid: String,
    pub(super) database: String,
    pub(super) prepared: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) database: Option<String>,
    /// Reason why it cannot be used any more.
    pub(super) lost: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Subscription {
    pub(super) name: String,
    pub(super) database: Option<String>,
    pub(super) enabled: bool,
    /// Whether it has a replication origin.
    pub(super) has_origin: bool,
}

/// Facts of one database.
#[derive(Debug, Default)]
pub(super) struct DatabaseFacts {
    pub(super) name: String,
    /// Version of the default collation that the host offers.
    pub(super) actual: Option<String>,
    pub(super) relations: Vec<Relation>,
    pub(super) indexes: Vec<Index>,
    pub(super) collations: Vec<Collation>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) statistics: Vec<StatisticsObject>,
    pub(super) extensions: Vec<Extension>,
    pub(super) libraries: Vec<String>,
    pub(super) view_columns: Vec<ViewColumn>,
    pub(super) typed_columns: Vec<TypedColumn>,
    pub(super) refused: Vec<RefusedObject>,
    pub(super) no_identity: Vec<PublishedTable>,
    pub(super) unsynchronised: Vec<String>,
    /// Names of the subscriptions that have tables.
    pub(super) subscription_tables: Vec<String>,
    pub(super) large_objects: u64,
    /// Parts that were not read.
    pub(super) unread: HashSet<String>,
}

impl DatabaseFacts {
    /// Whether the server answered the query for a part.
    pub(super) fn was_read(&self, part: &str) -> bool {
        !self.unread.contains(part)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Relation {
    /// Name with its schema, quoted.
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) persistence: String,
    pub(super) has_rows: bool,
    /// `None` if the role may not see the statistics.
    pub(super) has_statistics: Option<bool>,
    pub(super) has_oids: bool,
    /// Whether it belongs to no extension.
    pub(super) is_own: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) valid: bool,
    /// Whether it is the index of a partitioned table.
    pub(super) partitioned: bool,
    /// Whether it enforces an exclusion constraint.
    pub(super) exclusion: bool,
    pub(super) classes: Vec<String>,
    /// OIDs of its collations.
    pub(super) collations: Vec<u32>,
    /// Statement that creates it or its constraint; `None` for a partitioned table.
    pub(super) definition: Option<String>,
}

/// OID of the default collation (`DEFAULT_COLLATION_OID`).
pub(super) const DEFAULT_COLLATION: u32 = 100;

#[derive(Debug, Deserialize)]
pub(super) struct Collation {
    pub(super) oid: u32,
    pub(super) name: String,
    pub(super) recorded: Option<String>,
    pub(super) actual: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Constraint {
    pub(super) name: String,
    pub(super) table: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct StatisticsObject {
    pub(super) name: String,
    pub(super) table: String,
    /// `None` if the role may not see its data.
    pub(super) has_data: Option<bool>,
    pub(super) table_has_rows: bool,
    /// Statement that creates it; `None` if it was dropped meanwhile.
    pub(super) definition: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Extension {
    pub(super) name: String,
    pub(super) version: String,
    /// Whether it has functions in a library. `false` if it is not installed.
    pub(super) has_library: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ViewColumn {
    pub(super) view: String,
    /// Relation in `pg_catalog`.
    pub(super) relation: String,
    /// `None` for the relation itself.
    pub(super) column: Option<String>,
    /// Statement that drops the view or rule.
    pub(super) statement: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct TypedColumn {
    /// Type in `pg_catalog` or `information_schema`.
    pub(super) type_name: String,
    /// Relation or composite type.
    pub(super) table: String,
    pub(super) column: String,
    /// Kind of the relation, as in `pg_class`.
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RefusedObject {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) statement: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PublishedTable {
    pub(super) name: String,
    pub(super) publications: String,
}
