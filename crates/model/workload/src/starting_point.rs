//! The state of the captured server at the start of a capture, from which a copy for a replay is made.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of the captured server at one moment, before the first captured statement. What could not be read is missing,
/// and [`StartingPoint::missing`] says why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StartingPoint {
    /// Time by the server's clock, in microseconds since 1970-01-01 UTC.
    pub server_time_us: i64,
    /// `server_version`.
    pub server_version: String,
    /// System identifier of the cluster, which physical copies have, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<u64>,
    /// Timeline of the WAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<u32>,
    /// WAL insert position (of a standby: the position that was replayed), such as `0/16B3748`. A copy has every record
    /// that ends at or before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsn: Option<String>,
    /// Name of the restore point that ends at `lsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_point: Option<String>,
    /// Snapshot that was exported for pg_dump.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exported_snapshot: Option<ExportedSnapshot>,
    /// Whether the server was a standby.
    pub in_recovery: bool,
    /// Number of transactions in progress that had written. A copy does not have what they wrote before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing_transactions: Option<u64>,
    /// The sessions of transactions in progress that this role could see, those of longest standing first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transactions: Vec<OpenTransaction>,
    /// Hosting of the server, as far as its settings and roles tell.
    pub hosting: Hosting,
    /// Tool of `archive_command` or `archive_library`.
    pub archiving: Archiving,
    /// `max_connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u64>,
    /// Databases that this role may connect to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabaseState>,
    /// Parts that could not be noted, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A snapshot that a transaction exported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedSnapshot {
    /// Identifier, for `pg_dump --snapshot`.
    pub id: String,
    /// The database in which it can be imported.
    pub database: String,
    /// Time for which it can be imported, in seconds.
    pub held_s: u64,
}

/// A transaction in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTransaction {
    /// Process id of its session; 0 for a prepared transaction.
    pub process_id: i32,
    /// Database.
    pub database: String,
    /// Role.
    pub user: String,
    /// Application name, or the identifier of a prepared transaction.
    pub application: String,
    /// Age in microseconds.
    pub age_us: i64,
    /// Whether it has written.
    pub has_written: bool,
}

/// Hosting of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hosting {
    /// Nothing tells of a provider or an operator.
    #[default]
    SelfManaged,
    /// Amazon RDS.
    Rds,
    /// Amazon Aurora.
    Aurora,
    /// Google Cloud SQL.
    CloudSql,
    /// Google AlloyDB.
    AlloyDb,
    /// Azure Database for PostgreSQL, flexible server.
    Azure,
    /// CloudNativePG.
    CloudNativePg,
    /// Neon.
    Neon,
}

/// Archiving of the WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Archiving {
    /// The settings could not be read.
    #[default]
    Unknown,
    /// The WAL is not archived.
    Off,
    /// By pgBackRest.
    PgBackRest,
    /// By another command or library.
    Other,
}

/// State of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseState {
    /// Name.
    pub name: String,
    /// Encoding.
    pub encoding: String,
    /// `LC_COLLATE`.
    pub collate: String,
    /// `LC_CTYPE`.
    pub ctype: String,
    /// Versions of the extensions, by name.
    pub extensions: BTreeMap<String, String>,
    /// Sequences that this role may read.
    pub sequences: Vec<SequenceValue>,
    /// Numbers of rows of small tables that this role may read.
    pub small_tables: Vec<TableRows>,
}

/// Value of a sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceValue {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Last value.
    pub last_value: i64,
    /// Whether that value was handed out. Otherwise it is the next one.
    pub is_called: bool,
}

/// Number of rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableRows {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
}
