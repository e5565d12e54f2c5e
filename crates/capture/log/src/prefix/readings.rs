//! Finds all readings of an entry's beginning. A client chooses the names of its user, database and
//! application, so a name may contain text that looks like the rest of the prefix and a label.
//!
//! The server limits names to 63 bytes. It replaces control characters in an application's name, but
//! not in the other two, so a name may span lines.

use super::matching::{
    Fields, LineMatch, Span, is_host_byte, match_typed, padded_end, server_word_end, set_field,
};
use super::{Escape, Piece, Prefix};
use crate::message::NAME_BYTES_MAX;
use crate::severity::label;
use crate::timestamp::TimestampParser;

/// Maximum difference in length between two readings of the other escapes in a prefix.
const OTHER_BYTES_MAX: usize = 64;

/// Maximum number of steps for one line. A line that needs more is ambiguous.
const STEPS_MAX: u32 = 50_000;

/// Maximum number of readings that are returned.
const READINGS_MAX: usize = 64;

impl Escape {
    /// Returns whether a client chooses the value.
    pub(super) fn is_client_chosen(self) -> bool {
        matches!(self, Escape::Application | Escape::User | Escape::Database)
    }
}

/// Properties of a prefix that a client's names may imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgery {
    /// See [`Prefix::reach`].
    reach: usize,
    /// See [`Prefix::has_forgeable_process`].
    process: bool,
}

impl Forgery {
    pub(super) fn of(pieces: &[Piece]) -> Self {
        Forgery {
            reach: Prefix::reach_of(pieces),
            process: Prefix::has_process_after_name(pieces),
        }
    }
}

impl Prefix {
    /// Maximum number of bytes between the first reading's label and another reading's; 0 if no
    /// client can cause another reading.
    pub(crate) fn reach(&self) -> usize {
        self.forgery.reach
    }

    /// Returns whether a name in the prefix may look like the process after it.
    #[inline]
    pub(crate) fn has_forgeable_process(&self) -> bool {
        self.forgery.process
    }

    fn has_process_after_name(pieces: &[Piece]) -> bool {
        let mut after_name = pieces.iter().skip_while(
            |piece| !matches!(piece, Piece::Field { escape, .. } if escape.is_client_chosen()),
        );
        after_name.any(|piece| {
            let process = [Escape::Pid, Escape::Session];
            matches!(piece, Piece::Field { escape, .. } if process.contains(escape))
        })
    }

    /// Returns whether a name in the prefix may contain a newline.
    pub(crate) fn may_span_lines(&self) -> bool {
        self.has(&[Escape::User, Escape::Database])
    }

    fn reach_of(pieces: &[Piece]) -> usize {
        let chosen = |piece: &Piece| matches!(piece, Piece::Field { escape, .. } if escape.is_client_chosen());
        let names = pieces.iter().filter(|piece| chosen(piece)).count();
        let others = pieces.iter().any(|piece| match piece {
            Piece::Field { escape, .. } => {
                !escape.is_client_chosen() && *escape != Escape::TimeMilliseconds
            }
            _ => false,
        });
        match names {
            0 => 0,
            names => names * NAME_BYTES_MAX + usize::from(others) * OTHER_BYTES_MAX,
        }
    }

    /// Finds all readings of the start of `text`, which may contain further lines. Returns `None`
    /// if there are too many to decide.
    #[cold]
    pub(crate) fn readings(
        &self,
        text: &[u8],
        times: &mut TimestampParser,
    ) -> Option<Vec<LineMatch>> {
        let mut search = Search {
            text,
            times,
            found: Vec::new(),
            steps: STEPS_MAX,
        };
        let complete = search.follow(&self.pieces, 0, Fields::default());
        (complete && search.found.len() <= READINGS_MAX).then_some(search.found)
    }
}

/// Search for all readings of a text.
struct Search<'a> {
    text: &'a [u8],
    times: &'a mut TimestampParser,
    found: Vec<LineMatch>,
    steps: u32,
}

impl Search<'_> {
    /// Follows pieces from a position. Returns false if the search was given up.
    fn follow(&mut self, mut pieces: &[Piece], mut at: usize, mut fields: Fields) -> bool {
        let Some(steps) = self.steps.checked_sub(1) else {
            return false;
        };
        self.steps = steps;
        loop {
            let Some((piece, rest)) = pieces.split_first() else {
                self.end(at, fields);
                return true;
            };
            match piece {
                Piece::Literal(literal) => {
                    if !self.text[at..].starts_with(literal) {
                        return true;
                    }
                    at += literal.len();
                }
                Piece::Quit => {
                    let stopped = Fields {
                        quit: true,
                        ..fields
                    };
                    if !self.follow(rest, at, fields) {
                        return false;
                    }
                    self.end(at, stopped);
                    return true;
                }
                &Piece::Field { escape, width } => {
                    if escape.is_free() || escape == Escape::Host {
                        return self.follow_text((escape, width), rest, at, fields);
                    }
                    let padding = match width > 0 {
                        true => self.blanks(at, width),
                        false => 0,
                    };
                    let start = at + padding;
                    let end = match_typed(escape, self.text, start, &mut fields, self.times)
                        .and_then(|end| padded_end(self.text, at, end, width));
                    match end {
                        Some(end) => at = end,
                        None => return true,
                    }
                }
            }
            pieces = rest;
        }
    }

    /// Adds a reading if a label follows.
    fn end(&mut self, at: usize, fields: Fields) {
        if let Some((label, length)) = label(&self.text[at..]) {
            self.found.push(LineMatch {
                fields,
                label,
                label_at: at,
                text: at + length,
            });
        }
    }

    fn blanks(&self, at: usize, width: i32) -> usize {
        let field = self.text[at..].iter().take(width.unsigned_abs() as usize);
        field.take_while(|byte| **byte == b' ').count()
    }

    /// Tries all ends of a value of any text.
    fn follow_text(
        &mut self,
        (escape, width): (Escape, i32),
        rest: &[Piece],
        at: usize,
        fields: Fields,
    ) -> bool {
        let start = match width > 0 {
            true => at + self.blanks(at, width),
            false => at,
        };
        let least = (at + width.unsigned_abs() as usize).max(start);
        if let Some(end) = server_word_end(escape, self.text, start)
            && let Some(after) = padded_end(self.text, at, end, width)
        {
            let found = self.found.len();
            let mut fields = fields;
            set_field(escape, Span::new(start, end), &mut fields);
            if !self.follow(rest, after, fields) {
                return false;
            }
            if self.found.len() > found {
                return true;
            }
        }
        let mut extra = 0;
        let mut end = start;
        loop {
            if end >= least || (width < 0 && escape == Escape::Host) {
                let value_end = match width < 0 {
                    true => start + self.text[start..end].trim_ascii_end().len(),
                    false => end,
                };
                let mut fields = fields;
                let value = Span::new(start, value_end);
                match escape {
                    Escape::Host => fields.host = value,
                    _ => set_field(escape, value, &mut fields),
                }
                if !self.follow(rest, end, fields) {
                    return false;
                }
            }
            let Some(byte) = self.text.get(end) else {
                return true;
            };
            let (goes_on, most) = match escape {
                Escape::Application => ((b' '..=b'~').contains(byte), NAME_BYTES_MAX),
                Escape::User | Escape::Database => (true, NAME_BYTES_MAX),
                Escape::Host => (
                    is_host_byte(*byte) || matches!(byte, b'[' | b']'),
                    super::matching::FREE_BYTES_MAX,
                ),
                // The server chooses these, and no label is among its words.
                _ => (
                    *byte != b'\n' && !self.text[start..end].ends_with(b":  "),
                    super::matching::FREE_BYTES_MAX,
                ),
            };
            // An envelope may have added a tab after a newline.
            extra += usize::from(*byte == b'\t' && self.text[start..end].ends_with(b"\n"));
            let most = most.max(width.unsigned_abs() as usize) + extra;
            end += 1;
            if !goes_on || end - start > most {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(prefix: &str, text: &str) -> Vec<String> {
        let prefix = Prefix::compile(prefix);
        let found = prefix.readings(text.as_bytes(), &mut TimestampParser::default());
        let mut found: Vec<String> = found
            .unwrap()
            .iter()
            .map(|reading| {
                format!(
                    "{}|{}|{}|{}",
                    reading.fields.user.of(text),
                    reading.fields.database.of(text),
                    reading.fields.application.of(text),
                    &text[reading.text..]
                )
            })
            .collect();
        found.sort();
        found
    }

    const TIME: &str = "2026-03-01 09:30:05.123 UTC";

    #[test]
    fn a_label_within_a_name_is_a_second_reading() {
        let line = format!("{TIME} [7] x LOG:  statement: a -- LOG:  statement: b");
        assert_eq!(
            labels("%m [%p] %a ", &line),
            [
                "||x LOG:  statement: a --|statement: b",
                "||x|statement: a -- LOG:  statement: b"
            ]
        );
        let long = format!("{TIME} [7] x LOG:  statement: {} LOG:  y", "a".repeat(63));
        assert_eq!(labels("%m [%p] %a ", &long).len(), 1);
    }

    #[test]
    fn a_name_may_contain_a_newline_except_the_applications() {
        let line = format!("{TIME} [7] x@y LOG:  statement: a\n FATAL:  no");
        assert_eq!(labels("%m [%p] %u@%d ", &line).len(), 2);
        assert_eq!(labels("%m [%p] %a ", &line).len(), 1);
    }

    #[test]
    fn a_separator_within_a_name_is_a_second_reading() {
        let line = format!("{TIME} [7] a@b@c LOG:  x");
        assert_eq!(labels("%m [%p] %u@%d ", &line), ["a@b|c||x", "a|b@c||x"]);
    }
}
