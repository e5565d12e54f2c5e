//! Reads the plain server log: a prefix, a severity, a text; further lines of text after a tab;
//! then lines such as DETAIL, CONTEXT and STATEMENT, each with its own prefix.
//!
//! The server writes all lines of one report at once. So an entry starts at a line with a severity
//! and ends before the next such line. A DETAIL or similar line without its entry is
//! [`ReadResult::Detached`].

use memchr::memmem::Finder;
use workload::Sqlstate;

use super::entry::{Backend, Entry, ReadResult, Reader, Reading, SessionIdentity, SessionNames};
use super::parse_ahead::{ChunkParser, EntryParser, ForkReader};
use super::prefix::{LineMatch, MatchCache, Prefix};
use super::reconcile::Location;
use super::severity::{LABEL_BYTES_MAX, Label, Severity, find_label, foreign_word, label};
use super::stray_lines::{
    PIECE_BYTES, continues_message, holds_other_message, is_memory_context, is_truncated,
};
use super::text::Text;
use super::timestamp::TimestampParser;
use super::zones::ZoneReading;
use super::{SkipReason, UnreadableReason};

mod ambiguity;
mod entry_lines;
mod prefix_change;

use ambiguity::Matching;
use entry_lines::{EntryLines, Texts, slot};
use prefix_change::{ChangePolicy, PrefixChanges, PrefixCheck};

/// Reads stderr logs with one prefix.
#[derive(Debug)]
pub(super) struct StderrReader {
    prefix: Prefix,
    times: TimestampParser,
    /// The line after the last entry was already matched to find the entry's end.
    next_match: Option<NextLineMatch>,
    seen: MatchCache,
    /// Match of the first line, and of the line after the entry; the two are swapped.
    matched: [LineMatch; 2],
    /// Texts of several lines, with the tabs removed.
    unfolded: String,
    /// Finds the colon and blanks of a label.
    labels: Finder<'static>,
    ambiguity: Ambiguity,
    changes: PrefixChanges,
}

/// The match of the line after the last entry.
#[derive(Debug, Clone, Copy)]
struct NextLineMatch {
    /// Its index in `matched`; `None` if it did not match.
    index: Option<usize>,
}

/// State of the entry at the start of the bytes, if it has several readings.
#[derive(Debug, Default)]
enum Ambiguity {
    #[default]
    None,
    /// The readings that were returned, the length of the first line, and the length and number of
    /// the lines that are skipped if none is chosen.
    Open {
        readings: Vec<LineMatch>,
        first_line: usize,
        length: usize,
        lines: u64,
    },
    Settled(LineMatch),
    Undecided(usize, u64),
}

impl NextLineMatch {
    fn of(found: bool, index: usize) -> Self {
        NextLineMatch {
            index: found.then_some(index),
        }
    }
}

impl StderrReader {
    pub(super) fn new(prefix: Prefix) -> Self {
        StderrReader {
            prefix,
            times: TimestampParser::default(),
            next_match: None,
            seen: MatchCache::default(),
            matched: [LineMatch::default(); 2],
            unfolded: String::new(),
            labels: Finder::new(":  "),
            ambiguity: Ambiguity::None,
            changes: PrefixChanges::default(),
        }
    }

    fn unmatched_reason(line: &[u8]) -> UnreadableReason {
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

impl StderrReader {
    /// Matches the first line; returns its index in `matched`. The line may be `known` not to match
    /// under the current prefix.
    #[inline(never)]
    fn match_first(&mut self, first: &[u8], known: bool) -> Option<usize> {
        let [found, _] = &mut self.matched;
        let (times, seen) = (&mut self.times, &mut self.seen);
        let matches = !known && self.prefix.matches_into(first, times, seen, found)
            || self.prefix.learn_quit(first, times)
                && self.prefix.matches_into(first, times, seen, found);
        matches.then_some(0)
    }

    /// Returns the place of an entry's first match, if the line begins one.
    #[inline]
    fn find_head(
        &mut self,
        ahead: Option<NextLineMatch>,
        bytes: &[u8],
        first: &[u8],
        line: u64,
    ) -> Option<usize> {
        match ahead {
            Some(NextLineMatch { index: Some(index) }) => Some(index),
            ahead => match self.match_first(first, ahead.is_some()) {
                None if self.adapt(bytes, first, line, None) => Some(0),
                found => found,
            },
        }
    }

    /// Takes what is known of the first line from before: its match, and whether that was chosen
    /// among several. The error is the length of lines that remain ambiguous, in bytes, and their
    /// number.
    #[inline]
    fn take_state(&mut self) -> Result<(Option<NextLineMatch>, bool), (usize, u64)> {
        match std::mem::take(&mut self.ambiguity) {
            Ambiguity::None => self.use_current_prefix(),
            Ambiguity::Open { .. } => (),
            Ambiguity::Settled(reading) => {
                self.matched[0] = reading;
                return Ok((Some(NextLineMatch { index: Some(0) }), true));
            }
            Ambiguity::Undecided(length, lines) => return Err((length, lines)),
        }
        Ok((self.next_match.take(), false))
    }

    /// Returns whether the line after an entry, which ends at `end`, is a lost line of it. `None` if
    /// more bytes are needed.
    #[inline]
    fn is_continued(
        &mut self,
        matched: bool,
        bytes: &[u8],
        end: usize,
        complete: bool,
    ) -> Option<bool> {
        match matched {
            true => Some(false),
            false => self.is_lost_line(bytes, end, complete),
        }
    }

    /// As [`Self::is_continued`], for a line that the prefix does not match.
    #[cold]
    fn is_lost_line(&mut self, bytes: &[u8], end: usize, complete: bool) -> Option<bool> {
        if self.changes.leaves_to_main() {
            return Some(false);
        }
        let (head, rest) = bytes.split_at(end);
        if self.last_label_after_newline(rest, complete)?.is_some() || self.has_other_prefix(rest) {
            return Some(false);
        }
        if self.changes.take_wait() {
            return None;
        }
        continues_message(head, rest, complete, &mut self.times)
    }

    /// Returns an entry's text, and whether it is cut.
    #[inline]
    fn check_text<'a>(
        &mut self,
        text: Text<'a>,
        end: usize,
        complete: bool,
        cut: bool,
    ) -> Result<(&'a str, bool), UnreadableReason> {
        let text = whole_text(text, end, complete)?;
        let cut = check_torn(cut, text, &self.prefix, &mut self.times);
        Ok((text, cut.ok_or(UnreadableReason::Torn)?))
    }

    /// Classifies a line that does not begin an entry.
    #[cold]
    fn classify_other(first: &[u8]) -> ReadResult<'static> {
        let lines = 1;
        if first.is_empty() {
            let reason = SkipReason::Blank;
            return ReadResult::Skipped { lines, reason };
        }
        if is_memory_context(first) {
            let reason = SkipReason::MemoryContexts;
            return ReadResult::Skipped { lines, reason };
        }
        let reason = Self::unmatched_reason(first);
        ReadResult::Unreadable { lines, reason }
    }
}

/// Returns the match of an entry's first line, and the place for the next.
#[inline(always)]
fn split_matched<T>([one, other]: &mut [T; 2], head_place: usize) -> (&T, &mut T) {
    match head_place {
        0 => (one, other),
        _ => (other, one),
    }
}

fn ambiguous(lines: u64) -> ReadResult<'static> {
    let reason = SkipReason::Ambiguous;
    ReadResult::Skipped { lines, reason }
}

/// Removes the newline from a line, and a carriage return before it.
#[inline(always)]
fn trim_line_end(bytes: &[u8]) -> &[u8] {
    match bytes {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n' | b'\r'] => rest,
        _ => bytes,
    }
}

/// Result for a line that does not have the prefix.
const NO_PREFIX: ReadResult<'static> = ReadResult::Unreadable {
    lines: 1,
    reason: UnreadableReason::NoPrefix,
};

impl Reader for StderrReader {
    fn times(&self) -> &TimestampParser {
        &self.times
    }

    fn set_zones(&mut self, reading: &ZoneReading) {
        self.times.set_reading(reading.clone());
    }

    #[inline(never)]
    fn next<'a>(
        &'a mut self,
        text: Text<'a>,
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let bytes = text.bytes();
        let (ahead, settled) = match self.take_state() {
            Ok(state) => state,
            Err((length, lines)) => return (ambiguous(lines), length),
        };
        let Some(first_end) = text.line_end(0, 0).or(complete.then_some(bytes.len())) else {
            return (ReadResult::More, 0);
        };
        let first = trim_line_end(&bytes[..first_end]);
        self.changes.is_incomplete = !complete;
        let Some(mut head_place) = self.find_head(ahead, bytes, first, place.line) else {
            if self.changes.take_wait() {
                return (ReadResult::More, 0);
            }
            return self.read_other(text, first, first_end, complete);
        };
        if !settled && self.shows_change(first, &self.matched[head_place]) {
            let following = (&bytes[first_end..], complete);
            match self.check_prefix((bytes, first), following, head_place, place.line) {
                PrefixCheck::Matches(index) => head_place = index,
                PrefixCheck::Contradicts => return (NO_PREFIX, first_end),
                PrefixCheck::More => return (ReadResult::More, 0),
            }
        }
        let (head, next) = split_matched(&mut self.matched, head_place);
        let mut texts = Texts::default();
        let first_slot = slot(head.label);
        let mut current = first_slot;
        texts.set(current, head.text, first.len());
        let (mut end, mut count, mut located, mut cut) = (first_end, 1, false, false);
        loop {
            if end == bytes.len() {
                if !complete {
                    return (ReadResult::More, 0);
                }
                break;
            }
            let next_end = text.line_end(count, end);
            let Some(next_end) = next_end.or(complete.then_some(bytes.len())) else {
                return (ReadResult::More, 0);
            };
            let line = trim_line_end(&bytes[end..next_end]);
            if line.first() == Some(&b'\t') {
                texts.fold(current, end + line.len());
            } else {
                let matching = Matching {
                    prefix: &mut self.prefix,
                    times: &mut self.times,
                    seen: &mut self.seen,
                    labels: &self.labels,
                    is_message: self.changes.is_of_message(),
                };
                let (label, text_at) = match matching.match_following((first, head), line, next) {
                    Ok(found) => found,
                    Err(found) => {
                        let Some(continues) = self.is_continued(found, bytes, end, complete) else {
                            return (ReadResult::More, 0);
                        };
                        cut = continues;
                        self.next_match = Some(NextLineMatch::of(found, 1 - head_place));
                        break;
                    }
                };
                current = slot(label);
                located |= label == Label::Location;
                texts.set(current, end + text_at, end + line.len());
            }
            count += 1;
            end = next_end;
        }
        let (lines, text_end) = (count as u64, texts.ends[first_slot]);
        if !settled
            && self.has_other_label(bytes, head_place, text_end)
            && let Some(found) = self.find_readings(text, head_place, text_end, complete)
        {
            return found;
        }
        let (text, cut) = match self.check_text(text, end, complete, cut) {
            Ok(checked) => checked,
            Err(reason) => return (ReadResult::Unreadable { lines, reason }, end),
        };
        let lines = EntryLines {
            head: &self.matched[head_place],
            texts,
            text,
            place,
            count: lines,
            located,
            cut,
            prefix: &self.prefix,
        };
        lines.to_result(&mut self.unfolded)
    }

    fn settle(&mut self, choice: Option<usize>) {
        self.next_match = None;
        if let Ambiguity::Open {
            readings,
            first_line,
            length,
            lines,
        } = &self.ambiguity
        {
            // A prefix that spans lines is not read, even if its names are known.
            let chosen = choice.map(|choice| readings[choice]);
            self.ambiguity = match chosen.filter(|chosen| chosen.text <= *first_line) {
                Some(chosen) => Ambiguity::Settled(chosen),
                None => Ambiguity::Undecided(*length, *lines),
            };
        }
    }

    fn set_followed(&mut self) {
        if !self.changes.is_of_message() {
            self.changes.policy = ChangePolicy::AtOnce;
        }
    }

    fn version(&mut self) -> Option<u64> {
        if !matches!(self.ambiguity, Ambiguity::None) {
            return None;
        }
        self.use_current_prefix();
        // Of a changed prefix, none is learnt yet.
        let changes = 2 * self.changes.count + u64::from(self.prefix.has_learnt());
        Some(changes + self.times.zone_changes())
    }

    fn to_parser(&mut self) -> Option<Box<dyn ChunkParser>> {
        EntryParser::boxed(self)
    }

    fn pass_parsed(&mut self) -> Option<&Prefix> {
        self.next_match = None;
        Some(&self.prefix)
    }

    fn notes(&self) -> Vec<String> {
        let learnt = self.prefix.learnt_note().into_iter();
        learnt.chain(self.changes.notes.iter().cloned()).collect()
    }
}

impl ForkReader for StderrReader {
    fn fork(&self) -> Self {
        StderrReader {
            times: self.times.clone(),
            changes: self.changes.fork(),
            ..StderrReader::new(self.prefix.without_learning())
        }
    }

    fn takes_more(&mut self) -> bool {
        std::mem::take(&mut self.changes.left)
    }
}

/// Returns an entry's text, unless the input ends within it or it is not UTF-8.
#[inline]
fn whole_text(text: Text<'_>, end: usize, complete: bool) -> Result<&str, UnreadableReason> {
    let bytes = text.bytes();
    if complete && end == bytes.len() && bytes.last() != Some(&b'\n') {
        return Err(UnreadableReason::CutAtEnd);
    }
    text.first_as_str(end).ok_or(UnreadableReason::Encoding)
}

/// Returns whether an entry is cut: it was before, or another message begins within it. `None` if
/// both hold: then it is torn.
#[inline]
fn check_torn(cut: bool, text: &str, prefix: &Prefix, times: &mut TimestampParser) -> Option<bool> {
    if !cut && text.len() <= PIECE_BYTES || !holds_other_message(text, prefix, times) {
        return Some(cut);
    }
    (!cut).then_some(true)
}

/// Matches a line, also under a prefix that the line shows to have `%q`.
#[inline(always)]
fn matches_or_learns(
    prefix: &mut Prefix,
    line: &[u8],
    times: &mut TimestampParser,
    seen: &mut MatchCache,
    found: &mut LineMatch,
) -> bool {
    prefix.matches_into(line, times, seen, found)
        || prefix.learn_quit(line, times) && prefix.matches_into(line, times, seen, found)
}

/// Handles the hot case of a line that continues an entry: it has exactly the prefix of the entry's
/// first line. Returns its label, unless that begins another entry, and the start of its text.
#[inline]
fn continuation_label(prefix: &[u8], line: &[u8]) -> Option<(Label, usize)> {
    let rest = line.get(prefix.len()..)?;
    // Most often it is the next entry, with the same `LOG:` at the same position.
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

#[cfg(test)]
mod tests;
