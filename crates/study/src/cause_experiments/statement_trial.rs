//! Executes a statement with an intervention, and rolls both back.

use std::time::Duration;

use connect::login::{LoginError, QueryConnection};
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

/// Makes an intervention, measures the statement, and rolls everything back. Returns the times of the fastest
/// execution.
pub(super) fn execute_trial(
    connection: &mut QueryConnection<'_>,
    example: &Example,
    intervention: &[String],
) -> Result<MeasuredTimes, LoginError> {
    connection.limit(TRIAL_TIME);
    let measured = measure(connection, example, intervention);
    if !connection.is_closed() {
        connection.query("ROLLBACK")?;
    }
    measured
}

fn measure(
    connection: &mut QueryConnection<'_>,
    example: &Example,
    intervention: &[String],
) -> Result<MeasuredTimes, LoginError> {
    connection.query(BEGIN)?;
    for sql in intervention {
        connection.query(sql)?;
    }
    let question = format!("EXPLAIN (ANALYZE, FORMAT JSON)\n{}", example.sql);
    let values = example.values();
    let mut fastest: Option<MeasuredTimes> = None;
    for _ in 0..EXECUTIONS {
        connection.query("SAVEPOINT rehearse_trial")?;
        let rows = connection.query_with(&question, &example.types, &values)?;
        connection.query("ROLLBACK TO rehearse_trial")?;
        let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
        let times = read_measured_times(&lines.join("\n")).unwrap_or_default();
        if fastest
            .as_ref()
            .is_none_or(|least| times.total_ms() < least.total_ms())
        {
            fastest = Some(times);
        }
    }
    Ok(fastest.unwrap_or_default())
}
