//! Plans and calls that `pg_stat_statements` counts during a trial.

use std::time::Duration;

use connect::login::QueryConnection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::TrialReplay;

/// Time limit of all questions of a trial.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// Counts of `pg_stat_statements` in a trial, of statements that are planned (`SELECT`, `INSERT`
/// and so on) in the database of the sessions. Times are milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Executions.
    pub calls: u64,
    /// Plannings; `None` if planning was not tracked.
    pub plans: Option<u64>,
    /// Time in planning, if it was tracked.
    pub plan_ms: Option<f64>,
    /// Time in execution.
    pub exec_ms: f64,
}

impl Counted {
    /// The difference from an earlier reading.
    pub(super) fn since(&self, before: &Counted) -> Counted {
        Counted {
            calls: self.calls.saturating_sub(before.calls),
            plans: self
                .plans
                .zip(before.plans)
                .map(|(now, then)| now.saturating_sub(then)),
            plan_ms: self
                .plan_ms
                .zip(before.plan_ms)
                .map(|(now, then)| (now - then).max(0.0)),
            exec_ms: (self.exec_ms - before.exec_ms).max(0.0),
        }
    }
}

/// A connection that queries `pg_stat_statements`.
pub(super) struct StatementCounts<'a> {
    questions: QueryConnection<'a>,
    /// The query, if the extension is installed.
    question: Result<String, String>,
    /// The server's first process, if it runs on this machine.
    pub(super) postmaster: Option<i32>,
}

impl<'a> StatementCounts<'a> {
    /// Connects. At a private server the extension is created if its library is loaded.
    ///
    /// # Errors
    /// With the reason, if the server cannot be reached.
    pub(super) fn connect(replay: &'a TrialReplay<'_>) -> Result<Self, String> {
        let questions = replay.dialer.open_query_connection(&replay.session);
        let mut questions = questions.map_err(|error| error.to_string())?;
        questions.limit(TIME_MAX);
        Ok(StatementCounts {
            question: question(&mut questions, replay.context.is_private()),
            postmaster: replay.postmaster(&mut questions, &replay.session),
            questions,
        })
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// With the reason why they are not known.
    pub(super) fn read(&mut self) -> Result<Counted, String> {
        let question = self.question.clone()?;
        let rows = self.questions.query(&question);
        let rows = rows.map_err(|error| error.to_string())?;
        let row = rows.first().ok_or("pg_stat_statements gave no answer")?;
        let text = |column: usize| row.get(column)?.as_deref();
        let number = |column: usize| text(column)?.parse::<f64>().ok();
        let is_tracked = text(4) == Some("on");
        Ok(Counted {
            calls: number(0).unwrap_or(0.0) as u64,
            plans: number(1).filter(|_| is_tracked).map(|count| count as u64),
            plan_ms: number(2).filter(|_| is_tracked),
            exec_ms: number(3).unwrap_or(0.0),
        })
    }
}

/// Builds the query for the counts.
fn question(questions: &mut QueryConnection<'_>, may_create: bool) -> Result<String, String> {
    let loaded =
        "SELECT 1 WHERE current_setting('shared_preload_libraries') ~ '\\mpg_stat_statements\\M'";
    let loaded = questions.query(loaded).map(|rows| !rows.is_empty());
    if may_create && loaded == Ok(true) {
        questions
            .query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .map_err(|error| error.to_string())?;
    }
    let place = "SELECT pg_catalog.quote_ident(n.nspname), current_setting('server_version_num')::int >= 130000 \
                 FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
                 WHERE e.extname = 'pg_stat_statements'";
    let rows = questions.query(place).map_err(|error| error.to_string())?;
    let Some([Some(schema), Some(has_plans)]) = rows.first().map(Vec::as_slice) else {
        return Err(
            "the database does not have the extension: run CREATE EXTENSION pg_stat_statements in it"
                .to_owned(),
        );
    };
    if loaded == Ok(false) {
        return Err(
            "pg_stat_statements is not loaded: add it to shared_preload_libraries and restart the server"
                .to_owned(),
        );
    }
    let columns = match has_plans.as_str() {
        "t" => {
            "sum(calls), sum(plans), sum(total_plan_time), sum(total_exec_time), \
             current_setting('pg_stat_statements.track_planning', true)"
        }
        _ => "sum(calls), NULL, NULL, sum(total_time), 'off'",
    };
    Ok(format!(
        "SELECT {columns} FROM {schema}.pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query ~* '^[[:space:]]*(select|insert|update|delete|merge|with|values|table)\\M' \
         AND query NOT LIKE '%pg_stat_statements%'"
    ))
}
