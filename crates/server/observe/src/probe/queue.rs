//! A question of the user's, asked each second or as often as it is wanted: how long the queue is, how far behind. Each number in the
//! answer is a series; texts in it tell rows apart.

use std::time::Duration;

use run::Counter;
use serde_json::Value;

use crate::asker::{Asker, MARK, Unable};
use crate::ledger::Ledger;
use crate::probe::{Moment, Probe, at};

/// The most rows that are taken of an answer.
const ROWS_MAX: usize = 100;

/// Asks the user's question.
pub(crate) struct QueueProbe {
    /// As it was given.
    query: String,
    question: String,
    took_ns: i64,
    /// As it was asked for.
    wanted_ns: Option<i64>,
}

/// How often it is asked where nobody says.
const EVERY_NS: i64 = 1_000_000_000;
/// Then it may take this share of the time at most.
const SHARE: i64 = 20;

impl QueueProbe {
    /// Of a query, with a semicolon or without, and how often it is wanted.
    pub(crate) fn new(query: &str, every: Option<Duration>) -> Self {
        let query = query.trim().trim_end_matches(';');
        // As a part of ours it can only be a query, and the names of its columns come with it.
        QueueProbe {
            query: query.to_owned(),
            question: format!(
                "SELECT pg_catalog.row_to_json({MARK}) FROM (\n{query}\n) AS {MARK} LIMIT {ROWS_MAX}"
            ),
            took_ns: 0,
            wanted_ns: every.map(|every| i64::try_from(every.as_nanos()).unwrap_or(i64::MAX)),
        }
    }
}

impl Probe for QueueProbe {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn every_ns(&self) -> i64 {
        // Who says how often knows what it takes.
        self.wanted_ns
            .unwrap_or_else(|| (self.took_ns * SHARE).max(EVERY_NS))
    }

    fn begin(&mut self, asker: &mut Asker<'_>, _: &Ledger) -> Result<(), Unable> {
        let rows = match asker.ask_one(&self.question) {
            Err(Unable::Failed(why)) => {
                // The server's complaint may be of what stands around the query: of itself it says what is wrong.
                // With options in brackets, what begins with ANALYZE is no option and is not carried out.
                let own = format!("EXPLAIN (ANALYZE off) {}", self.query);
                let why = match asker.ask_one(&own) {
                    Err(Unable::Failed(own)) => own,
                    _ => why,
                };
                return Err(Unable::never(
                    format!("the server does not take the query: {why}"),
                    "give --queue a single SELECT that this role may carry out",
                ));
            }
            answer => answer?,
        };
        // Where it has no rows now, it may have some later.
        if rows
            .first()
            .is_some_and(|row| numbers(at(row, 0)).1.is_empty())
        {
            return Err(Unable::never(
                "the query has no column with a number",
                "give --queue a SELECT such as SELECT count(*) AS waiting FROM jobs",
            ));
        }
        Ok(())
    }

    fn look(&mut self, asker: &mut Asker<'_>, ledger: &Ledger, _: Moment) -> Result<(), Unable> {
        let asked_ns = ledger.clock_ns();
        let answer = asker.ask_one(&self.question);
        self.took_ns = ledger.clock_ns() - asked_ns;
        let rows = answer?;
        let at_ns = ledger.now_ns();
        for row in &rows {
            let (object, series) = numbers(at(row, 0));
            for (name, value) in series {
                ledger.counter(Counter {
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

/// What a row is of, by its texts, and its numbers by name.
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
    fn a_query_stands_inside_of_ours() {
        let probe = QueueProbe::new("SELECT 1 AS n -- all of it\n; ", None);
        assert!(
            probe
                .question
                .contains("(\nSELECT 1 AS n -- all of it\n\n)")
        );
    }

    #[test]
    fn what_takes_long_is_asked_seldom_but_where_it_is_wanted_more_often() {
        let mut probe = QueueProbe::new("SELECT 1 AS n", None);
        assert_eq!(probe.every_ns(), EVERY_NS);
        probe.took_ns = EVERY_NS / 10;
        assert_eq!(probe.every_ns(), 2 * EVERY_NS);
        let mut probe = QueueProbe::new("SELECT 1 AS n", Some(Duration::from_millis(100)));
        probe.took_ns = EVERY_NS / 10;
        assert_eq!(probe.every_ns(), EVERY_NS / 10);
    }
}
