//! Handles lines that have several readings: a name that a client chose contains text that looks
//! like the end of the prefix and a label.
//!
//! The assembler knows the session's names and chooses; the reader lists the readings and skips the
//! lines that remain ambiguous.

use super::*;

/// Number of bytes before the first name in a prefix, at most.
const BEFORE_NAMES_MAX: usize = 512;

impl StderrReader {
    /// Returns whether another label follows that of the first line, near enough for the text
    /// between them to be part of a name.
    #[inline]
    pub(super) fn has_other_label(&self, bytes: &[u8], head_place: usize, text_end: usize) -> bool {
        let reach = self.prefix.reach();
        if reach == 0 {
            return false;
        }
        let head = &self.matched[head_place];
        let end = match self.may_continue_in_name() {
            true => bytes.len(),
            false => text_end,
        };
        let end = end.min(head.label_at + reach + LABEL_BYTES_MAX);
        head.text < end && self.labels.find(&bytes[head.text..end]).is_some()
    }

    /// Returns whether the next line has no prefix, so that a name in the prefix of this entry may
    /// contain the newline before it.
    fn may_continue_in_name(&self) -> bool {
        matches!(self.next_match, Some(NextLineMatch { index: None }))
            && self.prefix.may_span_lines()
    }

    /// Lists the readings of the entry at the start of the bytes; `None` if it has only one.
    #[cold]
    pub(super) fn find_readings<'a>(
        &mut self,
        text: Text<'a>,
        head_place: usize,
        text_end: usize,
        complete: bool,
    ) -> Option<(ReadResult<'a>, usize)> {
        let bytes = text.bytes();
        let head = self.matched[head_place];
        let mut end = text_end;
        if self.may_continue_in_name() {
            let wanted = head.label_at + self.prefix.reach() + LABEL_BYTES_MAX;
            if bytes.len() < wanted && !complete {
                self.next_match = None;
                return Some((ReadResult::More, 0));
            }
            end = bytes.len().min(wanted);
        }
        let found = self.prefix.readings(&bytes[..end], &mut self.times);
        let last = match &found {
            Some(found) => {
                let labels = || found.iter().map(|reading| reading.label_at);
                if labels().all(|at| at == head.label_at) {
                    return None;
                }
                labels().max().unwrap_or(0)
            }
            None => head.label_at,
        };
        let Some((length, lines)) = message_end(bytes, last, complete) else {
            self.next_match = None;
            return Some((ReadResult::More, 0));
        };
        self.next_match = None;
        let whole = std::str::from_utf8(&bytes[..length]);
        let (Some(found), Ok(whole)) = (found, whole) else {
            let reason = SkipReason::Ambiguous;
            return Some((ReadResult::Skipped { lines, reason }, length));
        };
        let readings = found.iter().map(|found| to_reading(found, whole)).collect();
        self.ambiguity = Ambiguity::Open {
            readings: found,
            first_line: memchr::memchr(b'\n', bytes).unwrap_or(bytes.len()),
            length,
            lines,
        };
        Some((ReadResult::Ambiguous(readings), 0))
    }

    /// Reads a line that does not begin an entry. If a name contains a newline, it is the beginning
    /// of a prefix, and the lines up to its end are ambiguous.
    #[cold]
    pub(super) fn read_other<'a>(
        &mut self,
        text: Text<'a>,
        first: &[u8],
        first_end: usize,
        complete: bool,
    ) -> (ReadResult<'a>, usize) {
        let bytes = text.bytes();
        match self.last_label_after_newline(bytes, complete) {
            None => (ReadResult::More, 0),
            Some(None) => (Self::classify_other(first), first_end),
            Some(Some(last)) => match message_end(bytes, last, complete) {
                None => (ReadResult::More, 0),
                Some((length, lines)) => {
                    let reason = SkipReason::Ambiguous;
                    (ReadResult::Skipped { lines, reason }, length)
                }
            },
        }
    }

    /// Returns the last label that may follow a prefix at the start of the bytes, whose first line
    /// does not match: a name in it contains a newline. `None` if more bytes are needed.
    pub(super) fn last_label_after_newline(
        &mut self,
        bytes: &[u8],
        complete: bool,
    ) -> Option<Option<usize>> {
        if bytes.starts_with(b"\n") || !self.prefix.may_span_lines() {
            return Some(None);
        }
        let wanted = BEFORE_NAMES_MAX + self.prefix.reach();
        if bytes.len() < wanted && !complete {
            return None;
        }
        let searched = &bytes[..bytes.len().min(wanted)];
        let found = self.prefix.readings(searched, &mut self.times);
        Some(found.iter().flatten().map(|reading| reading.label_at).max())
    }
}

/// Returns the end of the line at `at` and of the lines after it that begin with a tab, and the
/// number of lines; `None` if more may follow.
fn message_end(bytes: &[u8], at: usize, complete: bool) -> Option<(usize, u64)> {
    let mut end = at;
    loop {
        match memchr::memchr(b'\n', &bytes[end..]) {
            Some(newline) => end += newline + 1,
            None if complete => {
                end = bytes.len();
                break;
            }
            None => return None,
        }
        match bytes.get(end) {
            Some(b'\t') => (),
            None if !complete => return None,
            _ => break,
        }
    }
    let newlines = memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64;
    let cut = u64::from(!bytes[..end].ends_with(b"\n"));
    Some((end, newlines + cut))
}

fn to_reading<'a>(found: &LineMatch, text: &'a str) -> Reading<'a> {
    let fields = &found.fields;
    Reading {
        pid: fields.pid.unwrap_or(0),
        started: fields.started,
        line_number: fields.line_number,
        quit: fields.quit,
        names: SessionNames::in_line(text, fields),
        label: found.label,
        label_at: found.label_at,
        message: text
            .get(found.text..)
            .unwrap_or("")
            .trim_end_matches(['\n', '\r']),
    }
}

/// Returns whether two lines have the same user, database and application.
fn same_names((one, first): (&[u8], &LineMatch), (other, second): (&[u8], &LineMatch)) -> bool {
    let names = |matched: &LineMatch| {
        let fields = matched.fields;
        [fields.user, fields.database, fields.application]
    };
    let mut pairs = names(first).into_iter().zip(names(second));
    pairs.all(|(a, b)| one.get(a.range()) == other.get(b.range()))
}

/// The parts of the reader that match a line.
pub(super) struct Matching<'a> {
    pub prefix: &'a mut Prefix,
    pub times: &'a mut TimestampParser,
    pub seen: &'a mut MatchCache,
    pub labels: &'a Finder<'static>,
    /// The text is one message, whose lines an envelope has joined.
    pub is_message: bool,
}

impl Matching<'_> {
    /// Matches a line after those of an entry, into `next`. Returns its label and the start of its
    /// text if it belongs to the entry. The error says whether it matches at all: it is the next
    /// entry, another process's line, or a line outside the format.
    #[inline(always)]
    pub(super) fn match_following(
        self,
        (first, head): (&[u8], &LineMatch),
        line: &[u8],
        next: &mut LineMatch,
    ) -> Result<(Label, usize), bool> {
        let head_prefix = &first[..head.label_at];
        if !self.prefix.has_forgeable_process()
            && let Some(found) = continuation_label(head_prefix, line)
        {
            return Ok(found);
        }
        if !matches_or_learns(self.prefix, line, self.times, self.seen, next) {
            return Err(false);
        }
        if next.fields.pid != head.fields.pid {
            return Err(true);
        }
        if self.prefix.reach() > 0 {
            let is_message = self.is_message;
            let belongs = self.prefers_continuation((first, head), (line, next));
            if !belongs && !is_message {
                return Err(true);
            }
        }
        match next.label {
            Label::Head(_) => Err(true),
            label => Ok((label, next.text)),
        }
    }

    /// Replaces the match of a line of the same process by its reading that continues the entry, if
    /// it has one: with the entry's names, and a label that begins no entry. Returns false if the
    /// line may be one of another process.
    fn prefers_continuation(
        self,
        (first, head): (&[u8], &LineMatch),
        (line, next): (&[u8], &mut LineMatch),
    ) -> bool {
        let is_same = same_names((first, head), (line, next));
        let end = line
            .len()
            .min(next.label_at + self.prefix.reach() + LABEL_BYTES_MAX);
        let may_be_other = self.prefix.has_forgeable_process()
            && next.text < end
            && self.labels.find(&line[next.text..end]).is_some();
        if is_same && !may_be_other {
            return true;
        }
        let Some(readings) = self.prefix.readings(line, self.times) else {
            return false;
        };
        if readings
            .iter()
            .any(|reading| reading.fields.pid != head.fields.pid)
        {
            return false;
        }
        let continues = |reading: &LineMatch| {
            !matches!(reading.label, Label::Head(_)) && same_names((first, head), (line, reading))
        };
        match readings.into_iter().find(continues) {
            Some(reading) => *next = reading,
            // Its names are others, so it belongs to another entry.
            None => return is_same,
        }
        true
    }
}
