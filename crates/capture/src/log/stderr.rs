//! The plain server log: a prefix, a severity, a text; more text behind a tab; then lines such as
//! DETAIL, CONTEXT and STATEMENT, each with a prefix of its own.
//!
//! The server writes all lines of one report at once, so an entry is what starts with a severity,
//! up to the next line that does. One that comes alone is [`Found::Detached`].

use workload::Sqlstate;

use super::entry::{Backend, Entry, Found, Place, Reader, Who, trimmed};
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

/// The texts of an entry, unfolded where they were folded.
struct Parts<'a, 't> {
    texts: &'t Texts,
    text: &'a str,
    places: &'t [(usize, usize); SLOTS],
    unfolded: &'a str,
}

impl<'a> Parts<'a, '_> {
    #[inline(always)]
    fn of(&self, slot: usize) -> &'a str {
        if self.texts.folded >> slot & 1 == 1 {
            let (start, end) = self.places[slot];
            return &self.unfolded[start..end];
        }
        let (start, end) = (self.texts.starts[slot], self.texts.ends[slot]);
        match start == end {
            true => "",
            false => &self.text[start..end],
        }
    }
}

impl Reader for StderrReader {
    #[inline(always)]
    fn next<'a>(&'a mut self, text: Text<'a>, complete: bool, place: Place) -> (Found<'a>, usize) {
        let bytes = text.bytes();
        let ahead = self.ahead.take();
        let first_end = text.line_end(0, 0).or(complete.then_some(bytes.len()));
        let Some(first_end) = first_end else {
            return (Found::More, 0);
        };
        let first = trimmed(&bytes[..first_end]);
        let (matched, times) = (&mut self.matched, &mut self.times);
        let head_place = match ahead {
            Some(ahead) => ahead.place,
            None => self
                .prefix
                .matches_into(first, times, &mut self.seen, &mut matched[0])
                .then_some(0),
        };
        let head_place = head_place.or_else(|| {
            let learnt = self.prefix.learn_quit(first, times);
            let again = learnt
                && self
                    .prefix
                    .matches_into(first, times, &mut self.seen, &mut matched[0]);
            again.then_some(0)
        });
        let Some(head_place) = head_place else {
            if first.is_empty() {
                return (
                    Found::Skipped {
                        lines: 1,
                        reason: SkipReason::Blank,
                    },
                    first_end,
                );
            }
            let reason = Self::unmatched(first);
            return (Found::Unreadable { lines: 1, reason }, first_end);
        };
        let [one, other] = matched;
        let (head, next) = match head_place {
            0 => (&*one, other),
            _ => (&*other, one),
        };
        let next_place = 1 - head_place;
        let head_prefix = &first[..head.label_at];
        let mut texts = Texts::default();
        let mut current = slot(head.label);
        texts.set(current, head.text, first.len());
        let (mut end, mut lines, mut located) = (first_end, 1, false);
        loop {
            if end == bytes.len() {
                if !complete {
                    return (Found::More, 0);
                }
                break;
            }
            let next_end = text.line_end(lines, end);
            let Some(next_end) = next_end.or(complete.then_some(bytes.len())) else {
                return (Found::More, 0);
            };
            let line = trimmed(&bytes[end..next_end]);
            if line.first() == Some(&b'\t') {
                texts.fold(current, end + line.len());
            } else {
                let (label, text_at) = match label_behind(head_prefix, line) {
                    Some(found) => found,
                    None => {
                        let found = self.prefix.matches_into(line, times, &mut self.seen, next);
                        let belongs = found
                            && !matches!(next.label, Label::Head(_))
                            && next.fields.pid == head.fields.pid;
                        if !belongs {
                            // The next entry, another process's line, or no line of the log's.
                            self.ahead = Some(Ahead {
                                place: found.then_some(next_place),
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
            lines += 1;
            end = next_end;
        }
        let whole = &bytes[..end];
        let lines = lines as u64;
        if complete && end == bytes.len() && !whole.ends_with(b"\n") {
            return (
                Found::Unreadable {
                    lines,
                    reason: UnreadableReason::CutAtEnd,
                },
                end,
            );
        }
        let Some(text) = text.first(end) else {
            return (
                Found::Unreadable {
                    lines,
                    reason: UnreadableReason::Encoding,
                },
                end,
            );
        };
        let fields = &head.fields;
        let Label::Head(severity) = head.label else {
            let betrays = matches!(head.label, Label::Context | Label::Statement);
            return (
                Found::Detached {
                    pid: fields.pid.unwrap_or(0),
                    betrays,
                    lines,
                },
                end,
            );
        };
        let mut places = [(0, 0); SLOTS];
        if texts.folded != 0 {
            self.unfolded.clear();
            places = texts.unfold(text, &mut self.unfolded);
        }
        let parts = Parts {
            texts: &texts,
            text,
            places: &places,
            unfolded: &self.unfolded,
        };
        // Spans end at ASCII literals or at the line's parts, but a name may be cut inside a
        // character by a literal that is none.
        let mut message = parts.of(0);
        let mut sqlstate = fields.sqlstate.map(Sqlstate);
        if (located || message.starts_with("00000: "))
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
            detail: parts.of(1),
            context: parts.of(2),
            statement: parts.of(3),
            positioned,
            place,
            lines,
        };
        (Found::Entry(entry), end)
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
