//! Queries a server's plans for statements of which only the normal form is known, without values: generic
//! plans, as a prepared statement may have them.
//!
//! From version 16 on, `EXPLAIN (GENERIC_PLAN)` accepts a text with `$1` (documentation, EXPLAIN), as a simple
//! query only: the extended protocol takes `$1` for a parameter of `EXPLAIN`, and plans for its value. From 12
//! on, a prepared statement under `plan_cache_mode = force_generic_plan` has such a plan. Older versions
//! offer no way.
//!
//! No statement is executed: see [`crate::plans()`]. A normal form has no literals, so no value can affect its
//! plan. The server refuses a form that needs a literal (`interval '1 day'`), which then has no plan.

use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection, Value};
use run::{NoPlan, PlanFact, PlanOutcome, ServiceTime};
use sql::{classify, holds_several};
use workload::Sqlstate;

use crate::plans::{BEGIN, END, PlanResults};

/// Time after which no further plan is queried.
const TIME: Duration = Duration::from_secs(60);
/// First version in which `EXPLAIN` accepts a text with parameters.
const GENERIC_PLAN_VERSION: u32 = 160_000;
/// First version in which a session can be forced to use generic plans.
pub(crate) const PLAN_CACHE_MODE_VERSION: u32 = 120_000;
const NAME: &str = "rehearse_generic_plan";

/// Queries the generic plans of normal forms one after the other over one connection. The plans are in the
/// order of the statements.
pub fn generic_plans(
    target: &Target,
    login: &Login,
    wanted: &[(ServiceTime, String)],
    clock: &dyn Clock,
) -> PlanResults {
    let mut answers = PlanResults::default();
    let begun_ns = clock.now_ns();
    let dialer = Dialer::new(target);
    let mut connection = match &dialer {
        Err(error) => Err(error.to_string()),
        Ok(dialer) => connect(dialer, login).map_err(|error| error.message),
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
            Ok((questions, version)) if !questions.is_closed() => explain(questions, *version, sql),
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
    classify(sql).is_planned()
}

fn connect<'d>(
    dialer: &'d Dialer,
    login: &Login,
) -> Result<(QueryConnection<'d>, u32), LoginError> {
    let mut questions = dialer.open_query_connection(login)?;
    questions.limit(TIME + Duration::from_secs(30));
    let rows = questions.query("SHOW server_version_num")?;
    let version = rows.first().and_then(|row| row.first()?.as_ref());
    let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok((questions, version))
}

fn explain(questions: &mut QueryConnection<'_>, version: u32, sql: &str) -> PlanOutcome {
    if version < PLAN_CACHE_MODE_VERSION {
        return PlanOutcome::Unasked(NoPlan::NoExample);
    }
    let sql = to_plannable_sql(sql);
    // A simple query may hold several statements, and each would be executed.
    if holds_several(&sql) {
        return PlanOutcome::Unasked(NoPlan::SeveralStatements);
    }
    let answer = questions.query(BEGIN).and_then(|_| match version {
        GENERIC_PLAN_VERSION.. => {
            let question = format!("EXPLAIN (FORMAT JSON, GENERIC_PLAN, SETTINGS)\n{sql}");
            questions.query(&question)
        }
        _ => explain_prepared(questions, &sql, &[], &[]),
    });
    if !questions.is_closed() {
        // It ends anything that is still open, except prepared statements.
        let _ = questions.query(END);
        if version < GENERIC_PLAN_VERSION {
            let _ = questions.query("DEALLOCATE ALL");
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

/// Type names that may precede a literal. `interval '1 day'` is `interval $1` in a normal form, which is not
/// valid SQL.
const LITERAL_TYPES: [&str; 5] = ["interval", "timestamp", "timestamptz", "date", "time"];

/// Converts a normal form to SQL with parameters. A folded list becomes one value, and a typed literal
/// becomes a cast.
fn to_plannable_sql(normal: &str) -> String {
    let mut sql = String::with_capacity(normal.len() + 16);
    let words: Vec<&str> = normal.split(' ').collect();
    let mut place = 0;
    while place < words.len() {
        let (word, next) = (words[place], words.get(place + 1));
        let open = word.trim_start_matches('(');
        let value = next.filter(|next| LITERAL_TYPES.contains(&open) && next.starts_with('$'));
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

/// Returns the generic plan of a statement with parameters of these types; 0, and types missing at the end, leave the
/// choice to the server. The executor's start removes partitions that the values exclude, and NULL excludes all.
pub(crate) fn explain_prepared(
    questions: &mut QueryConnection<'_>,
    sql: &str,
    types: &[u32],
    values: &[Option<Value<'_>>],
) -> Result<Vec<connect::login::Row>, LoginError> {
    questions.query("SET LOCAL plan_cache_mode = force_generic_plan")?;
    let types = type_names(questions, types)?;
    questions.query_with(&format!("PREPARE {NAME}{types} AS\n{sql}"), &[], &[])?;
    let call = prepared_call(questions, NAME, values)?;
    questions.query(&format!("EXPLAIN (FORMAT JSON, SETTINGS) {call}"))
}

/// Returns the `EXECUTE` of a prepared statement of the session, with these values as literals. Missing values are
/// NULL.
///
/// # Errors
/// If the server does not accept a value for the type of its parameter.
pub fn prepared_call(
    connection: &mut QueryConnection<'_>,
    name: &str,
    values: &[Option<Value<'_>>],
) -> Result<String, LoginError> {
    let types = connection.query(&format!(
        "SELECT pg_catalog.unnest(parameter_types)::pg_catalog.oid FROM pg_catalog.pg_prepared_statements \
         WHERE name = '{name}'"
    ))?;
    let types: Vec<u32> = types
        .into_iter()
        .filter_map(|row| row.into_iter().next()??.parse().ok())
        .collect();
    if types.is_empty() {
        return Ok(format!("EXECUTE {name}"));
    }
    let values: Vec<_> = (0..types.len())
        .map(|place| values.get(place).copied().flatten())
        .collect();
    // The server writes the literals, since values may be in the binary format.
    let literals: Vec<String> = (1..=types.len())
        .map(|place| format!("pg_catalog.quote_nullable(${place})"))
        .collect();
    let literals = format!("SELECT {}", literals.join(", "));
    let rows = connection.query_with(&literals, &types, &values)?;
    let literals: Vec<String> = rows.into_iter().flatten().flatten().collect();
    Ok(format!("EXECUTE {name}({})", literals.join(", ")))
}

/// Returns a list of types for `PREPARE`, in which `unknown` leaves the choice to the server.
fn type_names(questions: &mut QueryConnection<'_>, types: &[u32]) -> Result<String, LoginError> {
    if types.is_empty() {
        return Ok(String::new());
    }
    let numbers: Vec<String> = types.iter().map(u32::to_string).collect();
    let rows = questions.query(&format!(
        "SELECT '(' || pg_catalog.string_agg(CASE t WHEN 0 THEN 'unknown' ELSE pg_catalog.format_type(t, NULL) END, ', ' \
         ORDER BY place) || ')' FROM pg_catalog.unnest('{{{}}}'::oid[]) WITH ORDINALITY AS o (t, place)",
        numbers.join(",")
    ))?;
    Ok(rows
        .into_iter()
        .flatten()
        .flatten()
        .next()
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normal_form_becomes_sql_that_can_be_planned() {
        assert_eq!(
            to_plannable_sql(
                "select * from t where a > now() - (interval $1) and b in ($2, ...) and d < date $3 limit $4"
            ),
            "select * from t where a > now() - ($1::interval) and b in ($2) and d < $3::date limit $4"
        );
    }
}
