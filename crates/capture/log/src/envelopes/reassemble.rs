//! Reassembles the server's messages from the records of an envelope, in the order in which they
//! began.
//!
//! An envelope may split a message into parts, and parts of several processes' messages may be
//! interleaved. A message is complete once its process began another, or [`WAIT_LINES`] lines
//! followed. Later messages wait for it, so that the order stays.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use workload::Sqlstate;

use crate::prefix::{LineMatch, MatchCache, Prefix};
use crate::severity::{Label, foreign_word};
use crate::stray_lines::is_memory_context;
use crate::timestamp::TimestampParser;
use crate::zones::ZoneReading;
use crate::{SkipReason, UnreadableReason};

/// Maximum number of physical lines after a message's last part for which the message waits. The
/// parts of one message are written at once, so only messages that other processes write at the
/// same moment come between.
pub(super) const WAIT_LINES: u64 = 1_000;

/// Maximum length of syslog's parts (`PG_SYSLOG_LIMIT` in the server's elog.c).
const SYSLOG_PART_BYTES: usize = 900;

/// Number of bytes kept of text that is no message.
const EXCERPT_BYTES: usize = 1 << 10;

/// Relation of a record's text to the texts before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// A message, or a line of one. If it starts with neither the prefix nor a tab, it continues
    /// the text before it if `loose`.
    Line { loose: bool },
    /// Continues the physical line before it.
    Continues,
    /// syslog's `[message-part]`, both from 1.
    Numbered { message: Option<u64>, part: u64 },
}

/// The server's text in one record of an envelope.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    pub chunk: PartKind,
    /// It continues the line before it, without a newline between them.
    pub joined: bool,
    /// The process, if the envelope has it.
    pub pid: Option<u32>,
    /// The time, if the envelope has it, in microseconds since 1970-01-01 UTC.
    pub wall_us: Option<i64>,
    /// The server and the program, if the file may have several.
    pub server: Cow<'a, str>,
    pub program: Cow<'a, str>,
    /// The text as stderr would have it, but without a newline at its end.
    pub text: Cow<'a, [u8]>,
    pub envelope_fields: Option<Box<EnvelopeFields>>,
}

impl<'a> Part<'a> {
    pub(super) fn new(chunk: PartKind, text: impl Into<Cow<'a, [u8]>>) -> Self {
        Part {
            chunk,
            joined: false,
            pid: None,
            wall_us: None,
            server: Cow::Borrowed(""),
            program: Cow::Borrowed(""),
            text: text.into(),
            envelope_fields: None,
        }
    }
}

/// Values that an envelope has in addition to the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EnvelopeFields {
    pub sqlstate: Option<Sqlstate>,
    pub detail: String,
    pub context: String,
    pub statement: String,
}

/// The reason why a group is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReassemblyError {
    Skipped(SkipReason),
    Unreadable(UnreadableReason),
}

/// A message, or lines that are none.
#[derive(Debug, Default)]
pub(super) struct MessageGroup {
    /// The text as stderr would have written it, each line with its newline.
    pub text: Vec<u8>,
    pub pid: Option<u32>,
    pub wall_us: Option<i64>,
    pub envelope_fields: Option<Box<EnvelopeFields>>,
    pub error: Option<ReassemblyError>,
    /// The first physical line, and the number of lines.
    pub line: u64,
    pub lines: u64,
    last_line: u64,
    /// Lines that cannot be read follow it.
    pub cut: bool,
    closed: bool,
    message: Option<u64>,
    part: u64,
    /// Length of the last part's text, in bytes.
    part_bytes: usize,
    part_is_blank: bool,
    line_number: u64,
    /// Process and time of its first line, from the prefix.
    head: (Option<u32>, Option<i64>),
}

/// The incomplete messages; see the module documentation.
#[derive(Debug)]
pub(super) struct Reassembler {
    prefix: Prefix,
    times: TimestampParser,
    seen: MatchCache,
    waiting: VecDeque<MessageGroup>,
    /// Number of the first waiting group, counted from the start of the input.
    first: u64,
    /// For each process, the group that may continue.
    open: HashMap<u32, u64>,
    /// The group that the last physical line belongs to.
    last: Option<u64>,
    spare: Vec<Vec<u8>>,
}

impl Reassembler {
    pub(super) fn new(prefix: Prefix) -> Self {
        Reassembler {
            prefix,
            times: TimestampParser::default(),
            seen: MatchCache::default(),
            waiting: VecDeque::new(),
            first: 0,
            open: HashMap::new(),
            last: None,
            spare: Vec::new(),
        }
    }

    pub(super) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Reads time zones as `reading` says.
    pub(super) fn set_zones(&mut self, reading: &ZoneReading) {
        self.times.set_reading(reading.clone());
    }

    /// Number of waiting groups.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the next complete group, before physical line `line` is read.
    pub(super) fn next_complete(&mut self, line: u64, at_end: bool) -> Option<MessageGroup> {
        let first = self.waiting.front()?;
        if !at_end && !first.closed && line <= first.last_line + WAIT_LINES {
            return None;
        }
        let number = self.first;
        self.first += 1;
        let group = self.waiting.pop_front()?;
        if let Some(pid) = group.pid.filter(|_| !group.closed)
            && self.open.get(&pid) == Some(&number)
        {
            self.open.remove(&pid);
        }
        Some(group)
    }

    /// Takes the memory of a consumed group for reuse.
    pub(super) fn recycle(&mut self, group: MessageGroup) {
        if self.spare.len() < 64 {
            let mut text = group.text;
            text.clear();
            text.shrink_to(1 << 16);
            self.spare.push(text);
        }
    }

    /// Adds lines that are no part of a message.
    pub(super) fn add_error(&mut self, spoilt: ReassemblyError, text: &[u8], line: u64) -> u64 {
        if matches!(spoilt, ReassemblyError::Unreadable(_)) {
            // The damaged text may have belonged to any message.
            self.mark_last_cut();
            self.close_all();
            self.last = None;
        }
        let number = self.begin_group(line);
        let group = self.group(number);
        group.error = Some(spoilt);
        group.closed = true;
        group
            .text
            .extend_from_slice(&text[..text.len().min(EXCERPT_BYTES)]);
        number
    }

    /// Marks the message of the last physical line as cut, since what follows may be its rest.
    fn mark_last_cut(&mut self) {
        if let Some(number) = self.last.filter(|number| *number >= self.first) {
            self.group(number).cut = true;
        }
    }

    /// Adds physical lines to a waiting group.
    pub(super) fn add_lines(&mut self, number: u64, lines: u64) {
        self.group(number).lines += lines;
    }

    /// Closes the open groups, except those of syslog: its parts are numbered, so a gap is
    /// detected.
    fn close_all(&mut self) {
        let Reassembler {
            waiting,
            open,
            first,
            ..
        } = self;
        open.retain(|_, number| {
            let index = number.checked_sub(*first);
            match index.and_then(|index| waiting.get_mut(index as usize)) {
                Some(group) => {
                    group.closed |= group.part == 0;
                    !group.closed
                }
                None => false,
            }
        });
    }

    /// Marks the group of a truncated last physical line as incomplete.
    pub(super) fn mark_truncated(&mut self, number: u64) {
        self.group(number).error = Some(ReassemblyError::Unreadable(UnreadableReason::CutAtEnd));
    }

    /// Adds the part of a record that starts at physical line `line`. Returns the number of its
    /// group.
    pub(super) fn add(&mut self, part: Part<'_>, line: u64) -> u64 {
        if part.joined
            && let Some(number) = self.last.filter(|last| *last >= self.first)
        {
            self.add_joined(number, &part.text, line);
            return number;
        }
        let first_line = first_line(&part.text);
        let mut matched = LineMatch::default();
        let times = &mut self.times;
        let found = self
            .prefix
            .matches_into(first_line, times, &mut self.seen, &mut matched)
            || self.prefix.learn_quit(first_line, times)
                && self
                    .prefix
                    .matches_into(first_line, times, &mut self.seen, &mut matched);
        let matched = found.then_some(matched);
        let pid = part.pid.or(matched.and_then(|matched| matched.fields.pid));
        let head = matched.is_some_and(|matched| matches!(matched.label, Label::Head(_)));
        let number = match part.chunk {
            PartKind::Numbered { message, part: at } if at > 1 && !(head && message.is_none()) => {
                self.add_numbered_part(part, pid, matched, (message, at), line)
            }
            PartKind::Continues => match self.last.filter(|last| *last >= self.first) {
                Some(number) => {
                    self.add_continuation(number, &part.text, line);
                    number
                }
                None => self.add_loose_text(&part, pid, line),
            },
            PartKind::Numbered { .. } | PartKind::Line { .. } => match matched {
                Some(matched) if head => self.begin_message(part, pid, matched, line),
                Some(matched) => self.add_labelled_line(part, pid, matched, line),
                None => {
                    let goes_on = matches!(part.chunk, PartKind::Line { loose: true })
                        || first_line.starts_with(b"\t");
                    match self.last.filter(|last| {
                        goes_on
                            && *last >= self.first
                            && part.pid.is_none_or(|pid| self.peek(*last).pid == Some(pid))
                    }) {
                        Some(number) => {
                            self.add_continuation(number, &part.text, line);
                            number
                        }
                        None => self.add_loose_text(&part, pid, line),
                    }
                }
            },
        };
        // An empty line may belong to the message around it.
        let blank = ReassemblyError::Skipped(SkipReason::Blank);
        if self.peek(number).error != Some(blank) {
            self.last = Some(number);
        }
        number
    }

    /// Begins a message.
    fn begin_message(
        &mut self,
        part: Part<'_>,
        pid: Option<u32>,
        matched: LineMatch,
        line: u64,
    ) -> u64 {
        let number = self.begin_group(line);
        let before = pid.and_then(|pid| self.open.insert(pid, number));
        self.close_group(before);
        let (message, at) = numbers(part.chunk);
        let folded = self.fold(&part.text, matched.fields.pid);
        let group = self.group(number);
        group.pid = pid;
        group.wall_us = part.wall_us;
        group.envelope_fields = part.envelope_fields;
        (group.message, group.part) = (message, at);
        group.part_bytes = part.text.len();
        group.line_number = matched.fields.line_number;
        group.head = (matched.fields.pid, matched.fields.wall_us);
        group.text.extend_from_slice(&folded);
        group.text.push(b'\n');
        number
    }

    /// Adds a DETAIL, STATEMENT or other line with its own prefix.
    fn add_labelled_line(
        &mut self,
        part: Part<'_>,
        pid: Option<u32>,
        matched: LineMatch,
        line: u64,
    ) -> u64 {
        let fields = matched.fields;
        let open = match pid {
            Some(pid) => self.open.get(&pid).copied(),
            None => self.last,
        };
        let fits = open.filter(|number| {
            *number >= self.first && {
                let group = self.peek(*number);
                // The server writes the same time in all lines of one message, and %l counts
                // them.
                group.error.is_none()
                    && group.head == (fields.pid, fields.wall_us)
                    && (fields.line_number == 0 || group.line_number + 1 == fields.line_number)
            }
        });
        let folded = self.fold(&part.text, matched.fields.pid);
        let number = fits.unwrap_or_else(|| {
            let number = self.begin_group(line);
            let group = self.group(number);
            (group.pid, group.wall_us, group.closed) = (pid, part.wall_us, true);
            number
        });
        let group = self.group(number);
        group.text.extend_from_slice(&folded);
        group.text.push(b'\n');
        group.line_number = fields.line_number;
        group.part_bytes = part.text.len();
        group.last_line = line;
        number
    }

    /// Adds a part of syslog's that is not the first of its message.
    fn add_numbered_part(
        &mut self,
        part: Part<'_>,
        pid: Option<u32>,
        matched: Option<LineMatch>,
        (message, at): (Option<u64>, u64),
        line: u64,
    ) -> u64 {
        let open = pid
            .and_then(|pid| self.open.get(&pid).copied())
            .filter(|number| *number >= self.first)
            .filter(|number| self.peek(*number).message == message);
        let Some(number) = open else {
            let number = self.begin_group(line);
            let before = pid.and_then(|pid| self.open.insert(pid, number));
            self.close_group(before);
            let group = self.group(number);
            (group.pid, group.wall_us) = (pid, part.wall_us);
            (group.message, group.part) = (message, at);
            group.error = Some(ReassemblyError::Unreadable(
                UnreadableReason::LooseContinuation,
            ));
            group.text.extend_from_slice(&part.text);
            return number;
        };
        // syslog writes a newline within a part as `#012`.
        let head = self.peek(number).head.0;
        let text = &self.fold(&part.text, head)[..];
        let group = self.group(number);
        group.last_line = line;
        if group.part + 1 != at && group.error.is_none() {
            group.error = Some(ReassemblyError::Unreadable(UnreadableReason::PartMissing));
        }
        group.part = at;
        let word = text
            .iter()
            .skip(1)
            .take_while(|byte| !byte.is_ascii_whitespace())
            .count();
        // The server splits at the last blank that fits, and omits it. Text after a newline
        // starts with a tab or with the prefix.
        let cut = group.part_bytes + 1 + word > SYSLOG_PART_BYTES;
        let own = matched.is_some_and(|matched| {
            !matches!(matched.label, Label::Head(_)) && matched.fields.pid == group.head.0
        });
        let indent = group.part_is_blank && cut;
        if !own {
            match text.starts_with(b"\t") && !indent {
                // The tab may be the blank before a word that did not fit, but rarely is, unless
                // only blanks precede it.
                true => (),
                false if cut => {
                    group.text.pop();
                }
                false => group.text.push(b'\t'),
            }
        }
        group.part_is_blank = text.iter().all(u8::is_ascii_whitespace);
        group.part_bytes = part.text.len();
        group.text.extend_from_slice(text);
        group.text.push(b'\n');
        number
    }

    /// Adds text without a prefix, after a newline.
    fn add_continuation(&mut self, number: u64, text: &[u8], line: u64) {
        let group = self.group(number);
        group.last_line = line;
        for line in text.split(|byte| *byte == b'\n') {
            if !line.starts_with(b"\t") {
                group.text.push(b'\t');
            }
            group.text.extend_from_slice(line);
            group.text.push(b'\n');
        }
    }

    /// Adds the rest of a line.
    fn add_joined(&mut self, number: u64, text: &[u8], line: u64) {
        let group = self.group(number);
        group.last_line = line;
        if group.text.last() == Some(&b'\n') {
            group.text.pop();
        }
        group.text.extend_from_slice(text);
        group.text.push(b'\n');
    }

    /// Adds text that belongs to no message.
    fn add_loose_text(&mut self, part: &Part<'_>, pid: Option<u32>, line: u64) -> u64 {
        let text = first_line(&part.text);
        let reason = match std::str::from_utf8(text) {
            _ if text.is_empty() => ReassemblyError::Skipped(SkipReason::Blank),
            _ if is_memory_context(text) => ReassemblyError::Skipped(SkipReason::MemoryContexts),
            _ if text.starts_with(b"\t") || part.chunk == PartKind::Continues => {
                ReassemblyError::Unreadable(UnreadableReason::LooseContinuation)
            }
            Err(_) => ReassemblyError::Unreadable(UnreadableReason::Encoding),
            Ok(text) if foreign_word(text).is_some() => {
                ReassemblyError::Unreadable(UnreadableReason::Translated)
            }
            Ok(_) => ReassemblyError::Unreadable(UnreadableReason::NoPrefix),
        };
        if matches!(
            reason,
            ReassemblyError::Unreadable(
                UnreadableReason::LooseContinuation | UnreadableReason::NoPrefix
            )
        ) {
            self.mark_last_cut();
        }
        let (message, at) = numbers(part.chunk);
        let number = self.begin_group(line);
        if let Some(pid) = pid.filter(|_| at > 0) {
            // Its further parts are useless, too.
            let before = self.open.insert(pid, number);
            self.close_group(before);
        }
        let group = self.group(number);
        (group.message, group.part, group.pid) = (message, at, pid);
        group.closed = at == 0;
        group.error = Some(reason);
        group.text.extend_from_slice(&part.text);
        group.text.push(b'\n');
        number
    }

    /// Folds a text of several lines as the server does: a tab after each newline, except before a
    /// DETAIL and the like. This restores tabs that an envelope removed.
    fn fold<'t>(&mut self, text: &'t [u8], head: Option<u32>) -> Cow<'t, [u8]> {
        if memchr::memchr(b'\n', text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let rest: Vec<(&[u8], bool)> = lines
            .map(|line| {
                let own = self
                    .prefix
                    .matches(line, &mut self.times)
                    .is_some_and(|own| {
                        !matches!(own.label, Label::Head(_)) && own.fields.pid == head
                    });
                (line, own)
            })
            .collect();
        if rest
            .iter()
            .all(|(line, own)| *own || line.starts_with(b"\t"))
        {
            return Cow::Borrowed(text);
        }
        let mut folded = first.to_vec();
        for (line, own) in rest {
            folded.push(b'\n');
            if !own {
                folded.push(b'\t');
            }
            folded.extend_from_slice(line);
        }
        Cow::Owned(folded)
    }

    fn begin_group(&mut self, line: u64) -> u64 {
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(MessageGroup {
            text: self.spare.pop().unwrap_or_default(),
            line,
            last_line: line,
            ..MessageGroup::default()
        });
        number
    }

    fn close_group(&mut self, number: Option<u64>) {
        if let Some(number) = number.filter(|number| *number >= self.first) {
            self.group(number).closed = true;
        }
    }

    fn peek(&self, number: u64) -> &MessageGroup {
        &self.waiting[(number - self.first) as usize]
    }

    fn group(&mut self, number: u64) -> &mut MessageGroup {
        &mut self.waiting[(number - self.first) as usize]
    }
}

fn numbers(chunk: PartKind) -> (Option<u64>, u64) {
    match chunk {
        PartKind::Numbered { message, part } => (message, part),
        _ => (None, 0),
    }
}

fn first_line(text: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    &text[..end]
}
