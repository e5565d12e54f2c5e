//! What a rule found.

use workload::Fingerprint;

/// How bad it is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It costs much, or breaks something.
    Problem,
    /// It costs something that one would notice.
    Warning,
    /// To be known; nothing that must be done.
    Note,
}

impl Severity {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// What it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A statement, with its normal form.
    Statement(Fingerprint, String),
    /// A table, with its schema.
    Table(String),
    /// An index.
    Index(String),
    /// A setting.
    Setting(String),
    /// A series of the user's query.
    Queue(String),
    /// The server as a whole, or its clients.
    Server,
}

impl Subject {
    /// Its kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Subject::Statement(..) => "statement",
            Subject::Table(_) => "table",
            Subject::Index(_) => "index",
            Subject::Setting(_) => "setting",
            Subject::Queue(_) => "queue",
            Subject::Server => "server",
        }
    }

    /// Its name, or its text.
    pub fn name(&self) -> &str {
        match self {
            Subject::Statement(_, sql) => sql,
            Subject::Table(name)
            | Subject::Index(name)
            | Subject::Setting(name)
            | Subject::Queue(name) => name,
            Subject::Server => "",
        }
    }
}

/// What a number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// How many.
    Count,
    /// How many, and fractions of it: a mean.
    Mean,
    /// Nanoseconds.
    Nanoseconds,
    /// A share, from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// So many a second.
    PerSecond,
    /// So many times.
    Times,
}

impl Unit {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Mean => "mean",
            Unit::Nanoseconds => "ns",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
            Unit::PerSecond => "per_s",
            Unit::Times => "times",
        }
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// What it is, in a few words.
    pub what: String,
    /// How much.
    pub number: f64,
    /// Of what.
    pub unit: Unit,
    /// Where the number is from.
    pub from: &'static str,
    /// SQL, or a command, that shows it to whoever wants to see for himself.
    pub check: Option<String>,
}

impl Fact {
    /// Without a way to check it by hand.
    pub fn new(what: impl Into<String>, number: f64, unit: Unit, from: &'static str) -> Self {
        Fact {
            what: what.into(),
            number,
            unit,
            from,
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// In nanoseconds of [`Evidence::whole_ns`](super::Evidence::whole_ns).
    pub ns: f64,
    /// Of all of it, from 0 to 1.
    pub share: f64,
    /// Of the processor's time, from 0 to 1, where stacks or samples tell.
    pub cpu_share: Option<f64>,
}

/// What could be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In words.
    pub words: String,
    /// In a form in which it can be tried.
    pub form: Form,
}

/// A change in a form in which it can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Statements for the server.
    Sql(String),
    /// A setting: name and value.
    Setting(String, String),
    /// A rewrite of the workload (`batch-inserts=50`).
    Rewrite(String),
    /// Something that only people can do.
    ByHand,
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
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which rule; put there by [`diagnose`](super::diagnose()).
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// In a sentence without a full stop.
    pub title: String,
    /// What it rests on.
    pub evidence: Vec<Fact>,
    /// What it costs, where that is known.
    pub cost: Option<Cost>,
    /// The most that fixing it can win: a share of [`Evidence::whole_ns`](super::Evidence::whole_ns), from
    /// 0 to 1. `None`: not to be told from what was seen.
    pub most_to_win: Option<f64>,
    /// What could be done, the first first.
    pub changes: Vec<Change>,
    /// What that may break, or cost.
    pub risk: String,
}
