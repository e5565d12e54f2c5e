//! syslog: `Mar  1 09:30:05 host postgres[123]: [3-1] LOG:  …`, in the format of RFC 3164, with
//! rsyslog's ISO time, or of RFC 5424; also the output of `journalctl`.
//!
//! The server (`write_syslog` in elog.c) splits a message of several lines, or of more than 900
//! bytes, into parts: `[message-part]`, or `[part]` with `syslog_sequence_numbers = off`, or one
//! part with `syslog_split_messages = off`. Daemons write control characters as `#011`, some as
//! `^I`.

use std::borrow::Cow;

use super::reassemble::{Part, PartKind};
use super::time::{YEARLESS_BYTES, YearAssigner, YearlessTime, parse_iso};
use super::{DISORDER_US, RecordContent, Unwrap};
use crate::entry::{line_end, trim_line_end};
use crate::timestamp::TimestampParser;
use crate::zones::to_utc;
use crate::{SkipReason, UnreadableReason};
use jiff::tz::TimeZone;

/// Removes syslog's header.
#[derive(Debug, Default)]
pub(super) struct Syslog {
    years: Option<YearAssigner>,
    bound_us: Option<i64>,
    /// The log has a February 29.
    leap_day: bool,
    /// The server's time zone, for times without one.
    zone: Option<TimeZone>,
    /// The last such time, in microseconds since 1970-01-01 UTC.
    last_us: i64,
    /// Tabs are written as `^I`.
    carets: bool,
}

/// A line's header.
#[derive(Debug, PartialEq, Eq)]
struct Header<'a> {
    time: Time,
    host: &'a [u8],
    program: &'a [u8],
    pid: Option<u32>,
    /// Start of the text.
    text: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Instant(i64),
    Yearless(YearlessTime),
    /// Time since the system's start (`journalctl -o short-monotonic`).
    Unknown,
}

/// Returns the first time without a year, if the line has one.
pub(super) fn parse_yearless(line: &[u8]) -> Option<YearlessTime> {
    match parse_header(line)?.time {
        Time::Instant(_) | Time::Unknown => None,
        Time::Yearless(time) => Some(time),
    }
}

impl Syslog {
    pub(super) fn new(bound_us: Option<i64>, leap_day: bool) -> Self {
        Syslog {
            bound_us,
            leap_day,
            ..Syslog::default()
        }
    }

    fn instant(&mut self, time: Time) -> Option<i64> {
        match time {
            Time::Instant(wall_us) => Some(wall_us),
            Time::Unknown => None,
            Time::Yearless(time) => {
                let years = self
                    .years
                    .get_or_insert_with(|| YearAssigner::new(time, self.bound_us, self.leap_day));
                let local_us = years.instant(time)?;
                let Some(zone) = &self.zone else {
                    return Some(local_us);
                };
                let wall_us = to_utc(zone, local_us, self.last_us - DISORDER_US)?;
                self.last_us = self.last_us.max(wall_us);
                Some(wall_us)
            }
        }
    }
}

impl Unwrap for Syslog {
    fn set_time_zone(&mut self, zone: &TimeZone) {
        (self.zone, self.last_us) = (Some(zone.clone()), i64::MIN + DISORDER_US);
    }

    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)> {
        let end = line_end(bytes, 0).or(complete.then_some(bytes.len()))?;
        let line = trim_line_end(&bytes[..end]);
        let Some(header) = parse_header(line) else {
            let content = match line {
                [] => RecordContent::Skipped(SkipReason::Blank),
                // journalctl's own lines, and its indentation of text after a newline.
                [b'-', b'-', b' ', ..] => RecordContent::Skipped(SkipReason::Wrapping),
                [b' ', ..] => {
                    parts(Part::new(PartKind::Continues, line.trim_ascii_start()));
                    RecordContent::Parts
                }
                _ => RecordContent::Unreadable(UnreadableReason::NoRecord),
            };
            return Some((content, end));
        };
        let text = &line[header.text..];
        let (chunk, taken) = parse_part_number(text);
        let text = &text[taken..];
        self.carets |= text.starts_with(b"^I") && taken > 0;
        let mut part = Part::new(chunk, unescape(text, self.carets));
        part.pid = header.pid;
        part.wall_us = self.instant(header.time);
        part.server = String::from_utf8_lossy(header.host);
        part.program = String::from_utf8_lossy(header.program);
        parts(part);
        Some((RecordContent::Parts, end))
    }
}

fn parse_header(line: &[u8]) -> Option<Header<'_>> {
    let mut at = 0;
    if line.first() == Some(&b'<') {
        at = line.iter().take(5).position(|byte| *byte == b'>')? + 1;
    }
    let versioned = line[at..].starts_with(b"1 ");
    if versioned {
        at += 2;
    }
    let rest = &line[at..];
    let time = match parse_iso(rest) {
        Some((wall_us, length)) => {
            at += length;
            Time::Instant(wall_us)
        }
        None if versioned => return None,
        None if let Some((time, length)) = parse_journal_time(rest) => {
            at += length;
            time
        }
        None => {
            let mut time = YearlessTime::read(rest)?;
            at += YEARLESS_BYTES;
            // `journalctl -o short-precise`
            if line.get(at) == Some(&b'.') {
                let mut unit = 100_000;
                at += 1;
                while let Some(digit) = line.get(at).filter(|byte| byte.is_ascii_digit()) {
                    time.of_day_us += i64::from(digit - b'0') * unit;
                    unit /= 10;
                    at += 1;
                }
            }
            Time::Yearless(time)
        }
    };
    let word = |from: usize| {
        let length = memchr::memchr(b' ', line.get(from..)?)?;
        (length > 0).then(|| (&line[from..from + length], from + length))
    };
    if line.get(at) != Some(&b' ') {
        return None;
    }
    let (mut host, mut end) = word(at + 1)?;
    if host.ends_with(b":") {
        // `journalctl --no-hostname`
        (host, end) = (b"", at);
    }
    if versioned {
        let (program, end) = word(end + 1)?;
        let (process, end) = word(end + 1)?;
        let (_, end) = word(end + 1)?;
        let text = skip_structured_data(line, end + 1)?;
        return Some(Header {
            time,
            host,
            program,
            pid: number(process).and_then(|(pid, _)| u32::try_from(pid).ok()),
            text,
        });
    }
    let from = end + 1;
    let tag = line.get(from..)?;
    let length = tag
        .iter()
        .position(|byte| matches!(byte, b'[' | b':' | b' '))?;
    let program = &tag[..length];
    let mut text = from + length;
    let mut pid = None;
    if line[text] == b'[' {
        let close = text + memchr::memchr(b']', &line[text..])?;
        pid = number(&line[text + 1..close])
            .filter(|(_, digits)| *digits == close - text - 1)
            .and_then(|(pid, _)| u32::try_from(pid).ok());
        text = close + 1;
    }
    if line.get(text) != Some(&b':') {
        return None;
    }
    text += 1;
    text += usize::from(line.get(text) == Some(&b' '));
    // Solaris writes `[ID 748625 local0.info] ` before the text.
    if line[text..].starts_with(b"[ID ") {
        text += memchr::memchr(b']', &line[text..])? + 1;
        text += usize::from(line.get(text) == Some(&b' '));
    }
    Some(Header {
        time,
        host,
        program,
        pid,
        text,
    })
}

/// Parses the times of `journalctl -o short-full`, `with-unit`, `short-unix`, `short-monotonic` and
/// `short-delta` at the start of `text`; returns also their length.
fn parse_journal_time(text: &[u8]) -> Option<(Time, usize)> {
    match *text.first()? {
        b'[' => {
            let close = memchr::memchr(b']', text)?;
            let is_clock = text[1..close]
                .iter()
                .all(|byte| byte.is_ascii_digit() || b" .<>+".contains(byte));
            (is_clock && close > 4 && text[1..close].contains(&b'.'))
                .then_some((Time::Unknown, close + 1))
        }
        b'0'..=b'9' => {
            let (seconds, digits) = number(text)?;
            let fraction = text.get(digits..)?.strip_prefix(b".")?;
            let (us, length) = number(fraction)?;
            let seconds = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
            (digits == 10 && length == 6)
                .then_some((Time::Instant(seconds + us as i64), digits + 1 + length))
        }
        _ => {
            let days: [&[u8]; 7] = [
                b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun ",
            ];
            days.iter().find(|day| text.starts_with(day))?;
            let stamp = TimestampParser::default().read(&text[4..])?;
            Some((Time::Instant(stamp.wall_us), 4 + stamp.length))
        }
    }
}

/// Returns the start of the text after RFC 5424's structured data, which starts at `at`.
fn skip_structured_data(line: &[u8], mut at: usize) -> Option<usize> {
    if line.get(at) == Some(&b'-') {
        at += 1;
    } else {
        while line.get(at) == Some(&b'[') {
            let mut quoted = false;
            loop {
                match (*line.get(at)?, quoted) {
                    (b'\\', true) => at += 1,
                    (b'"', _) => quoted = !quoted,
                    (b']', false) => break,
                    _ => (),
                }
                at += 1;
            }
            at += 1;
        }
    }
    at += usize::from(line.get(at) == Some(&b' '));
    at += match line.get(at..)?.starts_with("\u{feff}".as_bytes()) {
        true => 3,
        false => 0,
    };
    Some(at)
}

/// Parses the server's own numbers before a text; also returns their length in bytes.
pub(super) fn parse_part_number(text: &[u8]) -> (PartKind, usize) {
    let found = || {
        let rest = text.strip_prefix(b"[")?;
        let (first, length) = number(rest)?;
        let (message, part, end) = match rest.get(length)? {
            b'-' => {
                let (part, digits) = number(&rest[length + 1..])?;
                (Some(first), part, length + 1 + digits)
            }
            _ => (None, first, length),
        };
        if rest.get(end) != Some(&b']') || part == 0 {
            return None;
        }
        let blank = usize::from(rest.get(end + 1) == Some(&b' '));
        Some((PartKind::Numbered { message, part }, end + 2 + blank))
    };
    found().unwrap_or((PartKind::Line { loose: false }, 0))
}

fn number(text: &[u8]) -> Option<(u64, usize)> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((value, digits))
}

/// Decodes control characters as daemons write them: `#` and three octal digits, or `^I`.
fn unescape(text: &[u8], carets: bool) -> Cow<'_, [u8]> {
    let octal = |at: usize| {
        let digits: &[u8; 3] = text.get(at + 1..at + 4)?.try_into().ok()?;
        if !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
            return None;
        }
        let value = digits
            .iter()
            .fold(0u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
        u8::try_from(value).ok().filter(u8::is_ascii_control)
    };
    let mut plain = Vec::new();
    let mut from = 0;
    for at in memchr::memchr2_iter(b'#', b'^', text) {
        if at < from {
            continue;
        }
        let (byte, length) = match text[at] {
            b'#' => match octal(at) {
                Some(byte) => (byte, 4),
                None => continue,
            },
            _ if carets && text.get(at + 1) == Some(&b'I') => (b'\t', 2),
            _ => continue,
        };
        plain.extend_from_slice(&text[from..at]);
        plain.push(byte);
        from = at + length;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    plain.extend_from_slice(&text[from..]);
    // The newline that ends each of the server's messages.
    if plain.last() == Some(&b'\n') {
        plain.pop();
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_daemons() {
        for (line, program, pid, text) in [
            (
                "Mar  1 09:30:05 db1 postgres[123]: [3-1] LOG:  x",
                "postgres",
                Some(123),
                "[3-1] LOG:  x",
            ),
            (
                "<134>Mar  1 09:30:05 db1 postgres[123]: LOG:  x",
                "postgres",
                Some(123),
                "LOG:  x",
            ),
            (
                "2026-03-01T09:30:05.123456+01:00 db1 pg-main[9]: [1] x",
                "pg-main",
                Some(9),
                "[1] x",
            ),
            (
                "<134>1 2026-03-01T09:30:05.123Z db1 postgres 123 - - [3-1] x",
                "postgres",
                Some(123),
                "[3-1] x",
            ),
            (
                "<134>1 2026-03-01T09:30:05Z db1 postgres 123 - [a b=\"]\\\"\"][c] \u{feff}x",
                "postgres",
                Some(123),
                "x",
            ),
            (
                "Mar 01 09:30:05.123456 db1 postgres[5]: x",
                "postgres",
                Some(5),
                "x",
            ),
            (
                "Mar  1 09:30:05 postgres[5]: LOG:  x",
                "postgres",
                Some(5),
                "LOG:  x",
            ),
            (
                "Mar  1 09:30:05 db1 kernel: [  1.0] x",
                "kernel",
                None,
                "[  1.0] x",
            ),
            (
                "Mar  1 09:30:05 db1 postgres[5]: [ID 748625 local0.info] [3-1] x",
                "postgres",
                Some(5),
                "[3-1] x",
            ),
        ] {
            let found = parse_header(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (found.program, found.pid),
                (program.as_bytes(), pid),
                "{line}"
            );
            assert_eq!(&line[found.text..], text);
        }
        for line in [
            "2026-03-01 09:30:05.123 UTC [7] LOG:  x",
            "Mar  1 09:30:05 db1",
            "Mar  1 09:30:05 db1 postgres[5]",
            "1 2 3",
            "<",
            "",
        ] {
            assert_eq!(parse_header(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn numbers_and_escapes_are_the_servers_and_the_daemons() {
        let part = |message, part| PartKind::Numbered { message, part };
        for (text, chunk, length) in [
            ("[3-1] x", part(Some(3), 1), 6),
            ("[12] x", part(None, 12), 5),
            ("[3-2]", part(Some(3), 2), 5),
            ("[3-] x", PartKind::Line { loose: false }, 0),
            ("x", PartKind::Line { loose: false }, 0),
        ] {
            assert_eq!(
                parse_part_number(text.as_bytes()),
                (chunk, length),
                "{text}"
            );
        }
        for (text, carets, plain) in [
            ("#011from #1 #9 a#0117", false, "\tfrom #1 #9 a\t7"),
            ("a#012#011b#012", false, "a\n\tb"),
            ("^Ifrom a^Ib", true, "\tfrom a\tb"),
            ("a^Ib #", false, "a^Ib #"),
        ] {
            assert_eq!(unescape(text.as_bytes(), carets), plain.as_bytes());
        }
    }
}
