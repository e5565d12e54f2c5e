//! Sorts events by time, in bounded memory.
//!
//! A log that is written when statements end shows a two-hour statement two hours after its start. Nearly all
//! others are only slightly out of order. So events pass through a window in memory, and the earliest leave
//! it first, into the *main* parts. An event that comes too late for the window goes to *late* runs, each
//! sorted. At the end late events are merged into the main parts that they belong to, and only these parts
//! are rewritten.
//!
//! ```text
//! pushed ──► window (a heap, bounded) ──► main parts, in order ──┐
//!     └─ earlier than what has left ──► late runs, each in order ┴─ merge ──► events-*.parquet
//! ```

mod window;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use archive::{ArchiveError, FileEntry, Parts, TableOptions, TableReader};

use crate::event::{Event, EventKind};
use crate::event_batch::{EventBatch, Key};
use crate::statements::StatementWriter;
use crate::table::{EVENT, EventIds, EventRows, EventTable, event_columns};
use window::Window;

/// Maximum rows of a part: the unit that is rewritten when a late event belongs into it.
pub(crate) const PART_ROWS_MAX: u64 = 1 << 20;
/// Maximum rows of a row group. A reader decodes a fraction of it at a time.
const GROUP_ROWS_MAX: usize = 1 << 17;
/// Number of runs of one level that are merged into one of the next. Each open run holds a batch in memory,
/// and each event is rewritten only a few times.
const LATE_RUNS_MAX: usize = 16;

/// Name in the unfinished manifest that states that all parts with late events are merged.
pub(crate) const MERGED: &str = "merged";
/// Table of the merged parts, until they are renamed.
pub(crate) const MERGED_TABLE: &str = "merged";

const LAYOUT: TableOptions = TableOptions {
    parts: Parts::Rows(PART_ROWS_MAX),
    group_rows: GROUP_ROWS_MAX,
};

/// An event with its identities, ordered by due time, session, sequence.
#[derive(Debug)]
pub(crate) struct SortItem {
    pub(crate) event: Event,
    pub(crate) ids: EventIds,
}

impl SortItem {
    fn key(&self) -> Key {
        (self.event.due_us, self.event.session, self.event.sequence)
    }

    /// Estimates the memory of the event. A shared text is counted with each event, which errs on the high
    /// side.
    fn bytes(&self) -> usize {
        let texts = match &self.event.kind {
            EventKind::Execute {
                sql, parameters, ..
            } => {
                let values: usize = parameters
                    .iter()
                    .map(|value| {
                        16 + value
                            .as_ref()
                            .map_or(0, |value| value.as_bytes().len() + 16)
                    })
                    .sum();
                sql.len() + values
            }
            kind => kind.sql().map_or(0, |sql| sql.len() + 16),
        };
        let particulars = self.event.wire_details.as_ref();
        size_of::<SortItem>() + texts + particulars.map_or(0, |particulars| particulars.bytes())
    }
}

impl PartialEq for SortItem {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for SortItem {}
impl PartialOrd for SortItem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for SortItem {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Sorts events into the parts of one table. Times are wall time until [`EventSorter::finish`].
pub(crate) struct EventSorter {
    directory: PathBuf,
    memory_bytes: usize,
    window: Window,
    main: Option<EventTable>,
    /// Base of the times in the main parts; known when the first event leaves the window.
    base_us: Option<i64>,
    /// Notes for a recovery, apart from the base of the times.
    noted: serde_json::Map<String, serde_json::Value>,
    /// First and last due time of each main part.
    spans: Vec<(i64, i64)>,
    rows_in_part: u64,
    /// Events have left the window since the last checkpoint.
    is_unflushed: bool,
    last_left: Option<Key>,
    earliest_late_us: Option<i64>,
    late: Vec<SortItem>,
    late_bytes: usize,
    late_runs: Vec<Run>,
    late_runs_made: u32,
    last_due_us: i64,
    /// Whether an event has wire details. Files need columns for them.
    from_wire: bool,
    /// Main parts without such columns, written before the first event with wire details.
    narrow: Vec<FileEntry>,
}

/// A sorted run of events that came too late for the window.
struct Run {
    /// 0 for a run written from memory; otherwise one more than the level of the runs merged into it.
    level: u32,
    files: Vec<FileEntry>,
}

/// The sorted table.
pub(crate) struct SortedTable {
    pub(crate) files: Vec<FileEntry>,
    /// Wall time of the earliest event, which is subtracted from all times.
    pub(crate) start_wall_us: i64,
    /// Time of the last event, in microseconds from the start.
    pub(crate) span_us: i64,
}

impl EventSorter {
    /// Creates a sorter in `directory`, with about `memory_bytes` of events in memory.
    pub(crate) fn new(directory: &Path, memory_bytes: usize) -> Self {
        EventSorter {
            directory: directory.to_owned(),
            memory_bytes,
            window: Window::default(),
            main: None,
            base_us: None,
            noted: serde_json::Map::new(),
            spans: Vec::new(),
            rows_in_part: 0,
            is_unflushed: false,
            last_left: None,
            earliest_late_us: None,
            late: Vec::new(),
            late_bytes: 0,
            late_runs: Vec::new(),
            late_runs_made: 0,
            last_due_us: i64::MIN,
            from_wire: false,
            narrow: Vec::new(),
        }
    }

    /// Sets what is noted for a recovery with the base of the times. To be called before the first event.
    pub(crate) fn note(&mut self, name: &str, value: serde_json::Value) {
        self.noted.insert(name.to_owned(), value);
    }

    /// Sets the base of the times in the main parts, unless it is set. A recovery cannot read these parts without it, so it
    /// is noted before the first of them has an event on disk.
    fn set_base(
        &mut self,
        archive: &archive::ArchiveWriter,
        due_us: i64,
    ) -> Result<(), ArchiveError> {
        if self.base_us.is_some() {
            return Ok(());
        }
        let mut noted = self.noted.clone();
        noted.insert("start_wall_us".to_owned(), due_us.into());
        archive.note(serde_json::Value::Object(noted))?;
        self.base_us = Some(due_us);
        Ok(())
    }

    /// Takes a batch of events. Returns batches that can be reused.
    pub(crate) fn push(
        &mut self,
        archive: &archive::ArchiveWriter,
        statements: &mut StatementWriter,
        events: EventBatch,
    ) -> Result<Vec<EventBatch>, ArchiveError> {
        if events.is_from_wire() && !self.from_wire {
            self.from_wire = true;
            self.end_narrow_parts()?;
        }
        for index in 0..events.len() {
            let key = events.key(index);
            self.last_due_us = self.last_due_us.max(key.0);
            if self.last_left.is_some_and(|last| key < last) {
                let event = events.get(index);
                let ids = statements.event_ids(&event)?;
                self.add_late(archive, event.to_event(), ids)?;
            } else {
                self.window.note(key, index);
            }
        }
        self.window.add(events);
        while self.window.bytes() > self.memory_bytes / 4 * 3 && self.window.len() > 0 {
            // A fraction of the window, so that the sender does not wait long.
            let count = self.window.len().div_ceil(8);
            self.window.sort();
            // Reduces how often a kill splits events of the same time; a full row group can still do so.
            let (last_us, ..) = self.window.get(count - 1).0;
            let count = self.window.count_due_by(last_us);
            self.write_earliest(archive, statements, count)?;
        }
        Ok(self.window.take_free())
    }

    /// Ends the part that has no columns for wire details. It is not rewritten now.
    fn end_narrow_parts(&mut self) -> Result<(), ArchiveError> {
        if let Some(main) = self.main.take() {
            self.narrow = main.finish()?;
            self.rows_in_part = 0;
        }
        Ok(())
    }

    fn add_late(
        &mut self,
        archive: &archive::ArchiveWriter,
        event: Event,
        ids: EventIds,
    ) -> Result<(), ArchiveError> {
        let item = SortItem { event, ids };
        let due_us = item.event.due_us;
        self.earliest_late_us = Some(
            self.earliest_late_us
                .map_or(due_us, |known| known.min(due_us)),
        );
        self.late_bytes += item.bytes();
        self.late.push(item);
        // A quarter of the memory: late events are few, and the window needs the rest.
        if self.late_bytes > self.memory_bytes / 4 {
            self.spill_late(archive)?;
        }
        Ok(())
    }

    /// Writes the earliest events of the window.
    fn write_earliest(
        &mut self,
        archive: &archive::ArchiveWriter,
        statements: &mut StatementWriter,
        count: usize,
    ) -> Result<(), ArchiveError> {
        self.window.sort();
        if count > 0 {
            self.set_base(archive, self.window.get(0).0.0)?;
        }
        if self.main.is_none() && count > 0 {
            let table = archive.table("events", event_columns(self.from_wire), LAYOUT)?;
            let table = table.number_parts_from(self.narrow.len() as u32);
            self.main = Some(EventTable::new(table.encode_in_thread()?));
        }
        self.is_unflushed |= count > 0;
        for at in 0..count {
            let (key, event) = self.window.get(at);
            // The identities are computed here, since the text is in the cache.
            let ids = statements.event_ids(&event)?;
            let due_us = key.0;
            let base_us = self.base_us.expect("just set");
            if self.rows_in_part == 0 {
                self.spans.push((due_us, due_us));
            }
            self.spans.last_mut().expect("just begun").1 = due_us;
            self.rows_in_part = (self.rows_in_part + 1) % PART_ROWS_MAX;
            let main = self.main.as_mut().expect("just made");
            main.write(&event, due_us - base_us, ids)?;
            self.last_left = Some(key);
        }
        self.window.remove_first(count);
        Ok(())
    }

    /// Writes the late events as a run. Late runs keep wall time.
    fn spill_late(&mut self, archive: &archive::ArchiveWriter) -> Result<(), ArchiveError> {
        self.late.sort_unstable();
        let mut run = self.late_run(archive)?;
        for item in self.late.drain(..) {
            run.write(&item.event.borrowed(), item.event.due_us, item.ids)?;
        }
        self.late_bytes = 0;
        self.finish_run(run, 0)?;
        self.merge_runs(archive)
    }

    /// Merges the runs of the last level while there are too many of them.
    fn merge_runs(&mut self, archive: &archive::ArchiveWriter) -> Result<(), ArchiveError> {
        while let Some(level) = self.late_runs.last().map(|run| run.level) {
            let of_level = self.late_runs.iter().rev();
            let count = of_level.take_while(|run| run.level == level).count();
            if count <= LATE_RUNS_MAX {
                break;
            }
            let mut merged = self.late_run(archive)?;
            let old = self.late_runs.split_off(self.late_runs.len() - count);
            let mut items = RunMerge::open(archive, &old)?;
            while let Some(item) = items.next()? {
                merged.write(&item.event.borrowed(), item.event.due_us, item.ids)?;
            }
            self.finish_run(merged, level + 1)?;
            for file in old.iter().flat_map(|run| &run.files) {
                self.remove(file)?;
            }
        }
        Ok(())
    }

    /// Writes all events that are due by `up_to_us`, so that they survive a kill of this process. The late ones are first:
    /// a part that has a later event must have them.
    pub(crate) fn checkpoint(
        &mut self,
        archive: &archive::ArchiveWriter,
        statements: &mut StatementWriter,
        up_to_us: i64,
    ) -> Result<(), ArchiveError> {
        if !self.late.is_empty() {
            self.spill_late(archive)?;
        }
        self.window.sort();
        let count = self.window.count_due_by(up_to_us);
        self.write_earliest(archive, statements, count)?;
        if std::mem::take(&mut self.is_unflushed)
            && let Some(main) = &mut self.main
        {
            // The next event begins another part.
            if main.flush()? {
                self.rows_in_part = 0;
            }
        }
        Ok(())
    }

    fn late_run(&self, archive: &archive::ArchiveWriter) -> Result<EventTable, ArchiveError> {
        let table = archive.table("late", event_columns(self.from_wire), LAYOUT)?;
        Ok(EventTable::new(
            table.number_parts_from(self.late_runs_made),
        ))
    }

    fn finish_run(&mut self, run: EventTable, level: u32) -> Result<(), ArchiveError> {
        let files = run.finish()?;
        self.late_runs_made += files.len() as u32;
        self.late_runs.push(Run { level, files });
        Ok(())
    }

    fn remove(&self, file: &FileEntry) -> Result<(), ArchiveError> {
        let path = self.directory.join(&file.name);
        std::fs::remove_file(&path).map_err(|error| ArchiveError::io("remove", &path, error))
    }

    /// Ends the sorting: empties the window and merges the late events.
    pub(crate) fn finish(
        mut self,
        archive: &archive::ArchiveWriter,
        statements: &mut StatementWriter,
    ) -> Result<SortedTable, ArchiveError> {
        self.write_earliest(archive, statements, self.window.len())?;
        if !self.late.is_empty() {
            // A recovery needs them if the merge is interrupted.
            self.spill_late(archive)?;
        }
        let mut main = std::mem::take(&mut self.narrow);
        match self.main.take() {
            Some(table) => main.extend(table.finish()?),
            None if main.is_empty() => {
                let columns = event_columns(self.from_wire);
                main = archive.table("events", columns, LAYOUT)?.finish()?;
            }
            None => {}
        }
        let base_us = self.base_us.unwrap_or(0);
        let start_wall_us = self
            .earliest_late_us
            .map_or(base_us, |late| late.min(base_us));
        let files = if self.earliest_late_us.is_none() {
            main
        } else {
            self.merge_late(archive, main, base_us, start_wall_us)?
        };
        let span_us = if self.last_due_us == i64::MIN {
            0
        } else {
            self.last_due_us - start_wall_us
        };
        Ok(SortedTable {
            files,
            start_wall_us,
            span_us,
        })
    }

    fn merge_late(
        &mut self,
        archive: &archive::ArchiveWriter,
        main: Vec<FileEntry>,
        base_us: i64,
        start_us: i64,
    ) -> Result<Vec<FileEntry>, ArchiveError> {
        let mut late = RunMerge::open(archive, &self.late_runs)?;
        let mut files: Vec<FileEntry> = Vec::new();
        let mut merged_parts = 0;
        // The late runs stay until all is merged. A recovery reads them if the merge is interrupted.
        let mut replaced: Vec<&FileEntry> = Vec::new();
        for (index, part) in main.iter().enumerate() {
            let (_, last_us) = self.spans[index];
            // A late event belongs before the end of the part if it is due by then. A later one belongs into
            // the next part. None is later than the last part's end.
            let concerned = late.peek_us().is_some_and(|due_us| due_us <= last_us);
            if !concerned && start_us == base_us {
                files.push(part.clone());
                continue;
            }
            let table = archive.table(MERGED_TABLE, event_columns(self.from_wire), LAYOUT)?;
            let mut table = EventTable::new(table.number_parts_from(merged_parts));
            let mut rows = RunReader::open(archive, std::slice::from_ref(part))?;
            while let Some(mut item) = rows.next()? {
                item.event.due_us += base_us;
                while late.peek_key().is_some_and(|key| key < item.key()) {
                    let earlier = late.next()?.expect("just seen");
                    table.write(
                        &earlier.event.borrowed(),
                        earlier.event.due_us - start_us,
                        earlier.ids,
                    )?;
                }
                table.write(
                    &item.event.borrowed(),
                    item.event.due_us - start_us,
                    item.ids,
                )?;
            }
            let written = table.finish()?;
            merged_parts += written.len() as u32;
            files.extend(written);
            replaced.push(part);
        }
        debug_assert!(late.next()?.is_none(), "nothing late is later than all");
        // From now on, a recovery reads the merged parts, whose times have this base.
        let mut noted = self.noted.clone();
        noted.insert("start_wall_us".to_owned(), start_us.into());
        noted.insert(MERGED.to_owned(), true.into());
        archive.note(serde_json::Value::Object(noted))?;
        for part in replaced {
            self.remove(part)?;
        }
        for run in std::mem::take(&mut self.late_runs) {
            for file in &run.files {
                self.remove(file)?;
            }
        }
        self.rename_in_order(files)
    }

    /// Names the files so that the order of their names is the time order.
    fn rename_in_order(&self, files: Vec<FileEntry>) -> Result<Vec<FileEntry>, ArchiveError> {
        let rename = |from: &str, to: &str| {
            std::fs::rename(self.directory.join(from), self.directory.join(to))
                .map_err(|error| ArchiveError::io("rename", &self.directory.join(from), error))
        };
        let mut named = Vec::with_capacity(files.len());
        // From the last to the first, since kept parts only move to higher numbers.
        for (index, file) in files.into_iter().enumerate().rev() {
            // Keeps the extension of encrypted files.
            let (_, ending) = file.name.split_once('.').expect("a table's file");
            let name = format!("events-{index:05}.{ending}");
            if file.name != name {
                rename(&file.name, &name)?;
            }
            named.push(FileEntry {
                name,
                table: "events".to_owned(),
                ..file
            });
        }
        named.reverse();
        Ok(named)
    }
}

/// Reads the events of several files, one after the other.
struct RunReader {
    table: TableReader,
    rows: EventRows,
    ready: std::vec::IntoIter<SortItem>,
    path: PathBuf,
}

impl RunReader {
    fn open(archive: &archive::ArchiveWriter, files: &[FileEntry]) -> Result<Self, ArchiveError> {
        Ok(RunReader {
            table: archive.read(files, EVENT)?,
            rows: EventRows::default(),
            ready: Vec::new().into_iter(),
            path: archive.directory().to_owned(),
        })
    }

    fn next(&mut self) -> Result<Option<SortItem>, ArchiveError> {
        loop {
            if let Some(item) = self.ready.next() {
                return Ok(Some(item));
            }
            let Some(batch) = self.table.next_batch()? else {
                return Ok(None);
            };
            let mut items = Vec::with_capacity(batch.rows());
            for row in 0..batch.rows() {
                let (event, ids) =
                    self.rows
                        .read(&batch, row)
                        .map_err(|reason| ArchiveError::Damaged {
                            path: self.path.clone(),
                            reason,
                        })?;
                items.push(SortItem { event, ids });
            }
            self.ready = items.into_iter();
        }
    }
}

/// Merges sorted runs.
struct RunMerge {
    runs: Vec<RunReader>,
    /// Next item of each run, with the run's index.
    heads: BinaryHeap<Reverse<(SortItem, usize)>>,
}

impl RunMerge {
    fn open(archive: &archive::ArchiveWriter, runs: &[Run]) -> Result<Self, ArchiveError> {
        let mut merge = RunMerge {
            runs: runs
                .iter()
                .map(|run| RunReader::open(archive, &run.files))
                .collect::<Result<_, _>>()?,
            heads: BinaryHeap::new(),
        };
        for index in 0..merge.runs.len() {
            merge.refill(index)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, index: usize) -> Result<(), ArchiveError> {
        if let Some(item) = self.runs[index].next()? {
            self.heads.push(Reverse((item, index)));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<SortItem>, ArchiveError> {
        let Some(Reverse((item, index))) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(index)?;
        Ok(Some(item))
    }

    fn peek_key(&self) -> Option<Key> {
        self.heads.peek().map(|Reverse((item, _))| item.key())
    }

    fn peek_us(&self) -> Option<i64> {
        self.peek_key().map(|(due_us, _, _)| due_us)
    }
}
