//! The tables of a CPU profile: samples are written as they come, what sums them up at the end.

use archive::{
    Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry, Parts,
    TableOptions, TableWriter,
};
use sql::Fingerprint;
use workload::StatementText;

use crate::facts_table::{Row, has, maybe, text, texts, write_texts};
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

/// The names of all of them: a recovery keeps what was there.
pub(crate) const TABLES: [&str; 7] = [
    PROFILE, STACKS, SAMPLES, BACKENDS, SESSIONS, SPANS, STATEMENTS,
];

/// Of one of these tables.
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

/// Writes a profile, beside the executions of the same run and apart from them: it can be moved to another
/// thread.
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

    /// Takes a sample; in the order of time.
    ///
    /// # Errors
    /// Where the disk refuses; so it is with all that is taken here.
    pub fn sample(&mut self, sample: &StackSample) -> Result<(), ArchiveError> {
        put(&mut self.samples, sample)
    }

    /// Takes a stack that samples have; once each.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn stack(&mut self, stack: &Stack) -> Result<(), ArchiveError> {
        put(&mut self.stacks, stack)
    }

    /// Takes a process of the server.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn backend(&mut self, backend: &ProfiledBackend) -> Result<(), ArchiveError> {
        put(&mut self.backends, backend)
    }

    /// Takes which backend a session speaks with; in the order of time.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn session(&mut self, session: &SessionBackend) -> Result<(), ArchiveError> {
        put(&mut self.sessions, session)
    }

    /// Takes what a backend carried out.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn span(&mut self, span: &StatementSpan) -> Result<(), ArchiveError> {
        put(&mut self.spans, span)
    }

    /// Takes the text of a statement of a span; once each.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn statement(&mut self, statement: &StatementText) -> Result<(), ArchiveError> {
        statement.write(&mut self.statements)
    }

    /// Takes how it was taken, at the end; or, alone, why there is no profile.
    ///
    /// # Errors
    /// Where the disk refuses.
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

/// Rows of a profile, one after the other; holds one batch in memory.
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

/// A CPU profile of a run, opened.
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

    /// How it was taken, or why there is none.
    pub fn info(&self) -> &ProfileInfo {
        &self.info
    }

    /// All different stacks, by their numbers from 0.
    ///
    /// # Errors
    /// Where the file cannot be read; so it is with all that follow. Later damage comes as an item.
    pub fn stacks(&self) -> Result<ProfileRows<Stack>, ArchiveError> {
        rows(&self.archive, STACKS)
    }

    /// All samples, in the order of time.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn samples(&self) -> Result<ProfileRows<StackSample>, ArchiveError> {
        rows(&self.archive, SAMPLES)
    }

    /// The processes that were seen.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn backends(&self) -> Result<ProfileRows<ProfiledBackend>, ArchiveError> {
        rows(&self.archive, BACKENDS)
    }

    /// Which session spoke with which backend, in the order of time.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn sessions(&self) -> Result<ProfileRows<SessionBackend>, ArchiveError> {
        rows(&self.archive, SESSIONS)
    }

    /// What backends carried out, where there was no replay.
    ///
    /// # Errors
    /// As [`Self::stacks`].
    pub fn spans(&self) -> Result<ProfileRows<StatementSpan>, ArchiveError> {
        rows(&self.archive, SPANS)
    }

    /// The texts of these statements.
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
            off: maybe(batch, 0, row),
            remedy: maybe(batch, 1, row),
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
            user: maybe(batch, 2, row),
            database: maybe(batch, 3, row),
            application: maybe(batch, 4, row),
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
