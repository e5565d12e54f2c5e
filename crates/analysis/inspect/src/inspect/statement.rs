//! Statistics of one statement of a workload, with an example.

use std::borrow::Cow;
use std::fmt::Write;

use run::SourceLocation;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use sql::Fingerprint;
use sql::StatementClass;
use workload::StatementText;
use workload::{Event, EventKind, Parameter, ServerEvent, ServerEventKind, Sqlstate};

use statistics::Histogram;
use statistics::LatencySummary;
use workload::Literals;

/// Number of time slices of a workload's span in each statement's statistics.
pub const STATEMENT_STRETCHES: usize = 48;

/// Maximum size in bytes of an example's text and values.
const EXAMPLE_BYTES_MAX: usize = 16 << 10;

/// Statistics of one statement of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementStats {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if the workload has it.
    pub sql: Option<String>,
    /// Statement class, if the workload has it.
    pub class: Option<StatementClass>,
    /// Number of times that it was sent.
    pub calls: u64,
    /// Number of failures.
    pub errors: u64,
    /// Errors by code, the most frequent first.
    pub error_codes: Vec<CodeCount>,
    /// Rows returned or affected, over the calls with a known row count.
    pub rows: Option<u64>,
    /// The server's own execution time, over the calls with a captured duration.
    pub captured: Option<LatencySummary>,
    /// The slowest call, or the first if no duration is known.
    pub example: Option<CallExample>,
    /// Calls by time slice, in order; slices without a call are left out.
    pub over_time: Vec<Stretch>,
    /// Number of temporary files.
    pub temporary_files: u64,
    /// Total bytes of temporary files.
    pub temporary_bytes: u64,
    /// Number of lock waits longer than `deadlock_timeout`.
    pub lock_waits: u64,
    /// Total time of such waits that ended, in microseconds.
    pub lock_waited_us: u64,
}

/// Number of errors with one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeCount {
    /// SQLSTATE; `?????` if the source does not show it.
    pub sqlstate: Sqlstate,
    /// Number of errors.
    pub count: u64,
}

/// Calls in one time slice. It is serialised compactly as `[place, calls, time_us]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "(u8, u64, u64)")]
pub struct Stretch {
    /// Index of the slice, from 0 to [`STATEMENT_STRETCHES`] − 1.
    pub place: u8,
    /// Number of calls.
    pub calls: u64,
    /// Total time in microseconds, if known.
    pub time_us: u64,
}

impl Serialize for Stretch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.place, self.calls, self.time_us).serialize(serializer)
    }
}

/// Example call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CallExample {
    /// Session of the call.
    pub session: u64,
    /// Time at which it was sent, in microseconds from the workload's start.
    pub due_us: i64,
    /// The server's own execution time, if known.
    pub duration_us: Option<u64>,
    /// Position in the source; line 0 means unknown.
    pub place: SourceLocation,
    /// The call as it was sent; `null` unless literals were requested.
    pub literal: Option<Literal>,
}

/// Statement as it was sent, including the user's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Literal {
    /// SQL text.
    pub sql: String,
    /// Parameters; `None` is NULL.
    pub parameters: Vec<Option<String>>,
    /// Whether the text or a parameter was truncated.
    pub cut: bool,
}

impl Literal {
    fn of(kind: &EventKind) -> Option<Self> {
        let mut room = EXAMPLE_BYTES_MAX;
        let mut cut = false;
        let mut keep = |text: &str| {
            let mut end = text.len().min(room);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            cut |= end < text.len();
            room -= end;
            text[..end].to_owned()
        };
        let sql = keep(kind.sql()?);
        let parameters = match kind {
            EventKind::Execute { parameters, .. } => parameters
                .iter()
                .map(|value| value.as_ref().map(|value| keep(&format_parameter(value))))
                .collect(),
            _ => Vec::new(),
        };
        Some(Self {
            sql,
            parameters,
            cut,
        })
    }
}

/// Formats a parameter for display; bytes are formatted as the server writes them.
fn format_parameter(value: &Parameter) -> Cow<'_, str> {
    let bytes = match value {
        Parameter::Text(text) => return Cow::Borrowed(text),
        Parameter::Binary(bytes) => &bytes[..bytes.len().min(EXAMPLE_BYTES_MAX)],
    };
    let mut shown = String::with_capacity(2 + 2 * bytes.len());
    shown.push_str("\\x");
    for byte in bytes {
        let _ = write!(shown, "{byte:02x}");
    }
    Cow::Owned(shown)
}

/// Counters of one fingerprint.
#[derive(Debug, Default)]
pub(super) struct StatementCounter {
    pub calls: u64,
    errors: Vec<(Sqlstate, u64)>,
    rows: Option<u64>,
    captured: Histogram,
    example: Option<CallExample>,
    over_time: Vec<Stretch>,
    temporary_files: u64,
    temporary_bytes: u64,
    lock_waits: u64,
    lock_waited_us: u64,
}

impl StatementCounter {
    /// Adds a call. Calls must come in order of time; `place` is the index of the time slice.
    pub(super) fn call(&mut self, event: &Event, place: u8, literals: Literals) {
        self.calls += 1;
        if let Some(code) = event.outcome.sqlstate {
            match self.errors.iter_mut().find(|(known, _)| *known == code) {
                Some((_, count)) => *count += 1,
                None => self.errors.push((code, 1)),
            }
        }
        if let Some(rows) = event.outcome.rows {
            *self.rows.get_or_insert(0) += rows;
        }
        let duration_us = event.outcome.duration_us;
        if let Some(duration_us) = duration_us {
            self.captured.record(duration_us.saturating_mul(1_000));
        }
        let time_us = duration_us.unwrap_or(0);
        match self.over_time.last_mut().filter(|last| last.place == place) {
            Some(stretch) => {
                stretch.calls += 1;
                stretch.time_us += time_us;
            }
            None => self.over_time.push(Stretch {
                place,
                calls: 1,
                time_us,
            }),
        }
        let slower = match &self.example {
            None => true,
            Some(example) => duration_us > example.duration_us,
        };
        if slower {
            self.example = Some(CallExample {
                session: event.session,
                due_us: event.due_us,
                duration_us,
                place: SourceLocation {
                    source: event.source,
                    line: event.line,
                },
                literal: match literals {
                    Literals::Shown => Literal::of(&event.kind),
                    Literals::Hidden => None,
                },
            });
        }
    }

    pub(super) fn server(&mut self, event: &ServerEvent) {
        match event.kind {
            ServerEventKind::TemporaryFile => {
                self.temporary_files += 1;
                self.temporary_bytes += event.bytes.unwrap_or(0);
            }
            ServerEventKind::LockWait => self.lock_waits += 1,
            ServerEventKind::LockAcquired | ServerEventKind::LockFailed => {
                self.lock_waited_us += event.duration_us.unwrap_or(0);
            }
            _ => (),
        }
    }

    pub(super) fn stats(
        mut self,
        fingerprint: Fingerprint,
        text: Option<StatementText>,
    ) -> StatementStats {
        self.errors
            .sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        StatementStats {
            fingerprint,
            class: text.as_ref().map(|text| text.class),
            sql: text.map(|text| text.sql),
            calls: self.calls,
            errors: self.errors.iter().map(|(_, count)| count).sum(),
            error_codes: self
                .errors
                .into_iter()
                .map(|(sqlstate, count)| CodeCount { sqlstate, count })
                .collect(),
            rows: self.rows,
            captured: self.captured.latency_summary().map(exact_of_one),
            example: self.example,
            over_time: self.over_time,
            temporary_files: self.temporary_files,
            temporary_bytes: self.temporary_bytes,
            lock_waits: self.lock_waits,
            lock_waited_us: self.lock_waited_us,
        }
    }
}

/// Replaces the quantiles of a single call by its exact duration. Histogram quantiles are bin
/// middles and would differ from each other by up to a percent.
fn exact_of_one(latency: LatencySummary) -> LatencySummary {
    match latency.count {
        1 => LatencySummary {
            p50_ns: latency.max_ns,
            p95_ns: latency.max_ns,
            p99_ns: latency.max_ns,
            ..latency
        },
        _ => latency,
    }
}

impl StatementStats {
    /// Returns the total captured time in nanoseconds; 0 if unknown.
    pub fn total_ns(&self) -> f64 {
        self.captured.map_or(0.0, |latency| latency.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn long_example_is_truncated_at_a_character() {
        let kind = EventKind::Execute {
            statement: Arc::from(""),
            portal: Arc::from(""),
            sql: Arc::from("select $1"),
            parameters: vec![Some("é".repeat(EXAMPLE_BYTES_MAX).into()), None],
        };
        let literal = Literal::of(&kind).unwrap();
        assert!(literal.cut);
        let kept = literal.parameters[0].as_ref().unwrap();
        assert!(kept.len() + 9 <= EXAMPLE_BYTES_MAX && kept.len() + 11 > EXAMPLE_BYTES_MAX);
        assert!(kept.chars().all(|c| c == 'é'));
        assert_eq!(literal.parameters[1], None);
        let kind = EventKind::Execute {
            statement: Arc::from(""),
            portal: Arc::from(""),
            sql: Arc::from("select $1"),
            parameters: vec![Some(Parameter::from(&b"\0\x7f"[..]))],
        };
        let literal = Literal::of(&kind).unwrap();
        assert_eq!(literal.parameters, [Some("\\x007f".to_owned())]);
    }
}
