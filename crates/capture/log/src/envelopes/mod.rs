//! Reads logs in the envelopes of other services, which wrap each line or each message in a format
//! of their own.
//!
//! ```text
//! bytes ─► unwrapper (syslog, cloudwatch, container, shipper, …) ─► parts ─► reassemble
//!               ─► the server's own lines ─► StderrReader ─► entry
//! bytes ─► cnpg ─► entry
//! ```
//!
//! The capture uses these readers through [`Reader`]. An unwrapper splits one record of its format
//! off the bytes and returns the server's text in it. [`reassemble`] joins the parts of a message into
//! the lines that stderr would have had, and the stderr reader makes an entry of them. Line numbers
//! are those of the file; a message whose parts are interleaved with others is located at its first
//! part. Bytes are consumed before their messages are complete, so finds of no bytes follow, see
//! [`ReadResult::Held`].
//!
//! Records are not sorted. A log with the newest record first is refused with the command that
//! reverses it. A record that is out of order by more than [`DISORDER_US`] causes a note.

mod azure;
mod cloudsql;
mod cloudwatch;
mod cnpg;
mod container;
mod heroku;
mod json_records;
mod reassemble;
mod recognise;
mod shipper;
mod syslog;
mod time;

use super::entry::{Entry, ReadResult, Reader};
use super::prefix::Prefix;
use super::stderr::StderrReader;
use super::text::Text;
use super::{SkipReason, UnreadableReason};
use crate::reconcile::Location;
use crate::timestamp::TimestampParser;
use crate::zones::ZoneReading;
use jiff::tz::TimeZone;
use reassemble::{MessageGroup, Part, Reassembler, ReassemblyError};

pub(super) use cnpg::CnpgReader;
pub(crate) use json_records::{Record, split_record};
pub(super) use recognise::{Envelope, recognise};

/// Result of an unwrapper for a record, in addition to its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordContent {
    /// The record consists of its parts.
    Parts,
    Skipped(SkipReason),
    Unreadable(UnreadableReason),
}

/// Removes the envelope of one format.
trait Unwrap {
    /// Splits off the record at the start of `bytes`, which start at a physical line's start and
    /// are not empty, and passes on its parts. Returns its length, in whole physical lines; `None`
    /// if it may continue, which is never returned when `complete`.
    fn record<'a>(
        &mut self,
        bytes: &'a [u8],
        complete: bool,
        parts: &mut dyn FnMut(Part<'a>),
    ) -> Option<(RecordContent, usize)>;

    /// Reads times without a zone in the server's time zone.
    fn set_time_zone(&mut self, _zone: &TimeZone) {}

    /// Returns whether records mark their own end, so that one without a newline may be whole.
    fn marks_its_end(&self) -> bool {
        false
    }
}

/// Minimum time before the latest one that counts as out of order: servers and collectors both
/// write in approximate order of time.
const DISORDER_US: i64 = 5_000_000;

/// Reads logs in an envelope by its unwrapper.
pub(super) struct EnvelopeReader {
    unwrap: Box<dyn Unwrap>,
    envelope: Envelope,
    reassembler: Reassembler,
    inner: StderrReader,
    /// The next physical line, from 1.
    line: u64,
    /// Number of bytes at the start of the input that were read already; those of the last record.
    consumed_ahead: usize,
    ahead_last: usize,
    group: MessageGroup,
    /// The stderr reader did not consume all of its input, or the prefix has learnt something
    /// since: a message's later lines may need it.
    needs_reread: bool,
    learnt: bool,
    /// The current message is ambiguous, and is read again once that is settled. The number of bytes
    /// to consume then.
    unsettled: Option<usize>,
    latest_us: i64,
    disordered: u64,
    zones: ZoneReading,
}

impl EnvelopeReader {
    pub(super) fn new(envelope: Envelope, prefix: Prefix) -> Self {
        EnvelopeReader {
            unwrap: envelope.unwrapper(),
            reassembler: Reassembler::new(prefix.clone()),
            inner: StderrReader::for_messages(prefix),
            envelope,
            line: 1,
            consumed_ahead: 0,
            ahead_last: 0,
            group: MessageGroup::default(),
            needs_reread: false,
            learnt: false,
            unsettled: None,
            latest_us: i64::MIN,
            disordered: 0,
            zones: ZoneReading::default(),
        }
    }

    /// Reads one record. `None` if it may continue.
    fn read_record(&mut self, bytes: &[u8], complete: bool) -> Option<usize> {
        let EnvelopeReader {
            unwrap,
            envelope,
            reassembler,
            line,
            latest_us,
            disordered,
            ..
        } = self;
        // The number of lines is known only after reading; the first part gets them.
        let (mut first, mut last) = (None, 0);
        let (content, length) = unwrap.record(bytes, complete, &mut |part: Part<'_>| {
            let number = match envelope.exclusion_reason(&part) {
                Some(reason) => {
                    reassembler.add_error(ReassemblyError::Skipped(reason), &part.text, *line)
                }
                None => {
                    if let Some(wall_us) = part.wall_us {
                        *disordered += u64::from(wall_us < latest_us.saturating_sub(DISORDER_US));
                        *latest_us = wall_us.max(*latest_us);
                    }
                    reassembler.add(part, *line)
                }
            };
            first.get_or_insert(number);
            last = number;
        })?;
        let record = &bytes[..length];
        let whole = record.ends_with(b"\n");
        let lines = memchr::memchr_iter(b'\n', record).count() as u64 + u64::from(!whole);
        let cut = !whole && !unwrap.marks_its_end();
        let number = match (content, first) {
            (RecordContent::Parts, Some(first)) => {
                if cut {
                    reassembler.mark_truncated(last);
                }
                first
            }
            (RecordContent::Parts, None) => reassembler.add_error(
                ReassemblyError::Skipped(SkipReason::Wrapping),
                record,
                *line,
            ),
            (RecordContent::Skipped(reason), _) => {
                reassembler.add_error(ReassemblyError::Skipped(reason), record, *line)
            }
            (RecordContent::Unreadable(reason), _) => {
                let reason = match std::str::from_utf8(record) {
                    _ if !whole => UnreadableReason::CutAtEnd,
                    Err(_) => UnreadableReason::Encoding,
                    Ok(_) => reason,
                };
                reassembler.add_error(ReassemblyError::Unreadable(reason), record, *line)
            }
        };
        reassembler.add_lines(number, lines);
        *line += lines;
        Some(length)
    }

    /// Reads records until a message is complete. Returns false if more bytes are needed.
    fn complete_message(&mut self, bytes: &[u8], complete: bool) -> bool {
        loop {
            let at_end = complete && self.consumed_ahead == bytes.len();
            if let Some(group) = self.reassembler.next_complete(self.line, at_end) {
                let done = std::mem::replace(&mut self.group, group);
                self.reassembler.recycle(done);
                return true;
            }
            if self.consumed_ahead == bytes.len() {
                return false;
            }
            let Some(length) = self.read_record(&bytes[self.consumed_ahead..], complete) else {
                return false;
            };
            self.consumed_ahead += length;
            self.ahead_last = length;
        }
    }

    /// Returns the number of bytes to consume now. Until the end, the last record's bytes stay, so
    /// that the capture calls again for waiting messages.
    fn releasable_bytes(&mut self, complete: bool, bytes: &[u8]) -> usize {
        let done =
            complete && self.consumed_ahead == bytes.len() && self.reassembler.waiting() == 0;
        let kept = match done {
            true => 0,
            false => self.ahead_last,
        };
        let length = self.consumed_ahead - kept;
        self.consumed_ahead = kept;
        length
    }
}

/// Adds the values of an envelope that the entry's text does not have.
fn add_envelope_fields<'a>(entry: &mut Entry<'a>, group: &'a MessageGroup, prefix: &Prefix) {
    if let Some(wall_us) = group.wall_us.filter(|_| !prefix.has_time()) {
        entry.wall_us = wall_us;
    }
    if let Some(pid) = group.pid.filter(|_| !prefix.has_process()) {
        entry.pid = pid;
    }
    if let Some(fields) = &group.envelope_fields {
        entry.sqlstate = entry.sqlstate.or(fields.sqlstate);
        for (own, value) in [
            (&mut entry.detail, &fields.detail),
            (&mut entry.context, &fields.context),
            (&mut entry.statement, &fields.statement),
        ] {
            if own.is_empty() {
                *own = value;
            }
        }
    }
}

/// Sets the number of lines of a result other than an entry, and the process if the envelope has
/// it.
fn with_lines(result: ReadResult<'_>, pid: Option<u32>, lines: u64) -> ReadResult<'static> {
    match result {
        ReadResult::Skipped { reason, .. } => ReadResult::Skipped { lines, reason },
        ReadResult::Detached {
            pid: own, betrays, ..
        } => ReadResult::Detached {
            pid: pid.unwrap_or(own),
            betrays,
            lines,
        },
        ReadResult::Unreadable { reason, .. } => ReadResult::Unreadable { lines, reason },
        ReadResult::Entry(_)
        | ReadResult::Ambiguous(_)
        | ReadResult::More
        | ReadResult::Held
        | ReadResult::Elsewhere { .. } => {
            unreachable!("the text is complete, and the stderr reader has no envelope")
        }
    }
}

impl Reader for EnvelopeReader {
    fn supports_idle(&self) -> bool {
        false
    }

    fn times(&self) -> &TimestampParser {
        self.inner.times()
    }

    fn set_zones(&mut self, reading: &ZoneReading) {
        self.zones = reading.clone();
        self.inner.set_zones(reading);
        self.reassembler.set_zones(reading);
        if let Some(zone) = reading.given() {
            self.unwrap.set_time_zone(zone);
        }
    }

    fn next<'a>(
        &'a mut self,
        text: Text<'a>,
        complete: bool,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let bytes = text.bytes();
        let again = self.unsettled.take();
        if again.is_none() && !self.complete_message(bytes, complete) {
            return match self.releasable_bytes(complete, bytes) {
                0 => (ReadResult::More, 0),
                length => (ReadResult::Held, length),
            };
        }
        let taken = again.unwrap_or_else(|| self.releasable_bytes(complete, bytes));
        let learns = self.reassembler.prefix().has_learnt() && !self.learnt;
        self.learnt |= learns;
        if std::mem::take(&mut self.needs_reread) || learns {
            self.inner = StderrReader::for_messages(self.reassembler.prefix().clone());
            self.inner.set_zones(&self.zones);
        }
        let EnvelopeReader {
            inner,
            group,
            reassembler,
            needs_reread,
            unsettled,
            ..
        } = self;
        let place = Location {
            line: group.line,
            ..place
        };
        let lines = group.lines;
        let what = match group.error {
            Some(ReassemblyError::Skipped(reason)) => ReadResult::Skipped { lines, reason },
            Some(ReassemblyError::Unreadable(reason)) => ReadResult::Unreadable { lines, reason },
            None => match inner.next(group.text[..].into(), true, place) {
                (ReadResult::Entry(mut entry), length) => {
                    // Reassembly makes each group one message; otherwise the stderr reader would
                    // wait for its rest.
                    debug_assert_eq!(length, group.text.len());
                    *needs_reread = length != group.text.len();
                    (entry.place, entry.lines) = (place, lines);
                    entry.cut |= group.cut;
                    add_envelope_fields(&mut entry, group, reassembler.prefix());
                    return (ReadResult::Entry(entry), taken);
                }
                (ReadResult::Ambiguous(mut readings), _) => {
                    for reading in &mut readings {
                        reading.pid = group.pid.unwrap_or(reading.pid);
                    }
                    *unsettled = Some(taken);
                    return (ReadResult::Ambiguous(readings), 0);
                }
                (found, length) => {
                    // A result other than an entry may cover the first line only.
                    *needs_reread = length != group.text.len();
                    with_lines(found, group.pid, lines)
                }
            },
        };
        let found = ReadResult::Elsewhere {
            place,
            excerpt: &group.text,
            what: Box::new(what),
        };
        (found, taken)
    }

    fn settle(&mut self, choice: Option<usize>) {
        self.inner.settle(choice);
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.envelope.notes();
        notes.extend(self.reassembler.prefix().learnt_note());
        if self.disordered > 0 {
            notes.push(format!(
                "{} of its records come after ones that are more than 5 s younger, so a session's statements may be in a wrong order; sort the log by time and capture it again",
                self.disordered
            ));
        }
        notes
    }
}
