//! Findings of rules.

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
pub use statistics::Unit;

use super::change_trial::ChangeTrial;

/// Name of the rule whose findings hold for all statements that wait for locks.
pub(crate) const LOCK_WAITS: &str = "lock-waits";

/// Name of the rule whose finding holds for all statements that wait for the flush of the write-ahead log.
pub(crate) const COMMIT_FLUSH: &str = "commit-flush";

/// Risk of [`Change::without_compilation`].
pub const COMPILATION_RISK: &str = "long analytical statements may take longer without compilation; a greater jit_above_cost leaves these alone";

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It costs much, or breaks something.
    Problem,
    /// It has a noticeable cost.
    Warning,
    /// Information that requires no action.
    Note,
}

/// Kind of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A statement.
    Statement,
    /// A table.
    Table,
    /// An index.
    Index,
    /// A setting.
    Setting,
    /// A series of the user's query (`--custom-query`).
    Queue,
    /// The server as a whole, or its clients.
    Server,
}

/// Subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Subject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name, including the schema if it has one, or the normalised SQL of a statement; empty
    /// for the server.
    pub name: String,
    /// Fingerprint of a statement.
    pub fingerprint: Option<Fingerprint>,
}

impl Subject {
    fn named(kind: SubjectKind, name: String) -> Self {
        Subject {
            kind,
            name,
            fingerprint: None,
        }
    }

    /// Creates a subject from a statement and its normalised SQL.
    pub fn statement(fingerprint: Fingerprint, sql: String) -> Self {
        Subject {
            fingerprint: Some(fingerprint),
            ..Subject::named(SubjectKind::Statement, sql)
        }
    }

    /// Creates a subject from a table.
    pub fn table(name: String) -> Self {
        Subject::named(SubjectKind::Table, name)
    }

    /// Creates a subject from an index.
    pub fn index(name: String) -> Self {
        Subject::named(SubjectKind::Index, name)
    }

    /// Creates a subject from a setting.
    pub fn setting(name: String) -> Self {
        Subject::named(SubjectKind::Setting, name)
    }

    /// Creates a subject from a series of the user's query.
    pub fn queue(name: String) -> Self {
        Subject::named(SubjectKind::Queue, name)
    }

    /// Creates the subject for the server as a whole.
    pub fn server() -> Self {
        Subject::named(SubjectKind::Server, String::new())
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Fact {
    /// Name of the number.
    #[serde(rename = "name")]
    pub what: String,
    /// The number; 0 if it cannot be computed.
    pub number: f64,
    /// Its unit.
    pub unit: Unit,
    /// Origin of the number.
    pub source: &'static str,
    /// SQL or a command that verifies the number.
    pub check: Option<String>,
}

impl Fact {
    /// Creates a fact without a way to verify it.
    pub fn new(what: impl Into<String>, number: f64, unit: Unit, source: &'static str) -> Self {
        Fact {
            what: what.into(),
            number: if number.is_finite() { number } else { 0.0 },
            unit,
            source,
            check: None,
        }
    }

    /// Adds the SQL that verifies it.
    #[must_use]
    pub fn check(self, sql: impl Into<String>) -> Self {
        Fact {
            check: Some(sql.into()),
            ..self
        }
    }
}

/// Cost of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// Part of the whole, in nanoseconds.
    pub ns: f64,
    /// Share of the whole, from 0 to 1.
    pub share: f64,
    /// Share of processor time, from 0 to 1, if stacks or samples show it.
    pub cpu_share: Option<f64>,
}

/// Whether an experiment showed the cause of a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseStatus {
    /// No experiment was made, or none removed the cost.
    #[default]
    Hypothesis,
    /// A change that was made on a private copy removed half of the statement's time or more.
    Confirmed,
}

/// Suggested change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Sentence that describes it.
    #[serde(rename = "message")]
    pub words: String,
    /// Form in which the change can be tested.
    pub form: Form,
    /// Its experiment on a private copy; `null` if there was none.
    pub trial: Option<ChangeTrial>,
}

/// Form in which a change can be tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// SQL statements for the server.
    Sql(String),
    /// Name and value of a setting.
    Setting(String, String),
    /// A rewriting of the workload (`batch-inserts=50`).
    Rewrite(String),
    /// Requires manual work, such as a change of the application.
    ByHand,
}

impl Form {
    /// Returns the statements, the setting (`work_mem=64MB`) or the rewriting (`batch-inserts=50`).
    pub fn text(&self) -> Option<String> {
        match self {
            Form::Sql(text) | Form::Rewrite(text) => Some(text.clone()),
            Form::Setting(name, value) => Some(format!("{name}={value}")),
            Form::ByHand => None,
        }
    }
}

impl Change {
    /// Creates a change by SQL statements.
    pub fn sql(words: impl Into<String>, sql: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Sql(sql.into()),
            trial: None,
        }
    }

    /// Creates a change of a setting.
    pub fn setting(words: impl Into<String>, name: &str, value: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Setting(name.to_owned(), value.into()),
            trial: None,
        }
    }

    /// Creates the change that turns just-in-time compilation off.
    pub fn without_compilation() -> Self {
        Change::setting("do not compile", "jit", "off")
    }

    /// Creates a rewriting of the workload.
    pub fn rewrite(words: impl Into<String>, rewrite: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Rewrite(rewrite.into()),
            trial: None,
        }
    }

    /// Creates a change that requires manual work.
    pub fn manual(words: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::ByHand,
            trial: None,
        }
    }

    /// Returns the command-line option that tests it, such as `--set 'work_mem=64MB'`; `None` if
    /// there is none.
    pub fn option(&self) -> Option<String> {
        match &self.form {
            Form::Sql(_) => Some("--change fix.sql".to_owned()),
            Form::Setting(name, value) => Some(format!("--set '{name}={value}'")),
            Form::Rewrite(rewrite) => Some(format!("--rewrite {rewrite}")),
            Form::ByHand => None,
        }
    }
}

/// Finding of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Name of the rule, filled in after all rules ran.
    pub rule: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Whether an experiment showed the cause.
    pub status: CauseStatus,
    /// Subject.
    pub subject: Subject,
    /// Title, a sentence without a full stop.
    pub title: String,
    /// Evidence for the finding.
    pub evidence: Vec<Fact>,
    /// Cost, if known.
    pub cost: Option<Cost>,
    /// Maximum gain of a fix, as a share of the whole from 0 to 1; `null` if unknown.
    pub max_gain: Option<f64>,
    /// Suggested changes, the best first.
    pub changes: Vec<Change>,
    /// Risk or cost of the changes.
    pub risk: String,
}
