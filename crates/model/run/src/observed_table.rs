//! Tables of a monitored server: written continuously, read as a stream.

use std::collections::HashSet;

use archive::{
    ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry, Parts, TableOptions,
    TableWriter,
};
use sql::{Fingerprint, StatementClass};

use crate::facts_table::{Row, optional_text, text};
use crate::observed::{
    Activity, Blocking, Counter, LockCount, ProbeNote, ProbeState, SampleWindow, SampledStatement,
    StatementStatistics,
};

use ColumnType::{Bool, F64, I64, Text, U64};

pub(crate) const NOTES: &str = "probes";
pub(crate) const SEEN: &str = "seen-statements";
pub(crate) const STATISTICS: &str = "statement-statistics";
pub(crate) const WINDOWS: &str = "sample-windows";
pub(crate) const ACTIVITY: &str = "activity";
pub(crate) const BLOCKING: &str = "blocking";
pub(crate) const LOCKS: &str = "locks";
pub(crate) const COUNTERS: &str = "counters";

/// Names of all tables. A recovery includes them.
pub(crate) const TABLES: [&str; 8] = [
    NOTES, SEEN, STATISTICS, WINDOWS, ACTIVITY, BLOCKING, LOCKS, COUNTERS,
];

/// Returns the columns of one of these tables.
pub(crate) fn columns_of(table: &str) -> Option<&'static [Column]> {
    match table {
        NOTES => Some(ProbeNote::COLUMNS),
        SEEN => Some(SampledStatement::COLUMNS),
        STATISTICS => Some(StatementStatistics::COLUMNS),
        WINDOWS => Some(SampleWindow::COLUMNS),
        ACTIVITY => Some(Activity::COLUMNS),
        BLOCKING => Some(Blocking::COLUMNS),
        LOCKS => Some(LockCount::COLUMNS),
        COUNTERS => Some(Counter::COLUMNS),
        _ => None,
    }
}

const OBSERVED: TableOptions = TableOptions {
    parts: Parts::Rows(1 << 22),
    group_rows: 1 << 16,
};

/// Maximum number of distinct statements whose texts are stored.
const SEEN_MAX: usize = 100_000;

/// Writes observations. It is independent of the writer of executions and can be moved to another thread.
/// Flushed rows survive a kill.
pub struct ObservedWriter {
    notes: TableWriter,
    seen: TableWriter,
    statistics: TableWriter,
    windows: TableWriter,
    activity: TableWriter,
    blocking: TableWriter,
    locks: TableWriter,
    counters: TableWriter,
    known: HashSet<Fingerprint>,
    left_out: u64,
}

impl ObservedWriter {
    pub(crate) fn create(archive: &ArchiveWriter) -> Result<Self, ArchiveError> {
        Ok(ObservedWriter {
            notes: archive.table(NOTES, ProbeNote::COLUMNS, OBSERVED)?,
            seen: archive.table(SEEN, SampledStatement::COLUMNS, OBSERVED)?,
            statistics: archive.table(STATISTICS, StatementStatistics::COLUMNS, OBSERVED)?,
            windows: archive.table(WINDOWS, SampleWindow::COLUMNS, OBSERVED)?,
            activity: archive.table(ACTIVITY, Activity::COLUMNS, OBSERVED)?,
            blocking: archive.table(BLOCKING, Blocking::COLUMNS, OBSERVED)?,
            locks: archive.table(LOCKS, LockCount::COLUMNS, OBSERVED)?,
            counters: archive.table(COUNTERS, Counter::COLUMNS, OBSERVED)?,
            known: HashSet::new(),
            left_out: 0,
        })
    }

    /// Writes a note of a probe.
    ///
    /// # Errors
    /// If writing fails, as with all methods of this type.
    pub fn note(&mut self, note: &ProbeNote) -> Result<(), ArchiveError> {
        put(&mut self.notes, note)
    }

    /// Whether a statement's text is stored already.
    pub fn has_statement(&self, fingerprint: Fingerprint) -> bool {
        self.known.contains(&fingerprint)
    }

    /// Writes a statement's text at its first appearance. Beyond a hundred thousand distinct ones it is left
    /// out and counted.
    ///
    /// # Errors
    /// If writing fails.
    pub fn seen(&mut self, statement: &SampledStatement) -> Result<(), ArchiveError> {
        if self.known.len() >= SEEN_MAX {
            self.left_out += u64::from(!self.known.contains(&statement.fingerprint));
            return Ok(());
        }
        match self.known.insert(statement.fingerprint) {
            true => put(&mut self.seen, statement),
            false => Ok(()),
        }
    }

    /// Returns how often a text was left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes the difference of a statement's statistics.
    ///
    /// # Errors
    /// If writing fails.
    pub fn statistics(&mut self, row: &StatementStatistics) -> Result<(), ArchiveError> {
        put(&mut self.statistics, row)
    }

    /// Writes a window with all its activity.
    ///
    /// # Errors
    /// If writing fails.
    pub fn window(
        &mut self,
        window: &SampleWindow,
        activity: &[Activity],
    ) -> Result<(), ArchiveError> {
        put(&mut self.windows, window)?;
        activity
            .iter()
            .try_for_each(|row| put(&mut self.activity, row))
    }

    /// Writes a lock wait.
    ///
    /// # Errors
    /// If writing fails.
    pub fn blocking(&mut self, row: &Blocking) -> Result<(), ArchiveError> {
        put(&mut self.blocking, row)
    }

    /// Writes a lock count.
    ///
    /// # Errors
    /// If writing fails.
    pub fn locks(&mut self, row: &LockCount) -> Result<(), ArchiveError> {
        put(&mut self.locks, row)
    }

    /// Writes a counter that changed.
    ///
    /// # Errors
    /// If writing fails.
    pub fn counter(&mut self, row: &Counter) -> Result<(), ArchiveError> {
        put(&mut self.counters, row)
    }

    /// Flushes the rows so far, so that they survive a kill of this process.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.tables().try_for_each(|table| table.flush().map(drop))
    }

    fn tables(&mut self) -> impl Iterator<Item = &mut TableWriter> {
        [
            &mut self.notes,
            &mut self.seen,
            &mut self.statistics,
            &mut self.windows,
            &mut self.activity,
            &mut self.blocking,
            &mut self.locks,
            &mut self.counters,
        ]
        .into_iter()
    }

    pub(crate) fn finish(self) -> Result<Vec<FileEntry>, ArchiveError> {
        let mut files = Vec::new();
        for table in [
            self.notes,
            self.seen,
            self.statistics,
            self.windows,
            self.activity,
            self.blocking,
            self.locks,
            self.counters,
        ] {
            files.extend(table.finish()?);
        }
        Ok(files)
    }
}

fn put<R: Row>(table: &mut TableWriter, row: &R) -> Result<(), ArchiveError> {
    row.write(table);
    table.end_row()
}

fn i64(batch: &Batch, column: usize, row: usize) -> i64 {
    batch.i64(column, row).unwrap_or_default()
}

fn u64(batch: &Batch, column: usize, row: usize) -> u64 {
    batch.u64(column, row).unwrap_or_default()
}

fn bool(batch: &Batch, column: usize, row: usize) -> bool {
    batch.bool(column, row).unwrap_or_default()
}

fn fingerprint(batch: &Batch, column: usize, row: usize) -> Option<Fingerprint> {
    batch.u64(column, row).map(Fingerprint)
}

impl Row for ProbeNote {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("probe", Text),
        Column::required("state", Text),
        Column::required("text", Text),
        Column::nullable("remedy", Text),
        Column::nullable("count", U64),
        Column::nullable("questions", U64),
        Column::nullable("asked_ns", U64),
        Column::nullable("failures", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.text(self.probe.as_str());
        table.text(self.state.name());
        table.text(self.text.as_str());
        table.text(self.remedy.as_deref());
        table.u64(self.count);
        table.u64(self.questions);
        table.u64(self.asked_ns);
        table.u64(self.failures);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let state = batch.text(2, row).unwrap_or_default();
        Ok(ProbeNote {
            at_ns: i64(batch, 0, row),
            probe: text(batch, 1, row),
            state: ProbeState::from_name(state)
                .ok_or_else(|| format!("a probe in unknown state '{state}'"))?,
            text: text(batch, 3, row),
            remedy: optional_text(batch, 4, row),
            count: batch.u64(5, row),
            questions: batch.u64(6, row),
            asked_ns: batch.u64(7, row),
            failures: batch.u64(8, row),
        })
    }
}

impl Row for SampledStatement {
    const COLUMNS: &'static [Column] = &[
        Column::required("fingerprint", U64).low_cardinality(),
        Column::required("class", Text),
        Column::required("sql", Text),
        Column::required("cut", Bool),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.fingerprint.0);
        table.text(self.class.name());
        table.text(self.sql.as_str());
        table.bool(self.is_truncated);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let class = batch.text(1, row).and_then(StatementClass::from_name);
        Ok(SampledStatement {
            fingerprint: Fingerprint(u64(batch, 0, row)),
            class: class.unwrap_or(StatementClass::Other),
            sql: text(batch, 2, row),
            is_truncated: bool(batch, 3, row),
        })
    }
}

impl Row for StatementStatistics {
    const COLUMNS: &'static [Column] = &[
        Column::required("from_ns", I64),
        Column::required("until_ns", I64),
        Column::nullable("fingerprint", U64).low_cardinality(),
        Column::nullable("query_id", I64).low_cardinality(),
        Column::nullable("database", Text),
        Column::nullable("user", Text),
        Column::nullable("top_level", Bool),
        Column::required("entries", U64),
        Column::required("anew", Bool),
        Column::required("calls", U64),
        Column::nullable("plans", U64),
        Column::nullable("plan_ns", U64),
        Column::required("exec_ns", U64),
        Column::required("rows", U64),
        Column::required("shared_hit", U64),
        Column::required("shared_read", U64),
        Column::required("shared_dirtied", U64),
        Column::required("shared_written", U64),
        Column::required("local_blocks", U64),
        Column::required("temp_read", U64),
        Column::required("temp_written", U64),
        Column::required("read_ns", U64),
        Column::required("write_ns", U64),
        Column::nullable("wal_records", U64),
        Column::nullable("wal_full_pages", U64),
        Column::nullable("wal_bytes", U64),
        Column::later("jit_functions", U64),
        Column::later("jit_ns", U64),
        Column::later("workers_planned", U64),
        Column::later("workers_launched", U64),
        Column::later("exec_square_us2", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.from_ns);
        table.i64(self.until_ns);
        table.u64(self.fingerprint.map(|one| one.0));
        table.i64(self.query_id);
        table.text(self.database.as_deref());
        table.text(self.user.as_deref());
        table.bool(self.top_level);
        table.u64(self.entries);
        table.bool(self.counts_from_zero);
        table.u64(self.calls);
        table.u64(self.plans);
        table.u64(self.plan_ns);
        for number in [
            self.exec_ns,
            self.rows,
            self.shared_hit,
            self.shared_read,
            self.shared_dirtied,
            self.shared_written,
            self.local_blocks,
            self.temp_read,
            self.temp_written,
            self.read_ns,
            self.write_ns,
        ] {
            table.u64(number);
        }
        table.u64(self.wal_records);
        table.u64(self.wal_full_pages);
        table.u64(self.wal_bytes);
        table.u64(self.jit_functions);
        table.u64(self.jit_ns);
        table.u64(self.workers_planned);
        table.u64(self.workers_launched);
        table.u64(self.exec_square_us2);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(StatementStatistics {
            from_ns: i64(batch, 0, row),
            until_ns: i64(batch, 1, row),
            fingerprint: fingerprint(batch, 2, row),
            query_id: batch.i64(3, row),
            database: optional_text(batch, 4, row),
            user: optional_text(batch, 5, row),
            top_level: batch.bool(6, row),
            entries: u64(batch, 7, row),
            counts_from_zero: bool(batch, 8, row),
            calls: u64(batch, 9, row),
            plans: batch.u64(10, row),
            plan_ns: batch.u64(11, row),
            exec_ns: u64(batch, 12, row),
            rows: u64(batch, 13, row),
            shared_hit: u64(batch, 14, row),
            shared_read: u64(batch, 15, row),
            shared_dirtied: u64(batch, 16, row),
            shared_written: u64(batch, 17, row),
            local_blocks: u64(batch, 18, row),
            temp_read: u64(batch, 19, row),
            temp_written: u64(batch, 20, row),
            read_ns: u64(batch, 21, row),
            write_ns: u64(batch, 22, row),
            wal_records: batch.u64(23, row),
            wal_full_pages: batch.u64(24, row),
            wal_bytes: batch.u64(25, row),
            jit_functions: batch.u64(26, row),
            jit_ns: batch.u64(27, row),
            workers_planned: batch.u64(28, row),
            workers_launched: batch.u64(29, row),
            exec_square_us2: batch.u64(30, row),
        })
    }
}

impl Row for SampleWindow {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("until_ns", I64),
        Column::required("samples", U64),
        Column::required("missed", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.i64(self.until_ns);
        table.u64(self.samples);
        table.u64(self.missed);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(SampleWindow {
            at_ns: i64(batch, 0, row),
            until_ns: i64(batch, 1, row),
            samples: u64(batch, 2, row),
            missed: u64(batch, 3, row),
        })
    }
}

impl Row for Activity {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::nullable("fingerprint", U64).low_cardinality(),
        Column::nullable("query_id", I64).low_cardinality(),
        Column::nullable("database", Text),
        Column::required("backend", Text),
        Column::required("state", Text),
        Column::nullable("wait_type", Text),
        Column::nullable("wait", Text),
        Column::required("count", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.u64(self.fingerprint.map(|one| one.0));
        table.i64(self.query_id);
        table.text(self.database.as_deref());
        table.text(self.backend.as_str());
        table.text(self.state.as_str());
        table.text(self.wait_type.as_deref());
        table.text(self.wait.as_deref());
        table.u64(self.count);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(Activity {
            at_ns: i64(batch, 0, row),
            fingerprint: fingerprint(batch, 1, row),
            query_id: batch.i64(2, row),
            database: optional_text(batch, 3, row),
            backend: text(batch, 4, row),
            state: text(batch, 5, row),
            wait_type: optional_text(batch, 6, row),
            wait: optional_text(batch, 7, row),
            count: u64(batch, 8, row),
        })
    }
}

impl Row for Blocking {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::nullable("blocked", U64).low_cardinality(),
        Column::nullable("blocker", U64).low_cardinality(),
        Column::required("blocker_state", Text),
        Column::required("wait", Text),
        Column::required("count", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.u64(self.blocked.map(|one| one.0));
        table.u64(self.blocker.map(|one| one.0));
        table.text(self.blocker_state.as_str());
        table.text(self.wait.as_str());
        table.u64(self.count);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(Blocking {
            at_ns: i64(batch, 0, row),
            blocked: fingerprint(batch, 1, row),
            blocker: fingerprint(batch, 2, row),
            blocker_state: text(batch, 3, row),
            wait: text(batch, 4, row),
            count: u64(batch, 5, row),
        })
    }
}

impl Row for LockCount {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("kind", Text),
        Column::required("mode", Text),
        Column::required("fast_path", Bool),
        Column::required("granted", Bool),
        Column::required("locks", U64),
        Column::required("backends", U64),
        Column::required("most", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.text(self.kind.as_str());
        table.text(self.mode.as_str());
        table.bool(self.fast_path);
        table.bool(self.granted);
        table.u64(self.locks);
        table.u64(self.backends);
        table.u64(self.most);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(LockCount {
            at_ns: i64(batch, 0, row),
            kind: text(batch, 1, row),
            mode: text(batch, 2, row),
            fast_path: bool(batch, 3, row),
            granted: bool(batch, 4, row),
            locks: u64(batch, 5, row),
            backends: u64(batch, 6, row),
            most: u64(batch, 7, row),
        })
    }
}

impl Row for Counter {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("source", Text),
        Column::required("object", Text),
        Column::required("name", Text),
        Column::required("value", F64),
        Column::required("gauge", Bool),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.text(self.source.as_str());
        table.text(self.object.as_str());
        table.text(self.name.as_str());
        table.f64(self.value);
        table.bool(self.gauge);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(Counter {
            at_ns: i64(batch, 0, row),
            source: text(batch, 1, row),
            object: text(batch, 2, row),
            name: text(batch, 3, row),
            value: batch.f64(4, row).unwrap_or_default(),
            gauge: bool(batch, 5, row),
        })
    }
}
