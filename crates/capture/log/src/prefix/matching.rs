//! Matches one line against a compiled prefix.

use super::server_words::{BACKENDS, TAGS};
use super::{Escape, MatchCache, Piece, Prefix};
use crate::byte_search::parse_number;
use crate::session_id::parse_session_id;
use crate::severity::{Label, label};
use crate::timestamp::TimestampParser;

/// A range of a line, in bytes from its start.
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

    /// The range.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text of the range; empty if a non-ASCII literal cut a character.
    #[inline(always)]
    pub(crate) fn of(self, line: &str) -> &str {
        if self.start == self.end {
            return "";
        }
        line.get(self.range()).unwrap_or("")
    }
}

/// The values of a prefix's escapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub wall_us: Option<i64>,
    pub pid: Option<u32>,
    pub started: u64,
    pub line_number: u64,
    /// Local number of the virtual transaction.
    pub transaction: u64,
    pub user: Span,
    pub database: Span,
    pub application: Span,
    pub host: Span,
    pub port: Span,
    pub backend: Span,
    pub sqlstate: Option<[u8; 5]>,
    /// `%P` had a value: a parallel worker.
    pub has_leader: bool,
    /// The line ended at `%q`: a process without a client.
    pub quit: bool,
}

/// A line that has the prefix and a severity or label after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineMatch {
    pub fields: Fields,
    pub label: Label,
    /// Start of the label.
    pub label_at: usize,
    /// Start of the text after the label.
    pub text: usize,
}

/// Maximum length of a name: an address may have 1,025 bytes, all others are shorter.
pub(super) const FREE_BYTES_MAX: usize = 1_100;

/// Maximum number of possible ends of names and hosts tried in one line. If several names follow each other,
/// separated by blanks, or several hosts, separated by colons, the number of ways to split a long line is exponential.
const ENDS_TRIED_MAX: u32 = 1_000;

impl Prefix {
    #[inline(never)]
    fn match_thoroughly(
        &self,
        line: &[u8],
        times: &mut TimestampParser,
        fields: &mut Fields,
    ) -> Option<(Label, usize, usize)> {
        *fields = Fields::default();
        let mut ends = ENDS_TRIED_MAX;
        match_pieces(&self.pieces, line, 0, fields, times, &mut ends)
    }

    /// Matches the start of a line.
    #[inline]
    pub(crate) fn matches(&self, line: &[u8], times: &mut TimestampParser) -> Option<LineMatch> {
        let mut found = LineMatch::default();
        self.matches_into(line, times, &mut MatchCache::disabled(), &mut found)
            .then_some(found)
    }

    /// Matches the start of a line into `matched`, which is reused because it is large. Its content
    /// is unspecified if nothing matches.
    #[inline(always)]
    pub(crate) fn matches_into(
        &self,
        line: &[u8],
        times: &mut TimestampParser,
        seen: &mut MatchCache,
        found: &mut LineMatch,
    ) -> bool {
        let mut time_length = 0;
        if self.dates_first
            && seen.is_enabled()
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
        let mut label_and_text = match &self.fast_path {
            Some(fast_path) => fast_path.matches(line, &mut found.fields, times),
            None => None,
        };
        if label_and_text.is_none() {
            label_and_text = self.match_thoroughly(line, times, &mut found.fields);
        }
        let Some((label, label_at, text)) = label_and_text else {
            return false;
        };
        (found.label, found.label_at, found.text) = (label, label_at, text);
        if time_length > 0 {
            seen.insert(line, time_length, found);
        }
        true
    }
}

#[inline]
pub(super) fn set_field(escape: Escape, value: Span, fields: &mut Fields) {
    match escape {
        Escape::Application => fields.application = value,
        Escape::User => fields.user = value,
        Escape::Database => fields.database = value,
        Escape::BackendType => fields.backend = value,
        _ => (),
    }
}

/// Returns the label after these pieces at a line's start.
pub(super) fn label_after(
    pieces: &[Piece],
    line: &[u8],
    times: &mut TimestampParser,
) -> Option<Label> {
    let mut ends = ENDS_TRIED_MAX;
    let found = match_pieces(pieces, line, 0, &mut Fields::default(), times, &mut ends);
    found.map(|(label, ..)| label)
}

fn match_pieces(
    mut pieces: &[Piece],
    line: &[u8],
    mut at: usize,
    fields: &mut Fields,
    times: &mut TimestampParser,
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
                if let Some(found) = match_pieces(rest, line, at, fields, times, ends) {
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
                    return match_free(escape, width, rest, line, (at, start), fields, times, ends);
                }
                if escape == Escape::Host {
                    return match_host(width, rest, line, (at, start), fields, times, ends);
                }
                let end = match_typed(escape, line, start, fields, times)?;
                at = padded_end(line, at, end, width)?;
            }
        }
        pieces = rest;
    }
}

/// Skips blanks that pad a value, at most until the field's width.
fn skip_blanks(line: &[u8], at: usize, width: i32) -> usize {
    let blanks = line[at..]
        .iter()
        .take(width.unsigned_abs() as usize)
        .take_while(|byte| **byte == b' ')
        .count();
    at + blanks
}

/// Returns the end of a padded field whose value ends at `end`.
pub(super) fn padded_end(line: &[u8], at: usize, end: usize, width: i32) -> Option<usize> {
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

/// Matches a field of any text: the fewest bytes with which the rest matches.
#[expect(clippy::too_many_arguments, reason = "the state of a match, by parts")]
fn match_free(
    escape: Escape,
    width: i32,
    rest: &[Piece],
    line: &[u8],
    (at, start): (usize, usize),
    fields: &mut Fields,
    times: &mut TimestampParser,
    ends: &mut u32,
) -> Option<(Label, usize, usize)> {
    let least = (at + width.unsigned_abs() as usize).max(start);
    let last = line.len().min(at + FREE_BYTES_MAX);
    if let Some(end) = server_word_end(escape, line, start) {
        let before = *fields;
        let padded = padded_end(line, at, end, width);
        let found = padded.and_then(|after| match_pieces(rest, line, after, fields, times, ends));
        if found.is_some() {
            set_field(escape, Span::new(start, end), fields);
            return found;
        }
        *fields = before;
    }
    let mut end = least;
    while end <= last {
        if let Some(Piece::Literal(text)) = rest.first() {
            // Continue at the next position where the literal can begin.
            end += memchr::memchr(text[0], &line[end..last])?;
        }
        *ends = ends.checked_sub(1)?;
        let before = *fields;
        if let Some(found) = match_pieces(rest, line, end, fields, times, ends) {
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
            set_field(escape, value, fields);
            return Some(found);
        }
        *fields = before;
        end += 1;
    }
    None
}

/// Returns the end of a value that the server chooses among known ones, which may contain blanks.
pub(super) fn server_word_end(escape: Escape, line: &[u8], start: usize) -> Option<usize> {
    let known: &[&str] = match escape {
        Escape::BackendType => &BACKENDS,
        Escape::CommandTag => &TAGS,
        _ => return None,
    };
    let rest = &line[start..];
    let known = known
        .iter()
        .filter(|known| rest.starts_with(known.as_bytes()));
    let known = known.map(|known| known.len()).max();
    // Most tags are words in capitals, which a message's label may follow directly.
    let capitals = || {
        let run = rest
            .iter()
            .take_while(|byte| byte.is_ascii_uppercase() || **byte == b' ');
        rest[..run.count()].trim_ascii_end().len()
    };
    let length = match escape {
        Escape::CommandTag => known.into_iter().chain([capitals()]).max(),
        _ => known,
    };
    length
        .filter(|length| *length > 0)
        .map(|length| start + length)
}

/// Matches a host name or address: the most bytes with which the rest matches, since an IPv6
/// address may contain the colon that follows it.
fn match_host(
    width: i32,
    rest: &[Piece],
    line: &[u8],
    (at, start): (usize, usize),
    fields: &mut Fields,
    times: &mut TimestampParser,
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
        let Some(after) = padded_end(line, at, end, width) else {
            continue;
        };
        if matches!(rest.first(), Some(Piece::Literal(text)) if !line[after..].starts_with(text)) {
            continue;
        }
        *ends = ends.checked_sub(1)?;
        let before = *fields;
        if let Some(found) = match_pieces(rest, line, after, fields, times, ends) {
            fields.host = Span::new(start, end);
            return Some(found);
        }
        *fields = before;
    }
    None
}

pub(super) fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%' | b'/')
}

/// Matches a field that has a fixed form; returns its end.
#[inline]
pub(super) fn match_typed(
    escape: Escape,
    line: &[u8],
    at: usize,
    fields: &mut Fields,
    times: &mut TimestampParser,
) -> Option<usize> {
    let rest = &line[at..];
    Some(match escape {
        Escape::TimeMilliseconds | Escape::Time => {
            let stamp = times.read(rest)?;
            if stamp.milliseconds != (escape == Escape::TimeMilliseconds) {
                return None;
            }
            // Of several times, the finest counts.
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
            let (seconds, length) = parse_number(rest)?;
            let decimals = rest.get(length..length + 4)?;
            if decimals[0] != b'.' {
                return None;
            }
            let (milliseconds, 3) = parse_number(&decimals[1..])? else {
                return None;
            };
            fields.wall_us = i64::try_from(seconds)
                .ok()?
                .checked_mul(1_000_000)?
                .checked_add(milliseconds as i64 * 1_000);
            at + length + 4
        }
        Escape::Pid => {
            let (pid, length) = parse_number(rest)?;
            fields.pid = Some(u32::try_from(pid).ok()?);
            at + length
        }
        Escape::LeaderPid => match parse_number(rest) {
            Some((_, length)) => {
                fields.has_leader = true;
                at + length
            }
            None => at,
        },
        Escape::LineNumber => {
            let (value, length) = parse_number(rest)?;
            fields.line_number = value;
            at + length
        }
        Escape::Transaction => at + parse_number(rest)?.1,
        Escape::QueryId => {
            let sign = usize::from(rest.first() == Some(&b'-'));
            at + sign + parse_number(&rest[sign..])?.1
        }
        Escape::VirtualTransaction => match parse_number(rest) {
            None => at,
            Some((_, length)) => {
                if rest.get(length) != Some(&b'/') {
                    return None;
                }
                let (number, digits) = parse_number(&rest[length + 1..])?;
                fields.transaction = number;
                at + length + 1 + digits
            }
        },
        Escape::Session => {
            let (started, pid, length) = parse_session_id(rest)?;
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
        Escape::Remote => match_remote(line, at, fields),
        Escape::Application
        | Escape::User
        | Escape::Database
        | Escape::BackendType
        | Escape::CommandTag
        | Escape::Host => unreachable!("matched by what follows"),
    })
}

/// Matches `host(port)`, `[local]`, or nothing for a process without a client.
fn match_remote(line: &[u8], at: usize, fields: &mut Fields) -> usize {
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
        && let Some((_, digits)) = parse_number(&rest[host + 1..])
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
