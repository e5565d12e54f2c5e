//! What a run knows of its target beside what it did: settings, extensions, databases, relations,
//! indexes, as its catalogue had them before the first statement. Plain data; who asks for them is
//! not known here.

use schemars::JsonSchema;
use serde::Serialize;

/// What was found of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its settings, by name. Where roles or databases have their own, those of the first login.
    pub settings: Vec<SettingFact>,
    /// Extensions, by database and name.
    pub extensions: Vec<ExtensionFact>,
    /// The databases that were looked into, by name.
    pub databases: Vec<DatabaseFact>,
    /// Tables, partitions, materialised and foreign ones and views, by database, schema and name.
    pub relations: Vec<RelationFact>,
    /// Indexes, by database, schema and name.
    pub indexes: Vec<IndexFact>,
    /// What is not among all that, and why.
    pub notes: Vec<FactNote>,
}

/// A setting (`pg_settings`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingFact {
    /// Its name.
    pub name: String,
    /// Its value in its unit; `None` where it may be a secret and was not kept.
    pub value: Option<String>,
    /// `8kB`, `ms` and the like.
    pub unit: Option<String>,
    /// Its group, in the server's words (`Query Tuning / Planner Cost Constants`).
    pub category: String,
    /// Where the value comes from: `default`, `configuration file`, `database` …
    pub source: String,
    /// The value that it has where nobody sets it.
    pub boot_value: Option<String>,
    /// It was changed in a file, and waits for a restart.
    pub pending_restart: bool,
}

/// An extension that is created in a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtensionFact {
    /// The database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Its version there.
    pub version: String,
}

/// A database, and how its text is sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseFact {
    /// Its name.
    pub name: String,
    /// Its encoding (`UTF8`).
    pub encoding: String,
    /// `LC_COLLATE`.
    pub collate: String,
    /// `LC_CTYPE`.
    pub ctype: String,
    /// `libc`, `icu` or `builtin`; servers before 15 do not say.
    pub provider: Option<String>,
    /// The provider's locale, where it is not libc's.
    pub locale: Option<String>,
    /// The version of the collation that the database was made with (from 15).
    pub collation_version: Option<String>,
    /// The version that the system has now; where it is another, indexes on text may be wrong.
    pub collation_version_now: Option<String>,
    /// Its size in bytes, where this role may know.
    pub bytes: Option<u64>,
}

/// Something with columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelationFact {
    /// The database.
    pub database: String,
    /// The schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// `table`, `partitioned table`, `view`, `materialized view` or `foreign table`.
    pub kind: String,
    /// `permanent`, `unlogged` or `temporary`.
    pub persistence: String,
    /// The planner's estimate; `None` where it was never analysed (before 14: and where it is empty).
    pub rows: Option<u64>,
    /// The main fork's size; `None` where it has no file or it could not be asked.
    pub bytes: Option<u64>,
    /// What it is a partition of, as `schema.name`.
    pub partition_of: Option<String>,
    /// How it is partitioned (`RANGE (created_at)`).
    pub partition_key: Option<String>,
    /// Storage options (`fillfactor=70`), sorted.
    pub options: Vec<String>,
    /// The names of its columns, in order.
    pub column_names: Vec<String>,
    /// Of each column its type, `not null`, and its default, as one would write them.
    pub columns: Vec<String>,
}

/// An index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexFact {
    /// The database.
    pub database: String,
    /// The schema of index and table.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// `CREATE INDEX …` as the server words it.
    pub definition: String,
    /// Its size; `None` where it has no file or it could not be asked.
    pub bytes: Option<u64>,
    /// Queries may use it.
    pub valid: bool,
    /// Writes keep it up to date.
    pub ready: bool,
    /// No two rows may be alike in it.
    pub unique: bool,
    /// It is the primary key's.
    pub primary: bool,
    /// Its tablespace, where it is not the database's own.
    pub tablespace: Option<String>,
}

/// Something that facts or plans do not have, or what they rest on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FactNote {
    /// Which table of the run it is about: `settings`, `relations` …; `target` for all of them.
    pub about: String,
    /// In a sentence.
    pub text: String,
    /// How many were left out, where something was counted.
    pub count: Option<u64>,
    /// Of which database; `None`: of all of them, or of the server.
    pub database: Option<String>,
}

/// The plan of one statement, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFact {
    /// Which statement.
    pub fingerprint: sql::Fingerprint,
    /// Its service time in all, in this run, in nanoseconds.
    pub service_ns: u64,
    /// How often it was done in this run.
    pub calls: u64,
    /// The example that was planned: its session in the workload, and its place in that; `None`
    /// where none was found.
    pub example: Option<(u64, u64)>,
    /// Where it was planned, and as whom.
    pub database: String,
    /// The role.
    pub user: String,
    /// What came of it.
    pub outcome: PlanOutcome,
}

/// A plan, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanOutcome {
    /// `EXPLAIN (FORMAT JSON)`, as the server answered. It holds the values of the example.
    Planned(String),
    /// The server refused to plan it.
    Refused {
        /// Its code.
        sqlstate: workload::Sqlstate,
        /// Its message.
        message: String,
    },
    /// It was not asked for.
    Unasked(NoPlan),
}

/// Why a statement's plan was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoPlan {
    /// It has none: a utility statement, a transaction's beginning or end, DDL, COPY, CALL.
    Utility,
    /// Several statements in one text.
    SeveralStatements,
    /// The workload has no execution of it with all values.
    NoExample,
    /// The time for all plans together was over.
    OutOfTime,
    /// The connection for it could not be opened, or was lost.
    NoConnection,
}

impl NoPlan {
    /// All of them.
    pub const ALL: [NoPlan; 5] = [
        NoPlan::Utility,
        NoPlan::SeveralStatements,
        NoPlan::NoExample,
        NoPlan::OutOfTime,
        NoPlan::NoConnection,
    ];

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            NoPlan::Utility => "utility",
            NoPlan::SeveralStatements => "several_statements",
            NoPlan::NoExample => "no_example",
            NoPlan::OutOfTime => "out_of_time",
            NoPlan::NoConnection => "no_connection",
        }
    }

    /// In words.
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

    /// The one stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
