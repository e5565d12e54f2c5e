//! Remembers the messages of a server stream that a later file may repeat, and the last entry of a
//! file, which may be truncated.
//!
//! Lines are slightly out of time order and many share a millisecond, so a time alone does not say
//! what a file contains near its ends. Messages near the ends are remembered individually; those in
//! between are identified by their time.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_64;

use super::EntryKey;
use crate::LogError;
use crate::SkipReason;
use crate::assemble::Assembler;
use crate::entry::{Entry, ReadResult, Reader};
use crate::prefix::Prefix;
use crate::reconcile::Location;
use crate::stderr::StderrReader;

/// Upper bound of how far lines are out of time order.
pub(super) const DISORDER_US: i64 = 10_000_000;

/// Maximum number of messages remembered at either end, about 24 bytes each.
const ENDS_MAX: usize = 1 << 18;

/// Maximum number of unreadable pieces remembered for each stream.
const UNREADABLE_MAX: usize = 1 << 14;

/// A message that the stream contains.
#[derive(Debug, Clone, Copy)]
struct RememberedMessage {
    wall_us: i64,
    /// Hash of time, process and text.
    key: u64,
    /// Hash of time and process.
    time_and_process: u64,
}

/// The messages at both ends of a stream.
#[derive(Debug, Default)]
pub(super) struct BoundaryMessages {
    first: Vec<RememberedMessage>,
    last: VecDeque<RememberedMessage>,
    first_us: Option<i64>,
    /// The smallest and the largest time of the messages that are not remembered individually.
    between_us: Option<(i64, i64)>,
    unreadable: Vec<u64>,
    /// Remembered messages that the current file has not repeated so far.
    unmatched: HashMap<u64, u32>,
    open_unreadable: HashMap<u64, u32>,
}

impl BoundaryMessages {
    /// Starts the comparison with another file of the stream.
    pub(super) fn start_comparison(&mut self) {
        self.unmatched.clear();
        for known in self.first.iter().chain(&self.last) {
            *self.unmatched.entry(known.key).or_default() += 1;
        }
        self.open_unreadable.clear();
        for key in &self.unreadable {
            *self.open_unreadable.entry(*key).or_default() += 1;
        }
    }

    /// Returns whether the stream contains a message, and consumes it. The text of the last message
    /// of a file may be truncated.
    pub(super) fn take_duplicate(&mut self, mark: EntryKey, unit_us: i64, last: bool) -> bool {
        if let Some((from_us, to_us)) = self.between_us
            && (from_us..=to_us).contains(&mark.wall_us)
        {
            return true;
        }
        let mut key = mark.key(unit_us);
        let is_open = |key: &u64| self.unmatched.get(key).is_some_and(|count| *count > 0);
        if last && !is_open(&key) {
            let when_and_who = mark.time_and_process(unit_us);
            let same = |known: &&RememberedMessage| {
                known.time_and_process == when_and_who && is_open(&known.key)
            };
            if let Some(known) = self.first.iter().chain(&self.last).find(same) {
                key = known.key;
            }
        }
        match self.unmatched.get_mut(&key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Remembers a message of the stream.
    pub(super) fn remember(&mut self, mark: EntryKey, unit_us: i64) {
        let first_us = *self.first_us.get_or_insert(mark.wall_us);
        self.last.push_back(RememberedMessage {
            wall_us: mark.wall_us,
            key: mark.key(unit_us),
            time_and_process: mark.time_and_process(unit_us),
        });
        while let Some(oldest) = self.last.front()
            && (oldest.wall_us < mark.wall_us - DISORDER_US || self.last.len() > ENDS_MAX)
        {
            let oldest = *oldest;
            self.last.pop_front();
            if oldest.wall_us <= first_us + DISORDER_US && self.first.len() < ENDS_MAX {
                self.first.push(oldest);
                continue;
            }
            let (from_us, to_us) = self.between_us.unwrap_or((i64::MAX, i64::MIN));
            let between = (from_us.min(oldest.wall_us), to_us.max(oldest.wall_us));
            self.between_us = Some(between);
        }
    }

    /// Forgets the most recently remembered message if it is this one, since it may be truncated.
    pub(super) fn forget_last(&mut self, mark: EntryKey, unit_us: i64) {
        let key = mark.key(unit_us);
        if self.last.back().is_some_and(|known| known.key == key) {
            self.last.pop_back();
        }
    }

    /// Returns whether the stream contains these unreadable lines; remembers them if not.
    pub(super) fn is_duplicate_unreadable(&mut self, bytes: &[u8]) -> bool {
        let key = xxh3_64(bytes);
        match self.open_unreadable.get_mut(&key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => {
                if self.unreadable.len() < UNREADABLE_MAX {
                    self.unreadable.push(key);
                }
                false
            }
        }
    }
}

/// The last entry of a log of stderr lines that is followed by other files. If it is truncated, only
/// the next file shows it: it has the whole entry, or the rest.
#[derive(Debug)]
pub(crate) struct HeldEntry {
    pub stream: usize,
    /// Its lines as stderr has them.
    bytes: Vec<u8>,
    /// The file ended within its last line.
    torn: bool,
    /// Its rest is lost, or may be.
    cut: bool,
    prefix: Prefix,
    place: Location,
    pub(super) mark: EntryKey,
    message: String,
    lines: u64,
}

impl HeldEntry {
    pub(super) fn new(stream: usize, entry: &Entry<'_>, bytes: &[u8], prefix: Prefix) -> Self {
        HeldEntry {
            stream,
            bytes: bytes.to_vec(),
            torn: false,
            cut: false,
            prefix,
            place: entry.place,
            mark: EntryKey::of(entry),
            message: entry.message.to_owned(),
            lines: entry.lines,
        }
    }

    /// Holds an entry within whose last line the file ended; `None` if the lines are no entry.
    pub(super) fn torn(
        stream: usize,
        lines: &[u8],
        prefix: Prefix,
        place: Location,
    ) -> Option<Self> {
        let whole = [lines, b"\n"].concat();
        let mut reader = StderrReader::for_messages(prefix.clone());
        let (found, _) = reader.next(whole[..].into(), true, place);
        let ReadResult::Entry(entry) = found else {
            return None;
        };
        let mut held = HeldEntry::new(stream, &entry, lines, prefix);
        held.torn = true;
        Some(held)
    }

    /// Appends lines that the next file begins with, and that are the entry's rest.
    pub(super) fn append(&mut self, bytes: &[u8], lines: u64) {
        self.bytes.extend_from_slice(bytes);
        self.lines += lines;
        self.torn = !bytes.ends_with(b"\n");
    }

    /// Returns whether its last line has no end.
    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Returns whether it is a message of that process.
    pub(super) fn is_of(&self, pid: u32) -> bool {
        self.mark.pid == pid
    }

    /// Records that its rest is lost.
    pub(super) fn mark_cut(&mut self) {
        self.cut = true;
    }

    /// Returns whether it is the beginning of `next`.
    pub(super) fn is_beginning_of(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        self.is_at(next, unit_us)
            && next.message.starts_with(&self.message)
            && next.lines >= self.lines
    }

    /// Returns whether `next` is the beginning of it.
    pub(super) fn is_begun_by(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        self.is_at(next, unit_us)
            && self.message.starts_with(next.message)
            && next.lines <= self.lines
    }

    fn is_at(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        EntryKey::of(next).time_and_process(unit_us) == self.mark.time_and_process(unit_us)
    }

    /// Drops the entry as a duplicate.
    pub(super) fn discard(self, assembler: &mut Assembler<'_>) {
        let account = assembler.account();
        account.skip(SkipReason::Duplicate, self.lines, self.place);
    }

    /// Passes the entry to the assembler.
    pub(super) fn release(self, assembler: &mut Assembler<'_>) -> Result<(), LogError> {
        let (lines, place) = (self.lines, self.place);
        let mut reader = StderrReader::for_messages(self.prefix);
        loop {
            match reader.next(self.bytes[..].into(), true, place).0 {
                ReadResult::Entry(mut entry) => {
                    entry.lines = lines;
                    // Its file's time zone is known no longer.
                    entry.wall_us = self.mark.wall_us;
                    entry.cut |= self.cut;
                    assembler.handle_entry(&entry)?;
                    return Ok(());
                }
                ReadResult::Ambiguous(readings) => {
                    let choice = assembler.choose_reading(&readings);
                    reader.settle(choice);
                }
                ReadResult::Skipped { reason, .. } => {
                    assembler.account().skip(reason, lines, place);
                    return Ok(());
                }
                ReadResult::Unreadable { reason, .. } => {
                    let account = assembler.account();
                    account.unreadable(reason, lines, place, &self.bytes);
                    return Ok(());
                }
                // Another reading was chosen: it belongs to an entry of its process.
                ReadResult::Detached { pid, betrays, .. } => {
                    assembler.handle_detached(pid, betrays, lines, place);
                    return Ok(());
                }
                ReadResult::More | ReadResult::Held | ReadResult::Elsewhere { .. } => {
                    unreachable!("its bytes are complete")
                }
            }
        }
    }
}
