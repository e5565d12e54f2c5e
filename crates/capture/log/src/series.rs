//! Several files as one series in time: which continues which, where something is missing between
//! them, and which say the same again.
//!
//! Who drives: the capture, for every source: [`Series::next`] picks it, [`Turn::sees`] is asked
//! about the few entries that may stand in two files, [`Series::end`] takes what was read.
//!
//! A *lane* is one server's log. A file that begins where a lane has ended continues it, and its
//! sessions go on. A file that begins before that is one of two things. It has the messages that
//! the lane has (a copy, an overlapping piece, the other format of `log_destination = 'stderr,
//! csvlog'`): then what the lane covers counts once. Or it has others: then it is another server's,
//! and gets a lane of its own, since process numbers mean nothing between servers.
//!
//! What an earlier file of the same format has near its ends is compared message by message
//! ([`ends`]); what lies between by time alone.
//!
//! Messages are compared by time, process and text, of the first entries of the later file. What
//! an earlier file has from that time on is remembered while it is read, so nothing is read twice,
//! and files that do not overlap cost one comparison an entry.

mod ends;

use std::collections::{HashMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::assemble::Assembler;
use super::entry::Entry;
use super::prefix::Prefix;
use super::sources::Source;
use super::stem::{rotation_number, stem};
use super::{LogError, LogFormat};
use ends::{DISORDER_US, Ends, Held};

/// Two files of one series may overlap by so much: lines are written a little out of order.
const SLACK_US: i64 = 2_000_000;

/// A gap is no gap below this.
const GAP_LEAST_US: i64 = 60_000_000;

/// Entries of a file's beginning that are compared.
pub(super) const SAMPLE_ENTRIES: usize = 256;

/// With fewer entries to compare, all must be the same; with more, half of them.
const FEW_ENTRIES: usize = 8;

/// Messages remembered for one later file, and files for which some are remembered at once.
const KEYS_MAX: usize = 1 << 14;
const WATCHES_MAX: usize = 64;

/// No line between two files of a series, for longer than files that follow each other show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gap {
    /// The file before it.
    pub before: String,
    /// The file behind it.
    pub after: String,
    /// The last time before it, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// The first time behind it.
    pub to_us: i64,
}

/// A file that begins before the end of one that was read before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overlap {
    /// The file.
    pub file: String,
    /// How many files of its series do so; `file` is the first of them.
    pub files: u64,
    /// The one that it overlaps with.
    pub other: String,
    /// From when both have lines, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Until when.
    pub to_us: i64,
    /// Both have the same messages. If not, they are taken for different servers' logs.
    pub same: bool,
    /// Lines that were left out of `file` since `other` has them.
    pub lines: u64,
}

/// How the files of a capture fit together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeriesReport {
    /// Silences between files.
    pub gaps: Vec<Gap>,
    /// Files that overlap.
    pub overlaps: Vec<Overlap>,
    /// Names that a numbered series should have and that were not read.
    pub missing: Vec<String>,
}

/// What one entry is compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    wall_us: i64,
    pid: u32,
    text: u64,
    /// Of the text's first line.
    start: u64,
}

impl Mark {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let message = entry.message.as_bytes();
        let text = xxh3_64_with_seed(message, 0);
        Mark {
            wall_us: entry.wall_us,
            pid: entry.pid,
            text,
            start: match memchr::memchr(b'\n', message) {
                Some(end) => xxh3_64_with_seed(&message[..end], 0),
                None => text,
            },
        }
    }

    pub(super) fn wall_us(self) -> i64 {
        self.wall_us
    }

    /// With times cut to `unit_us`.
    fn key(self, unit_us: i64) -> u64 {
        self.with(self.text, unit_us)
    }

    /// By the text's first line: the others may be cut.
    fn start_key(self, unit_us: i64) -> u64 {
        self.with(self.start, unit_us)
    }

    fn when_and_who(self, unit_us: i64) -> u64 {
        self.with(0, unit_us)
    }

    fn with(self, text: u64, unit_us: i64) -> u64 {
        let time = self.wall_us.div_euclid(unit_us).to_le_bytes();
        xxh3_64_with_seed(&time, text ^ (u64::from(self.pid) << 32))
    }
}

#[derive(Debug)]
struct Lane {
    stem: String,
    /// The file read last, and its format.
    name: String,
    format: Option<LogFormat>,
    first_us: i64,
    last_us: i64,
    ends: Ends,
    held: Option<Held>,
}

/// What was read of the time at which a later file begins: messages, and whose lane has them.
#[derive(Debug)]
struct Watch {
    source: usize,
    from_us: i64,
    unit_us: i64,
    keys: HashMap<u64, usize>,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Series {
    lanes: Vec<Lane>,
    /// By the time from which they watch.
    watches: Vec<Watch>,
    /// How finely times are compared.
    unit_us: i64,
    /// Series that were found to have what a lane has.
    same: HashMap<String, usize>,
    joints: Vec<Gap>,
    spans_us: Vec<i64>,
    numbered: HashMap<String, Vec<u32>>,
    report: SeriesReport,
}

/// The reading of one source.
#[derive(Debug)]
pub(super) struct Turn {
    /// Which sessions it continues.
    pub lane: usize,
    /// Entries of these times are in another file, too, of another format.
    covered: Option<(i64, i64)>,
    /// What the lane has.
    ends: Ends,
    /// Its messages are compared with those of this file.
    compared: bool,
    /// No entry of it was seen so far.
    at_start: bool,
    /// The last entry of the file before.
    held: Option<Held>,
    /// Of a file whose last entry may be cut.
    prefix: Option<Prefix>,
    unit_us: i64,
    watches: Vec<Watch>,
    /// From this time on, entries are looked at.
    watch_us: i64,
    /// Up to this time, entries are looked at.
    until_us: i64,
    duplicates: u64,
    begins_us: i64,
    name: String,
    stem: String,
    format: Option<LogFormat>,
    overlap: Option<Overlap>,
}

impl Turn {
    /// For a source that is alone.
    pub(super) fn alone() -> Self {
        Turn {
            lane: 0,
            covered: None,
            ends: Ends::default(),
            compared: false,
            at_start: true,
            held: None,
            prefix: None,
            unit_us: 1_000,
            watches: Vec::new(),
            watch_us: i64::MAX,
            until_us: i64::MIN,
            duplicates: 0,
            begins_us: 0,
            name: String::new(),
            stem: String::new(),
            format: None,
            overlap: None,
        }
    }

    /// Looks at an entry, which may be the last of its file. Whether it is to be left out, since it
    /// was read before.
    #[inline]
    pub(super) fn sees(&mut self, entry: &Entry<'_>, last: bool) -> bool {
        if entry.wall_us < self.watch_us && entry.wall_us > self.until_us {
            return false;
        }
        self.looks_at(entry, last)
    }

    /// Others follow: the file's last entry may be cut, and be whole in one of them.
    pub(super) fn may_be_cut(&mut self, prefix: &Prefix) {
        if !self.watches.is_empty() {
            self.prefix = Some(prefix.clone());
        }
    }

    /// Holds an entry that is the last of its file, if others follow that may have it whole.
    #[cold]
    pub(super) fn holds(&mut self, entry: &Entry<'_>, bytes: &[u8]) -> bool {
        let Some(prefix) = self.prefix.take() else {
            return false;
        };
        self.ends.forget_last(Mark::of(entry), self.unit_us);
        self.held = Some(Held::of(self.lane, entry, bytes, prefix));
        true
    }

    /// Whether there is a last entry of the file before, which goes first.
    #[inline]
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Hands on the last entry of the file before, or leaves it out where `next` is it, whole.
    /// Whether `next` is to be left out, since it is what is held.
    #[cold]
    pub(super) fn release(
        &mut self,
        next: &Entry<'_>,
        assembler: &mut Assembler<'_>,
    ) -> Result<bool, LogError> {
        let Some(held) = self.held.take() else {
            return Ok(false);
        };
        if held.begins(next, self.unit_us) {
            held.drop_from(assembler);
        } else if held.is_begun_by(next, self.unit_us) {
            self.held = Some(held);
            self.duplicates += next.lines;
            return Ok(true);
        } else {
            self.ends.remember(held.mark, self.unit_us);
            held.release(assembler)?;
        }
        Ok(false)
    }

    /// Whether a line without its entry belongs to one that the file before has, and this one's
    /// beginning cuts.
    pub(super) fn cuts(&mut self, lines: u64) -> bool {
        let cuts = self.compared && self.at_start;
        self.duplicates += if cuts { lines } else { 0 };
        cuts
    }

    /// Whether lines that cannot be read were read before.
    pub(super) fn sees_unreadable(&mut self, bytes: &[u8], lines: u64) -> bool {
        if !self.compared && self.watches.is_empty() {
            return false;
        }
        let again = self.ends.has_unreadable(bytes);
        self.duplicates += if again { lines } else { 0 };
        again
    }

    #[cold]
    fn looks_at(&mut self, entry: &Entry<'_>, last: bool) -> bool {
        self.at_start = false;
        let mark = Mark::of(entry);
        let covered = self
            .covered
            .is_some_and(|(from_us, to_us)| (from_us..=to_us).contains(&entry.wall_us));
        if covered || self.compared && self.ends.has(mark, self.unit_us, last) {
            self.duplicates += entry.lines;
            return true;
        }
        if self
            .watches
            .first()
            .is_some_and(|watch| entry.wall_us >= watch.from_us - DISORDER_US)
        {
            self.ends.remember(mark, self.unit_us);
        }
        let lane = self.lane;
        for watch in self.watches.iter_mut().take(WATCHES_MAX) {
            if watch.from_us > entry.wall_us {
                break;
            }
            if watch.keys.len() < KEYS_MAX {
                watch.keys.insert(mark.start_key(watch.unit_us), lane);
            }
        }
        false
    }

    fn set_watch(&mut self) {
        // The first of them is the first file that may overlap with this one.
        let first = self.watches.first();
        self.watch_us = first.map_or(i64::MAX, |watch| watch.from_us - DISORDER_US);
    }
}

/// How finely the times of two files can be compared.
fn unit_us(one: &[Mark], other: &[Mark]) -> i64 {
    let whole = |marks: &[Mark]| marks.iter().all(|mark| mark.wall_us % 1_000_000 == 0);
    match whole(one) || whole(other) {
        true => 1_000_000,
        false => 1_000,
    }
}

impl Series {
    /// A series of these sources.
    pub(super) fn new<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Self {
        let sources: Vec<&Source> = sources.into_iter().collect();
        let mut series = Series::default();
        if sources.len() < 2 {
            return series;
        }
        // One source in whole seconds makes all comparisons so: it is one of a pair in most.
        let units = sources
            .iter()
            .map(|source| unit_us(&source.sample, &[Mark::NEVER]));
        let coarsest = units.max().unwrap_or(1_000);
        for source in &sources {
            let name = source.input.name();
            let (stem, number) = (stem(&name), rotation_number(&name));
            series.numbered.entry(stem).or_default().extend(number);
            if let Some(recognised) = &source.recognised {
                series.watches.push(Watch {
                    source: source.number,
                    from_us: recognised.first_us.div_euclid(coarsest) * coarsest,
                    unit_us: coarsest,
                    keys: HashMap::new(),
                });
            }
        }
        series.unit_us = coarsest;
        series.watches.sort_by_key(|watch| watch.from_us);
        series
    }

    /// Which source is read next, and how. Empty ones have no turn.
    pub(super) fn next(&mut self, queue: &mut VecDeque<Source>) -> Option<(Source, Turn)> {
        loop {
            let source = queue.pop_front()?;
            let Some(recognised) = &source.recognised else {
                return Some((source, Turn::alone()));
            };
            let first_us = recognised.first_us;
            let name = source.input.name();
            let stem = stem(&name);
            let same = self.same_as(&source, &stem, first_us);
            if let Some(lane) = same
                && self.lanes[lane].stem != stem
            {
                self.same.insert(stem.clone(), lane);
                let of_lane = |other: &Source| other.stem() == self.lanes[lane].stem;
                if queue.iter().any(of_lane) {
                    // All of the other comes first, so that it is known what it covers.
                    let (mine, mut rest): (Vec<Source>, Vec<Source>) = std::iter::once(source)
                        .chain(queue.drain(..))
                        .partition(|other| other.stem() == stem);
                    let last = rest
                        .iter()
                        .rposition(|other| other.stem() == self.lanes[lane].stem);
                    let behind = rest.split_off(last.map_or(0, |last| last + 1));
                    queue.extend(rest.into_iter().chain(mine).chain(behind));
                    continue;
                }
            }
            self.watches.retain(|watch| watch.source != source.number);
            let format = Some(recognised.format);
            let turn = self.turn(name, stem, format, first_us, same);
            return Some((source, turn));
        }
    }

    fn turn(
        &mut self,
        name: String,
        stem: String,
        format: Option<LogFormat>,
        first_us: i64,
        same: Option<usize>,
    ) -> Turn {
        let mut turn = Turn {
            begins_us: first_us,
            format,
            ..Turn::alone()
        };
        if let Some(lane) = same {
            let Lane {
                first_us: from_us,
                last_us,
                ..
            } = self.lanes[lane];
            if self.lanes[lane].format == format {
                turn.compared = true;
            } else {
                // The other's times may be in whole seconds.
                let from_us = from_us.div_euclid(1_000_000) * 1_000_000;
                turn.covered = Some((from_us, last_us));
            }
            turn.until_us = last_us.div_euclid(self.unit_us) * self.unit_us + self.unit_us - 1;
            turn.overlap = Some(Overlap {
                file: name.clone(),
                files: 1,
                other: self.lanes[lane].name.clone(),
                from_us: first_us.max(from_us),
                to_us: last_us,
                same: true,
                lines: 0,
            });
            // What another format has besides (a server's start, before csvlog began) would end
            // sessions that go on.
            turn.lane = match self.lanes[lane].format == format {
                true => lane,
                false => self.lanes.len(),
            };
        } else {
            let ended = |lane: &Lane| lane.last_us <= first_us + SLACK_US;
            let mut own = self
                .lanes
                .iter()
                .enumerate()
                .filter(|(_, lane)| lane.stem == stem);
            turn.lane = match (own.find(|(_, lane)| ended(lane)), self.lanes.as_slice()) {
                (Some((lane, _)), _) => lane,
                (None, [only]) if ended(only) => 0,
                (None, lanes) => lanes.len(),
            };
            if let Some(lane) = self.lanes.get(turn.lane) {
                self.joints.push(Gap {
                    before: lane.name.clone(),
                    after: name.clone(),
                    from_us: lane.last_us,
                    to_us: first_us,
                });
            } else if let Some(other) = self.lanes.iter().max_by_key(|lane| lane.last_us)
                && !ended(other)
            {
                turn.overlap = Some(Overlap {
                    file: name.clone(),
                    files: 1,
                    other: other.name.clone(),
                    from_us: first_us,
                    to_us: other.last_us,
                    same: false,
                    lines: 0,
                });
            }
        }
        turn.unit_us = self.unit_us;
        if let Some(lane) = self.lanes.get_mut(turn.lane) {
            turn.ends = std::mem::take(&mut lane.ends);
            turn.held = lane.held.take();
            if turn.compared {
                turn.ends.compare();
            }
        }
        turn.watches = std::mem::take(&mut self.watches);
        turn.set_watch();
        (turn.name, turn.stem) = (name, stem);
        turn
    }

    /// The lane that has this source's messages.
    fn same_as(&self, source: &Source, stem: &str, first_us: i64) -> Option<usize> {
        if let Some(&lane) = self.same.get(stem)
            && self.lanes[lane].last_us >= first_us
        {
            return Some(lane);
        }
        let watch = self
            .watches
            .iter()
            .find(|watch| watch.source == source.number)?;
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for mark in &source.sample {
            if let Some(lane) = watch.keys.get(&mark.start_key(watch.unit_us)) {
                *shared.entry(*lane).or_default() += 1;
            }
        }
        let (lane, shared) = shared.into_iter().max_by_key(|(_, shared)| *shared)?;
        let Lane {
            first_us, last_us, ..
        } = self.lanes[lane];
        let first_us = first_us.div_euclid(watch.unit_us) * watch.unit_us;
        let compared = source
            .sample
            .iter()
            .filter(|mark| (first_us..=last_us).contains(&mark.wall_us))
            .count();
        let needed = match compared {
            0..=FEW_ENTRIES => compared,
            _ => compared / 2,
        };
        // All that the lane has may be the first of those of one millisecond.
        let there = watch.keys.values().filter(|of| **of == lane).count();
        let needed = needed.min(there);
        (shared > 0 && shared >= needed).then_some(lane)
    }

    /// A source was read, up to this time.
    pub(super) fn end(&mut self, turn: Turn, last_us: i64) {
        self.watches = turn.watches;
        let last_us = last_us.max(turn.begins_us);
        if turn.name.is_empty() {
            return;
        }
        self.spans_us.push(last_us - turn.begins_us);
        if let Some(mut overlap) = turn.overlap {
            overlap.lines = turn.duplicates;
            overlap.to_us = overlap.to_us.min(last_us);
            let again = self
                .report
                .overlaps
                .iter_mut()
                .find(|known| known.same && overlap.same && stem(&known.file) == turn.stem);
            match again {
                Some(known) => {
                    known.files += 1;
                    known.lines += overlap.lines;
                    known.to_us = known.to_us.max(overlap.to_us);
                }
                None => self.report.overlaps.push(overlap),
            }
        }
        match self.lanes.get_mut(turn.lane) {
            Some(lane) => {
                lane.last_us = lane.last_us.max(last_us);
                lane.name = turn.name;
                lane.format = turn.format;
                (lane.ends, lane.held) = (turn.ends, turn.held);
            }
            None => self.lanes.push(Lane {
                stem: turn.stem,
                name: turn.name,
                format: turn.format,
                first_us: turn.begins_us,
                last_us,
                ends: turn.ends,
                held: turn.held,
            }),
        }
    }

    /// Hands on the last entries of the last files.
    pub(super) fn release(&mut self, assembler: &mut Assembler<'_>) -> Result<(), LogError> {
        for lane in &mut self.lanes {
            if let Some(held) = lane.held.take() {
                assembler.turn_to(held.lane);
                held.release(assembler)?;
            }
        }
        Ok(())
    }

    /// How the files fit together.
    pub(super) fn finish(mut self) -> SeriesReport {
        self.spans_us.sort_unstable();
        let typical_us = self.spans_us.get(self.spans_us.len() / 2).copied();
        let least_us = GAP_LEAST_US.max(typical_us.unwrap_or(0) / 2);
        let joints = self.joints.into_iter();
        self.report.gaps = joints
            .filter(|joint| joint.to_us - joint.from_us > least_us)
            .collect();
        for (stem, mut numbers) in self.numbered {
            numbers.sort_unstable();
            let present = |number: &u32| numbers.binary_search(number).is_ok();
            let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
                continue;
            };
            let missing = (*first..*last).filter(|number| !present(number));
            let names = missing.map(|number| format!("{stem}.{number}"));
            self.report.missing.extend(names.take(MISSING_MAX));
        }
        self.report.missing.sort();
        self.report
    }
}

/// As many names are listed as missing of one series.
const MISSING_MAX: usize = 100;

impl Mark {
    /// Stands for a file in milliseconds.
    const NEVER: Mark = Mark {
        wall_us: 1_000,
        pid: 0,
        text: 0,
        start: 0,
    };
}
