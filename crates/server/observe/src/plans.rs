//! Asks how a server would carry statements out: `EXPLAIN (FORMAT JSON)`, never `ANALYZE`.
//!
//! What keeps a statement of a workload from doing anything:
//! - It stands behind `EXPLAIN`, in a message that takes a single statement only (Parse; PostgreSQL
//!   documentation, 54.2.3): a text with several is refused, whatever they are.
//! - Its transaction is `READ ONLY` and rolled back, with limits of time for itself and for locks.
//!   `EXPLAIN INSERT` and the like are allowed there, as they do nothing.
//! - Planning calls functions that are declared `IMMUTABLE` or `STABLE`, to know their values. One that
//!   is declared so and does more than it says is kept from writing to the database by the transaction,
//!   and from nothing else.
//!
//! Planning takes the locks that the statement would take, for the moment: `ACCESS SHARE` for what is
//! read, `ROW SHARE` and `ROW EXCLUSIVE` for what is locked and written.
//!
//! The plan is a custom one, for the values of the example. A session that executes a prepared
//! statement often may have a generic plan instead (documentation, PREPARE). What a session did before,
//! such as `SET search_path` or a temporary table, is not done here.

use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login, LoginError, Questions, Value};
use run::{NoPlan, PlanFact, PlanOutcome, ServiceTime};
use sql::{StatementClass, classify, holds_several};
use workload::{Parameter, Sqlstate};

use crate::examples::Example;

/// The most plans that are asked for where nobody says how many.
pub const PLANS_MAX: usize = 500;
/// No further plan is asked for after this.
pub const PLANS_TIME: Duration = Duration::from_secs(120);
/// How long one connection may be asked.
const CONNECTION_TIME: Duration = Duration::from_secs(180);

const BEGIN: &str = "BEGIN TRANSACTION READ ONLY; \
     SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'";
const END: &str = "ROLLBACK";

/// From this on `EXPLAIN` says which settings differ from their defaults.
const WITH_SETTINGS: u32 = 120_000;

/// What came of asking for plans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// Of each statement, in their order.
    pub plans: Vec<PlanFact>,
    /// How many logins could be asked.
    pub logins: usize,
    /// Why others could not, each reason once.
    pub failures: Vec<String>,
}

/// Asks for the plans of these statements, each with its example, if it has one: one after the other,
/// over one connection for each login. The answers are in the order of the statements.
pub fn plans(
    target: &Target,
    wanted: &[(ServiceTime, Option<Example>)],
    login_of: &dyn Fn(&Example) -> Login,
    clock: &dyn Clock,
) -> Answers {
    let mut answers = Answers::default();
    let logins: Vec<Option<Login>> = wanted
        .iter()
        .map(|(_, example)| example.as_ref().map(login_of))
        .collect();
    let mut outcomes: Vec<Option<PlanOutcome>> = wanted
        .iter()
        .map(|(_, example)| without_asking(example.as_ref()).map(PlanOutcome::Unasked))
        .collect();
    let begun_ns = clock.now_ns();
    let in_time = || {
        let taken_ns = u128::try_from(clock.now_ns() - begun_ns).unwrap_or(0);
        taken_ns < PLANS_TIME.as_nanos()
    };
    let dialer = Dialer::new(target);
    // Login by login, in the order in which they are met first.
    for first in 0..wanted.len() {
        if outcomes[first].is_some() {
            continue;
        }
        let login = logins[first]
            .as_ref()
            .expect("what is asked has an example");
        let mut connection = match &dialer {
            _ if !in_time() => None,
            Err(error) => {
                answers.failed(error.to_string());
                None
            }
            Ok(dialer) => match asked(dialer, login) {
                Ok(connection) => {
                    answers.logins += 1;
                    Some(connection)
                }
                Err(error) => {
                    answers.failed(error.message);
                    None
                }
            },
        };
        for at in first..wanted.len() {
            if outcomes[at].is_some() || logins[at].as_ref() != Some(login) {
                continue;
            }
            let example = wanted[at].1.as_ref().expect("what is asked has an example");
            outcomes[at] = Some(match &mut connection {
                _ if !in_time() => PlanOutcome::Unasked(NoPlan::OutOfTime),
                Some((connection, version)) if !connection.is_over() => {
                    explain(connection, *version, example)
                }
                _ => PlanOutcome::Unasked(NoPlan::NoConnection),
            });
        }
    }
    let all = wanted.iter().zip(logins).zip(outcomes);
    answers.plans = all
        .map(|(((time, example), login), outcome)| PlanFact {
            fingerprint: time.fingerprint,
            service_ns: time.service_ns,
            calls: time.calls,
            example: example.as_ref().map(|one| (one.session, one.sequence)),
            database: said(&login, |login| &login.database),
            user: said(&login, |login| login.role.as_ref().unwrap_or(&login.user)),
            outcome: outcome.expect("each was asked or has a reason"),
        })
        .collect();
    answers
}

impl Answers {
    fn failed(&mut self, why: String) {
        if !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }
}

/// A connection for one login, and the version of the server.
fn asked<'d>(dialer: &'d Dialer, login: &Login) -> Result<(Questions<'d>, u32), LoginError> {
    let mut connection = dialer.questions(login)?;
    connection.limit(CONNECTION_TIME);
    let rows = connection.ask("SHOW server_version_num")?;
    let version = rows.first().and_then(|row| row.first()?.as_ref());
    let version = version.and_then(|text| text.parse().ok());
    // What names no version is taken for an old one, of which less is asked.
    Ok((connection, version.unwrap_or(0)))
}

fn said(login: &Option<Login>, what: impl Fn(&Login) -> &std::sync::Arc<str>) -> String {
    login
        .as_ref()
        .map_or_else(String::new, |login| what(login).to_string())
}

/// Why a statement need not be asked for.
fn without_asking(example: Option<&Example>) -> Option<NoPlan> {
    let Some(example) = example else {
        return Some(NoPlan::NoExample);
    };
    if holds_several(&example.sql) {
        return Some(NoPlan::SeveralStatements);
    }
    match classify(&example.sql) {
        StatementClass::Select
        | StatementClass::Insert
        | StatementClass::Update
        | StatementClass::Delete
        | StatementClass::Merge
        | StatementClass::Other => None,
        StatementClass::Copy
        | StatementClass::Call
        | StatementClass::Transaction
        | StatementClass::Ddl
        | StatementClass::Utility => Some(NoPlan::Utility),
    }
}

fn explain(connection: &mut Questions<'_>, version: u32, example: &Example) -> PlanOutcome {
    match ask(connection, version, example) {
        Ok(plan) => PlanOutcome::Planned(plan),
        Err(error) => PlanOutcome::Refused {
            sqlstate: Sqlstate(error.sqlstate),
            message: error.message,
        },
    }
}

fn ask(
    connection: &mut Questions<'_>,
    version: u32,
    example: &Example,
) -> Result<String, LoginError> {
    let settings = match version >= WITH_SETTINGS {
        true => ", SETTINGS",
        false => "",
    };
    // A line of its own: the text may begin with what is none, and end in a comment.
    let question = format!("EXPLAIN (FORMAT JSON{settings})\n{}", example.sql);
    let values: Vec<Option<Value<'_>>> = example
        .parameters
        .iter()
        .map(|value| {
            value.as_ref().map(|value| match value {
                Parameter::Text(text) => Value::Text(text),
                Parameter::Binary(bytes) => Value::Binary(bytes),
            })
        })
        .collect();
    connection.ask(BEGIN)?;
    let answer = connection.ask_with(&question, &example.types, &values);
    if !connection.is_over() {
        connection.ask(END)?;
    }
    let rows = answer?;
    // One row; the text form of a plan would be a row a line.
    let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    Ok(lines.join("\n"))
}
