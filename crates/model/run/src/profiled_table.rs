//! Tables of a CPU profile: samples are written as they come, the other rows at the end.

use archive::{
    Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry, Parts,
    TableOptions, TableWriter,
};
use sql::Fingerprint;
use workload::StatementText;

use crate::facts_table::{Row, has, optional_text, text, texts, write_texts};
use crate::profiled::{
    ProfileInfo, ProfiledBackend, SessionBackend, Stack, StackSample, StatementSpan,
};

use ColumnType::{Bool, I64, Text, TextList, U64};

const PROFILE: &str = "profile";
const STACKS: &str = "stacks";
const SAMPLES: &str = "stack-samples";
const BACKENDS: &str = "profiled-backends";
const SESSIONS: &str = "session-backends";
const SPANS: &str = "statement-spans";
const STATEMENTS: &str = "profiled-statements";

/// Names of all tables. A recovery includes them.
pub(crate) const TABLES: [&str; 7] = [
    PROFILE, STACKS, SAMPLES, BACKENDS, SESSIONS, SPANS, STATEMENTS,
];

/// Returns the columns of one of these tables.
pub(crate) fn columns_of(table: &str) -> Option<&'static [Column]> {
    match table {
        PROFILE => Some(ProfileInfo::COLUMNS),
        STACKS => Some(Stack::COLUMNS),
        SAMPLES => Some(StackSample::COLUMNS),
        BACKENDS => Some(ProfiledBackend::COLUMNS),
        SESSIONS => Some(SessionBackend::COLUMNS),
        SPANS => Some(StatementSpan::COLUMNS),
        STATEMENTS => Some(StatementText::COLUMNS),
        _ => None,
    }
}

const OPTIONS: TableOptions = TableOptions {
    parts: Parts::Rows(1 << 24),
    group_rows: 1 << 16,
};

/// Writes a profile. It is independent of the writer of executions and can be moved to another thread.
pub struct ProfileWriter {
    samples: TableWriter,
    stacks: TableWriter,
    backends: TableWriter,
    sessions: TableWriter,
    spans: TableWriter,
    statements: TableWriter,
    profile: TableWriter,
}

impl ProfileWriter {
    pub(crate) fn create(archive: &ArchiveWriter) -> Result<Self, ArchiveError> {
        Ok(ProfileWriter {
            samples: archive.table(SAMPLES, StackSample::COLUMNS, OPTIONS)?,
            stacks: archive.table(STACKS, Stack::COLUMNS, OPTIONS)?,
            backends: archive.table(BACKENDS, ProfiledBackend::COLUMNS, OPTIONS)?,
            sessions: archive.table(SESSIONS, SessionBackend::COLUMNS, OPTIONS)?,
            spans: archive.table(SPANS, StatementSpan::COLUMNS, OPTIONS)?,
            statements: archive.table(STATEMENTS, StatementText::COLUMNS, OPTIONS)?,
            profile: archive.table(PROFILE, ProfileInfo::COLUMNS, OPTIONS)?,
        })
    }

    /// Writes a sample. Samples come in time order.
    ///
    /// # Errors
    /// If writing fails, as with all methods of this type.
    pub fn sample(&mut self, sample: &StackSample) -> Result<(), ArchiveError> {
        put(&mut self.samples, sample)
    }

    /// Writes a stack, once each.
    ///
    /// # Errors
    /// If writing fails.
    pub fn stack(&mut self, stack: &Stack) -> Result<(), ArchiveError> {
        put(&mut self.stacks, stack)
    }

    /// Writes a process of the server.
    ///
    /// # Errors
    /// If writing fails.
    pub fn backend(&mut self, backend: &ProfiledBackend) -> Result<(), ArchiveError> {
        put(&mut self.backends, backend)
    }

    /// Writes the backend of a session. Rows come in time order.
    ///
    /// # Errors
    /// If writing fails.
    pub fn session(&mut self, session: &SessionBackend) -> Result<(), ArchiveError> {
        put(&mut self.sessions, session)
    }

    /// Writes the execution of a statement by a backend.
    ///
    /// # Errors
    /// If writing fails.
    pub fn span(&mut self, span: &StatementSpan) -> Result<(), ArchiveError> {
        put(&mut self.spans, span)
    }

    /// Writes the text of a statement of a span, once each.
    ///
    /// # Errors
    /// If writing fails.
    pub fn statement(&mut self, statement: &StatementText) -> Result<(), ArchiveError> {
        statement.write(&mut self.statements)
    }

    /// Writes the options and results of the profile at the end, or the reason why there is none.
    ///
    /// # Errors
    /// If writing fails.
    pub fn info(&mut self, info: &ProfileInfo) -> Result<(), ArchiveError> {
        put(&mut self.profile, info)
    }

    pub(crate) fn finish(self) -> Result<Vec<FileEntry>, ArchiveError> {
        let mut files = Vec::new();
        for table in [
            self.samples,
            self.stacks,
            self.backends,
            self.sessions,
            self.spans,
            self.statements,
            self.profile,
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

/// Iterator over rows of a profile; holds one batch in memory.
pub type ProfileRows<R> = Box<dyn Iterator<Item = Result<R, ArchiveError>>>;

fn rows<R: Row + 'static>(archive: &Archive, table: &str) -> Result<ProfileRows<R>, ArchiveError> {
    if !has(archive, table) {
        return Ok(Box::new(std::iter::empty()));
    }
    let path = archive.path().to_owned();
    let rows = archive.table(table, R::COLUMNS)?.rows(move |batch, row| {
        R::read(batch, row).map_err(|reason| ArchiveError::Damaged {
            path: path.clone(),
            reason,
        })
    });
    Ok(Box::new(rows))
}

/// A CPU profile of a run, open for reading.
#[derive(Debug, Clone)]
pub struct ProfileReader {
    archive: Archive,
    info: ProfileInfo,
}

impl ProfileReader {
    pub(crate) fn open(archive: &Archive) -> Result<Option<Self>, ArchiveError> {
        let mut infos = rows::<ProfileInfo>(archive, PROFILE)?;
        Ok(infos.next().transpose()?.map(|info| ProfileReader {
            archive: archive.clone(),
            info,
        }))
    }

    /// Returns the options and results, or the reason why there is no profile.
    pub fn info(&self) -> &ProfileInfo {
        &self.info
    }

    /// Returns all distinct stacks, by their numbers from 0.
    ///
    /// # Errors
    /// If the file cannot be read, as with all methods below. Later damage is an item of the iterator.
    pub fn stacks(&self) -> Result<ProfileRows<Stack>, ArchiveError> {
        rows(&self.archive, STACKS)
    }

    /// Returns all samples, in time order.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn samples(&self) -> Result<ProfileRows<StackSample>, ArchiveError> {
        rows(&self.archive, SAMPLES)
    }

    /// Returns the processes of the server.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn backends(&self) -> Result<ProfileRows<ProfiledBackend>, ArchiveError> {
        rows(&self.archive, BACKENDS)
    }

    /// Returns the backends of sessions, in time order.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn sessions(&self) -> Result<ProfileRows<SessionBackend>, ArchiveError> {
        rows(&self.archive, SESSIONS)
    }

    /// Returns the executions by backends, for a recording without a replay.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn spans(&self) -> Result<ProfileRows<StatementSpan>, ArchiveError> {
        rows(&self.archive, SPANS)
    }

    /// Returns the texts of these statements.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn statements(&self) -> Result<ProfileRows<StatementText>, ArchiveError> {
        if !has(&self.archive, STATEMENTS) {
            return Ok(Box::new(std::iter::empty()));
        }
        let table = self.archive.table(STATEMENTS, StatementText::COLUMNS)?;
        Ok(Box::new(
            table.rows(|batch, row| Ok(StatementText::read(batch, row))),
        ))
    }
}

fn u64(batch: &Batch, column: usize, row: usize) -> u64 {
    batch.u64(column, row).unwrap_or_default()
}

fn i64(batch: &Batch, column: usize, row: usize) -> i64 {
    batch.i64(column, row).unwrap_or_default()
}

impl Row for ProfileInfo {
    const COLUMNS: &'static [Column] = &[
        Column::nullable("off", Text),
        Column::nullable("remedy", Text),
        Column::required("event", Text),
        Column::required("frequency_hz", U64),
        Column::required("unwinding", Text),
        Column::required("trial", Text),
        Column::required("scope", Text),
        Column::required("kernel", Bool),
        Column::required("begun_ns", I64),
        Column::required("ended_ns", I64),
        Column::required("samples", U64),
        Column::required("counted", U64),
        Column::required("complete", U64),
        Column::required("unwound", U64),
        Column::required("lost", U64),
        Column::required("left_out", U64),
        Column::nullable("cpu_ns", U64),
        Column::nullable("notes", TextList),
        Column::later("task_clock_ns", U64),
        Column::later("same_as_counted", Bool),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.off.as_deref());
        table.text(self.remedy.as_deref());
        table.text(self.event.as_str());
        table.u64(self.frequency_hz);
        table.text(self.unwinding.as_str());
        table.text(self.trial.as_str());
        table.text(self.scope.as_str());
        table.bool(self.kernel);
        table.i64(self.begun_ns);
        table.i64(self.ended_ns);
        table.u64(self.samples);
        table.u64(self.counted);
        table.u64(self.complete);
        table.u64(self.unwound);
        table.u64(self.lost);
        table.u64(self.left_out);
        table.u64(self.cpu_ns);
        write_texts(table, &self.notes);
        table.u64(self.task_clock_ns);
        table.bool(self.same_as_counted);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(ProfileInfo {
            off: optional_text(batch, 0, row),
            remedy: optional_text(batch, 1, row),
            event: text(batch, 2, row),
            frequency_hz: u64(batch, 3, row),
            unwinding: text(batch, 4, row),
            trial: text(batch, 5, row),
            scope: text(batch, 6, row),
            kernel: batch.bool(7, row).unwrap_or_default(),
            begun_ns: i64(batch, 8, row),
            ended_ns: i64(batch, 9, row),
            samples: u64(batch, 10, row),
            counted: u64(batch, 11, row),
            complete: u64(batch, 12, row),
            unwound: u64(batch, 13, row),
            lost: u64(batch, 14, row),
            left_out: u64(batch, 15, row),
            cpu_ns: batch.u64(16, row),
            notes: texts(batch, 17, row),
            task_clock_ns: batch.u64(18, row),
            same_as_counted: batch.bool(19, row).unwrap_or_default(),
        })
    }
}

impl Row for Stack {
    const COLUMNS: &'static [Column] = &[
        Column::required("stack", U64),
        Column::required("frames", Text),
        Column::required("samples", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.id);
        table.text(self.frames.as_str());
        table.u64(self.samples);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(Stack {
            id: u64(batch, 0, row),
            frames: text(batch, 1, row),
            samples: u64(batch, 2, row),
        })
    }
}

impl Row for StackSample {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("pid", U64),
        Column::required("stack", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.u64(self.pid);
        table.u64(self.stack);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(StackSample {
            at_ns: i64(batch, 0, row),
            pid: u64(batch, 1, row),
            stack: u64(batch, 2, row),
        })
    }
}

impl Row for ProfiledBackend {
    const COLUMNS: &'static [Column] = &[
        Column::required("pid", U64),
        Column::required("kind", Text),
        Column::nullable("user", Text),
        Column::nullable("database", Text),
        Column::nullable("application", Text),
        Column::required("from_ns", I64),
        Column::required("samples", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.pid);
        table.text(self.kind.as_str());
        table.text(self.user.as_deref());
        table.text(self.database.as_deref());
        table.text(self.application.as_deref());
        table.i64(self.from_ns);
        table.u64(self.samples);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(ProfiledBackend {
            pid: u64(batch, 0, row),
            kind: text(batch, 1, row),
            user: optional_text(batch, 2, row),
            database: optional_text(batch, 3, row),
            application: optional_text(batch, 4, row),
            from_ns: i64(batch, 5, row),
            samples: u64(batch, 6, row),
        })
    }
}

impl Row for SessionBackend {
    const COLUMNS: &'static [Column] = &[
        Column::required("from_ns", I64),
        Column::required("session", U64),
        Column::required("pid", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.from_ns);
        table.u64(self.session);
        table.u64(self.pid);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(SessionBackend {
            from_ns: i64(batch, 0, row),
            session: u64(batch, 1, row),
            pid: u64(batch, 2, row),
        })
    }
}

impl Row for StatementSpan {
    const COLUMNS: &'static [Column] = &[
        Column::required("pid", U64),
        Column::required("from_ns", I64),
        Column::required("until_ns", I64),
        Column::required("fingerprint", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.pid);
        table.i64(self.from_ns);
        table.i64(self.until_ns);
        table.u64(self.fingerprint.0);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(StatementSpan {
            pid: u64(batch, 0, row),
            from_ns: i64(batch, 1, row),
            until_ns: i64(batch, 2, row),
            fingerprint: Fingerprint(u64(batch, 3, row)),
        })
    }
}
