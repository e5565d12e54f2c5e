//! Heroku's log drain: `TIME app[postgres.2487360]: [WHITE] [65-1]  sql_error_code = 22012 …`.
//!
//! The server writes to syslog there, so messages have numbered parts, and Heroku chooses the
//! prefix. A second number in the header is that of the add-on, not of a process.

use std::borrow::Cow;
use std::collections::HashMap;

use super::reassemble::{Part, PartKind};
use super::syslog::parse_part_number;
use super::time::parse_iso;
use super::{RecordContent, Unwrap};
use crate::entry::{line_end, trim_line_end};
use crate::{SkipReason, UnreadableReason};

/// Heroku's `log_line_prefix`.
pub(super) const PREFIX: &str = " sql_error_code = %e time_ms = \"%m\" pid=\"%p\" proc_start_time=\"%s\" session_id=\"%c\" vtid=\"%v\" tid=\"%x\" log_line=\"%l\" %qdatabase=\"%d\" connection_source=\"%r\" user=\"%u\" application_name=\"%a\" ";

/// The beginning of that prefix.
pub(super) const PREFIX_START: &[u8] = b" sql_error_code = ";

/// Maximum number of messages whose process is remembered.
const MESSAGES_MAX: usize = 4_096;

/// Removes Heroku's header.
#[derive(Debug, Default)]
pub(super) struct Heroku {
    /// The process of each message; only its first part has it.
    processes: HashMap<u64, u32>,
}

impl Unwrap for Heroku {
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let end = line_end(bytes, 0).or(complete.then_some(bytes.len()))?;
        let line = trim_line_end(&bytes[..end]);
        let Some((wall_us, program, text)) = split(line) else {
            let content = match line {
                [] => RecordContent::Skipped(SkipReason::Blank),
                _ => RecordContent::Unreadable(UnreadableReason::NoRecord),
            };
            return Some((content, end));
        };
        let is_server = program.starts_with(b"postgres");
        let text = match is_server {
            true => without_colour(text),
            false => text,
        };
        let (chunk, taken) = parse_part_number(text);
        let text = &text[taken..];
        let mut part = Part::new(chunk, text);
        part.wall_us = Some(wall_us);
        part.program = Cow::Borrowed(match is_server {
            true => "postgres",
            false => "other",
        });
        part.server = String::from_utf8_lossy(program);
        if let PartKind::Numbered {
            message: Some(message),
            ..
        } = chunk
        {
            if let Some(pid) = process(text) {
                if self.processes.len() > MESSAGES_MAX {
                    self.processes.clear();
                }
                self.processes.insert(message, pid);
            }
            part.pid = self.processes.get(&message).copied();
        }
        parts(part);
        Some((RecordContent::Parts, end))
    }
}

/// Splits a line into its time, its program and its text.
fn split(line: &[u8]) -> Option<(i64, &[u8], &[u8])> {
    let (wall_us, length) = parse_iso(line)?;
    let rest = line.get(length..)?.strip_prefix(b" ")?;
    let open = memchr::memchr(b'[', rest).filter(|open| !rest[..*open].contains(&b' '))?;
    let close = memchr::memmem::find(rest, b"]: ")?;
    let program = rest.get(open + 1..close)?;
    (!program.contains(&b' ')).then(|| (wall_us, program, &rest[close + 3..]))
}

/// Removes `[WHITE] `, the colour in the database's name.
fn without_colour(text: &[u8]) -> &[u8] {
    let colour = || {
        let rest = text.strip_prefix(b"[")?;
        let close = memchr::memchr(b']', rest)?;
        let is_colour = rest[..close]
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
        (close > 0 && is_colour).then_some(rest.get(close + 1..)?.strip_prefix(b" ")?)
    };
    colour().unwrap_or(text)
}

/// Finds the process in Heroku's prefix.
fn process(text: &[u8]) -> Option<u32> {
    if !text.starts_with(PREFIX_START) {
        return None;
    }
    let at = memchr::memmem::find(text, b" pid=\"")? + 6;
    let digits = text[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&text[at..at + digits])
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_colour_are_removed() {
        let line = b"2026-08-26T20:18:43.000000+00:00 app[postgres.24]: [WHITE] [65-1]  sql_error_code = 0 pid=\"7\" x";
        let (_, program, text) = split(line).unwrap();
        assert_eq!(program, b"postgres.24");
        let text = without_colour(text);
        assert!(text.starts_with(b"[65-1] "), "{text:?}");
        assert_eq!(process(&text[7..]), Some(7));
        assert_eq!(split(b"2026-08-26T20:18:43Z stderr F x"), None);
    }
}
