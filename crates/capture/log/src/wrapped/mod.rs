//! Logs as other services hand them out: each line, or each message, in something of theirs.
//!
//! ```text
//! bytes ─► unwrapper (syslog, cloudwatch, cloudsql, azure) ─► parts ─► gather ─► the server's own
//!                                                                      lines ─► StderrReader ─► entry
//! bytes ─► cnpg ─► entry
//! ```
//!
//! Who drives: the capture, through [`Reader`]. An unwrapper cuts one record of its format from the
//! bytes and says what the server wrote in it; [`gather`] puts what belongs together into the
//! lines that stderr would have had, and the stderr reader makes an entry of them. Lines are
//! counted as they stand in the file; a message whose parts stand apart is placed at its first.
//! Bytes are taken ahead of what is told, so finds of no bytes follow, see [`Found::Held`].
//!
//! Deliberately absent: sorting. What is written newest first is refused with how to turn it round;
//! what is out of order by more than a moment is told in a note.

mod azure;
mod cloudsql;
mod cloudwatch;
mod cnpg;
mod gather;
mod json_records;
mod recognise;
mod syslog;
mod time;

use super::entry::{Found, Place, Reader};
use super::prefix::Prefix;
use super::stderr::StderrReader;
use super::text::Text;
use super::{SkipReason, UnreadableReason};
use gather::{Gather, Group, Part, Spoilt};

pub(super) use cnpg::CnpgReader;
pub(super) use recognise::{Wrapper, recognise};

/// What an unwrapper says of a record, besides its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The parts that it gave say it all.
    Parts,
    Skipped(SkipReason),
    Unreadable(UnreadableReason),
}

/// Takes a wrapper's own off.
trait Unwrap {
    /// Cuts the record at the start of `bytes`, which start at a physical line's start and are not
    /// empty, and gives its parts. Returns its length, of whole physical lines; `None` where it may go on,
    /// which is never so when `complete`.
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(Said, usize)>;

    /// Its records show their own end, so that one without a newline may be whole.
    fn ends_by_itself(&self) -> bool {
        false
    }
}

/// A time this much before the latest one is out of order: servers and collectors both write in
/// about the order of time.
const DISORDER_US: i64 = 5_000_000;

/// Reads what an unwrapper takes off.
pub(super) struct WrappedReader {
    unwrap: Box<dyn Unwrap>,
    wrapper: Wrapper,
    gather: Gather,
    inner: StderrReader,
    /// The physical line that is read next, from 1.
    line: u64,
    /// Bytes at the start of what is given that were read already; the last record's of them.
    ahead: usize,
    ahead_last: usize,
    told: Group,
    /// The stderr reader did not take all that it was given, or does not know what the prefix has
    /// learnt since: a message's later lines may need it.
    behind: bool,
    learnt: bool,
    latest_us: i64,
    disordered: u64,
}

impl WrappedReader {
    pub(super) fn new(wrapper: Wrapper, prefix: Prefix) -> Self {
        WrappedReader {
            unwrap: wrapper.unwrapper(),
            gather: Gather::new(prefix.clone()),
            inner: StderrReader::new(prefix),
            wrapper,
            line: 1,
            ahead: 0,
            ahead_last: 0,
            told: Group::default(),
            behind: false,
            learnt: false,
            latest_us: i64::MIN,
            disordered: 0,
        }
    }

    /// Reads one record. `None` where it may go on.
    fn read(&mut self, bytes: &[u8], complete: bool) -> Option<usize> {
        let WrappedReader {
            unwrap,
            wrapper,
            gather,
            line,
            latest_us,
            disordered,
            ..
        } = self;
        // How many lines it takes is known only when it is read; the first part gets them.
        let (mut first, mut last) = (None, 0);
        let (said, length) = unwrap.record(bytes, complete, &mut |part: Part<'_>| {
            let number = match wrapper.stranger(&part) {
                Some(reason) => gather.spoil(Spoilt::Skipped(reason), &part.text, *line),
                None => {
                    if let Some(wall_us) = part.wall_us {
                        *disordered += u64::from(wall_us < latest_us.saturating_sub(DISORDER_US));
                        *latest_us = wall_us.max(*latest_us);
                    }
                    gather.take(part, *line)
                }
            };
            first.get_or_insert(number);
            last = number;
        })?;
        let record = &bytes[..length];
        let whole = record.ends_with(b"\n");
        let lines = memchr::memchr_iter(b'\n', record).count() as u64 + u64::from(!whole);
        let cut = !whole && !unwrap.ends_by_itself();
        let number = match (said, first) {
            (Said::Parts, Some(first)) => {
                if cut {
                    gather.cut(last);
                }
                first
            }
            (Said::Parts, None) => {
                gather.spoil(Spoilt::Skipped(SkipReason::Wrapping), record, *line)
            }
            (Said::Skipped(reason), _) => gather.spoil(Spoilt::Skipped(reason), record, *line),
            (Said::Unreadable(reason), _) => {
                let reason = match std::str::from_utf8(record) {
                    _ if !whole => UnreadableReason::CutAtEnd,
                    Err(_) => UnreadableReason::Encoding,
                    Ok(_) => reason,
                };
                gather.spoil(Spoilt::Unreadable(reason), record, *line)
            }
        };
        gather.count(number, lines);
        *line += lines;
        Some(length)
    }

    /// How many bytes may be taken now. Until the end, the last record's stay, so that the capture
    /// comes back for what waits.
    fn release(&mut self, complete: bool, bytes: &[u8]) -> usize {
        let done = complete && self.ahead == bytes.len() && self.gather.waiting() == 0;
        let kept = match done {
            true => 0,
            false => self.ahead_last,
        };
        let length = self.ahead - kept;
        self.ahead = kept;
        length
    }
}

impl Reader for WrappedReader {
    fn settles(&self) -> bool {
        false
    }

    fn next<'a>(&'a mut self, text: Text<'a>, complete: bool, place: Place) -> (Found<'a>, usize) {
        let bytes = text.bytes();
        loop {
            let at_end = complete && self.ahead == bytes.len();
            if let Some(group) = self.gather.ready(self.line, at_end) {
                let done = std::mem::replace(&mut self.told, group);
                self.gather.recycle(done);
                break;
            }
            let read = match self.ahead == bytes.len() {
                true => None,
                false => self.read(&bytes[self.ahead..], complete),
            };
            match read {
                Some(length) => {
                    self.ahead += length;
                    self.ahead_last = length;
                }
                None => {
                    return match self.release(complete, bytes) {
                        0 => (Found::More, 0),
                        length => (Found::Held, length),
                    };
                }
            }
        }
        let taken = self.release(complete, bytes);
        let learns = self.gather.prefix().has_learnt() && !self.learnt;
        self.learnt |= learns;
        if std::mem::take(&mut self.behind) || learns {
            self.inner = StderrReader::new(self.gather.prefix().clone());
        }
        let WrappedReader {
            inner,
            told,
            gather,
            behind,
            ..
        } = self;
        let place = Place {
            line: told.line,
            ..place
        };
        let lines = told.lines;
        let what = match told.spoilt {
            Some(Spoilt::Skipped(reason)) => Found::Skipped { lines, reason },
            Some(Spoilt::Unreadable(reason)) => Found::Unreadable { lines, reason },
            None => match inner.next(told.text[..].into(), true, place) {
                (Found::Entry(mut entry), length) => {
                    // A group is one message by how it is gathered; were it not, the stderr reader
                    // would wait for its rest.
                    debug_assert_eq!(length, told.text.len());
                    *behind = length != told.text.len();
                    (entry.place, entry.lines) = (place, lines);
                    let prefix = gather.prefix();
                    if let Some(wall_us) = told.wall_us.filter(|_| !prefix.has_time()) {
                        entry.wall_us = wall_us;
                    }
                    if let Some(pid) = told.pid.filter(|_| !prefix.has_process()) {
                        entry.pid = pid;
                    }
                    if let Some(beside) = &told.beside {
                        entry.sqlstate = entry.sqlstate.or(beside.sqlstate);
                        for (own, said) in [
                            (&mut entry.detail, &beside.detail),
                            (&mut entry.context, &beside.context),
                            (&mut entry.statement, &beside.statement),
                        ] {
                            if own.is_empty() {
                                *own = said;
                            }
                        }
                    }
                    return (Found::Entry(entry), taken);
                }
                (found, length) => {
                    // What is no entry may have been told by its first line.
                    *behind = length != told.text.len();
                    match found {
                        Found::Skipped { reason, .. } => Found::Skipped { lines, reason },
                        Found::Detached { pid, betrays, .. } => Found::Detached {
                            pid: told.pid.unwrap_or(pid),
                            betrays,
                            lines,
                        },
                        Found::Unreadable { reason, .. } => Found::Unreadable { lines, reason },
                        Found::Entry(_) | Found::More | Found::Held | Found::Apart { .. } => {
                            unreachable!("the text is complete, and the reader no wrapper's")
                        }
                    }
                }
            },
        };
        let found = Found::Apart {
            place,
            excerpt: &told.text,
            what: Box::new(what),
        };
        (found, taken)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.wrapper.notes();
        notes.extend(self.gather.prefix().learnt());
        if self.disordered > 0 {
            notes.push(format!(
                "{} of its records stand behind ones that are more than 5 s younger, so a session's statements may be in a wrong order; sort the log by time and capture it again",
                self.disordered
            ));
        }
        notes
    }
}
