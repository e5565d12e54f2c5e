//! Spans of a replay's statements, after OpenTelemetry's conventions for databases.
//!
//! A span has a trace of the replay, not of the capture: a trace that spans days is of no use. All statements of one
//! captured trace are in one trace of the replay. Each span links to the captured span that sent its statement.
//!
//! Source: <https://opentelemetry.io/docs/specs/semconv/db/database-spans/>.

use std::time::{SystemTime, UNIX_EPOCH};

use replay::COPY_SESSION_OFFSET;
use run::{Execution, Outcome};
use sql::{Fingerprint, LexicalRules, ValuePlaces};
use study::observed_replay::ReplayStart;
use telemetry::{AttributeValue, Span, SpanLink};

use crate::live::Statements;

/// Texts of statements are shortened to this many characters.
const TEXT_MAX: usize = 2_000;
/// Most tables in a summary of a statement.
const SUMMARY_TABLES_MAX: usize = 3;
/// An odd number near 2⁶⁴ divided by the golden ratio, which spreads consecutive numbers over all bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes spans of executions.
pub struct SpanMaker {
    statements: Statements,
    run: String,
    server_address: String,
    server_port: Option<i64>,
    /// Random number that tells this replay's traces from others.
    seed: u128,
    made: u64,
}

impl SpanMaker {
    /// Creates the maker of a replay's spans.
    pub fn new(start: &ReplayStart<'_>) -> Self {
        let address = &start.target.address;
        let tcp = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        SpanMaker {
            statements: Statements::new(Some(start.workload.clone()), TEXT_MAX),
            run: start.run.display().to_string(),
            server_address: tcp.map_or(address.as_str(), |(host, _)| host).to_owned(),
            server_port: tcp.map(|(_, port)| i64::from(port)),
            seed: rand::random(),
            made: 0,
        }
    }

    /// Makes the spans of executions. `now_ns` is the present time of the replay.
    pub fn spans(&mut self, executions: &[Execution], now_ns: i64) -> Vec<Span> {
        let wanted: Vec<Fingerprint> = executions
            .iter()
            .filter_map(|one| one.fingerprint)
            .collect();
        self.statements.find_now(&wanted);
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let origin_ns = since_epoch.as_nanos() as i64 - now_ns;
        executions
            .iter()
            .filter_map(|one| self.span(one, origin_ns))
            .collect()
    }

    fn span(&mut self, execution: &Execution, origin_ns: i64) -> Option<Span> {
        let captured = execution.captured.trace?;
        let unix_ns = |ns: i64| u64::try_from(origin_ns + ns).unwrap_or(0);
        let text = execution
            .fingerprint
            .and_then(|fingerprint| self.statements.text(fingerprint));
        let summary = text.and_then(summary_of);
        let mut attributes = self.attributes(execution);
        if let Some(text) = text {
            attributes.push(("db.query.text", text.into()));
        }
        if let Some((operation, summary)) = &summary {
            attributes.push(("db.operation.name", operation.clone().into()));
            attributes.push(("db.query.summary", summary.clone().into()));
        }
        let error = match execution.outcome {
            Outcome::Failed(sqlstate) => Some(sqlstate.to_string()),
            Outcome::Done | Outcome::Skipped(_) => None,
        };
        if let Some(sqlstate) = &error {
            attributes.push(("db.response.status_code", sqlstate.clone().into()));
            attributes.push(("error.type", sqlstate.clone().into()));
        }
        // Copies of a session are other executions of the same captured trace.
        let copy = u128::from(execution.session / COPY_SESSION_OFFSET);
        self.made += 1;
        Some(Span {
            trace_id: (self.seed ^ captured.trace_id).wrapping_add(copy).max(1),
            span_id: (self.seed as u64)
                .wrapping_add(self.made.wrapping_mul(SPREAD))
                .max(1),
            link: SpanLink {
                trace_id: captured.trace_id,
                span_id: captured.span_id,
                flags: captured.flags,
            },
            name: summary.map_or("postgresql".to_owned(), |(_, summary)| summary),
            start_unix_ns: unix_ns(execution.sent_ns?),
            end_unix_ns: unix_ns(execution.done_ns?),
            attributes,
            error,
        })
    }

    fn attributes(&self, execution: &Execution) -> Vec<(&'static str, AttributeValue)> {
        let int = |number: u64| AttributeValue::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let seconds = |ns: i64| AttributeValue::Float(ns as f64 / 1e9);
        let mut attributes = vec![
            ("db.system.name", "postgresql".into()),
            // Name of the same before version 1.28 of the conventions.
            ("db.system", "postgresql".into()),
            ("server.address", self.server_address.as_str().into()),
            ("db.response.returned_rows", int(execution.rows)),
            ("rehearse.run", self.run.as_str().into()),
            ("rehearse.session", int(execution.session)),
            ("rehearse.sequence", int(execution.sequence)),
        ];
        if let Some(port) = self.server_port {
            attributes.push(("server.port", AttributeValue::Int(port)));
        }
        if let Some(fingerprint) = execution.fingerprint {
            attributes.push(("rehearse.fingerprint", fingerprint.to_string().into()));
        }
        if let Some(trace) = execution.captured.trace {
            // Not every system finds spans by their links.
            let trace_id = format!("{:032x}", trace.trace_id);
            attributes.push(("rehearse.captured.trace_id", trace_id.into()));
        }
        if let Some(us) = execution.captured.duration_us {
            attributes.push((
                "rehearse.captured.duration",
                AttributeValue::Float(us as f64 / 1e6),
            ));
        }
        if let Some(ns) = execution.tool_lag_ns() {
            attributes.push(("rehearse.tool_lag", seconds(ns)));
        }
        attributes.push((
            "rehearse.session_lag",
            seconds(execution.session_lag_ns as i64),
        ));
        attributes
    }
}

/// Returns the operation and a summary with its tables, such as `SELECT` and `SELECT orders customers`.
fn summary_of(text: &str) -> Option<(String, String)> {
    let word = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .find(|word| !word.is_empty())?;
    let operation = word.to_ascii_uppercase();
    let tables = ValuePlaces::of(text, LexicalRules::default()).tables;
    let names = tables
        .iter()
        .take(SUMMARY_TABLES_MAX)
        .map(|(name, _)| name.as_str());
    let words: Vec<&str> = std::iter::once(operation.as_str()).chain(names).collect();
    let summary = words.join(" ");
    Some((operation, summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_the_operation_and_the_tables() {
        let summary = |text: &str| summary_of(text).map(|(_, summary)| summary);
        assert_eq!(
            summary(
                "select * from shop.orders o join customers c on c.id = o.customer where o.id = $1"
            ),
            Some("SELECT orders customers".to_owned())
        );
        assert_eq!(
            summary("UPDATE stock SET n = $1"),
            Some("UPDATE stock".to_owned())
        );
        assert_eq!(summary("BEGIN"), Some("BEGIN".to_owned()));
        assert_eq!(summary("?"), None);
    }
}
