//! One statement of a workload: how often, how long, when, and an example.

use std::borrow::Cow;
use std::fmt::Write;

use run::Place;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use sql::Fingerprint;
use sql::StatementClass;
use workload::StatementText;
use workload::{Event, EventKind, Parameter, ServerEvent, ServerEventKind, Sqlstate};

use statistics::Histogram;
use statistics::LatencySummary;
use workload::Literals;

/// Into how many stretches a workload's span is cut for each statement.
pub const STATEMENT_STRETCHES: usize = 48;

/// No more of an example's text and values is kept than this many bytes.
const EXAMPLE_BYTES_MAX: usize = 16 << 10;

/// One statement of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementStats {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normalised SQL, where the workload has it.
    pub sql: Option<String>,
    /// Its class, where the workload has it.
    pub class: Option<StatementClass>,
    /// How often it was sent.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Its errors, the most frequent first.
    pub error_codes: Vec<CodeCount>,
    /// Rows returned or affected, over the calls of which that is known.
    pub rows: Option<u64>,
    /// The server's own time for the calls with a captured duration.
    pub captured: Option<LatencySummary>,
    /// The slowest call; where no duration is known, the first.
    pub example: Option<CallExample>,
    /// When it was called: the stretches in which it was, in order.
    pub over_time: Vec<Stretch>,
    /// Temporary files that it wrote.
    pub temporary_files: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
    /// How often it waited for a lock for longer than `deadlock_timeout`.
    pub lock_waits: u64,
    /// The time of such waits that ended, in microseconds.
    pub lock_waited_us: u64,
}

/// Number of errors with one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeCount {
    /// The code; `?????` if the source does not show it.
    pub sqlstate: Sqlstate,
    /// Number of errors.
    pub count: u64,
}

/// A statement's calls in one stretch of the workload. There are many of them, so that they are written
/// as `[place, calls, time_us]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "(u8, u64, u64)")]
pub struct Stretch {
    /// Which, from 0 to [`STATEMENT_STRETCHES`] − 1.
    pub place: u8,
    /// Calls.
    pub calls: u64,
    /// Their time, where known, in microseconds.
    pub time_us: u64,
}

impl Serialize for Stretch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.place, self.calls, self.time_us).serialize(serializer)
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CallExample {
    /// Its session.
    pub session: u64,
    /// When it was sent, in microseconds from the workload's start.
    pub due_us: i64,
    /// The server's own time, where known.
    pub duration_us: Option<u64>,
    /// Where it was read; line 0 is none.
    pub place: Place,
    /// The call as it was sent; `null` unless literals were asked for.
    pub literal: Option<Literal>,
}

/// A statement as it was sent, with the user's data in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Literal {
    /// The text.
    pub sql: String,
    /// The parameters, `None` for NULL.
    pub parameters: Vec<Option<String>>,
    /// Something of it was too long, and is cut.
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
                .map(|value| value.as_ref().map(|value| keep(&shown(value))))
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

/// A value as people read it: bytes as the server writes them.
fn shown(value: &Parameter) -> Cow<'_, str> {
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

/// What is counted for one fingerprint.
#[derive(Debug, Default)]
pub(super) struct Counted {
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

impl Counted {
    /// Counts a call. Calls come in the order of time; `place` is the stretch that it is in.
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
                place: Place {
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

/// Quantiles are middles of bins, within a percent; of one call all are known exactly, and should
/// not differ from each other on a page.
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
    /// Its total captured time, in nanoseconds; 0 where none is known.
    pub fn total_ns(&self) -> f64 {
        self.captured.map_or(0.0, |latency| latency.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_long_example_is_cut_at_a_character() {
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
