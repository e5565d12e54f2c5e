//! The plain server log: a prefix, a severity, a text; more text behind a tab; then lines such as
//! DETAIL, CONTEXT and STATEMENT, each with a prefix of its own.
//!
//! The server writes all lines of one report at once, so an entry is what starts with a severity,
//! up to the next line that does. One that comes alone is [`Found::Detached`].

use workload::Sqlstate;

use super::entry::{Backend, Entry, Found, Place, Reader, Who};
use super::prefix::{Matched, Prefix, Seen};
use super::severity::{Label, Severity, foreign_word, label};
use super::text::Text;
use super::timestamp::Timestamps;
use super::{SkipReason, UnreadableReason};

/// Reads stderr logs with one prefix.
#[derive(Debug)]
pub(super) struct StderrReader {
    prefix: Prefix,
    times: Timestamps,
    /// The line behind the last entry was matched to find the entry's end; not to be done twice.
    ahead: Option<Ahead>,
    seen: Seen,
    /// The first line's, and that of the line behind the entry; they change places.
    matched: [Matched; 2],
    /// Texts of several lines, without the tabs.
    unfolded: String,
}

/// What is known of the line behind the last entry.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    /// Its place in `matched`; `None` where it did not match.
    place: Option<usize>,
}

/// Where the texts of an entry's lines are, in its bytes; by [`slot`].
#[derive(Debug, Clone, Copy, Default)]
struct Texts {
    starts: [usize; SLOTS],
    ends: [usize; SLOTS],
    /// Bit by bit: lines behind a tab go on with it.
    folded: u32,
}

/// The message, DETAIL, CONTEXT, STATEMENT, and all that is not needed.
const SLOTS: usize = 5;
const ASIDE: usize = 4;

#[inline]
fn slot(label: Label) -> usize {
    match label {
        Label::Head(_) => 0,
        Label::Detail => 1,
        Label::Context => 2,
        Label::Statement => 3,
        Label::Location | Label::Aside => ASIDE,
    }
}

impl Texts {
    /// A line's text. It may be empty, where the line ends before its text begins.
    #[inline]
    fn set(&mut self, slot: usize, start: usize, end: usize) {
        self.starts[slot] = start;
        self.ends[slot] = end.max(start);
        self.folded &= !(1 << slot);
    }

    #[inline]
    fn fold(&mut self, slot: usize, end: usize) {
        self.ends[slot] = end;
        self.folded |= 1 << slot;
    }

    /// Takes the tabs from the texts that need it; returns where they are then.
    #[cold]
    fn unfold(&self, text: &str, into: &mut String) -> [(usize, usize); SLOTS] {
        let mut places = [(0, 0); SLOTS];
        for (slot, place) in places.iter_mut().enumerate().take(ASIDE) {
            if self.folded >> slot & 1 == 1 {
                let start = into.len();
                unfold(&text[self.starts[slot]..self.ends[slot]], into);
                *place = (start, into.len());
            }
        }
        places
    }
}

impl StderrReader {
    pub(super) fn new(prefix: Prefix) -> Self {
        StderrReader {
            prefix,
            times: Timestamps::default(),
            ahead: None,
            seen: Seen::default(),
            matched: [Matched::default(); 2],
            unfolded: String::new(),
        }
    }

    fn unmatched(line: &[u8]) -> UnreadableReason {
        if line.starts_with(b"\t") {
            return UnreadableReason::LooseContinuation;
        }
        match std::str::from_utf8(line) {
            Err(_) => UnreadableReason::Encoding,
            Ok(text) if foreign_word(text).is_some() => UnreadableReason::Translated,
            Ok(_) => UnreadableReason::NoPrefix,
        }
    }
}

/// The lines of an entry, as far as they were told apart.
struct Lines<'a> {
    head: &'a Matched,
    texts: Texts,
    /// All of them.
    text: &'a str,
    place: Place,
    count: u64,
    /// One is a LOCATION.
    located: bool,
}

impl<'a> Lines<'a> {
    /// Takes the tabs from texts of several lines; returns where they are in `into` then.
    #[cold]
    fn unfold(&self, into: &mut String) -> [(usize, usize); SLOTS] {
        into.clear();
        self.texts.unfold(self.text, into)
    }

    #[inline(always)]
    fn part(&self, slot: usize, unfolded: &'a str, places: &[(usize, usize); SLOTS]) -> &'a str {
        if self.texts.folded >> slot & 1 == 1 {
            let (start, end) = places[slot];
            return &unfolded[start..end];
        }
        let (start, end) = (self.texts.starts[slot], self.texts.ends[slot]);
        match start == end {
            true => "",
            false => &self.text[start..end],
        }
    }

    /// What they are. A function of its own, so that what is large is written once, to where it is
    /// read.
    #[inline(never)]
    fn found(&self, unfolded: &'a mut String) -> (Found<'a>, usize) {
        let (text, lines) = (self.text, self.count);
        let fields = &self.head.fields;
        let Label::Head(severity) = self.head.label else {
            let betrays = matches!(self.head.label, Label::Context | Label::Statement);
            let found = Found::Detached {
                pid: fields.pid.unwrap_or(0),
                betrays,
                lines,
            };
            return (found, text.len());
        };
        let mut places = [(0, 0); SLOTS];
        if self.texts.folded != 0 {
            places = self.unfold(unfolded);
        }
        let part = |slot| self.part(slot, unfolded, &places);
        // Spans end at ASCII literals or at the line's parts, but a name may be cut inside a
        // character by a literal that is none.
        let mut message = part(0);
        let mut sqlstate = fields.sqlstate.map(Sqlstate);
        if (self.located || message.starts_with("00000: "))
            && let Some((code, rest)) = message.split_once(": ")
            && let Some(code) = Sqlstate::parse(code)
        {
            sqlstate = sqlstate.or(Some(code));
            message = rest;
        }
        let backend = if fields.has_leader {
            Backend::ParallelWorker
        } else if fields.quit {
            Backend::Background
        } else {
            match fields.backend.of(text) {
                "" => Backend::Client,
                backend => Backend::parse(backend),
            }
        };
        let positioned = !matches!(severity, Severity::Log) && ends_in_position(message);
        let entry = Entry {
            wall_us: fields.wall_us.unwrap_or(0),
            pid: fields.pid.unwrap_or(0),
            started: fields.started,
            line_number: fields.line_number,
            backend,
            who: Who::InLine { text, fields },
            severity,
            sqlstate,
            message,
            detail: part(1),
            context: part(2),
            statement: part(3),
            positioned,
            place: self.place,
            lines,
        };
        (Found::Entry(entry), text.len())
    }
}

impl StderrReader {
    /// Matches the first line of what follows; returns its place in `matched`. It may be `known`
    /// not to match as things are.
    #[inline(never)]
    fn begin(&mut self, first: &[u8], known: bool) -> Option<usize> {
        let [found, _] = &mut self.matched;
        let (times, seen) = (&mut self.times, &mut self.seen);
        let matches = !known && self.prefix.matches_into(first, times, seen, found)
            || self.prefix.learn_quit(first, times)
                && self.prefix.matches_into(first, times, seen, found);
        matches.then_some(0)
    }

    /// What a line is that does not begin an entry.
    #[cold]
    fn other(first: &[u8]) -> Found<'static> {
        let lines = 1;
        if first.is_empty() {
            let reason = SkipReason::Blank;
            return Found::Skipped { lines, reason };
        }
        let reason = Self::unmatched(first);
        Found::Unreadable { lines, reason }
    }
}

/// A line without its newline, and without a carriage return before it.
#[inline(always)]
fn line(bytes: &[u8]) -> &[u8] {
    match bytes {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n' | b'\r'] => rest,
        _ => bytes,
    }
}

impl Reader for StderrReader {
    #[inline(never)]
    fn next<'a>(&'a mut self, text: Text<'a>, complete: bool, place: Place) -> (Found<'a>, usize) {
        let bytes = text.bytes();
        let ahead = self.ahead.take();
        let first_end = text.line_end(0, 0).or(complete.then_some(bytes.len()));
        let Some(first_end) = first_end else {
            return (Found::More, 0);
        };
        let first = line(&bytes[..first_end]);
        let head_place = match ahead {
            Some(Ahead { place: Some(place) }) => place,
            ahead => match self.begin(first, ahead.is_some()) {
                Some(place) => place,
                None => return (Self::other(first), first_end),
            },
        };
        let [one, other] = &mut self.matched;
        let (head, next) = match head_place {
            0 => (&*one, other),
            _ => (&*other, one),
        };
        let head_prefix = &first[..head.label_at];
        let mut texts = Texts::default();
        let mut current = match head.label {
            Label::Head(_) => 0,
            label => slot(label),
        };
        texts.set(current, head.text, first.len());
        let (mut end, mut count, mut located) = (first_end, 1, false);
        loop {
            if end == bytes.len() {
                if !complete {
                    return (Found::More, 0);
                }
                break;
            }
            let next_end = text.line_end(count, end);
            let Some(next_end) = next_end.or(complete.then_some(bytes.len())) else {
                return (Found::More, 0);
            };
            let line = line(&bytes[end..next_end]);
            if line.first() == Some(&b'\t') {
                texts.fold(current, end + line.len());
            } else {
                let (label, text_at) = match label_behind(head_prefix, line) {
                    Some(found) => found,
                    None => {
                        let (times, seen) = (&mut self.times, &mut self.seen);
                        let found = self.prefix.matches_into(line, times, seen, next);
                        let belongs = found
                            && !matches!(next.label, Label::Head(_))
                            && next.fields.pid == head.fields.pid;
                        if !belongs {
                            // The next entry, another process's line, or no line of the log's.
                            self.ahead = Some(Ahead {
                                place: found.then_some(1 - head_place),
                            });
                            break;
                        }
                        (next.label, next.text)
                    }
                };
                current = slot(label);
                located |= label == Label::Location;
                texts.set(current, end + text_at, end + line.len());
            }
            count += 1;
            end = next_end;
        }
        let lines = count as u64;
        if complete && end == bytes.len() && bytes.last() != Some(&b'\n') {
            let reason = UnreadableReason::CutAtEnd;
            return (Found::Unreadable { lines, reason }, end);
        }
        let Some(text) = text.first(end) else {
            let reason = UnreadableReason::Encoding;
            return (Found::Unreadable { lines, reason }, end);
        };
        let lines = Lines {
            head,
            texts,
            text,
            place,
            count: lines,
            located,
        };
        lines.found(&mut self.unfolded)
    }

    fn notes(&self) -> Vec<String> {
        self.prefix.learnt().into_iter().collect()
    }
}

/// The hot case of a line that goes on with an entry: it has the very prefix of the entry's first
/// line. Returns its label, unless that begins another entry, and where its text starts.
#[inline]
fn label_behind(prefix: &[u8], line: &[u8]) -> Option<(Label, usize)> {
    let rest = line.get(prefix.len()..)?;
    // Most often it is the next entry, and with the same `LOG:` at the same place.
    if !matches!(
        rest,
        [b'D' | b'C' | b'S' | b'H' | b'Q' | b'B', ..] | [b'L', b'O', b'C', ..]
    ) {
        return None;
    }
    match label(rest)? {
        (Label::Head(_), _) => None,
        (label, length) => line
            .starts_with(prefix)
            .then_some((label, prefix.len() + length)),
    }
}

/// Takes the tab from behind each newline.
fn unfold(text: &str, into: &mut String) {
    let mut from = 0;
    for newline in memchr::memchr_iter(b'\n', text.as_bytes()) {
        into.push_str(&text[from..=newline]);
        from = newline + 1 + usize::from(text.as_bytes().get(newline + 1) == Some(&b'\t'));
    }
    into.push_str(&text[from..]);
}

/// `… at character 15`: how stderr writes the place in the statement.
fn ends_in_position(message: &str) -> bool {
    message
        .rsplit_once(" at character ")
        .is_some_and(|(_, number)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests;
