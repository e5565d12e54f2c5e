//! Puts the server's messages together from what wrappers say, in the order in which they began.
//!
//! A wrapper may cut a message into parts, and parts of several processes' messages may stand
//! between each other. A message is told once nothing more can come to it: its process began
//! another, or so many lines followed ([`WAIT_LINES`]) that nothing will. What has begun later
//! waits for it, so that the order stays.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use workload::Sqlstate;

use crate::prefix::{Matched, Prefix, Seen};
use crate::severity::{Label, foreign_word};
use crate::timestamp::Timestamps;
use crate::{SkipReason, UnreadableReason};

/// A message is waited for no longer than this many physical lines behind its last part. Parts of
/// one message are written at once, so only what other processes write in that moment, in parts
/// of their own, comes between.
pub(super) const WAIT_LINES: u64 = 1_000;

/// syslog's parts are at most this long (`PG_SYSLOG_LIMIT` in the server's elog.c).
const SYSLOG_PART_BYTES: usize = 900;

/// How much is kept of what is no message.
const EXCERPT_BYTES: usize = 1 << 10;

/// What a text of a wrapper's is to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// A message, or a line of one. Where it starts with neither the prefix nor a tab, it goes on
    /// the text before it if `loose`.
    Line { loose: bool },
    /// It goes on the physical line before it.
    Continues,
    /// syslog's `[message-part]`, both from 1.
    Numbered { message: Option<u64>, part: u64 },
}

/// What one record of a wrapper's says of the server.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    pub chunk: Chunk,
    /// The process, where the wrapper knows it.
    pub pid: Option<u32>,
    /// The time, where the wrapper knows it, in microseconds since 1970-01-01 UTC.
    pub wall_us: Option<i64>,
    /// Which server it is of, where a file may have several; and which program.
    pub server: Cow<'a, str>,
    pub program: Cow<'a, str>,
    /// As stderr would have it, but without a newline at its end.
    pub text: Cow<'a, [u8]>,
    pub beside: Option<Box<Beside>>,
}

impl<'a> Part<'a> {
    pub(super) fn new(chunk: Chunk, text: impl Into<Cow<'a, [u8]>>) -> Self {
        Part {
            chunk,
            pid: None,
            wall_us: None,
            server: Cow::Borrowed(""),
            program: Cow::Borrowed(""),
            text: text.into(),
            beside: None,
        }
    }
}

/// What a wrapper says beside the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Beside {
    pub sqlstate: Option<Sqlstate>,
    pub detail: String,
    pub context: String,
    pub statement: String,
}

/// Why a group is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoilt {
    Skipped(SkipReason),
    Unreadable(UnreadableReason),
}

/// A message, or lines that are none.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// As stderr would have written it, each line with its newline.
    pub text: Vec<u8>,
    pub pid: Option<u32>,
    pub wall_us: Option<i64>,
    pub beside: Option<Box<Beside>>,
    pub spoilt: Option<Spoilt>,
    /// The first physical line, and how many.
    pub line: u64,
    pub lines: u64,
    last_line: u64,
    closed: bool,
    message: Option<u64>,
    part: u64,
    /// Bytes of the last part's text.
    part_bytes: usize,
    part_is_blank: bool,
    line_number: u64,
    /// The process and the time of its first line, by the prefix.
    head: (Option<u32>, Option<i64>),
}

/// The messages that are not yet told. See the module's text.
#[derive(Debug)]
pub(super) struct Gather {
    prefix: Prefix,
    times: Timestamps,
    seen: Seen,
    waiting: VecDeque<Group>,
    /// The number of the first that waits, counted from the first ever.
    first: u64,
    /// Of each process, the one that may go on.
    open: HashMap<u32, u64>,
    /// The one that the last physical line went to.
    last: Option<u64>,
    spare: Vec<Vec<u8>>,
}

impl Gather {
    pub(super) fn new(prefix: Prefix) -> Self {
        Gather {
            prefix,
            times: Timestamps::default(),
            seen: Seen::default(),
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

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The next that can be told, before physical line `line` is read.
    pub(super) fn ready(&mut self, line: u64, at_end: bool) -> Option<Group> {
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

    /// Takes a told group's memory back.
    pub(super) fn recycle(&mut self, group: Group) {
        if self.spare.len() < 64 {
            let mut text = group.text;
            text.clear();
            text.shrink_to(1 << 16);
            self.spare.push(text);
        }
    }

    /// Lines that are no part of a message.
    pub(super) fn spoil(&mut self, spoilt: Spoilt, text: &[u8], line: u64) -> u64 {
        if matches!(spoilt, Spoilt::Unreadable(_)) {
            // What was damaged may have been any message's.
            self.close_all();
            self.last = None;
        }
        let number = self.begin(line);
        let group = self.group(number);
        group.spoilt = Some(spoilt);
        group.closed = true;
        group
            .text
            .extend_from_slice(&text[..text.len().min(EXCERPT_BYTES)]);
        number
    }

    /// Physical lines of one that waits.
    pub(super) fn count(&mut self, number: u64, lines: u64) {
        self.group(number).lines += lines;
    }

    /// Nothing more comes to what is open, except to syslog's: its parts are counted, so that a
    /// gap is seen.
    fn close_all(&mut self) {
        let Gather {
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

    /// The last physical line is cut: what it went to, which waits, is not whole.
    pub(super) fn cut(&mut self, number: u64) {
        self.group(number).spoilt = Some(Spoilt::Unreadable(UnreadableReason::CutAtEnd));
    }

    /// Takes what a record says that starts at physical line `line`. Returns the number of the
    /// message that it went to.
    pub(super) fn take(&mut self, part: Part<'_>, line: u64) -> u64 {
        let first_line = first_line(&part.text);
        let mut matched = Matched::default();
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
            Chunk::Numbered { message, part: at } if at > 1 && !(head && message.is_none()) => {
                self.follow(part, pid, matched, (message, at), line)
            }
            Chunk::Continues => match self.last.filter(|last| *last >= self.first) {
                Some(number) => {
                    self.continued(number, &part.text, line);
                    number
                }
                None => self.loose(&part, pid, line),
            },
            Chunk::Numbered { .. } | Chunk::Line { .. } => match matched {
                Some(matched) if head => self.head(part, pid, matched, line),
                Some(matched) => self.beside(part, pid, matched, line),
                None => {
                    let goes_on = matches!(part.chunk, Chunk::Line { loose: true })
                        || first_line.starts_with(b"\t");
                    match self.last.filter(|last| {
                        goes_on
                            && *last >= self.first
                            && part.pid.is_none_or(|pid| self.peek(*last).pid == Some(pid))
                    }) {
                        Some(number) => {
                            self.continued(number, &part.text, line);
                            number
                        }
                        None => self.loose(&part, pid, line),
                    }
                }
            },
        };
        self.last = Some(number);
        number
    }

    /// A message begins.
    fn head(&mut self, part: Part<'_>, pid: Option<u32>, matched: Matched, line: u64) -> u64 {
        let number = self.begin(line);
        let before = pid.and_then(|pid| self.open.insert(pid, number));
        self.close(before);
        let (message, at) = numbers(part.chunk);
        let folded = self.folds(&part.text, matched.fields.pid);
        let group = self.group(number);
        group.pid = pid;
        group.wall_us = part.wall_us;
        group.beside = part.beside;
        (group.message, group.part) = (message, at);
        group.part_bytes = part.text.len();
        group.line_number = matched.fields.line_number;
        group.head = (matched.fields.pid, matched.fields.wall_us);
        group.text.extend_from_slice(&folded);
        group.text.push(b'\n');
        number
    }

    /// A DETAIL, STATEMENT and so on, that is a line of its own.
    fn beside(&mut self, part: Part<'_>, pid: Option<u32>, matched: Matched, line: u64) -> u64 {
        let fields = matched.fields;
        let open = match pid {
            Some(pid) => self.open.get(&pid).copied(),
            None => self.last,
        };
        let fits = open.filter(|number| {
            *number >= self.first && {
                let group = self.peek(*number);
                // The server dates all lines of one message alike, and %l counts them.
                group.spoilt.is_none()
                    && group.head == (fields.pid, fields.wall_us)
                    && (fields.line_number == 0 || group.line_number + 1 == fields.line_number)
            }
        });
        let folded = self.folds(&part.text, matched.fields.pid);
        let number = fits.unwrap_or_else(|| {
            let number = self.begin(line);
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

    /// A part of syslog's that is not a message's first.
    fn follow(
        &mut self,
        part: Part<'_>,
        pid: Option<u32>,
        matched: Option<Matched>,
        (message, at): (Option<u64>, u64),
        line: u64,
    ) -> u64 {
        let open = pid
            .and_then(|pid| self.open.get(&pid).copied())
            .filter(|number| *number >= self.first)
            .filter(|number| self.peek(*number).message == message);
        let Some(number) = open else {
            let number = self.begin(line);
            let before = pid.and_then(|pid| self.open.insert(pid, number));
            self.close(before);
            let group = self.group(number);
            (group.pid, group.wall_us) = (pid, part.wall_us);
            (group.message, group.part) = (message, at);
            group.spoilt = Some(Spoilt::Unreadable(UnreadableReason::LooseContinuation));
            group.text.extend_from_slice(&part.text);
            return number;
        };
        // A syslog's `#012` is a newline within a part.
        let head = self.peek(number).head.0;
        let text = &self.folds(&part.text, head)[..];
        let group = self.group(number);
        group.last_line = line;
        if group.part + 1 != at && group.spoilt.is_none() {
            group.spoilt = Some(Spoilt::Unreadable(UnreadableReason::PartMissing));
        }
        group.part = at;
        let word = text
            .iter()
            .skip(1)
            .take_while(|byte| !byte.is_ascii_whitespace())
            .count();
        // The server cuts where the next word would not have fitted, and leaves the blank before
        // it. What follows a newline starts with a tab, or with the prefix.
        let cut = group.part_bytes + 1 + word > SYSLOG_PART_BYTES;
        let own = matched.is_some_and(|matched| {
            !matches!(matched.label, Label::Head(_)) && matched.fields.pid == group.head.0
        });
        let indent = group.part_is_blank && cut;
        if !own {
            match text.starts_with(b"\t") && !indent {
                // A tab may also be the blank before a word that did not fit, but seldom is, unless
                // nothing but blanks stood before it.
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

    /// Text without a prefix, behind a newline.
    fn continued(&mut self, number: u64, text: &[u8], line: u64) {
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

    /// Text that belongs to nothing.
    fn loose(&mut self, part: &Part<'_>, pid: Option<u32>, line: u64) -> u64 {
        let text = first_line(&part.text);
        let reason = match std::str::from_utf8(text) {
            _ if text.is_empty() => Spoilt::Skipped(SkipReason::Blank),
            _ if text.starts_with(b"\t") || part.chunk == Chunk::Continues => {
                Spoilt::Unreadable(UnreadableReason::LooseContinuation)
            }
            Err(_) => Spoilt::Unreadable(UnreadableReason::Encoding),
            Ok(text) if foreign_word(text).is_some() => {
                Spoilt::Unreadable(UnreadableReason::Translated)
            }
            Ok(_) => Spoilt::Unreadable(UnreadableReason::NoPrefix),
        };
        let (message, at) = numbers(part.chunk);
        let number = self.begin(line);
        if let Some(pid) = pid.filter(|_| at > 0) {
            // Its further parts are as little use.
            let before = self.open.insert(pid, number);
            self.close(before);
        }
        let group = self.group(number);
        (group.message, group.part, group.pid) = (message, at, pid);
        group.closed = at == 0;
        group.spoilt = Some(reason);
        group.text.extend_from_slice(text);
        number
    }

    /// A text of several lines as the server folds them: a tab behind each newline, except before
    /// a DETAIL and so on. Wrappers that took the tabs away get them back.
    fn folds<'t>(&mut self, text: &'t [u8], head: Option<u32>) -> Cow<'t, [u8]> {
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

    fn begin(&mut self, line: u64) -> u64 {
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(Group {
            text: self.spare.pop().unwrap_or_default(),
            line,
            last_line: line,
            ..Group::default()
        });
        number
    }

    fn close(&mut self, number: Option<u64>) {
        if let Some(number) = number.filter(|number| *number >= self.first) {
            self.group(number).closed = true;
        }
    }

    fn peek(&self, number: u64) -> &Group {
        &self.waiting[(number - self.first) as usize]
    }

    fn group(&mut self, number: u64) -> &mut Group {
        &mut self.waiting[(number - self.first) as usize]
    }
}

fn numbers(chunk: Chunk) -> (Option<u64>, u64) {
    match chunk {
        Chunk::Numbered { message, part } => (message, part),
        _ => (None, 0),
    }
}

fn first_line(text: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    &text[..end]
}
