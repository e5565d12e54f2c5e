//! Log of the program: one line per event on standard error, as text or as JSON.
//!
//! Format and level are set once, before a command runs, and are global like standard error. No
//! secret is logged: fields are named explicitly at each call, targets are logged by host and
//! port, and statements are never logged.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::OnceLock;

use clock::{Clock, SystemClock, rfc3339_text};
use report::{escape_json, one_line, safe_text};
use serde_json::Value;

use crate::options::observing::{LogArgs, LogFormat, LogLevel};

/// Format and level of the log.
#[derive(Debug, Clone, Copy)]
struct Log {
    format: LogFormat,
    level: LogLevel,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Log before it is set up: messages of commands only.
const SILENT: Log = Log {
    format: LogFormat::Text,
    level: LogLevel::Error,
};

/// Sets format and level. Called once.
pub fn set_up(options: LogArgs) {
    let level = options.log_level.unwrap_or(match options.log_format {
        LogFormat::Text => LogLevel::Error,
        LogFormat::Json => LogLevel::Info,
    });
    let format = options.log_format;
    let _ = LOG.set(Log { format, level });
}

fn log() -> Log {
    *LOG.get().unwrap_or(&SILENT)
}

/// Returns whether standard error has JSON lines only.
pub fn is_json() -> bool {
    log().format == LogFormat::Json
}

/// Returns the lowest severity that is written.
pub fn level() -> LogLevel {
    log().level
}

/// Writes a line if its level is enabled.
pub fn tell(level: LogLevel, message: &str, fields: &[(&str, Value)]) {
    if level > log().level {
        return;
    }
    let wall_us = SystemClock::start().wall_us();
    let line = match log().format {
        LogFormat::Text => text_line(wall_us, level, message, fields),
        LogFormat::Json => json_line(wall_us, level, message, fields),
    };
    // One write, since other processes may write lines to the same file.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

fn json_line(wall_us: i64, level: LogLevel, message: &str, fields: &[(&str, Value)]) -> String {
    let mut line = String::new();
    let mut add = |key: &str, value: &Value| {
        let first = if line.is_empty() { '{' } else { ',' };
        let _ = write!(line, "{first}{}:{value}", Value::from(key));
    };
    add("time", &rfc3339_text(wall_us).into());
    add("level", &name(level).into());
    add("message", &message.into());
    for (key, value) in fields {
        debug_assert!(!["time", "level", "message"].contains(key));
        add(key, value);
    }
    escape_json(line) + "}\n"
}

fn text_line(wall_us: i64, level: LogLevel, message: &str, fields: &[(&str, Value)]) -> String {
    let mut line = rfc3339_text(wall_us);
    let _ = write!(
        line,
        " {:5} {}",
        name(level).to_uppercase(),
        one_line(message, usize::MAX)
    );
    for (key, value) in fields {
        let _ = match value {
            Value::String(text) if is_plain(text) => write!(line, " {key}={text}"),
            value => write!(line, " {key}={}", escape_json(value.to_string())),
        };
    }
    line + "\n"
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && c != '"' && c != '=';
    !text.is_empty() && text.chars().all(plain) && safe_text(text, false) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_US: i64 = 1_772_357_405_250_000;

    fn fields() -> Vec<(&'static str, Value)> {
        vec![
            ("session", 7.into()),
            ("reason", "two\nlines, \"quoted\"".into()),
            ("target", "copy:5432".into()),
        ]
    }

    #[test]
    fn a_json_line_is_an_object_with_time_level_message_and_fields() {
        let line = json_line(AT_US, LogLevel::Warn, "a \"b\"\nc", &fields());
        assert_eq!(line.matches('\n').count(), 1);
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["time"], "2026-03-01T09:30:05.250000Z");
        assert_eq!(parsed["level"], "warn");
        assert_eq!(parsed["message"], "a \"b\"\nc");
        assert_eq!(parsed["session"], 7);
        assert_eq!(parsed["reason"], "two\nlines, \"quoted\"");
        assert!(line.starts_with("{\"time\":"));
    }

    #[test]
    fn foreign_text_cannot_command_a_terminal() {
        let evil = "\u{1b}[31m\u{9b}\u{202e}\r\nrehearse: fine";
        let fields = [("plain", "\u{202e}x".into()), ("name", evil.into())];
        let text = text_line(AT_US, LogLevel::Info, evil, &fields);
        let json = json_line(AT_US, LogLevel::Info, evil, &fields);
        for line in [&text, &json] {
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(safe_text(line, false), line.as_str());
        }
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&parsed["message"], &parsed["name"]),
            (&evil.into(), &evil.into())
        );
    }

    #[test]
    fn a_text_line_is_one_line() {
        let line = text_line(AT_US, LogLevel::Info, "a\nb", &fields());
        assert_eq!(
            line,
            "2026-03-01T09:30:05.250000Z INFO  a b session=7 reason=\"two\\nlines, \\\"quoted\\\"\" target=copy:5432\n"
        );
    }
}
