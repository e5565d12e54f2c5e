//! The plain server log: a prefix, a severity, a text; more text behind a tab; then lines such as
//! DETAIL, CONTEXT and STATEMENT, each with a prefix of its own.
//!
//! The server writes all lines of one report at once, so an entry is what starts with a severity,
//! up to the next line that does. One that comes alone is [`Found::Detached`].

use workload::Sqlstate;

use super::entry::{Backend, Entry, Found, Place, Reader, line_end, trimmed};
use super::prefix::{Matched, Prefix};
use super::severity::{Label, Severity, foreign_word, label};
use super::timestamp::Timestamps;
use super::{SkipReason, UnreadableReason};

/// Reads stderr logs with one prefix.
#[derive(Debug)]
pub(super) struct StderrReader {
    prefix: Prefix,
    times: Timestamps,
    /// The line behind the last entry was matched to find the entry's end; not to be done twice.
    ahead: Option<Ahead>,
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
    /// Its bytes, with the newline.
    length: usize,
}

/// The text of a line and those that continue it, in the bytes of the entry.
#[derive(Debug, Clone, Copy, Default)]
struct Text {
    start: usize,
    end: usize,
    folded: bool,
}

impl Text {
    fn present(&self) -> bool {
        self.end > self.start
    }
}

impl StderrReader {
    pub(super) fn new(prefix: Prefix) -> Self {
        StderrReader {
            prefix,
            times: Timestamps::default(),
            ahead: None,
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

impl Reader for StderrReader {
    fn next<'a>(&'a mut self, bytes: &'a [u8], complete: bool, place: Place) -> (Found<'a>, usize) {
        let ahead = self.ahead.take();
        let first_end = ahead
            .map(|ahead| ahead.length)
            .or_else(|| line_end(bytes, 0))
            .or(complete.then_some(bytes.len()));
        let Some(first_end) = first_end else {
            return (Found::More, 0);
        };
        let first = trimmed(&bytes[..first_end]);
        let (matched, times) = (&mut self.matched, &mut self.times);
        let head_place = match ahead {
            Some(ahead) => ahead.place,
            None => self
                .prefix
                .matches_into(first, times, &mut matched[0])
                .then_some(0),
        };
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
        let mut texts = [Text::default(); 5];
        let slot = |label: Label| match label {
            Label::Head(_) => 0,
            Label::Detail => 1,
            Label::Context => 2,
            Label::Statement => 3,
            Label::Location | Label::Aside => 4,
        };
        let mut current = slot(head.label);
        texts[current] = Text {
            start: head.text,
            end: first.len().max(head.text),
            folded: false,
        };
        let (mut end, mut lines, mut located) = (first_end, 1u64, false);
        let mut aside_current = matches!(head.label, Label::Location | Label::Aside);
        loop {
            if end == bytes.len() {
                if !complete {
                    return (Found::More, 0);
                }
                break;
            }
            let Some(next_end) = line_end(bytes, end).or(complete.then_some(bytes.len())) else {
                return (Found::More, 0);
            };
            let line = trimmed(&bytes[end..next_end]);
            if line.first() == Some(&b'\t') {
                if !aside_current {
                    texts[current].end = end + line.len();
                    texts[current].folded = true;
                }
            } else {
                let (label, text_at) = match label_behind(head_prefix, line) {
                    Some(found) => found,
                    None => {
                        let found = self.prefix.matches_into(line, times, next);
                        let belongs = found
                            && !matches!(next.label, Label::Head(_))
                            && next.fields.pid == head.fields.pid;
                        if !belongs {
                            // The next entry, another process's line, or no line of the log's.
                            self.ahead = Some(Ahead {
                                place: found.then_some(next_place),
                                length: next_end - end,
                            });
                            break;
                        }
                        (next.label, next.text)
                    }
                };
                current = slot(label);
                aside_current = current == 4;
                located |= label == Label::Location;
                texts[current] = Text {
                    start: end + text_at,
                    end: end + line.len().max(text_at),
                    folded: false,
                };
            }
            lines += 1;
            end = next_end;
        }
        let whole = &bytes[..end];
        if complete && end == bytes.len() && !whole.ends_with(b"\n") {
            return (
                Found::Unreadable {
                    lines,
                    reason: UnreadableReason::CutAtEnd,
                },
                end,
            );
        }
        let Ok(text) = simdutf8::basic::from_utf8(whole) else {
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
        // Asides are not needed, and their slot is left empty.
        texts[4] = Text::default();
        let unfolded = &mut self.unfolded;
        unfolded.clear();
        let mut places = [(0, 0); 4];
        for (folded, unfolded_at) in texts.iter().zip(&mut places) {
            if folded.folded {
                let start = unfolded.len();
                unfold(&text[folded.start..folded.end], unfolded);
                *unfolded_at = (start, unfolded.len());
            }
        }
        let unfolded: &str = unfolded;
        let part = |index: usize| {
            let Text { start, end, folded } = texts[index];
            match folded {
                true => &unfolded[places[index].0..places[index].1],
                false if texts[index].present() => &text[start..end],
                false => "",
            }
        };
        // Spans end at ASCII literals or at the line's parts, but a name may be cut inside a
        // character by a literal that is none.
        let name = |span: super::prefix::Span| span.of(text);
        let mut message = part(0);
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
            Backend::parse(name(fields.backend))
        };
        let positioned = !matches!(severity, Severity::Log) && ends_in_position(message);
        let entry = Entry {
            wall_us: fields.wall_us.unwrap_or(0),
            pid: fields.pid.unwrap_or(0),
            started: fields.started,
            line_number: fields.line_number,
            backend,
            user: name(fields.user),
            database: name(fields.database),
            application: name(fields.application),
            client: (name(fields.host), name(fields.port)),
            severity,
            sqlstate,
            message,
            detail: part(1),
            context: part(2),
            statement: part(3),
            positioned,
            place,
            lines,
        };
        (Found::Entry(entry), end)
    }
}

/// The hot case of a line that goes on with an entry: it has the very prefix of the entry's first
/// line. Returns its label, unless that begins another entry, and where its text starts.
#[inline]
fn label_behind(prefix: &[u8], line: &[u8]) -> Option<(Label, usize)> {
    let rest = line.strip_prefix(prefix)?;
    match label(rest)? {
        (Label::Head(_), _) => None,
        (label, length) => Some((label, prefix.len() + length)),
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
