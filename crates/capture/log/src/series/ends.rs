//! What is known of a lane's messages when a later file may have them, too, and the last entry of a
//! file, which may be cut.
//!
//! Lines stand a little out of the order of time, and many share a millisecond, so that a time does
//! not say what a file has near its ends. There, messages are remembered one by one; what lies
//! between is told by its time.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_64;

use super::Mark;
use crate::LogError;
use crate::SkipReason;
use crate::assemble::Assembler;
use crate::entry::{Entry, Found, Place, Reader};
use crate::prefix::Prefix;
use crate::stderr::StderrReader;

/// Lines stand out of the order of time by less.
pub(super) const DISORDER_US: i64 = 10_000_000;

/// Messages remembered at either end, about 24 bytes each.
const ENDS_MAX: usize = 1 << 18;

/// Unreadable pieces remembered of a lane.
const UNREADABLE_MAX: usize = 1 << 14;

/// A message that a lane has.
#[derive(Debug, Clone, Copy)]
struct Known {
    wall_us: i64,
    /// Of its time, process and text.
    key: u64,
    /// Of its time and process.
    when_and_who: u64,
}

/// The messages at both ends of a lane.
#[derive(Debug, Default)]
pub(super) struct Ends {
    first: Vec<Known>,
    last: VecDeque<Known>,
    first_us: Option<i64>,
    /// The least and the greatest time of what is not remembered one by one.
    between_us: Option<(i64, i64)>,
    unreadable: Vec<u64>,
    /// Those that the file that is read has not shown again so far.
    open: HashMap<u64, u32>,
    open_unreadable: HashMap<u64, u32>,
}

impl Ends {
    /// Another file of the lane is compared from here on.
    pub(super) fn compare(&mut self) {
        self.open.clear();
        for known in self.first.iter().chain(&self.last) {
            *self.open.entry(known.key).or_default() += 1;
        }
        self.open_unreadable.clear();
        for key in &self.unreadable {
            *self.open_unreadable.entry(*key).or_default() += 1;
        }
    }

    /// Whether the lane has a message, which is then done with. Of the last of a file the text may
    /// be cut.
    pub(super) fn has(&mut self, mark: Mark, unit_us: i64, last: bool) -> bool {
        if let Some((from_us, to_us)) = self.between_us
            && (from_us..=to_us).contains(&mark.wall_us)
        {
            return true;
        }
        let mut key = mark.key(unit_us);
        let is_open = |key: &u64| self.open.get(key).is_some_and(|count| *count > 0);
        if last && !is_open(&key) {
            let when_and_who = mark.when_and_who(unit_us);
            let same = |known: &&Known| known.when_and_who == when_and_who && is_open(&known.key);
            if let Some(known) = self.first.iter().chain(&self.last).find(same) {
                key = known.key;
            }
        }
        match self.open.get_mut(&key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Remembers a message of the lane.
    pub(super) fn remember(&mut self, mark: Mark, unit_us: i64) {
        let first_us = *self.first_us.get_or_insert(mark.wall_us);
        self.last.push_back(Known {
            wall_us: mark.wall_us,
            key: mark.key(unit_us),
            when_and_who: mark.when_and_who(unit_us),
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

    /// Forgets the message that was remembered last, if it is this one: it may be cut.
    pub(super) fn forget_last(&mut self, mark: Mark, unit_us: i64) {
        let key = mark.key(unit_us);
        if self.last.back().is_some_and(|known| known.key == key) {
            self.last.pop_back();
        }
    }

    /// Whether the lane has these lines, which cannot be read; they are remembered if not.
    pub(super) fn has_unreadable(&mut self, bytes: &[u8]) -> bool {
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

/// The last entry of a stderr log that others follow. Where it is cut between two of its lines
/// nothing shows it but the whole entry in the next file.
#[derive(Debug)]
pub(crate) struct Held {
    pub lane: usize,
    bytes: Vec<u8>,
    prefix: Prefix,
    place: Place,
    pub(super) mark: Mark,
    message: String,
    lines: u64,
}

impl Held {
    pub(super) fn of(lane: usize, entry: &Entry<'_>, bytes: &[u8], prefix: Prefix) -> Self {
        Held {
            lane,
            bytes: bytes.to_vec(),
            prefix,
            place: entry.place,
            mark: Mark::of(entry),
            message: entry.message.to_owned(),
            lines: entry.lines,
        }
    }

    /// Whether it is the beginning of `next`.
    pub(super) fn begins(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        self.is_at(next, unit_us)
            && next.message.starts_with(&self.message)
            && next.lines >= self.lines
    }

    /// Whether `next` is its beginning.
    pub(super) fn is_begun_by(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        self.is_at(next, unit_us)
            && self.message.starts_with(next.message)
            && next.lines <= self.lines
    }

    fn is_at(&self, next: &Entry<'_>, unit_us: i64) -> bool {
        Mark::of(next).when_and_who(unit_us) == self.mark.when_and_who(unit_us)
    }

    /// Leaves it out.
    pub(super) fn drop_from(self, assembler: &mut Assembler<'_>) {
        let account = assembler.account();
        account.skip(SkipReason::Duplicate, self.lines, self.place);
    }

    /// Hands it on.
    pub(super) fn release(self, assembler: &mut Assembler<'_>) -> Result<(), LogError> {
        let mut reader = StderrReader::new(self.prefix);
        match reader.next(self.bytes[..].into(), true, self.place) {
            (Found::Entry(entry), _) => Ok(assembler.entry(&entry)?),
            _ => unreachable!("it was an entry before"),
        }
    }
}
