//! Orders several files as series in time: which file continues which, where lines are missing, and
//! which files repeat lines.
//!
//! The capture calls [`Series::next`] to pick each source, [`SourceTurn::is_duplicate`] for the few entries that
//! may be in two files, and [`Series::end`] after a source was read.
//!
//! A *stream* is the log of one server. A file that begins where a stream ended continues it, and
//! so do its sessions. A file that begins earlier is one of two things. If it has the messages of
//! the stream (a copy, an overlapping piece, the other format of `log_destination = 'stderr,
//! csvlog'`), the range that the stream covers counts once. Otherwise it is the log of another
//! server and gets its own stream, since process numbers mean nothing between servers.
//!
//! Near the ends of an earlier file of the same format, messages are compared one by one
//! ([`boundary_messages`]); between the ends only their times are.
//!
//! Messages are compared by time, process and text, using the first entries of the later file. The
//! messages of an earlier file from that time on are remembered while it is read. So nothing is
//! read twice, and files that do not overlap cost one comparison an entry.

mod boundary_messages;
mod joints;
mod report;

use std::collections::{HashMap, VecDeque};

use workload::series::PossibleGap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::assemble::Assembler;
use super::entry::{Entry, SessionIdentity};
use super::prefix::Prefix;
use super::rotation_name::{is_next_file, stem};
use super::sources::Source;
use super::{LogError, LogFormat, UnreadableReason};
use crate::reconcile::Location;
use boundary_messages::{BoundaryMessages, DISORDER_US, HeldEntry};
use joints::{GAP_MIN_US, Joints};
pub use report::{Gap, Overlap, SeriesReport};

/// Tolerated overlap of two files of one series, since lines are slightly out of time order.
const SLACK_US: i64 = 2_000_000;

/// Number of entries of a file's beginning that are compared.
pub(super) const SAMPLE_ENTRIES: usize = 256;

/// With fewer entries than this, all must match; with more, half of them.
const FEW_ENTRIES: usize = 8;

/// Maximum number of messages remembered for one later file, and of files watched at once.
const KEYS_MAX: usize = 1 << 14;
const WATCHES_MAX: usize = 64;

/// Identity of an entry for comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryKey {
    wall_us: i64,
    pid: u32,
    text: u64,
    /// Hash of the text's first line.
    start: u64,
}

impl EntryKey {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let message = entry.message.as_bytes();
        let text = xxh3_64_with_seed(message, 0);
        EntryKey {
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

    /// Hashes the mark with its time truncated to `unit_us`.
    fn key(self, unit_us: i64) -> u64 {
        self.with(self.text, unit_us)
    }

    /// Hashes the mark by the first line of its text, since later lines may be truncated.
    fn start_key(self, unit_us: i64) -> u64 {
        self.with(self.start, unit_us)
    }

    fn time_and_process(self, unit_us: i64) -> u64 {
        self.with(0, unit_us)
    }

    fn with(self, text: u64, unit_us: i64) -> u64 {
        let time = self.wall_us.div_euclid(unit_us).to_le_bytes();
        xxh3_64_with_seed(&time, text ^ (u64::from(self.pid) << 32))
    }
}

#[derive(Debug)]
struct ServerStream {
    stem: String,
    /// Name and format of the file read last.
    name: String,
    format: Option<LogFormat>,
    first_us: i64,
    last_us: i64,
    ends: BoundaryMessages,
    held: Option<HeldEntry>,
}

/// Messages read since the time at which a later file begins, each with its stream.
#[derive(Debug)]
struct Watch {
    source: usize,
    from_us: i64,
    unit_us: i64,
    keys: HashMap<u64, usize>,
}

/// Several sources in time order; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Series {
    streams: Vec<ServerStream>,
    /// Ordered by the time from which they watch.
    watches: Vec<Watch>,
    /// Resolution at which times are compared.
    unit_us: i64,
    /// Series whose messages were found to be those of a stream.
    same: HashMap<String, usize>,
    joints: Joints,
    report: SeriesReport,
}

/// The state of reading one source within its series.
#[derive(Debug)]
pub(super) struct SourceTurn {
    /// Number of the stream whose sessions it continues.
    pub stream: usize,
    /// Time range that another file of another format covers.
    covered: Option<(i64, i64)>,
    /// Messages of the stream.
    boundary: BoundaryMessages,
    /// Whether the stream's messages are compared with those of this file.
    compared: bool,
    /// No entry of the file has been seen so far.
    at_start: bool,
    /// The last entry of the previous file.
    held: Option<HeldEntry>,
    /// The file begins where the previous one ends, with none between them.
    continues: bool,
    /// Set if the last entry of the file may be truncated.
    prefix: Option<Prefix>,
    unit_us: i64,
    watches: Vec<Watch>,
    /// Entries from this time on are examined.
    watch_us: i64,
    /// Entries up to this time are examined.
    until_us: i64,
    duplicates: u64,
    begins_us: i64,
    name: String,
    stem: String,
    format: Option<LogFormat>,
    overlap: Option<Overlap>,
}

impl SourceTurn {
    /// Whether it overlaps with another log without having its messages.
    pub(super) fn is_of_other_server(&self) -> bool {
        self.overlap.as_ref().is_some_and(|overlap| !overlap.same)
    }

    /// Creates the turn of a single source.
    pub(super) fn single() -> Self {
        SourceTurn {
            stream: 0,
            covered: None,
            boundary: BoundaryMessages::default(),
            compared: false,
            at_start: true,
            held: None,
            continues: false,
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

    /// Examines an entry, which may be the `last` of its file. Returns whether it is to be left out
    /// because it was read before.
    #[inline]
    pub(super) fn is_duplicate(&mut self, entry: &Entry<'_>, last: bool) -> bool {
        if entry.wall_us < self.watch_us && entry.wall_us > self.until_us {
            return false;
        }
        self.compare(entry, last)
    }

    /// Declares that other files follow: the file's last entry may be truncated here, and whole in
    /// one of them or continued there.
    pub(super) fn expect_truncation(&mut self, prefix: &Prefix) {
        if !self.watches.is_empty() {
            self.prefix = Some(prefix.clone());
        }
    }

    /// Holds an entry that is the last of its file, if a following file may have it whole.
    #[cold]
    pub(super) fn hold_last(&mut self, entry: &Entry<'_>) -> bool {
        let SessionIdentity::InLine {
            text, prefix: own, ..
        } = entry.who
        else {
            return false;
        };
        if self.prefix.take().is_none() {
            return false;
        }
        self.boundary.forget_last(EntryKey::of(entry), self.unit_us);
        // The prefix may have been changed in the file.
        let held = HeldEntry::new(self.stream, entry, text.as_bytes(), own.clone());
        self.held = Some(held);
        true
    }

    /// Holds lines within which the file ends, if a following file may have their rest.
    pub(super) fn hold_torn(&mut self, lines: &[u8], place: Location) -> bool {
        let prefix = self.prefix.take();
        self.held = prefix.and_then(|prefix| HeldEntry::torn(self.stream, lines, prefix, place));
        self.held.is_some()
    }

    /// Takes lines at the start of the file that are the rest of the previous file's last entry:
    /// text after a newline (`pid` is `None`), or a line such as DETAIL of that process. If the
    /// lines may be that rest but need not be, the entry counts as cut.
    pub(super) fn continue_held(
        &mut self,
        pid: Option<u32>,
        reason: Option<UnreadableReason>,
        bytes: &[u8],
        lines: u64,
    ) -> bool {
        let Some(held) = self.held.as_mut().filter(|_| !self.compared) else {
            return false;
        };
        let fits = match (pid, reason) {
            (Some(pid), _) => held.is_of(pid) && !held.is_torn(),
            (None, Some(UnreadableReason::LooseContinuation)) => true,
            (None, Some(UnreadableReason::NoPrefix)) => held.is_torn(),
            (None, None) => held.is_torn(),
            (None, Some(_)) => false,
        };
        if fits && self.continues {
            held.append(bytes, lines);
            return true;
        }
        if pid.is_none_or(|pid| held.is_of(pid)) {
            held.mark_cut();
        }
        false
    }

    /// Returns whether the last line of the previous file has no end.
    pub(super) fn is_holding_torn(&self) -> bool {
        self.held.as_ref().is_some_and(HeldEntry::is_torn)
    }

    /// Returns whether the last entry of the previous file is held; it goes first.
    #[inline]
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Passes on the held last entry of the previous file, or drops it if `next` is the whole of
    /// it. Returns whether `next` is to be left out because it repeats the held entry.
    #[cold]
    pub(super) fn release(
        &mut self,
        next: &Entry<'_>,
        assembler: &mut Assembler<'_>,
    ) -> Result<bool, LogError> {
        let Some(held) = self.held.take() else {
            return Ok(false);
        };
        if held.is_beginning_of(next, self.unit_us) {
            held.discard(assembler);
        } else if held.is_begun_by(next, self.unit_us) {
            self.held = Some(held);
            self.duplicates += next.lines;
            return Ok(true);
        } else {
            self.boundary.remember(held.mark, self.unit_us);
            held.release(assembler)?;
        }
        Ok(false)
    }

    /// Returns whether a line without its entry belongs to an entry of the previous file that the
    /// start of this file cuts.
    pub(super) fn is_cut_continuation(&mut self, lines: u64) -> bool {
        let cuts = self.compared && self.at_start;
        self.duplicates += if cuts { lines } else { 0 };
        cuts
    }

    /// Returns whether unreadable lines were read before.
    pub(super) fn is_duplicate_unreadable(&mut self, bytes: &[u8], lines: u64) -> bool {
        if !self.compared && self.watches.is_empty() {
            return false;
        }
        let again = self.boundary.is_duplicate_unreadable(bytes);
        self.duplicates += if again { lines } else { 0 };
        again
    }

    #[cold]
    fn compare(&mut self, entry: &Entry<'_>, last: bool) -> bool {
        self.at_start = false;
        let mark = EntryKey::of(entry);
        let covered = self
            .covered
            .is_some_and(|(from_us, to_us)| (from_us..=to_us).contains(&entry.wall_us));
        if covered || self.compared && self.boundary.take_duplicate(mark, self.unit_us, last) {
            self.duplicates += entry.lines;
            return true;
        }
        if self
            .watches
            .first()
            .is_some_and(|watch| entry.wall_us >= watch.from_us - DISORDER_US)
        {
            self.boundary.remember(mark, self.unit_us);
        }
        let stream = self.stream;
        for watch in self.watches.iter_mut().take(WATCHES_MAX) {
            if watch.from_us > entry.wall_us {
                break;
            }
            if watch.keys.len() < KEYS_MAX {
                watch.keys.insert(mark.start_key(watch.unit_us), stream);
            }
        }
        false
    }

    fn set_watch(&mut self) {
        // The first watch belongs to the first file that may overlap with this one.
        let first = self.watches.first();
        self.watch_us = first.map_or(i64::MAX, |watch| watch.from_us - DISORDER_US);
    }
}

/// Resolution at which the times of two files can be compared.
fn unit_us(one: &[EntryKey], other: &[EntryKey]) -> i64 {
    let whole = |marks: &[EntryKey]| marks.iter().all(|mark| mark.wall_us % 1_000_000 == 0);
    match whole(one) || whole(other) {
        true => 1_000_000,
        false => 1_000,
    }
}

impl Series {
    /// Creates the series of the given sources.
    pub(super) fn new<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Self {
        let sources: Vec<&Source> = sources.into_iter().collect();
        let mut series = Series::default();
        if sources.len() < 2 {
            return series;
        }
        // One source in whole seconds makes all comparisons coarse, since it is part of most
        // pairs.
        let units = sources
            .iter()
            .map(|source| unit_us(&source.sample, &[EntryKey::NEVER]));
        let coarsest = units.max().unwrap_or(1_000);
        for source in &sources {
            series.joints.note_file(&source.input.name());
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

    /// Picks the next source to read and its turn. Empty sources get none.
    pub(super) fn next(&mut self, queue: &mut VecDeque<Source>) -> Option<(Source, SourceTurn)> {
        loop {
            let source = queue.pop_front()?;
            let Some(recognised) = &source.recognised else {
                return Some((source, SourceTurn::single()));
            };
            let first_us = recognised.first_us;
            let name = source.input.name();
            let stem = stem(&name);
            let same = self.find_same_stream(&source, &stem, first_us);
            if let Some(stream) = same
                && self.streams[stream].stem != stem
            {
                self.same.insert(stem.clone(), stream);
                let of_stream = |other: &Source| other.stem() == self.streams[stream].stem;
                if queue.iter().any(of_stream) {
                    // The other source is read completely first, so that its time range is
                    // known.
                    let (mine, mut rest): (Vec<Source>, Vec<Source>) = std::iter::once(source)
                        .chain(queue.drain(..))
                        .partition(|other| other.stem() == stem);
                    let last = rest
                        .iter()
                        .rposition(|other| other.stem() == self.streams[stream].stem);
                    let later_turns = rest.split_off(last.map_or(0, |last| last + 1));
                    queue.extend(rest.into_iter().chain(mine).chain(later_turns));
                    continue;
                }
            }
            self.watches.retain(|watch| watch.source != source.number);
            let format = Some(recognised.format);
            let turn = self.create_turn(name, stem, format, first_us, same);
            return Some((source, turn));
        }
    }

    fn create_turn(
        &mut self,
        name: String,
        stem: String,
        format: Option<LogFormat>,
        first_us: i64,
        same: Option<usize>,
    ) -> SourceTurn {
        let mut turn = SourceTurn {
            begins_us: first_us,
            format,
            ..SourceTurn::single()
        };
        if let Some(stream) = same {
            let ServerStream {
                first_us: from_us,
                last_us,
                ..
            } = self.streams[stream];
            if self.streams[stream].format == format {
                turn.compared = true;
            } else {
                // The times of the other source may be in whole seconds.
                let from_us = from_us.div_euclid(1_000_000) * 1_000_000;
                turn.covered = Some((from_us, last_us));
            }
            turn.until_us = last_us.div_euclid(self.unit_us) * self.unit_us + self.unit_us - 1;
            turn.overlap = Some(Overlap {
                file: name.clone(),
                files: 1,
                other: self.streams[stream].name.clone(),
                from_us: first_us.max(from_us),
                to_us: last_us,
                same: true,
                lines: 0,
            });
            // Extra lines of another format, such as a server start before csvlog began, would
            // end sessions that continue.
            turn.stream = match self.streams[stream].format == format {
                true => stream,
                false => self.streams.len(),
            };
        } else {
            let ended = |stream: &ServerStream| stream.last_us <= first_us + SLACK_US;
            let mut own = self
                .streams
                .iter()
                .enumerate()
                .filter(|(_, stream)| stream.stem == stem);
            turn.stream = match (
                own.find(|(_, stream)| ended(stream)),
                self.streams.as_slice(),
            ) {
                (Some((stream, _)), _) => stream,
                (None, [only]) if ended(only) => 0,
                (None, streams) => streams.len(),
            };
            if let Some(stream) = self.streams.get(turn.stream) {
                turn.continues = is_next_file(&stream.name, &name)
                    .unwrap_or(first_us - stream.last_us < GAP_MIN_US);
                self.joints.join(Gap {
                    before: stream.name.clone(),
                    after: name.clone(),
                    from_us: stream.last_us,
                    to_us: first_us,
                });
            } else if let Some(other) = self.streams.iter().max_by_key(|stream| stream.last_us)
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
        if let Some(stream) = self.streams.get_mut(turn.stream) {
            turn.boundary = std::mem::take(&mut stream.ends);
            turn.held = stream.held.take();
            if turn.compared {
                turn.boundary.start_comparison();
            }
        }
        turn.watches = std::mem::take(&mut self.watches);
        turn.set_watch();
        (turn.name, turn.stem) = (name, stem);
        turn
    }

    /// Finds the stream that has this source's messages.
    fn find_same_stream(&self, source: &Source, stem: &str, first_us: i64) -> Option<usize> {
        if let Some(&stream) = self.same.get(stem)
            && self.streams[stream].last_us >= first_us
        {
            return Some(stream);
        }
        let watch = self
            .watches
            .iter()
            .find(|watch| watch.source == source.number)?;
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for mark in &source.sample {
            if let Some(stream) = watch.keys.get(&mark.start_key(watch.unit_us)) {
                *shared.entry(*stream).or_default() += 1;
            }
        }
        let (stream, shared) = shared.into_iter().max_by_key(|(_, shared)| *shared)?;
        let ServerStream {
            first_us, last_us, ..
        } = self.streams[stream];
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
        // All messages of the stream may be the first ones of the same millisecond.
        let there = watch.keys.values().filter(|of| **of == stream).count();
        let needed = needed.min(there);
        (shared > 0 && shared >= needed).then_some(stream)
    }

    /// Finishes a source that was read up to `last_us`.
    pub(super) fn end(&mut self, turn: SourceTurn, last_us: i64) {
        self.watches = turn.watches;
        let last_us = last_us.max(turn.begins_us);
        if turn.name.is_empty() {
            return;
        }
        self.joints.note_span(last_us - turn.begins_us);
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
        match self.streams.get_mut(turn.stream) {
            Some(stream) => {
                stream.last_us = stream.last_us.max(last_us);
                stream.name = turn.name;
                stream.format = turn.format;
                (stream.ends, stream.held) = (turn.boundary, turn.held);
            }
            None => self.streams.push(ServerStream {
                stem: turn.stem,
                name: turn.name,
                format: turn.format,
                first_us: turn.begins_us,
                last_us,
                ends: turn.boundary,
                held: turn.held,
            }),
        }
    }

    /// Passes on the last entries of the last files.
    pub(super) fn release(&mut self, assembler: &mut Assembler<'_>) -> Result<(), LogError> {
        for stream in &mut self.streams {
            if let Some(held) = stream.held.take() {
                assembler.activate_stream(held.stream);
                held.release(assembler)?;
            }
        }
        Ok(())
    }

    /// Returns the times for which a file may be missing, as far as the files read so far show.
    pub(super) fn possible_gaps(&self) -> Vec<PossibleGap> {
        self.joints.possible_gaps()
    }

    /// Returns how the files fit together.
    pub(super) fn finish(mut self) -> SeriesReport {
        self.report.gaps = self.joints.gaps();
        self.report.missing = self.joints.missing();
        self.report
    }
}

impl EntryKey {
    /// A placeholder for a file with millisecond times.
    const NEVER: EntryKey = EntryKey {
        wall_us: 1_000,
        pid: 0,
        text: 0,
        start: 0,
    };
}
