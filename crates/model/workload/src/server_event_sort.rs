//! Sorts server events by time, in bounded memory.
//!
//! A log is written in time order, and files are read in the order of their first times, so events arrive
//! nearly sorted. They pass through a heap in memory; the earliest event leaves it first, into a run on disk.
//! An event that is earlier than the last one written waits for the next run (replacement selection: Knuth,
//! TAOCP 3, 5.4.1). An ordered log makes one run of any length. At the end the runs are merged. Only then is
//! the workload's start known, from which times are counted.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use archive::{ArchiveError, ArchiveWriter, FileEntry, Parts, TableOptions, TableWriter};

use crate::server_event::{SERVER_EVENT, ServerEvent, read_server_event, write_server_event};
use crate::statements::StatementWriter;

/// Maximum bytes of events in memory.
const WINDOW_BYTES_MAX: usize = 4 << 20;
/// Maximum number of runs; more are merged into one. Each open run holds a batch in memory.
const RUNS_MAX: usize = 16;

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};
/// Options of a run's files. Runs are files of one table with distinct numbers.
const RUN: TableOptions = TableOptions {
    parts: Parts::Rows(u64::MAX),
    group_rows: 1 << 16,
};

#[derive(Debug)]
struct WindowItem {
    event: ServerEvent,
    /// Order of arrival, which orders events of equal times.
    arrived: u64,
}

impl WindowItem {
    fn key(&self) -> (i64, u64) {
        (self.event.at_us, self.arrived)
    }
}

impl PartialEq for WindowItem {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for WindowItem {}
impl PartialOrd for WindowItem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for WindowItem {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Sorts server events into one table. Times are wall time until [`ServerEventSorter::finish`].
pub(crate) struct ServerEventSorter {
    window_bytes_max: usize,
    window_bytes: usize,
    /// Events in memory, ordered by the run that they belong to, then by time.
    window: BinaryHeap<Reverse<(u32, WindowItem)>>,
    /// The run that is being written, its number, and the last time in it.
    writing: Option<(u32, TableWriter, i64)>,
    runs: Vec<Vec<FileEntry>>,
    files_made: u32,
    arrived: u64,
    span_us: Option<(i64, i64)>,
}

impl Default for ServerEventSorter {
    fn default() -> Self {
        Self::with_window(WINDOW_BYTES_MAX)
    }
}

impl ServerEventSorter {
    /// Creates a sorter that holds about this many bytes of events in memory.
    pub(crate) fn with_window(window_bytes_max: usize) -> Self {
        ServerEventSorter {
            window_bytes_max,
            window_bytes: 0,
            window: BinaryHeap::new(),
            writing: None,
            runs: Vec::new(),
            files_made: 0,
            arrived: 0,
            span_us: None,
        }
    }

    /// Returns the wall times of the first and the last event.
    pub(crate) fn span_us(&self) -> Option<(i64, i64)> {
        self.span_us
    }

    pub(crate) fn push(
        &mut self,
        archive: &ArchiveWriter,
        event: ServerEvent,
    ) -> Result<(), ArchiveError> {
        let run = match &self.writing {
            None => 0,
            Some((run, _, last_us)) => run + u32::from(event.at_us < *last_us),
        };
        let at_us = event.at_us;
        let (from_us, to_us) = self.span_us.unwrap_or((at_us, at_us));
        self.span_us = Some((from_us.min(at_us), to_us.max(at_us)));
        self.window_bytes += event.memory_bytes();
        let item = WindowItem {
            event,
            arrived: self.arrived,
        };
        self.arrived += 1;
        self.window.push(Reverse((run, item)));
        while self.window_bytes > self.window_bytes_max {
            self.write_earliest(archive)?;
        }
        Ok(())
    }

    /// Writes the earliest event of the window to its run.
    fn write_earliest(&mut self, archive: &ArchiveWriter) -> Result<(), ArchiveError> {
        let Some(Reverse((run, item))) = self.window.pop() else {
            return Ok(());
        };
        self.window_bytes -= item.event.memory_bytes();
        if self.writing.as_ref().is_some_and(|(old, ..)| *old != run) {
            self.end_run(archive)?;
        }
        if self.writing.is_none() {
            let table = self.run_table(archive)?;
            self.writing = Some((run, table, i64::MIN));
        }
        let (_, table, last_us) = self.writing.as_mut().expect("just made");
        *last_us = item.event.at_us;
        write_server_event(table, &item.event, item.event.at_us, None)
    }

    fn run_table(&self, archive: &ArchiveWriter) -> Result<TableWriter, ArchiveError> {
        let table = archive.table("server-run", SERVER_EVENT, RUN)?;
        Ok(table.number_parts_from(self.files_made))
    }

    fn end_run(&mut self, archive: &ArchiveWriter) -> Result<(), ArchiveError> {
        let Some((_, table, _)) = self.writing.take() else {
            return Ok(());
        };
        self.add_run(table.finish()?);
        if self.runs.len() > RUNS_MAX {
            let old = std::mem::take(&mut self.runs);
            let mut merged = self.run_table(archive)?;
            merge(archive, &old, Vec::new(), |event| {
                write_server_event(&mut merged, event, event.at_us, None)
            })?;
            self.add_run(merged.finish()?);
            for file in old.iter().flatten() {
                let path = archive.directory().join(&file.name);
                std::fs::remove_file(&path)
                    .map_err(|error| ArchiveError::io("remove", &path, error))?;
            }
        }
        Ok(())
    }

    fn add_run(&mut self, files: Vec<FileEntry>) {
        self.files_made += files.len() as u32;
        self.runs.push(files);
    }

    /// Ends the sorting and returns the table's files, in which each event has its statement's fingerprint.
    /// Files of runs stay in the directory. The archive removes files that are not in its manifest.
    pub(crate) fn finish(
        mut self,
        archive: &ArchiveWriter,
        start_wall_us: i64,
        statements: &mut StatementWriter,
    ) -> Result<Vec<FileEntry>, ArchiveError> {
        let mut in_memory = Vec::new();
        if self.writing.is_none() {
            // No run was written: the common case.
            in_memory = std::mem::take(&mut self.window)
                .into_iter()
                .map(|Reverse((_, item))| item)
                .collect();
            in_memory.sort_unstable();
        }
        while !self.window.is_empty() {
            self.write_earliest(archive)?;
        }
        self.end_run(archive)?;
        let mut table = archive.table("server-events", SERVER_EVENT, ONE_FILE)?;
        merge(archive, &self.runs, in_memory, |event| {
            let fingerprint = event
                .sql
                .as_deref()
                .map(|sql| statements.mentioned_fingerprint(sql));
            let at_us = event.at_us - start_wall_us;
            write_server_event(&mut table, event, at_us, fingerprint.transpose()?)
        })?;
        table.finish()
    }
}

/// Passes all events on in order. Of equal times, those of earlier runs come first.
fn merge(
    archive: &ArchiveWriter,
    runs: &[Vec<FileEntry>],
    in_memory: Vec<WindowItem>,
    mut take: impl FnMut(&ServerEvent) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    for item in &in_memory {
        take(&item.event)?;
    }
    let mut rows = Vec::new();
    for files in runs {
        let table = archive.read(files, SERVER_EVENT)?;
        rows.push(table.rows(|batch, row| Ok(read_server_event(batch, row))));
    }
    let mut heads: BinaryHeap<Reverse<WindowItem>> = BinaryHeap::new();
    let mut next = |index: usize| -> Result<Option<WindowItem>, ArchiveError> {
        let row = rows[index].next().transpose()?;
        Ok(row.map(|(event, _)| WindowItem {
            event,
            arrived: index as u64,
        }))
    };
    for index in 0..runs.len() {
        heads.extend(next(index)?.map(Reverse));
    }
    while let Some(Reverse(item)) = heads.pop() {
        take(&item.event)?;
        heads.extend(next(item.arrived as usize)?.map(Reverse));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use archive::OnFailure;
    use proptest::prelude::*;

    use archive::TableReader;

    use super::*;
    use crate::contexts::{ContextText, ContextWriter};
    use crate::table::StatementText;

    fn sorted(times: &[i64], window_bytes_max: usize) -> Vec<(i64, u64)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.workload");
        let archive = ArchiveWriter::create(&path, "test", 1, OnFailure::Remove).unwrap();
        let mut order = ServerEventSorter::with_window(window_bytes_max);
        for (line, at_us) in times.iter().enumerate() {
            let event = ServerEvent {
                at_us: *at_us,
                line: line as u64,
                ..ServerEvent::default()
            };
            order.push(&archive, event).unwrap();
        }
        let table = archive
            .table("statements", StatementText::COLUMNS, ONE_FILE)
            .unwrap();
        let contexts = archive.table(ContextText::TABLE, ContextText::COLUMNS, ONE_FILE);
        let contexts = ContextWriter::new(contexts.unwrap());
        let mut statements = StatementWriter::new(table, contexts);
        let files = order.finish(&archive, 1_000, &mut statements).unwrap();
        statements.finish().unwrap();
        let paths = files
            .iter()
            .map(|file| archive.directory().join(&file.name))
            .collect();
        TableReader::open(paths, SERVER_EVENT)
            .unwrap()
            .rows(|batch, row| Ok(read_server_event(batch, row).0))
            .map(|event| event.map(|event| (event.at_us, event.line)).unwrap())
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_order_becomes_that_of_time(
            times in prop::collection::vec(0i64..100, 0..120),
            window in 0usize..4_000,
        ) {
            let found = sorted(&times, window);
            let mut expected: Vec<(i64, u64)> = (0u64..).zip(&times)
                .map(|(line, at_us)| (at_us - 1_000, line)).collect();
            expected.sort_unstable();
            let times_of = |of: &[(i64, u64)]| -> Vec<i64> { of.iter().map(|one| one.0).collect() };
            prop_assert_eq!(times_of(&found), times_of(&expected));
            let mut lines: Vec<u64> = found.iter().map(|one| one.1).collect();
            lines.sort_unstable();
            prop_assert!(lines.into_iter().eq(0..times.len() as u64));
        }
    }

    #[test]
    fn a_log_that_runs_backwards_makes_more_runs_than_are_opened_at_once() {
        let times: Vec<i64> = (0..(RUNS_MAX as i64 * 3)).rev().collect();
        let found = sorted(&times, 0);
        assert!(
            found
                .iter()
                .map(|one| one.0 + 1_000)
                .eq(0..times.len() as i64)
        );
    }
}
