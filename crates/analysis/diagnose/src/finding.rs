//! What a rule found.

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
pub use statistics::Unit;

/// How bad it is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It costs much, or breaks something.
    Problem,
    /// It costs something that one would notice.
    Warning,
    /// To be known; nothing that must be done.
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
    /// A series of the user's query.
    Queue,
    /// The server as a whole, or its clients.
    Server,
}

/// Subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Subject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name, with its schema where it has one, or the normal form of a statement; empty for the server.
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

    /// Makes one of a statement and its normal form.
    pub fn statement(fingerprint: Fingerprint, sql: String) -> Self {
        Subject {
            fingerprint: Some(fingerprint),
            ..Subject::named(SubjectKind::Statement, sql)
        }
    }

    /// Makes one of a table.
    pub fn table(name: String) -> Self {
        Subject::named(SubjectKind::Table, name)
    }

    /// Makes one of an index.
    pub fn index(name: String) -> Self {
        Subject::named(SubjectKind::Index, name)
    }

    /// Makes one of a setting.
    pub fn setting(name: String) -> Self {
        Subject::named(SubjectKind::Setting, name)
    }

    /// Makes one of a series of the user's query.
    pub fn queue(name: String) -> Self {
        Subject::named(SubjectKind::Queue, name)
    }

    /// Makes one of the server as a whole.
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
    /// The number; 0 if it could not be computed.
    pub number: f64,
    /// Its unit.
    pub unit: Unit,
    /// Origin of the number.
    pub source: &'static str,
    /// SQL, or a command, that shows it by hand.
    pub check: Option<String>,
}

impl Fact {
    /// Without a way to check it by hand.
    pub fn new(what: impl Into<String>, number: f64, unit: Unit, source: &'static str) -> Self {
        Fact {
            what: what.into(),
            number: if number.is_finite() { number } else { 0.0 },
            unit,
            source,
            check: None,
        }
    }

    /// With one.
    #[must_use]
    pub fn check(self, sql: impl Into<String>) -> Self {
        Fact {
            check: Some(sql.into()),
            ..self
        }
    }
}

/// What it costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// Its part of the whole, in nanoseconds.
    pub ns: f64,
    /// Of all of it, from 0 to 1.
    pub share: f64,
    /// Of the processor's time, from 0 to 1, where stacks or samples tell.
    pub cpu_share: Option<f64>,
}

/// What could be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// A sentence that names it.
    #[serde(rename = "message")]
    pub words: String,
    /// The change in a form in which it can be tried.
    pub form: Form,
}

/// A change in a form in which it can be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Statements for the server.
    Sql(String),
    /// Name and value of a setting.
    Setting(String, String),
    /// A rewrite of the workload (`batch-inserts=50`).
    Rewrite(String),
    /// Something that only people can do.
    ByHand,
}

impl Form {
    /// Returns the statements, the setting (`work_mem=64MB`) or the rewrite (`batch-inserts=50`).
    pub fn text(&self) -> Option<String> {
        match self {
            Form::Sql(text) | Form::Rewrite(text) => Some(text.clone()),
            Form::Setting(name, value) => Some(format!("{name}={value}")),
            Form::ByHand => None,
        }
    }
}

impl Change {
    /// SQL.
    pub fn sql(words: impl Into<String>, sql: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Sql(sql.into()),
        }
    }

    /// A setting.
    pub fn setting(words: impl Into<String>, name: &str, value: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Setting(name.to_owned(), value.into()),
        }
    }

    /// A rewrite of the workload.
    pub fn rewrite(words: impl Into<String>, rewrite: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::Rewrite(rewrite.into()),
        }
    }

    /// By hand.
    pub fn by_hand(words: impl Into<String>) -> Self {
        Change {
            words: words.into(),
            form: Form::ByHand,
        }
    }

    /// The option that tries it: `--set 'work_mem=64MB'`; `None` where nothing can.
    pub fn option(&self) -> Option<String> {
        match &self.form {
            Form::Sql(_) => Some("--change fix.sql".to_owned()),
            Form::Setting(name, value) => Some(format!("--set '{name}={value}'")),
            Form::Rewrite(rewrite) => Some(format!("--rewrite {rewrite}")),
            Form::ByHand => None,
        }
    }
}

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Name of the rule. It is filled in when all rules have looked.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// A sentence without a full stop.
    pub title: String,
    /// What it rests on.
    pub evidence: Vec<Fact>,
    /// What it costs, where that is known.
    pub cost: Option<Cost>,
    /// The most that fixing it can gain, a share of the whole from 0 to 1; `null` if that is not known.
    pub max_gain: Option<f64>,
    /// What could be done, the first first.
    pub changes: Vec<Change>,
    /// What that may break, or cost.
    pub risk: String,
}
