//! Log of a replay: connections, an unresponsive target, progress and the end.
//!
//! Lines about connections are limited, since a server that restarts loses all of them at once.

use std::sync::Arc;

use replay::{ConnectionEvent, Metrics, Snapshot};
use run::{RunInfo, RunStatus};
use serde_json::Value;

use crate::log;
use crate::options::observing::LogLevel;

/// Largest number of lines about connections per second.
const LINES_A_SECOND: u64 = 10;
const SECOND_NS: i64 = 1_000_000_000;
/// Time without an answer after which a target is reported as unresponsive.
const SILENCE_NS: i64 = 10 * SECOND_NS;
/// Interval of progress lines.
const POSITION_EVERY_NS: i64 = 10 * SECOND_NS;

/// Line of the log.
pub struct Line {
    /// Severity.
    pub level: LogLevel,
    /// Event.
    pub message: &'static str,
    /// Details of the event.
    pub fields: Vec<(&'static str, Value)>,
}

impl Line {
    fn new(level: LogLevel, message: &'static str) -> Self {
        Line {
            level,
            message,
            fields: Vec::new(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Writes the line.
    pub fn tell(&self) {
        log::tell(self.level, self.message, &self.fields);
    }
}

/// Converts events of a replay to log lines.
pub struct Narrator {
    /// Lowest severity to report.
    level: LogLevel,
    meter: Option<Arc<Metrics>>,
    now_ns: i64,
    second: i64,
    in_second: u64,
    left_out: u64,
    /// Time when the target last answered, or had nothing to answer.
    alive_ns: i64,
    silent: bool,
    position_ns: i64,
}

impl Narrator {
    /// Creates a narrator that reports this severity and above.
    pub fn new(level: LogLevel) -> Self {
        Narrator {
            level,
            meter: None,
            now_ns: 0,
            second: 0,
            in_second: 0,
            left_out: 0,
            alive_ns: 0,
            silent: false,
            position_ns: 0,
        }
    }

    /// Reports the start of a replay.
    pub fn started(&mut self, meter: &Arc<Metrics>) {
        self.meter = Some(meter.clone());
    }

    /// Reports connection events. `left_out` more were dropped before.
    pub fn happened(&mut self, happenings: &[ConnectionEvent], left_out: u64) -> Vec<Line> {
        self.left_out += left_out;
        let mut lines = Vec::new();
        for happening in happenings {
            let line = line_of(happening);
            if line.level > self.level {
                continue;
            }
            if line.level == LogLevel::Error || self.in_second < LINES_A_SECOND {
                self.in_second += 1;
                lines.push(line);
            } else {
                self.left_out += 1;
            }
        }
        lines
    }

    /// Reports progress.
    pub fn progress(&mut self, now: &Snapshot) -> Vec<Line> {
        let mut lines = Vec::new();
        self.now_ns = now.elapsed_ns;
        if now.elapsed_ns / SECOND_NS != self.second {
            self.second = now.elapsed_ns / SECOND_NS;
            self.in_second = 0;
            lines.extend(self.left_out());
        }
        lines.extend(self.silence(now));
        if self.level >= LogLevel::Debug && now.elapsed_ns - self.position_ns >= POSITION_EVERY_NS {
            self.position_ns = now.elapsed_ns;
            let line = Line::new(LogLevel::Debug, "position")
                .with("elapsed_s", seconds(now.elapsed_ns))
                .with("planned_s", seconds(now.dispatched_ns))
                .with("done", now.done)
                .with("failed", now.failed)
                .with("skipped", now.skipped)
                .with("sessions_open", now.sessions_open);
            lines.push(line);
        }
        lines
    }

    /// Reports that the user or the system requested a stop.
    pub fn stopping(&self, by_signal: bool) -> Line {
        let message = match by_signal {
            true => "stopping in order, asked by a signal",
            false => "stopping in order, asked on the live page",
        };
        Line::new(LogLevel::Warn, message).with("elapsed_s", seconds(self.now_ns))
    }

    /// Reports the end.
    pub fn finished(&mut self, info: &RunInfo) -> Vec<Line> {
        let message = match info.status {
            RunStatus::Complete => "replay finished",
            RunStatus::Stopped | RunStatus::Recovered | RunStatus::Incomplete => {
                "replay stopped before its end"
            }
        };
        let line = Line::new(LogLevel::Info, message)
            .with("elapsed_s", seconds(info.elapsed_ns))
            .with("statements", info.statements)
            .with("done", info.done)
            .with("failed", info.failed.values().sum::<u64>())
            .with("skipped", info.skipped.values().sum::<u64>())
            .with(
                "connections_failed",
                info.connections_failed.values().sum::<u64>(),
            )
            .with(
                "connections_lost",
                info.connections_lost.values().sum::<u64>(),
            )
            .with("connections_reopened", info.connections_reopened);
        self.left_out().into_iter().chain([line]).collect()
    }

    fn left_out(&mut self) -> Option<Line> {
        let count = std::mem::take(&mut self.left_out);
        (count > 0).then(|| {
            Line::new(LogLevel::Warn, "more lines about connections were left out")
                .with("count", count)
        })
    }

    /// Reports a target that does not answer.
    fn silence(&mut self, now: &Snapshot) -> Option<Line> {
        let asked = self.meter.as_ref().map_or(0, |meter| {
            let readings = meter.read();
            readings.sessions_waiting + readings.sessions_connecting
        });
        if asked == 0 {
            self.alive_ns = now.elapsed_ns;
        }
        let silent_ns = now.elapsed_ns - self.alive_ns.max(now.last_answer_ns);
        let was_silent = std::mem::replace(&mut self.silent, silent_ns >= SILENCE_NS);
        match (was_silent, self.silent) {
            (false, true) => Some(
                Line::new(
                    LogLevel::Warn,
                    "nothing has come from the target for a while",
                )
                .with("silent_s", seconds(silent_ns))
                .with("waiting", asked),
            ),
            (true, false) => Some(Line::new(LogLevel::Info, "the target answers again")),
            _ => None,
        }
    }
}

fn line_of(happening: &ConnectionEvent) -> Line {
    match happening {
        ConnectionEvent::ConnectionRefused {
            session,
            sqlstate,
            message,
        } => Line::new(LogLevel::Warn, "connection refused")
            .with("session", *session)
            .with("sqlstate", sqlstate.to_string())
            .with("reason", message.as_str()),
        ConnectionEvent::ConnectionLost { sqlstate } => {
            Line::new(LogLevel::Warn, "connection lost").with("sqlstate", sqlstate.to_string())
        }
        ConnectionEvent::ConnectionReopened { restore_errors } => {
            Line::new(LogLevel::Info, "connection reopened").with("restore_errors", *restore_errors)
        }
        ConnectionEvent::ConnectionRetried => Line::new(
            LogLevel::Debug,
            "a connection could not be opened and will be tried again",
        ),
        ConnectionEvent::CancelFailed => {
            Line::new(LogLevel::Warn, "a cancel request did not reach the target")
        }
        ConnectionEvent::SeriesNote(note) => {
            Line::new(LogLevel::Warn, "note on the series").with("note", note.as_str())
        }
        ConnectionEvent::GivenUp { reason } => {
            Line::new(LogLevel::Warn, "the target is given up").with("reason", reason.as_str())
        }
    }
}

fn seconds(ns: i64) -> f64 {
    (ns / 1_000_000) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Sqlstate;

    fn at(seconds: i64) -> Snapshot {
        Snapshot {
            elapsed_ns: seconds * SECOND_NS,
            ..Snapshot::default()
        }
    }

    #[test]
    fn lines_about_connections_are_limited_and_the_rest_is_counted() {
        let lost = ConnectionEvent::ConnectionLost {
            sqlstate: Sqlstate(*b"57P01"),
        };
        let many = vec![lost; 25];
        let mut narrator = Narrator::new(LogLevel::Warn);
        assert!(narrator.progress(&at(0)).is_empty());
        assert_eq!(narrator.happened(&many[..4], 0).len(), 4);
        assert_eq!(narrator.happened(&many, 7).len(), 6);
        let lines = narrator.progress(&at(1));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].fields, [("count", Value::from(19 + 7))]);
        // The next second has room again, and tells of nothing that it did not leave out.
        assert_eq!(narrator.happened(&many[..3], 0).len(), 3);
        assert!(narrator.progress(&at(2)).is_empty());
    }

    #[test]
    fn what_is_not_told_takes_no_room() {
        let tried = vec![ConnectionEvent::ConnectionRetried; 50];
        let mut narrator = Narrator::new(LogLevel::Warn);
        assert!(narrator.happened(&tried, 0).is_empty());
        assert!(narrator.progress(&at(1)).is_empty());
        assert_eq!(
            narrator.happened(&[ConnectionEvent::CancelFailed], 0).len(),
            1
        );
    }
}
