//! What `pg_stat_statements` has counted, before and after a trial: plans against calls.

use std::time::Duration;

use replay::Target;
use serde::{Deserialize, Serialize};
use target::login::{Dialer, Login, Questions};

/// How long our questions of a trial may take together.
const TIME: Duration = Duration::from_secs(3_600);

/// What `pg_stat_statements` counted in a trial, of statements that are planned (`SELECT`, `INSERT`
/// and so on) in the database of the sessions. Times are milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// How many were executed.
    pub calls: u64,
    /// How many were planned; `None` where planning was not tracked.
    pub plans: Option<u64>,
    /// Time in planning, where it was tracked.
    pub plan_ms: Option<f64>,
    /// Time in execution.
    pub exec_ms: f64,
}

impl Counted {
    /// What came since.
    pub(crate) fn since(&self, before: &Counted) -> Counted {
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

/// A connection of our own to the server of a trial, for what it knows of itself.
pub(crate) struct Asking<'a> {
    questions: Questions<'a>,
    /// The question, where the extension is there.
    statistics: Result<String, String>,
    /// The server's first process, where it is one of this machine.
    pub(crate) postmaster: Option<i32>,
}

impl<'a> Asking<'a> {
    /// Connects. `may_create`: the server is ours, and the extension is made where its library is
    /// loaded.
    ///
    /// # Errors
    /// In words, where the server cannot be reached.
    pub(crate) fn begin(
        dialer: &'a Dialer,
        login: &Login,
        may_create: bool,
    ) -> Result<Self, String> {
        let mut questions = dialer.questions(login).map_err(|error| error.to_string())?;
        questions.limit(TIME);
        let statistics = statistics(&mut questions, may_create);
        let backend = questions.ask("SELECT pg_backend_pid()").ok();
        let backend = backend.and_then(|rows| rows.first()?.first()?.as_deref()?.parse().ok());
        let of = |backend| crate::machine::postmaster_of(backend, &login.user, &login.database);
        Ok(Asking {
            questions,
            statistics,
            postmaster: backend.and_then(of),
        })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub(crate) fn counted(&mut self) -> Result<Counted, String> {
        let question = self.statistics.clone()?;
        let rows = self
            .questions
            .ask(&question)
            .map_err(|error| error.to_string())?;
        let row = rows.first().ok_or("pg_stat_statements gave no answer")?;
        let number = |column: usize| -> Option<f64> { row.get(column)?.as_deref()?.parse().ok() };
        let tracked = row
            .get(4)
            .is_some_and(|value| value.as_deref() == Some("on"));
        Ok(Counted {
            calls: number(0).unwrap_or(0.0) as u64,
            plans: number(1).filter(|_| tracked).map(|count| count as u64),
            plan_ms: number(2).filter(|_| tracked),
            exec_ms: number(3).unwrap_or(0.0),
        })
    }
}

/// The question for what was counted.
fn statistics(questions: &mut Questions<'_>, may_create: bool) -> Result<String, String> {
    let loaded =
        "SELECT 1 WHERE current_setting('shared_preload_libraries') ~ '\\mpg_stat_statements\\M'";
    let loaded = questions.ask(loaded).map(|rows| !rows.is_empty());
    if may_create && loaded == Ok(true) {
        questions
            .ask("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .map_err(|error| error.to_string())?;
    }
    let place = "SELECT quote_ident(n.nspname), current_setting('server_version_num')::int >= 130000 \
                 FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
                 WHERE e.extname = 'pg_stat_statements'";
    let rows = questions.ask(place).map_err(|error| error.to_string())?;
    let Some([Some(schema), Some(has_plans)]) = rows.first().map(Vec::as_slice) else {
        return Err("the extension pg_stat_statements is not in the database".to_owned());
    };
    if loaded == Ok(false) {
        return Err("pg_stat_statements is not loaded (shared_preload_libraries)".to_owned());
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

/// Who asks: as the first session of the workload logs in.
pub(crate) fn login_of(
    target: &Target,
    first: Option<(&str, &str)>,
    base: &replay::Options,
) -> Login {
    let (user, database) = first.unwrap_or(("", ""));
    base.logins.login(target, user, database, "rehearse")
}
