//! Asks how a server would carry statements out of which only the normal form is known, without values:
//! generic plans, as a prepared statement may have them.
//!
//! From version 16 on `EXPLAIN (GENERIC_PLAN)` takes a text with `$1` in it (documentation, EXPLAIN); from 12 on
//! a prepared statement under `plan_cache_mode = force_generic_plan` does. Before, there is no way.
//!
//! Nothing is carried out: see [`crate::plans`]. A normal form has no literals, so that no value of a statement
//! is planned by its text; a form that needs a literal (`interval '1 day'`) is refused by the server, and has
//! no plan.

use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login, LoginError, Questions};
use run::{NoPlan, PlanFact, PlanOutcome, ServiceTime};
use sql::{StatementClass, classify, holds_several};
use workload::Sqlstate;

use crate::plans::Answers;

/// No further plan is asked for after this.
const TIME: Duration = Duration::from_secs(60);
/// From this on `EXPLAIN` takes a text with parameters.
const WITH_GENERIC: u32 = 160_000;
/// From this on a session can be told to take generic plans.
const WITH_MODE: u32 = 120_000;
const NAME: &str = "rehearse_generic_plan";

const BEGIN: &str = "BEGIN TRANSACTION READ ONLY; \
     SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '5s'";
const END: &str = "ROLLBACK";

/// Asks for the generic plans of normal forms, one after the other over one connection. The answers are in the
/// order of the statements.
pub fn generic_plans(
    target: &Target,
    login: &Login,
    wanted: &[(ServiceTime, String)],
    clock: &dyn Clock,
) -> Answers {
    let mut answers = Answers::default();
    let begun_ns = clock.now_ns();
    let dialer = Dialer::new(target);
    let mut connection = match &dialer {
        Err(error) => Err(error.to_string()),
        Ok(dialer) => opened(dialer, login).map_err(|error| error.message),
    };
    match &connection {
        Ok(_) => answers.logins = 1,
        Err(why) => answers.failures.push(why.clone()),
    }
    for (time, sql) in wanted {
        let taken_ns = u128::try_from(clock.now_ns() - begun_ns).unwrap_or(0);
        let outcome = match &mut connection {
            _ if !has_plan(sql) => PlanOutcome::Unasked(NoPlan::Utility),
            _ if holds_several(sql) => PlanOutcome::Unasked(NoPlan::SeveralStatements),
            _ if taken_ns > TIME.as_nanos() => PlanOutcome::Unasked(NoPlan::OutOfTime),
            Ok((questions, version)) if !questions.is_over() => explained(questions, *version, sql),
            _ => PlanOutcome::Unasked(NoPlan::NoConnection),
        };
        answers.plans.push(PlanFact {
            fingerprint: time.fingerprint,
            service_ns: time.service_ns,
            calls: time.calls,
            example: None,
            database: login.database.to_string(),
            user: login.user.to_string(),
            outcome,
        });
    }
    answers
}

fn has_plan(sql: &str) -> bool {
    matches!(
        classify(sql),
        StatementClass::Select
            | StatementClass::Insert
            | StatementClass::Update
            | StatementClass::Delete
            | StatementClass::Merge
    )
}

fn opened<'d>(dialer: &'d Dialer, login: &Login) -> Result<(Questions<'d>, u32), LoginError> {
    let mut questions = dialer.questions(login)?;
    questions.limit(TIME + Duration::from_secs(30));
    let rows = questions.ask("SHOW server_version_num")?;
    let version = rows.first().and_then(|row| row.first()?.as_ref());
    let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok((questions, version))
}

fn explained(questions: &mut Questions<'_>, version: u32, sql: &str) -> PlanOutcome {
    if version < WITH_MODE {
        return PlanOutcome::Unasked(NoPlan::NoExample);
    }
    let sql = plannable(sql);
    let answer = questions.ask(BEGIN).and_then(|_| match version {
        WITH_GENERIC.. => {
            let question = format!("EXPLAIN (FORMAT JSON, GENERIC_PLAN, SETTINGS)\n{sql}");
            questions.ask_with(&question, &[], &[])
        }
        _ => prepared(questions, &sql),
    });
    if !questions.is_over() {
        // What is not over by itself is over with this, prepared statements excepted.
        let _ = questions.ask(END);
        if version < WITH_GENERIC {
            let _ = questions.ask("DEALLOCATE ALL");
        }
    }
    match answer {
        Ok(rows) => {
            let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
            PlanOutcome::Planned(lines.join("\n"))
        }
        Err(error) => PlanOutcome::Refused {
            sqlstate: Sqlstate(error.sqlstate),
            message: error.message,
        },
    }
}

/// What a type's name may stand before, in a literal: `interval '1 day'` is `interval $1` in a normal form,
/// which is no SQL.
const TYPED: [&str; 5] = ["interval", "timestamp", "timestamptz", "date", "time"];

/// A normal form as SQL with parameters: a list of values that was folded has one, and a typed literal is cast.
fn plannable(normal: &str) -> String {
    let mut sql = String::with_capacity(normal.len() + 16);
    let words: Vec<&str> = normal.split(' ').collect();
    let mut place = 0;
    while place < words.len() {
        let (word, next) = (words[place], words.get(place + 1));
        let open = word.trim_start_matches('(');
        let value = next.filter(|next| TYPED.contains(&open) && next.starts_with('$'));
        if !sql.is_empty() {
            sql.push(' ');
        }
        match value {
            Some(value) => {
                let digits = value[1..].chars().take_while(char::is_ascii_digit).count() + 1;
                sql.push_str(&word[..word.len() - open.len()]);
                sql.push_str(&format!("{}::{open}{}", &value[..digits], &value[digits..]));
                place += 2;
            }
            None => {
                sql.push_str(word);
                place += 1;
            }
        }
    }
    sql.replace(", ...", "")
}

fn prepared(
    questions: &mut Questions<'_>,
    sql: &str,
) -> Result<Vec<connect::login::Row>, LoginError> {
    questions.ask("SET LOCAL plan_cache_mode = force_generic_plan")?;
    questions.ask_with(&format!("PREPARE {NAME} AS\n{sql}"), &[], &[])?;
    let rows = questions.ask(&format!(
        "SELECT coalesce(pg_catalog.array_length(p.parameter_types, 1), 0) \
         FROM pg_catalog.pg_prepared_statements p WHERE p.name = '{NAME}'"
    ))?;
    let count = rows.first().and_then(|row| row.first()?.as_ref());
    let count: usize = count.and_then(|text| text.parse().ok()).unwrap_or(0);
    let values = match count {
        0 => String::new(),
        count => format!("({})", vec!["NULL"; count].join(", ")),
    };
    questions.ask(&format!(
        "EXPLAIN (FORMAT JSON, SETTINGS) EXECUTE {NAME}{values}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normal_form_becomes_sql_that_can_be_planned() {
        assert_eq!(
            plannable(
                "select * from t where a > now() - (interval $1) and b in ($2, ...) and d < date $3 limit $4"
            ),
            "select * from t where a > now() - ($1::interval) and b in ($2) and d < $3::date limit $4"
        );
    }
}
