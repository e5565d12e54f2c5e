//! Facts about a target, read from its catalogue before the first statement: settings, extensions, databases,
//! relations and indexes. This module has the data only; the crate `observe` collects them.

use schemars::JsonSchema;
use serde::Serialize;

/// Facts about a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Settings, by name. Settings of roles or databases are those of the first login.
    pub settings: Vec<SettingFact>,
    /// Extensions, by database and name.
    pub extensions: Vec<ExtensionFact>,
    /// Databases, by name.
    pub databases: Vec<DatabaseFact>,
    /// Tables, partitions, views, and materialised views and foreign tables, by database, schema and name.
    pub relations: Vec<RelationFact>,
    /// Indexes, by database, schema and name.
    pub indexes: Vec<IndexFact>,
    /// Functions, procedures and aggregates that no extension owns, by database, schema and name.
    pub functions: Vec<FunctionFact>,
    /// Triggers, by database, schema, table and name.
    pub triggers: Vec<TriggerFact>,
    /// Facts about how the server was built, by name.
    pub build: Vec<BuildFact>,
    /// Missing facts, with the reasons.
    pub notes: Vec<FactNote>,
}

/// A function, procedure or aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionFact {
    /// Database.
    pub database: String,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Types of its arguments, as SQL.
    pub arguments: String,
    /// Kind, result, language and properties: `function returns integer language sql stable`.
    pub definition: String,
    /// Hash of its body, its default values and its settings, in hexadecimal.
    pub source_hash: String,
}

/// A trigger. Those that check constraints are recorded only if they are not enabled, with the constraint's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TriggerFact {
    /// Database.
    pub database: String,
    /// Schema of the table.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Name.
    pub name: String,
    /// Definition as the server prints it.
    pub definition: String,
    /// `enabled`, `disabled`, `enabled on replicas` or `always enabled`.
    pub state: String,
}

/// Fact about how a server was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildFact {
    /// `version`, `jit_available`, or a name of `pg_config`.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A setting (`pg_settings`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingFact {
    /// Name.
    pub name: String,
    /// Value in its unit; `None` if it may be a secret.
    pub value: Option<String>,
    /// Unit: `8kB`, `ms` and the like.
    pub unit: Option<String>,
    /// Category as the server words it (`Query Tuning / Planner Cost Constants`).
    pub category: String,
    /// Source of the value: `default`, `configuration file`, `database` …
    pub source: String,
    /// Value at startup without any configuration.
    pub boot_value: Option<String>,
    /// Whether it was changed in a file and needs a restart.
    pub pending_restart: bool,
}

/// An extension in a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtensionFact {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Version in the database.
    pub version: String,
}

/// A database and its collation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseFact {
    /// Name.
    pub name: String,
    /// Encoding (`UTF8`).
    pub encoding: String,
    /// `LC_COLLATE`.
    pub collate: String,
    /// `LC_CTYPE`.
    pub ctype: String,
    /// Collation provider: `libc`, `icu` or `builtin`; unknown before 15.
    pub provider: Option<String>,
    /// Locale of the provider, if it is not libc.
    pub locale: Option<String>,
    /// Version of the collation at the creation of the database (from 15).
    pub collation_version: Option<String>,
    /// Current version in the system. If it differs, indexes on text may be corrupt.
    pub collation_version_now: Option<String>,
    /// Size in bytes, if this role may read it.
    pub bytes: Option<u64>,
}

/// A relation with columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelationFact {
    /// Database.
    pub database: String,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// `table`, `partitioned table`, `view`, `materialized view` or `foreign table`.
    pub kind: String,
    /// `permanent`, `unlogged` or `temporary`.
    pub persistence: String,
    /// Estimate of the planner; `None` if it was never analysed (before 14 also if it is empty).
    pub rows: Option<u64>,
    /// Size of the main fork in bytes; `None` if it has no file or the size is not available.
    pub bytes: Option<u64>,
    /// Parent of a partition, as `schema.name`.
    pub partition_of: Option<String>,
    /// Partition key (`RANGE (created_at)`).
    pub partition_key: Option<String>,
    /// Storage options (`fillfactor=70`), sorted.
    pub options: Vec<String>,
    /// Names of the columns, in order.
    pub column_names: Vec<String>,
    /// Type, `not null` and default of each column, in SQL.
    pub columns: Vec<String>,
    /// Collation of each column with its version; empty for the default of its type. Empty in older runs.
    pub column_collations: Vec<String>,
    /// Statistics target of each column; empty for the default. Empty in older runs.
    pub column_statistics: Vec<String>,
    /// Bounds of a partition, as SQL.
    pub partition_bound: Option<String>,
    /// Whether the planner has statistics of its columns; `None` if the role may not see them.
    pub has_statistics: Option<bool>,
    /// Time from the last ANALYZE to the query for it, in seconds; `None` if it is not known, also after a crash.
    pub analysed_ago_s: Option<u64>,
    /// Estimated number of rows changed since the last ANALYZE.
    pub changed_since_analyze: Option<u64>,
}

/// An index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexFact {
    /// Database.
    pub database: String,
    /// Schema of index and table.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Name.
    pub name: String,
    /// Definition as the server prints it: `CREATE INDEX …`.
    pub definition: String,
    /// Size in bytes; `None` if it has no file or the size is not available.
    pub bytes: Option<u64>,
    /// Whether queries may use it.
    pub valid: bool,
    /// Whether writes maintain it.
    pub ready: bool,
    /// Constraint that it enforces.
    pub key: IndexKey,
    /// Tablespace, if it is not that of the database.
    pub tablespace: Option<String>,
}

/// Constraint that an index enforces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexKey {
    /// None.
    #[default]
    Plain,
    /// Uniqueness.
    Unique,
    /// The primary key.
    Primary,
}

impl IndexKey {
    /// Builds it from `indisunique` and `indisprimary` of `pg_index`.
    pub fn new(is_unique: bool, is_primary: bool) -> Self {
        match (is_unique, is_primary) {
            (_, true) => IndexKey::Primary,
            (true, false) => IndexKey::Unique,
            (false, false) => IndexKey::Plain,
        }
    }

    /// Whether values are unique.
    pub fn is_unique(self) -> bool {
        self != IndexKey::Plain
    }

    /// Whether it belongs to the primary key.
    pub fn is_primary(self) -> bool {
        self == IndexKey::Primary
    }
}

/// Note about missing facts or plans, or about their basis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FactNote {
    /// Table of the run that it concerns: `settings`, `relations` …; `target` for all tables.
    pub about: String,
    /// Note as a sentence.
    pub text: String,
    /// Number of objects left out, if counted.
    pub count: Option<u64>,
    /// Database that it concerns; `None` for all databases, or for the server.
    pub database: Option<String>,
}

/// Plan of one statement, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFact {
    /// Statement.
    pub fingerprint: sql::Fingerprint,
    /// Total service time in this run, in nanoseconds.
    pub service_ns: u64,
    /// Number of calls in this run.
    pub calls: u64,
    /// Example that was planned: its session in the workload, and its position in the session. `None` if none
    /// was found.
    pub example: Option<(u64, u64)>,
    /// Database in which it was planned.
    pub database: String,
    /// Role for which it was planned.
    pub user: String,
    /// Plan or reason.
    pub outcome: PlanOutcome,
}

/// A plan, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanOutcome {
    /// Result of `EXPLAIN (FORMAT JSON)` as the server sent it. It holds the values of the example.
    Planned(String),
    /// The server refused to plan it.
    Refused {
        /// SQLSTATE.
        sqlstate: workload::Sqlstate,
        /// Message.
        message: String,
    },
    /// No plan was requested.
    Unasked(NoPlan),
}

/// Reason why no plan of a statement was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoPlan {
    /// The statement has no plan: a utility statement, the begin or end of a transaction, DDL, COPY, CALL.
    Utility,
    /// The text has several statements.
    SeveralStatements,
    /// The workload has no execution with all values.
    NoExample,
    /// The time limit for all plans was reached.
    OutOfTime,
    /// The connection could not be opened, or was lost.
    NoConnection,
}

impl NoPlan {
    /// All reasons.
    pub const ALL: [NoPlan; 5] = [
        NoPlan::Utility,
        NoPlan::SeveralStatements,
        NoPlan::NoExample,
        NoPlan::OutOfTime,
        NoPlan::NoConnection,
    ];

    /// Returns the name under which the reason is stored.
    pub fn name(self) -> &'static str {
        match self {
            NoPlan::Utility => "utility",
            NoPlan::SeveralStatements => "several_statements",
            NoPlan::NoExample => "no_example",
            NoPlan::OutOfTime => "out_of_time",
            NoPlan::NoConnection => "no_connection",
        }
    }

    /// Returns the reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            NoPlan::Utility => "this kind of statement has no plan",
            NoPlan::SeveralStatements => {
                "it is sent with others in one text, and the server plans one at a time"
            }
            NoPlan::NoExample => "the workload has no execution of it with all its values",
            NoPlan::OutOfTime => "the time for all plans together was over",
            NoPlan::NoConnection => "there was no connection to ask over",
        }
    }

    /// Returns the reason stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
