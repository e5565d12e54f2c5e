//! Queries a server's plans for statements with `EXPLAIN (FORMAT JSON)`, never with `ANALYZE`.
//!
//! No statement of a workload is executed:
//! - It follows `EXPLAIN` in a message that accepts a single statement only (Parse; PostgreSQL documentation,
//!   54.2.3). The server refuses a text with several statements.
//! - Its transaction is `READ ONLY` and rolled back, with limits for the time of a statement and of a lock
//!   wait. `EXPLAIN INSERT` and the like are allowed there, since they change nothing.
//! - Planning calls functions that are declared `IMMUTABLE` or `STABLE`, to compute their values. If one has
//!   side effects in spite of its declaration, the transaction prevents writes to the database, but no other
//!   effects.
//!
//! Planning briefly takes the locks that the statement would take: `ACCESS SHARE` for relations that are
//! read, `ROW SHARE` and `ROW EXCLUSIVE` for those that are locked and written.
//!
//! The plan is a custom one, for the values of the example. A session that executes a prepared statement
//! often may have a generic plan instead (documentation, PREPARE). Earlier statements of a session, such as
//! `SET search_path` or a temporary table, are not repeated here.

use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection};
use run::{NoPlan, PlanFact, PlanOutcome, ServiceTime};
use sql::{StatementClass, classify, holds_several};
use workload::Sqlstate;

use crate::examples::Example;

/// Default maximum number of plans.
pub const PLANS_MAX: usize = 500;
/// Time after which no further plan is queried.
pub const PLANS_TIME: Duration = Duration::from_secs(120);
/// Time limit for the queries of one connection.
const CONNECTION_TIME: Duration = Duration::from_secs(180);

/// Begins a read-only transaction with short limits, in which plans are asked for.
pub(crate) const BEGIN: &str = "BEGIN TRANSACTION READ ONLY; \
     SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'";
/// Ends that transaction.
pub(crate) const END: &str = "ROLLBACK";

/// First version in which `EXPLAIN` shows the settings that differ from their defaults.
const SETTINGS_VERSION: u32 = 120_000;

/// Plans of statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanResults {
    /// Plan of each statement, in the order of the statements.
    pub plans: Vec<PlanFact>,
    /// Number of logins that could connect.
    pub logins: usize,
    /// Distinct reasons why other logins failed.
    pub failures: Vec<String>,
}

/// Queries the plans of these statements one after the other, over one connection for each login. Each
/// statement has an example, if one was found. The plans are in the order of the statements.
pub fn plans(
    target: &Target,
    wanted: &[(ServiceTime, Option<Example>)],
    login_of: &dyn Fn(&Example) -> Login,
    clock: &dyn Clock,
) -> PlanResults {
    let mut answers = PlanResults::default();
    let logins: Vec<Option<Login>> = wanted
        .iter()
        .map(|(_, example)| example.as_ref().map(login_of))
        .collect();
    let mut outcomes: Vec<Option<PlanOutcome>> = wanted
        .iter()
        .map(|(_, example)| no_plan_reason(example.as_ref()).map(PlanOutcome::Unasked))
        .collect();
    let begun_ns = clock.now_ns();
    let in_time = || {
        let taken_ns = u128::try_from(clock.now_ns() - begun_ns).unwrap_or(0);
        taken_ns < PLANS_TIME.as_nanos()
    };
    let dialer = Dialer::new(target);
    // Login by login, in the order of first appearance.
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
            Ok(dialer) => match connect(dialer, login) {
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
                Some((connection, version)) if !connection.is_closed() => {
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
            database: login_value(&login, |login| &login.database),
            user: login_value(&login, |login| login.role.as_ref().unwrap_or(&login.user)),
            outcome: outcome.expect("each was asked or has a reason"),
        })
        .collect();
    answers
}

impl PlanResults {
    fn failed(&mut self, why: String) {
        if !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }
}

/// Connects as this login. Returns the connection and the version of the server.
fn connect<'d>(
    dialer: &'d Dialer,
    login: &Login,
) -> Result<(QueryConnection<'d>, u32), LoginError> {
    let mut connection = dialer.open_query_connection(login)?;
    connection.limit(CONNECTION_TIME);
    let rows = connection.query("SHOW server_version_num")?;
    let version = rows.first().and_then(|row| row.first()?.as_ref());
    let version = version.and_then(|text| text.parse().ok());
    // An unreadable version counts as an old one, which supports fewer options.
    Ok((connection, version.unwrap_or(0)))
}

fn login_value(login: &Option<Login>, what: impl Fn(&Login) -> &std::sync::Arc<str>) -> String {
    login
        .as_ref()
        .map_or_else(String::new, |login| what(login).to_string())
}

/// Returns the reason why a statement has no plan that could be queried.
fn no_plan_reason(example: Option<&Example>) -> Option<NoPlan> {
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

fn explain(connection: &mut QueryConnection<'_>, version: u32, example: &Example) -> PlanOutcome {
    match query_plan(connection, version, example) {
        Ok(plan) => PlanOutcome::Planned(plan),
        Err(error) => PlanOutcome::Refused {
            sqlstate: Sqlstate(error.sqlstate),
            message: error.message,
        },
    }
}

/// Returns the custom plan of an example.
pub(crate) fn query_plan(
    connection: &mut QueryConnection<'_>,
    version: u32,
    example: &Example,
) -> Result<String, LoginError> {
    let settings = match version >= SETTINGS_VERSION {
        true => ", SETTINGS",
        false => "",
    };
    // The text starts on its own line, since it may begin with a comment or an empty line, and may end in a
    // comment.
    let question = format!("EXPLAIN (FORMAT JSON{settings})\n{}", example.sql);
    let values = example.values();
    connection.query(BEGIN)?;
    let answer = connection.query_with(&question, &example.types, &values);
    if !connection.is_closed() {
        connection.query(END)?;
    }
    let rows = answer?;
    // One row. Only the text form of a plan has a row per line.
    let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    Ok(lines.join("\n"))
}
