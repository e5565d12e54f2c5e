//! Executes a statement with an intervention, and rolls both back.

use std::time::Duration;

use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};
use observe::Example;
use plans::{MeasuredTimes, read_measured_times};
use sql::{StatementClass, classify, holds_several};

/// Time limit of all queries of a trial.
const TRIAL_TIME: Duration = Duration::from_secs(180);
/// Begins a trial. A statement that waits or takes too long is ended.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '60s'";
/// Executions of the statement; the first one warms the caches.
const EXECUTIONS: usize = 2;

/// Whether a statement can be executed in a transaction and measured.
pub(super) fn is_executable(example: &Example) -> bool {
    let is_planned = matches!(
        classify(&example.sql),
        StatementClass::Select
            | StatementClass::Insert
            | StatementClass::Update
            | StatementClass::Delete
            | StatementClass::Merge
    );
    is_planned && !holds_several(&example.sql)
}

/// Connection of the trials. A closed one is opened again, so that a lost connection ends one trial only.
pub(super) struct TrialConnection<'a> {
    dialer: &'a Dialer,
    login: &'a Login,
    open: Option<QueryConnection<'a>>,
}

impl<'a> TrialConnection<'a> {
    pub(super) fn new(dialer: &'a Dialer, login: &'a Login) -> Self {
        TrialConnection {
            dialer,
            login,
            open: None,
        }
    }

    /// Returns the open connection, or opens another one.
    fn get(&mut self) -> Result<&mut QueryConnection<'a>, String> {
        let open = self.open.take().filter(|open| !open.is_closed());
        let open = match open {
            Some(open) => open,
            None => self
                .dialer
                .open_query_connection(self.login)
                .map_err(|error| error.message)?,
        };
        Ok(self.open.insert(open))
    }

    /// Returns the rows of a query.
    pub(super) fn query(&mut self, sql: &str) -> Result<Vec<Row>, String> {
        self.get()?.query(sql).map_err(|error| error.message)
    }
}

/// Makes an intervention, measures the statement, and rolls everything back. Returns the times of the fastest
/// execution, or the reason why there are none.
pub(super) fn execute_trial(
    connection: &mut TrialConnection<'_>,
    example: &Example,
    intervention: &[String],
) -> Result<MeasuredTimes, String> {
    let connection = connection.get()?;
    connection.limit(TRIAL_TIME);
    let measured = measure(connection, example, intervention);
    let rolled_back = connection.query("ROLLBACK");
    let times = measured?;
    rolled_back.map_err(|error| error.message)?;
    Ok(times)
}

fn measure(
    connection: &mut QueryConnection<'_>,
    example: &Example,
    intervention: &[String],
) -> Result<MeasuredTimes, String> {
    let mut execute = |sql: &str| connection.query(sql).map_err(|error| error.message);
    execute(BEGIN)?;
    for sql in intervention {
        execute(sql)?;
    }
    let question = format!("EXPLAIN (ANALYZE, FORMAT JSON)\n{}", example.sql);
    let values = example.values();
    let mut executions = Vec::new();
    for _ in 0..EXECUTIONS {
        let mut execute = || {
            connection.query("SAVEPOINT rehearse_trial")?;
            let rows = connection.query_with(&question, &example.types, &values)?;
            connection.query("ROLLBACK TO rehearse_trial")?;
            Ok(rows)
        };
        let rows = execute().map_err(|error: LoginError| error.message)?;
        executions.push(read_times(rows)?);
    }
    let by_time = |one: &MeasuredTimes, other: &MeasuredTimes| {
        f64::total_cmp(&one.total_ms(), &other.total_ms())
    };
    let fastest = executions.into_iter().min_by(by_time);
    fastest.ok_or_else(|| "it was not executed".to_owned())
}

/// Reads the times of an execution from the rows of `EXPLAIN`.
fn read_times(rows: Vec<Row>) -> Result<MeasuredTimes, String> {
    let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    read_measured_times(&lines.join("\n"))
        .map_err(|error| format!("its times cannot be read: {}", error.explanation()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::{LoginMap, Target};

    #[test]
    fn plan_without_times_is_an_error_and_not_the_fastest() {
        let refused = read_times(vec![vec![Some("QUERY PLAN".to_owned())]]);
        assert!(refused.is_err_and(|reason| reason.contains("cannot be read")));
        assert!(read_times(Vec::new()).is_err());
    }

    #[test]
    fn closed_connection_fails_one_trial_and_the_next_one_has_another() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let login = LoginMap::default().login(&target, "", "", "rehearse");
        let dialer = Dialer::new(&target).unwrap();
        let mut connection = TrialConnection::new(&dialer, &login);
        let example = Example {
            session: 1,
            sequence: 1,
            database: "postgres".into(),
            user: "postgres".into(),
            settings: [].into(),
            sql: "SELECT 1".into(),
            parameters: Vec::new(),
            types: Vec::new(),
        };
        let end = "SELECT pg_terminate_backend(pg_backend_pid())".to_owned();
        execute_trial(&mut connection, &example, &[end]).unwrap_err();
        execute_trial(&mut connection, &example, &[]).unwrap();
    }
}
