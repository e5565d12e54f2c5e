//! Matches one line against a compiled prefix.

use super::{Escape, Piece, Prefix, Seen};
use crate::entry::session_id;
use crate::scan::number;
use crate::severity::{Label, label};
use crate::timestamp::Timestamps;

/// A part of a line, counted from the line's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The part's place.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The part itself; empty where a literal that is no ASCII cut a character.
    #[inline(always)]
    pub(crate) fn of(self, line: &str) -> &str {
        if self.start == self.end {
            return "";
        }
        line.get(self.range()).unwrap_or("")
    }
}

/// What a prefix said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub wall_us: Option<i64>,
    pub pid: Option<u32>,
    pub started: u64,
    pub line_number: u64,
    pub user: Span,
    pub database: Span,
    pub application: Span,
    pub host: Span,
    pub port: Span,
    pub backend: Span,
    pub sqlstate: Option<[u8; 5]>,
    /// `%P` was there: a parallel worker.
    pub has_leader: bool,
    /// The line stopped at `%q`: no client's.
    pub quit: bool,
}

/// A line that has the prefix and a severity or label behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Matched {
    pub fields: Fields,
    pub label: Label,
    /// Where the label starts.
    pub label_at: usize,
    /// Where the text behind the label starts.
    pub text: usize,
}

/// Names are no longer than this: an address may be 1,025 bytes, all others are shorter.
pub(super) const FREE_BYTES_MAX: usize = 1_100;

/// How many places where a name could end are tried in one line. Where several names follow each
/// other, parted by blanks, the ways to part a long line that is none are without number.
const ENDS_TRIED_MAX: u32 = 1_000;

impl Prefix {
    #[inline(never)]
    fn thorough(
        &self,
        line: &[u8],
        times: &mut Timestamps,
        fields: &mut Fields,
    ) -> Option<(Label, usize, usize)> {
        *fields = Fields::default();
        let mut ends = ENDS_TRIED_MAX;
        step(&self.pieces, line, 0, fields, times, &mut ends)
    }

    /// Matches the start of a line.
    #[inline]
    pub(crate) fn matches(&self, line: &[u8], times: &mut Timestamps) -> Option<Matched> {
        let mut found = Matched::default();
        self.matches_into(line, times, &mut Seen::off(), &mut found)
            .then_some(found)
    }

    /// As [`Self::matches`], into a place that is used again: what is found is large. Where
    /// nothing matches, the place holds anything.
    #[inline(always)]
    pub(crate) fn matches_into(
        &self,
        line: &[u8],
        times: &mut Timestamps,
        seen: &mut Seen,
        found: &mut Matched,
    ) -> bool {
        let mut time_length = 0;
        if self.dates_first
            && seen.is_on()
            && let Some(stamp) = times.read(line)
            && stamp.milliseconds
        {
            time_length = stamp.length;
            if let Some(matched) = seen.find(line, time_length) {
                *found = *matched;
                found.fields.wall_us = Some(stamp.wall_us);
                return true;
            }
        }
        found.fields = Fields::default();
        let mut behind = match &self.straight {
            Some(straight) => straight.matches(line, &mut found.fields, times),
            None => None,
        };
        if behind.is_none() {
            behind = self.thorough(line, times, &mut found.fields);
        }
        let Some((label, label_at, text)) = behind else {
            return false;
        };
        (found.label, found.label_at, found.text) = (label, label_at, text);
        if time_length > 0 {
            seen.remember(line, time_length, found);
        }
        true
    }
}

#[inline]
pub(super) fn set(escape: Escape, value: Span, fields: &mut Fields) {
    match escape {
        Escape::Application => fields.application = value,
        Escape::User => fields.user = value,
        Escape::Database => fields.database = value,
        Escape::BackendType => fields.backend = value,
        _ => (),
    }
}

/// What stands behind these pieces at a line's start.
pub(super) fn starts(pieces: &[Piece], line: &[u8], times: &mut Timestamps) -> Option<Label> {
    let mut ends = ENDS_TRIED_MAX;
    let found = step(pieces, line, 0, &mut Fields::default(), times, &mut ends);
    found.map(|(label, ..)| label)
}

fn step(
    mut pieces: &[Piece],
    line: &[u8],
    mut at: usize,
    fields: &mut Fields,
    times: &mut Timestamps,
    ends: &mut u32,
) -> Option<(Label, usize, usize)> {
    loop {
        let Some((piece, rest)) = pieces.split_first() else {
            let (label, length) = label(&line[at..])?;
            return Some((label, at, at + length));
        };
        match piece {
            Piece::Literal(text) => {
                if !line[at..].starts_with(text) {
                    return None;
                }
                at += text.len();
            }
            Piece::Quit => {
                let before = *fields;
                if let Some(found) = step(rest, line, at, fields, times, ends) {
                    return Some(found);
                }
                *fields = before;
                fields.quit = true;
                let (label, length) = label(&line[at..])?;
                return Some((label, at, at + length));
            }
            &Piece::Field { escape, width } => {
                let start = if width > 0 {
                    skip_blanks(line, at, width)
                } else {
                    at
                };
                if escape.is_free() {
                    return free(escape, width, rest, line, (at, start), fields, times, ends);
                }
                if escape == Escape::Host {
                    return host(width, rest, line, (at, start), fields, times, ends);
                }
                let end = typed(escape, line, start, fields, times)?;
                at = padded(line, at, end, width)?;
            }
        }
        pieces = rest;
    }
}

/// Blanks that pad before a value, at most so many that the value is not wider than its width.
fn skip_blanks(line: &[u8], at: usize, width: i32) -> usize {
    let blanks = line[at..]
        .iter()
        .take(width.unsigned_abs() as usize)
        .take_while(|byte| **byte == b' ')
        .count();
    at + blanks
}

/// Where a padded field ends whose value ends at `end`.
fn padded(line: &[u8], at: usize, end: usize, width: i32) -> Option<usize> {
    if width >= 0 {
        return Some(end);
    }
    let least = at + width.unsigned_abs() as usize;
    if end >= least {
        return Some(end);
    }
    line.get(end..least)?
        .iter()
        .all(|byte| *byte == b' ')
        .then_some(least)
}

/// A field of any text: the fewest bytes with which the rest matches.
#[expect(clippy::too_many_arguments, reason = "the state of a match, by parts")]
fn free(
    escape: Escape,
    width: i32,
    rest: &[Piece],
    line: &[u8],
    (at, start): (usize, usize),
    fields: &mut Fields,
    times: &mut Timestamps,
    ends: &mut u32,
) -> Option<(Label, usize, usize)> {
    let least = (at + width.unsigned_abs() as usize).max(start);
    let last = line.len().min(at + FREE_BYTES_MAX);
    let mut end = least;
    while end <= last {
        if let Some(Piece::Literal(text)) = rest.first() {
            // Go on to where the literal could begin.
            end += memchr::memchr(text[0], &line[end..last])?;
        }
        *ends = ends.checked_sub(1)?;
        let before = *fields;
        if let Some(found) = step(rest, line, end, fields, times, ends) {
            let value = if width < 0 {
                let padding = line[start..end]
                    .iter()
                    .rev()
                    .take_while(|byte| **byte == b' ')
                    .count();
                Span::new(start, end - padding)
            } else {
                Span::new(start, end)
            };
            set(escape, value, fields);
            return Some(found);
        }
        *fields = before;
        end += 1;
    }
    None
}

/// A host name or address: the most bytes with which the rest matches, since an IPv6 address may
/// hold the colon that follows it.
fn host(
    width: i32,
    rest: &[Piece],
    line: &[u8],
    (at, start): (usize, usize),
    fields: &mut Fields,
    times: &mut Timestamps,
    ends: &mut u32,
) -> Option<(Label, usize, usize)> {
    let run = if line[start..].starts_with(b"[local]") {
        7
    } else {
        line[start..]
            .iter()
            .take(FREE_BYTES_MAX)
            .take_while(|byte| is_host_byte(**byte))
            .count()
    };
    for end in (start..=start + run).rev() {
        let before = *fields;
        if let Some(after) = padded(line, at, end, width)
            && let Some(found) = step(rest, line, after, fields, times, ends)
        {
            fields.host = Span::new(start, end);
            return Some(found);
        }
        *fields = before;
    }
    None
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%' | b'/')
}

/// A field that has a form of its own; returns where it ends.
#[inline]
pub(super) fn typed(
    escape: Escape,
    line: &[u8],
    at: usize,
    fields: &mut Fields,
    times: &mut Timestamps,
) -> Option<usize> {
    let rest = &line[at..];
    Some(match escape {
        Escape::TimeMilliseconds | Escape::Time => {
            let stamp = times.read(rest)?;
            if stamp.milliseconds != (escape == Escape::TimeMilliseconds) {
                return None;
            }
            // The finest of several times counts.
            if fields.wall_us.is_none() || stamp.milliseconds {
                fields.wall_us = Some(stamp.wall_us);
            }
            at + stamp.length
        }
        Escape::SessionStart => match times.read(rest) {
            Some(stamp) if !stamp.milliseconds => at + stamp.length,
            _ => at,
        },
        Escape::Epoch => {
            let (seconds, length) = number(rest)?;
            let decimals = rest.get(length..length + 4)?;
            if decimals[0] != b'.' {
                return None;
            }
            let (milliseconds, 3) = number(&decimals[1..])? else {
                return None;
            };
            fields.wall_us = i64::try_from(seconds)
                .ok()?
                .checked_mul(1_000_000)?
                .checked_add(milliseconds as i64 * 1_000);
            at + length + 4
        }
        Escape::Pid => {
            let (pid, length) = number(rest)?;
            fields.pid = Some(u32::try_from(pid).ok()?);
            at + length
        }
        Escape::LeaderPid => match number(rest) {
            Some((_, length)) => {
                fields.has_leader = true;
                at + length
            }
            None => at,
        },
        Escape::LineNumber => {
            let (value, length) = number(rest)?;
            fields.line_number = value;
            at + length
        }
        Escape::Transaction => at + number(rest)?.1,
        Escape::QueryId => {
            let sign = usize::from(rest.first() == Some(&b'-'));
            at + sign + number(&rest[sign..])?.1
        }
        Escape::VirtualTransaction => match number(rest) {
            None => at,
            Some((_, length)) => {
                if rest.get(length) != Some(&b'/') {
                    return None;
                }
                at + length + 1 + number(&rest[length + 1..])?.1
            }
        },
        Escape::Session => {
            let (started, pid, length) = session_id(rest)?;
            fields.started = started;
            fields.pid = Some(pid);
            at + length
        }
        Escape::Sqlstate => {
            let code = rest.first_chunk::<5>()?;
            if !code
                .iter()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            {
                return None;
            }
            fields.sqlstate = Some(*code);
            at + 5
        }
        Escape::Remote => remote(line, at, fields),
        Escape::Application
        | Escape::User
        | Escape::Database
        | Escape::BackendType
        | Escape::CommandTag
        | Escape::Host => unreachable!("matched by what follows"),
    })
}

/// `host(port)`, `[local]`, or nothing for a process without a client.
fn remote(line: &[u8], at: usize, fields: &mut Fields) -> usize {
    let rest = &line[at..];
    for whole in [&b"[local]"[..], b"[unknown]"] {
        if rest.starts_with(whole) {
            fields.host = Span::new(at, at + whole.len());
            return at + whole.len();
        }
    }
    let host = rest
        .iter()
        .take(FREE_BYTES_MAX)
        .take_while(|byte| is_host_byte(**byte))
        .count();
    if host > 0
        && rest.get(host) == Some(&b'(')
        && let Some((_, digits)) = number(&rest[host + 1..])
        && rest.get(host + 1 + digits) == Some(&b')')
    {
        fields.host = Span::new(at, at + host);
        fields.port = Span::new(at + host + 1, at + host + 1 + digits);
        return at + host + digits + 2;
    }
    at
}

#[cfg(test)]
mod tests;
