//! A generated application: its schema, its sessions, and the truth about its trouble.

use std::time::Duration;

use super::draw::{Draw, Role};
use super::truth::Truth;

/// Application with a planted trouble, or with none.
#[derive(Debug, Default)]
pub struct Application {
    /// SQL that creates and fills the tables, statement by statement.
    pub schema: Vec<String>,
    /// Settings of the server.
    pub settings: Vec<(&'static str, String)>,
    /// Groups of sessions.
    pub sessions: Vec<Sessions>,
    /// Truth about the trouble.
    pub truth: Truth,
    /// Patterns of statements that are innocent: `--impact-of` should clear each.
    pub innocent: Vec<String>,
}

/// Sessions that do the same.
#[derive(Debug, Clone)]
pub struct Sessions {
    /// Their number.
    pub count: u32,
    /// Mean pause after each action.
    pub think: Duration,
    /// Actions with their weights.
    pub actions: Vec<(u32, Action)>,
    /// Whether each action opens a connection of its own.
    pub reconnects: bool,
}

/// Steps that a session takes one after the other. Its time is measured as a whole.
#[derive(Debug, Clone)]
pub struct Action {
    /// Name under which its time is counted.
    pub label: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Way in which a statement is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The values are literals in the text.
    Simple,
    /// Parsed with each execution.
    Unnamed,
    /// Parsed once in a session.
    Prepared,
}

/// Step of an action.
#[derive(Debug, Clone)]
pub enum Step {
    /// Executes a statement.
    Statement(Query),
    /// Executes a statement for each row of the previous one, whose first column is the first value.
    ForEachRow(Query),
    /// Waits in the client, in ms. This time is not counted.
    Pause(u64),
}

/// Statement with random values.
#[derive(Debug, Clone)]
pub struct Query {
    /// SQL with `$1`, `$2` and so on.
    pub sql: String,
    /// Values.
    pub values: Vec<Value>,
    /// Way in which it is sent.
    pub protocol: Protocol,
}

/// Random value of a parameter. `{}` in a template is the number.
#[derive(Debug, Clone)]
pub enum Value {
    /// Uniformly drawn number, without the upper end.
    Between(u64, u64, String),
    /// One of several texts by weight.
    Weighted(Vec<(u32, String)>),
    /// Number that no other execution has.
    Serial(String),
    /// Random UUID.
    Uuid,
}

impl Value {
    /// Creates a number.
    pub fn number(low: u64, high: u64) -> Self {
        Value::Between(low, high, "{}".to_owned())
    }

    /// Creates a text with a number.
    pub fn text(low: u64, high: u64, template: &str) -> Self {
        Value::Between(low, high, template.to_owned())
    }

    /// Creates a number that is used once.
    pub fn serial() -> Self {
        Value::Serial("{}".to_owned())
    }

    /// Creates one of several texts.
    pub fn one_of(texts: &[(u32, &str)]) -> Self {
        let owned = texts
            .iter()
            .map(|(weight, text)| (*weight, (*text).to_owned()));
        Value::Weighted(owned.collect())
    }
}

/// Creates a prepared statement.
pub fn prepared(sql: impl Into<String>, values: Vec<Value>) -> Step {
    Step::Statement(query(sql, values, Protocol::Prepared))
}

/// Creates a statement with literals.
pub fn simple(sql: impl Into<String>, values: Vec<Value>) -> Step {
    Step::Statement(query(sql, values, Protocol::Simple))
}

/// Creates a statement.
pub fn query(sql: impl Into<String>, values: Vec<Value>, protocol: Protocol) -> Query {
    Query {
        sql: sql.into(),
        values,
        protocol,
    }
}

impl Action {
    /// Creates an action of several steps.
    pub fn new(label: &str, steps: Vec<Step>) -> Self {
        Self {
            label: label.to_owned(),
            steps,
        }
    }
}

/// Label of the action that the trouble makes slow.
pub const TARGET: &str = "target";

impl Sessions {
    /// Creates sessions that only do the troubled action.
    pub fn troubled(count: u32, think_ms: u64, steps: Vec<Step>) -> Self {
        Self {
            count,
            think: Duration::from_millis(think_ms),
            actions: vec![(1, Action::new(TARGET, steps))],
            reconnects: false,
        }
    }
}

impl Application {
    /// Adds a filled table: definitions of columns, and their values as SQL of the row `i`.
    pub fn table(&mut self, name: &str, columns: &str, rows: u64, values: &str) {
        self.schema.push(format!("CREATE TABLE {name} ({columns})"));
        self.schema.push(format!(
            "INSERT INTO {name} SELECT {values} FROM generate_series(1, {rows}) i"
        ));
    }

    /// Adds SQL to the schema.
    pub fn sql(&mut self, sql: impl Into<String>) {
        self.schema.push(sql.into());
    }

    /// Adds healthy tables and sessions, as other parts of the same application.
    pub fn add_healthy_parts(&mut self, draw: &mut Draw) {
        let mut actions = Vec::new();
        for number in 0..draw.number(2, 4) {
            let (table, text) = (draw.table(), draw.column(Role::Text));
            let rows = draw.number(5_000, 20_000);
            let groups = rows / draw.number(5, 15);
            self.table(
                table,
                &format!(
                    "id bigint PRIMARY KEY, grp int NOT NULL, {text} text, changed timestamptz"
                ),
                rows,
                &format!("i, i * 7919 % {groups}, 'x' || i, now() - i * interval '1 minute'"),
            );
            self.sql(format!("CREATE INDEX ON {table} (grp)"));
            let find = prepared(
                format!("SELECT {text}, changed FROM {table} WHERE id = $1"),
                vec![Value::number(1, rows)],
            );
            let list = prepared(
                format!("SELECT id, {text} FROM {table} WHERE grp = $1 ORDER BY id LIMIT 20"),
                vec![Value::number(0, groups)],
            );
            let change = prepared(
                format!("UPDATE {table} SET {text} = $2 WHERE id = $1"),
                vec![Value::number(1, rows), Value::text(0, 1_000, "text {}")],
            );
            let add = prepared(
                format!("INSERT INTO {table} VALUES ($1, $2, 'new', now())"),
                vec![Value::Serial("1{}".to_owned()), Value::number(0, groups)],
            );
            for (name, weight, step) in [
                ("find", draw.number(4, 9), find),
                ("list", draw.number(2, 6), list),
                ("change", draw.number(1, 3), change),
                ("add", draw.number(1, 3), add),
            ] {
                let action = Action::new(&format!("{name} {number}"), vec![step]);
                actions.push((u32::try_from(weight).unwrap_or(1), action));
            }
        }
        self.sessions.push(Sessions {
            count: 2,
            think: Duration::from_millis(draw.number(8, 16)),
            actions,
            reconnects: false,
        });
    }
}
