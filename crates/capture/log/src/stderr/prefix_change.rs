//! Follows changes of `log_line_prefix` within a file. A line that the prefix does not match, or
//! that contradicts it, is compared with the lines after it to infer the new prefix. The server also
//! announces a new prefix in its log.
//!
//! For a while processes may still write with the old prefix, so a line that only an earlier prefix
//! of the file matches is read with that.

use super::*;
use crate::prefix::{
    Escape, Inference, LineFacts, announced_prefix, announced_prefixes, infer_with, is_of_statement,
};

/// Number of lines from which a new prefix is inferred.
const LOOKAHEAD_LINES: usize = 500;

/// Number of lines that do not match before another inference, after one that found nothing.
const PAUSE: u32 = 50;

/// Number of lines above which the last entry of those compared is left out: it may be cut, and what
/// follows a message tells who wrote it.
const WHOLE_MIN: usize = 50;

/// Maximum number of earlier prefixes that are kept.
const EARLIER_MAX: usize = 16;

/// Earlier prefixes of the file; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct PrefixChanges {
    /// Each with its own cache: one prefix's match says nothing about another's.
    earlier: Vec<(Prefix, MatchCache)>,
    /// The earlier prefix that is used for the current entry, which has the current one's place.
    swapped: Option<usize>,
    pause: u32,
    /// `pause` before the last line was counted.
    pause_before: u32,
    /// More bytes may follow.
    pub(super) is_incomplete: bool,
    /// No prefix was inferred, since more bytes are needed.
    waits: bool,
    /// A line that was compared with those after it before it is read, and the result.
    ahead: Option<(Box<[u8]>, Change)>,
    /// The last lines that no prefix matched, each with its end. While a log is followed, a new prefix
    /// can be inferred only from several of them.
    unmatched: Vec<u8>,
    pub(super) policy: ChangePolicy,
    /// The last result is left to the main reader, which follows changes.
    pub(super) left: bool,
    /// Number of changes so far.
    pub(super) count: u64,
    pub(super) notes: Vec<String>,
}

/// Way to follow changes of the prefix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ChangePolicy {
    /// Infers a prefix from all lines that it can be inferred from, and waits for them, so that the result does
    /// not depend on how many bytes are read at a time.
    #[default]
    Wait,
    /// Infers it from the lines that are there: a log that is followed must not wait.
    AtOnce,
    /// Infers none: the text that is read is one message.
    Never,
    /// The reader is one of [`crate::parse_ahead`].
    LeaveToMain,
}

impl PrefixChanges {
    /// Creates the state of a reader that parses ahead.
    pub(super) fn fork(&self) -> Self {
        PrefixChanges {
            policy: ChangePolicy::LeaveToMain,
            count: self.count,
            ..Self::default()
        }
    }

    /// Returns whether more bytes are needed to infer a prefix.
    pub(super) fn take_wait(&mut self) -> bool {
        let waits = std::mem::take(&mut self.waits);
        if waits {
            self.pause = self.pause_before;
        }
        waits
    }

    /// Returns whether the result is left to the main reader, and remembers it.
    pub(super) fn leaves_to_main(&mut self) -> bool {
        let leaves = self.policy == ChangePolicy::LeaveToMain;
        self.left |= leaves;
        leaves
    }

    /// Returns whether the text that is read is one message.
    #[inline(always)]
    pub(super) fn is_of_message(&self) -> bool {
        self.policy == ChangePolicy::Never
    }
}

/// Result of inferring another prefix.
#[derive(Debug)]
enum Change {
    /// The prefix, and the first line's match.
    To(Box<(Prefix, LineMatch)>),
    /// Two prefixes fit equally.
    Undecided([String; 2]),
    Nothing,
    TooFewLines,
    /// More bytes are needed.
    More,
}

/// Result of checking a line's prefix.
#[derive(Debug, Clone, Copy)]
pub(super) enum PrefixCheck {
    /// The line matches, at this index of the matches.
    Matches(usize),
    /// The prefix cannot be the line's, and no other is known.
    Contradicts,
    /// More bytes are needed to tell.
    More,
}

impl StderrReader {
    /// Creates a reader of single messages.
    pub(crate) fn for_messages(prefix: Prefix) -> Self {
        let mut reader = StderrReader::new(prefix);
        reader.changes.policy = ChangePolicy::Never;
        reader
    }

    /// Returns to the current prefix, if the last entry had an earlier one.
    #[inline]
    pub(super) fn use_current_prefix(&mut self) {
        if let Some(index) = self.changes.swapped.take() {
            self.swap_earlier(index);
            self.next_match = None;
        }
    }

    /// Swaps the prefix and an earlier one.
    fn swap_earlier(&mut self, index: usize) {
        let (prefix, seen) = &mut self.changes.earlier[index];
        std::mem::swap(&mut self.prefix, prefix);
        std::mem::swap(&mut self.seen, seen);
    }

    /// Returns whether a matching line shows that the prefix is not, or will not be, its own.
    #[inline]
    pub(super) fn shows_change(&self, first: &[u8], head: &LineMatch) -> bool {
        let message = first.get(head.text..).unwrap_or_default();
        head.fields.quit || matches!(message, [b'p', b'a', b'r', ..] | [b'c', b'o', b'n', ..])
    }

    /// Examines a line for which [`Self::shows_change`] holds. `following` is what comes after it, and whether that
    /// is all.
    #[cold]
    pub(super) fn check_prefix(
        &mut self,
        (bytes, first): (&[u8], &[u8]),
        following: (&[u8], bool),
        head_place: usize,
        line: u64,
    ) -> PrefixCheck {
        match is_written_by_statement(following) {
            None => return PrefixCheck::More,
            Some(true) => return PrefixCheck::Matches(head_place),
            Some(false) => (),
        }
        // A line after this one may have been matched already.
        if self.prefix.contradiction(first, &mut self.times).is_some() {
            let message_at = self.matched[head_place].text;
            if self.adapt(bytes, first, line, Some(message_at)) {
                return PrefixCheck::Matches(0);
            }
            if self.changes.take_wait() {
                return PrefixCheck::More;
            }
            let head = &self.matched[head_place];
            return match head.fields.quit && is_of_client(head, first) {
                true => PrefixCheck::Contradicts,
                false => PrefixCheck::Matches(head_place),
            };
        }
        let next = bytes.split(|byte| *byte == b'\n').nth(1);
        let is_new = announced_prefix(first, next).is_some_and(|new| new != self.prefix.text());
        match is_new && self.infer_change(bytes, first, line, None) {
            true => PrefixCheck::Matches(0),
            false if self.changes.take_wait() => PrefixCheck::More,
            false => PrefixCheck::Matches(head_place),
        }
    }

    /// Finds a prefix for a line that the current one does not match, or that contradicts it. Of a line
    /// that it matches, the start of the message is given, which another prefix must find as well:
    /// otherwise a name that looks like the end of a prefix could make one. Returns whether a prefix
    /// is in `matched`.
    #[cold]
    pub(super) fn adapt(
        &mut self,
        bytes: &[u8],
        first: &[u8],
        line: u64,
        message_at: Option<usize>,
    ) -> bool {
        if self.changes.leaves_to_main() {
            return false;
        }
        if self.changes.is_of_message() || first.starts_with(b"\t") || find_label(first).is_none() {
            return false;
        }
        let is_place = |found: &LineMatch| message_at.is_none_or(|at| at == found.text);
        if let Some((index, found)) = self
            .find_earlier(first)
            .filter(|(_, found)| is_place(found))
        {
            self.matched[0] = found;
            self.swap_earlier(index);
            self.changes.swapped = Some(index);
            return true;
        }
        if self.pauses(first) {
            return false;
        }
        self.infer_change(bytes, first, line, message_at)
    }

    /// Returns whether no prefix is inferred from a line, since that found nothing a few lines ago. The
    /// line is counted.
    fn pauses(&mut self, first: &[u8]) -> bool {
        self.changes.pause_before = self.changes.pause;
        let pauses = self.changes.pause > 0 && announced_prefix(first, None).is_none();
        self.changes.pause = self.changes.pause.saturating_sub(1);
        pauses
    }

    /// Returns whether a line that the prefix does not match begins an entry with another prefix.
    #[cold]
    pub(super) fn has_other_prefix(&mut self, bytes: &[u8]) -> bool {
        let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |newline| newline + 1);
        let first = trim_line_end(&bytes[..end]);
        if self.changes.is_of_message() || find_label(first).is_none() {
            return false;
        }
        if self.find_earlier(first).is_some() {
            return true;
        }
        if self.pauses(first) {
            return false;
        }
        match self.find_change(bytes, first) {
            Change::TooFewLines | Change::More => false,
            Change::Nothing => {
                self.changes.pause = PAUSE;
                false
            }
            change => {
                self.changes.ahead = Some((first.into(), change));
                true
            }
        }
    }

    /// Finds an earlier prefix of the file that a line has.
    fn find_earlier(&mut self, first: &[u8]) -> Option<(usize, LineMatch)> {
        let times = &mut self.times;
        let earlier = self.changes.earlier.iter().enumerate().rev();
        let mut fitting = earlier.filter_map(|(index, (prefix, _))| {
            let found = prefix.matches(first, times)?;
            let contradicted = prefix.contradiction(first, times).is_some();
            (!contradicted).then_some((index, found))
        });
        fitting.next()
    }

    /// Infers the prefix of a line and of those after it.
    fn find_change(&mut self, bytes: &[u8], first: &[u8]) -> Change {
        if self.changes.is_of_message() {
            return Change::Nothing;
        }
        let unmatched = std::mem::take(&mut self.changes.unmatched);
        let before = unmatched.split_inclusive(|byte| *byte == b'\n');
        let after = bytes.split_inclusive(|byte| *byte == b'\n');
        let whole = before.chain(after).filter(|line| line.ends_with(b"\n"));
        let mut lines: Vec<&[u8]> = whole.map(trim_line_end).take(LOOKAHEAD_LINES).collect();
        let waits = self.changes.is_incomplete && self.changes.policy == ChangePolicy::Wait;
        if lines.len() < LOOKAHEAD_LINES && waits {
            self.changes.waits = true;
            self.changes.unmatched = unmatched;
            return Change::More;
        }
        if lines.len() > WHOLE_MIN {
            let last = lines.iter().rposition(|line| begins_entry(line));
            lines.truncate(last.unwrap_or(lines.len()));
        }
        let labelled = lines.iter().filter(|line| find_label(line).is_some());
        if labelled.count() < 2 {
            self.changes.unmatched = unmatched;
            return Change::TooFewLines;
        }
        let lines = lines.iter().copied();
        let mut known = announced_prefixes(lines.clone());
        known.truncate(1);
        known.push(self.prefix.text());
        let found = match infer_with(lines, &known) {
            Inference::Found(found) => found.prefix,
            Inference::Undecided(prefixes) => return Change::Undecided(prefixes),
            Inference::NoTime(_) | Inference::Nothing => return Change::Nothing,
        };
        let matched = found.matches(first, &mut self.times);
        match matched.filter(|_| {
            found.text() != self.prefix.text()
                && found.has_time()
                && found.has_process()
                && !self.has_names_fixed_in(&found, first)
        }) {
            Some(matched) => Change::To(Box::new((found, matched))),
            None => Change::Nothing,
        }
    }

    /// Returns whether another prefix has as fixed text the names that the current one reads in a line.
    /// One session that writes many lines in a row makes such a prefix fit.
    fn has_names_fixed_in(&mut self, other: &Prefix, first: &[u8]) -> bool {
        let Some(found) = self.prefix.matches(first, &mut self.times) else {
            return false;
        };
        let Ok(text) = std::str::from_utf8(first) else {
            return false;
        };
        let fields = &found.fields;
        let names = [
            (Escape::User, fields.user.of(text)),
            (Escape::Database, fields.database.of(text)),
        ];
        names.iter().any(|(escape, name)| {
            !name.is_empty() && !other.has(&[*escape]) && other.text().contains(name)
        })
    }

    /// Infers the prefix of a line and of those after it, and uses it if it is another one.
    fn infer_change(
        &mut self,
        bytes: &[u8],
        first: &[u8],
        line: u64,
        message_at: Option<usize>,
    ) -> bool {
        if self.changes.leaves_to_main() {
            return false;
        }
        let is_place = |found: &LineMatch| message_at.is_none_or(|at| at == found.text);
        let change = match self.changes.ahead.take() {
            Some((line, change)) if *line == *first => change,
            _ => self.find_change(bytes, first),
        };
        let (found, matched) = match change {
            Change::To(found) if is_place(&found.1) => *found,
            Change::More => return false,
            Change::To(_) => {
                self.changes.pause = PAUSE;
                return false;
            }
            Change::TooFewLines => {
                self.changes.unmatched.extend_from_slice(first);
                self.changes.unmatched.push(b'\n');
                return false;
            }
            Change::Undecided([one, other]) => {
                self.changes.pause = PAUSE;
                self.changes.notes.push(format!(
                    "from line {line} on its lines fit log_line_prefix '{one}' and '{other}' equally; cut the file there, and capture the rest with --prefix"
                ));
                return false;
            }
            Change::Nothing => {
                self.changes.pause = PAUSE;
                return false;
            }
        };
        self.changes.notes.push(format!(
            "log_line_prefix was changed: from line {line} on it is read as '{}'",
            found.text()
        ));
        if self.changes.earlier.len() == EARLIER_MAX {
            self.changes.earlier.remove(0);
        }
        let earlier = std::mem::replace(&mut self.prefix, found);
        let seen = std::mem::take(&mut self.seen);
        self.changes.earlier.push((earlier, seen));
        self.changes.count += 1;
        self.matched[0] = matched;
        true
    }
}

/// Returns whether a statement wrote the entry before these bytes, as RAISE does: it may look like any message
/// of the server's, and shows nothing of the prefix. `None` if more bytes are needed to tell.
#[cold]
fn is_written_by_statement((following, complete): (&[u8], bool)) -> Option<bool> {
    let lines = following.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.filter(|line| complete || line.ends_with(b"\n"));
    is_of_statement(whole).or(complete.then_some(false))
}

/// Returns whether a line begins an entry.
fn begins_entry(line: &[u8]) -> bool {
    let found = find_label(line).and_then(|label_at| label(&line[label_at..]));
    matches!(found, Some((Label::Head(_), _))) && !line.starts_with(b"\t")
}

/// Returns whether only a client's process writes this message.
#[cold]
fn is_of_client(head: &LineMatch, first: &[u8]) -> bool {
    let message = std::str::from_utf8(first.get(head.text..).unwrap_or_default());
    match (head.label, message) {
        (Label::Head(severity), Ok(message)) => {
            LineFacts::of_message(severity, message).is_of_client()
        }
        _ => false,
    }
}
