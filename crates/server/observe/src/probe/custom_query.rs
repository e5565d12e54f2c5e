//! Runs a query of the user periodically, for example the length or the delay of a job queue. Each number in
//! the result is a series; texts in it identify the row.

use std::time::Duration;

use run::Counter;
use serde_json::Value;

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext, column_text};
use crate::probe_connection::{MARK, ProbeConnection, ProbeError};

/// Maximum number of rows that are read from a result.
const ROWS_MAX: usize = 100;

/// Runs the user's query.
pub(crate) struct CustomQueryProbe {
    /// Query as given.
    query: String,
    question: String,
    took_ns: i64,
    /// Requested interval.
    wanted_ns: Option<i64>,
}

/// Default interval.
const EVERY_NS: i64 = 1_000_000_000;
/// Fraction of the time that the query may take at the default interval: one over this.
const SHARE: i64 = 20;

impl CustomQueryProbe {
    /// Creates a probe of a query, with or without a semicolon, and a requested interval.
    pub(crate) fn new(query: &str, every: Option<Duration>) -> Self {
        let query = query.trim().trim_end_matches(';');
        // As a subquery it can only be a SELECT, and the names of its columns are available.
        CustomQueryProbe {
            query: query.to_owned(),
            question: format!(
                "SELECT pg_catalog.row_to_json({MARK}) FROM (\n{query}\n) AS {MARK} LIMIT {ROWS_MAX}"
            ),
            took_ns: 0,
            wanted_ns: every.map(|every| i64::try_from(every.as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

impl Probe for CustomQueryProbe {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn interval_ns(&self) -> i64 {
        // A user who sets the interval accepts the cost.
        self.wanted_ns
            .unwrap_or_else(|| (self.took_ns * SHARE).max(EVERY_NS))
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        _: &ObservationLog,
    ) -> Result<(), ProbeError> {
        let rows = match connection.query_one(&self.question) {
            Err(ProbeError::Failed(why)) => {
                // An error of the whole statement may concern the text around the query. EXPLAIN of the query
                // alone gives the query's own error. With options in parentheses, an ANALYZE at its beginning
                // is not an option and is not executed.
                let own = format!("EXPLAIN (ANALYZE off) {}", self.query);
                let why = match connection.query_one(&own) {
                    Err(ProbeError::Failed(own)) => own,
                    _ => why,
                };
                return Err(ProbeError::unsupported(
                    format!("the server does not take the query: {why}"),
                    "give --custom-query a single SELECT that this role may carry out",
                ));
            }
            answer => answer?,
        };
        // A query without rows may return some later.
        if rows
            .first()
            .is_some_and(|row| numbers(column_text(row, 0)).1.is_empty())
        {
            return Err(ProbeError::unsupported(
                "the query has no column with a number",
                "give --custom-query a SELECT such as SELECT count(*) AS waiting FROM jobs",
            ));
        }
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        _: SampleContext,
    ) -> Result<(), ProbeError> {
        let asked_ns = log.clock_ns();
        let answer = connection.query_one(&self.question);
        self.took_ns = log.clock_ns() - asked_ns;
        let rows = answer?;
        let at_ns = log.now_ns();
        for row in &rows {
            let (object, series) = numbers(column_text(row, 0));
            for (name, value) in series {
                log.add_counter(Counter {
                    at_ns,
                    source: self.name().to_owned(),
                    object: object.clone(),
                    name,
                    value,
                    gauge: true,
                });
            }
        }
        Ok(())
    }
}

/// Returns the texts of a row, joined, and its numbers by name.
fn numbers(row: &str) -> (String, Vec<(String, f64)>) {
    let Ok(Value::Object(columns)) = serde_json::from_str(row) else {
        return (String::new(), Vec::new());
    };
    let mut texts = Vec::new();
    let mut series = Vec::new();
    for (name, value) in columns {
        match value {
            Value::Number(number) => series.push((name, number.as_f64().unwrap_or(f64::NAN))),
            Value::String(text) => texts.push(text),
            _ => {}
        }
    }
    (texts.join(" "), series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_series_and_texts_tell_rows_apart() {
        let (object, series) =
            numbers(r#"{"queue":"mail","stalled":3,"age":1.5,"x":null,"ok":true}"#);
        assert_eq!(object, "mail");
        assert_eq!(
            series,
            [("age".to_owned(), 1.5), ("stalled".to_owned(), 3.0)]
        );
        assert_eq!(numbers("no json").1, []);
    }

    #[test]
    fn custom_query_is_wrapped_in_a_subquery() {
        let probe = CustomQueryProbe::new("SELECT 1 AS n -- all of it\n; ", None);
        assert!(
            probe
                .question
                .contains("(\nSELECT 1 AS n -- all of it\n\n)")
        );
    }

    #[test]
    fn slow_custom_query_runs_less_often_unless_an_interval_is_set() {
        let mut probe = CustomQueryProbe::new("SELECT 1 AS n", None);
        assert_eq!(probe.interval_ns(), EVERY_NS);
        probe.took_ns = EVERY_NS / 10;
        assert_eq!(probe.interval_ns(), 2 * EVERY_NS);
        let mut probe = CustomQueryProbe::new("SELECT 1 AS n", Some(Duration::from_millis(100)));
        probe.took_ns = EVERY_NS / 10;
        assert_eq!(probe.interval_ns(), EVERY_NS / 10);
    }
}
