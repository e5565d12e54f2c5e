//! Writes a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use archive::{
    ArchiveError, ArchiveWriter, OnFailure, Parts, Recipient, TableOptions, TableWriter,
    recover_tables, unfinished_body,
};
use workload::{ContextText, StatementText};

use crate::evidence::{Artefact, Moment, TABLES as EVIDENCE_TABLES, write_evidence};
use crate::execution::{Execution, SkipReason};
use crate::execution_counts::{ExecutionCounts, ServiceTime};
use crate::facts::{Facts, PlanFact};
use crate::facts_table::{Row, TABLES, write_facts, write_plans};
use crate::format::{FORMAT, KIND, RunInfo, RunStatus};
use crate::generated_value::{self, GeneratedValue};
use crate::lost_connection::{self, LostConnection};
use crate::machine_load::MachineLoad;
use crate::observed_table::{ObservedWriter, TABLES as OBSERVED_TABLES};
use crate::profiled_table::{ProfileWriter, TABLES as PROFILE_TABLES};
use crate::result_columns::{self, ResultColumns};
use crate::series_gap::SeriesGap;
use crate::table::{EXECUTION, read_execution, write_execution};
use crate::tool_stall::{TOOL_STALL_NS_MIN, ToolStall};

/// Maximum number of gaps of a series in the manifest. A replay that follows one may have no end.
const SERIES_GAPS_MAX: usize = 1_000;

/// Layout of executions: a part has the rows of a few minutes of a busy replay.
pub(crate) const PARTS: TableOptions = TableOptions {
    parts: Parts::Rows(1 << 22),
    group_rows: 1 << 16,
};

pub(crate) const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// A run that is being written, at `PATH.partial`. If it is dropped unfinished, the directory stays, since
/// repeating a replay is expensive.
pub struct RunWriter {
    archive: ArchiveWriter,
    executions: TableWriter,
    /// Columns of results, from the first on.
    result_columns: Option<TableWriter>,
    /// Lost connections, from the first on.
    lost_connections: Option<TableWriter>,
    /// Generated values, from the first on.
    generated_values: Option<TableWriter>,
    files: Vec<archive::FileEntry>,
    /// Statements and contexts, if further ones may follow.
    growing: Option<GrowingTexts>,
    /// Whether lost connections or texts are not on disk, which must be there before the next execution.
    must_flush: bool,
    counts: ExecutionCounts,
    /// Content of the unfinished manifest.
    unfinished: RunInfo,
    /// Number of gaps of the series that are not listed, and their duration in microseconds.
    series_gaps_left_out: (u64, i64),
    /// Further entries of [`RunInfo::options`].
    options: BTreeMap<String, String>,
}

impl RunWriter {
    /// Creates `PATH.partial` with the workload's statements. `info` holds the facts that are known before
    /// the replay; the writer computes the counts.
    ///
    /// # Errors
    /// If `path` or its partial exists, the workload's statements cannot be read, or a file cannot be
    /// written.
    pub fn create(
        path: &Path,
        info: &RunInfo,
        statements: impl Iterator<Item = Result<StatementText, ArchiveError>>,
    ) -> Result<Self, ArchiveError> {
        Self::create_for(path, info, statements, &[])
    }

    /// Creates a run as [`Self::create`] does, with every file encrypted to these recipients, if there are any.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(
        path: &Path,
        info: &RunInfo,
        statements: impl Iterator<Item = Result<StatementText, ArchiveError>>,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        let mut writer = Self::begin(path, info, statements, recipients)?;
        if let Some(growing) = writer.growing.take() {
            writer.files = growing.statements.finish()?;
        }
        Ok(writer)
    }

    /// Creates a run as [`Self::create`] does, to which [`Self::add_texts`] adds statements.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_growing(
        path: &Path,
        info: &RunInfo,
        statements: impl Iterator<Item = Result<StatementText, ArchiveError>>,
    ) -> Result<Self, ArchiveError> {
        Self::begin(path, info, statements, &[])
    }

    fn begin(
        path: &Path,
        info: &RunInfo,
        statements: impl Iterator<Item = Result<StatementText, ArchiveError>>,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        let archive = ArchiveWriter::create_for(path, KIND, FORMAT, OnFailure::Keep, recipients)?;
        archive.note(serde_json::to_value(info).expect("plain data"))?;
        let mut table = archive.table("statements", StatementText::COLUMNS, ONE_FILE)?;
        for statement in statements {
            statement?.write(&mut table)?;
        }
        Ok(RunWriter {
            files: Vec::new(),
            executions: archive.table("executions", EXECUTION, PARTS)?,
            archive,
            result_columns: None,
            lost_connections: None,
            generated_values: None,
            growing: Some(GrowingTexts {
                statements: table,
                contexts: None,
            }),
            must_flush: true,
            unfinished: info.clone(),
            series_gaps_left_out: (0, 0),
            counts: ExecutionCounts::default(),
            options: BTreeMap::new(),
        })
    }

    /// Adds statements and contexts that the run does not have yet, before their executions. Without effect unless it was created by
    /// [`Self::create_growing`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn add_texts(
        &mut self,
        statements: &[StatementText],
        contexts: &[ContextText],
    ) -> Result<(), ArchiveError> {
        let Some(growing) = &mut self.growing else {
            return Ok(());
        };
        self.must_flush |= !(statements.is_empty() && contexts.is_empty());
        for statement in statements {
            statement.write(&mut growing.statements)?;
        }
        for context in contexts {
            let table = match &mut growing.contexts {
                Some(table) => table,
                created => created.insert(self.archive.table(
                    ContextText::TABLE,
                    ContextText::COLUMNS,
                    ONE_FILE,
                )?),
            };
            context.write(table)?;
        }
        Ok(())
    }

    /// Adds gaps of the series that is followed. A reader of the unfinished run and a recovery find them at once. Of too many,
    /// the first are listed; the option `series_gaps_left_out` has the number and the duration of the others.
    ///
    /// # Errors
    /// If writing fails.
    pub fn series_gaps(
        &mut self,
        gaps: impl IntoIterator<Item = SeriesGap>,
    ) -> Result<(), ArchiveError> {
        let info = &mut self.unfinished;
        for gap in gaps {
            if info.series_gaps.len() < SERIES_GAPS_MAX {
                info.series_gaps.push(gap);
                continue;
            }
            let (count, duration_us) = &mut self.series_gaps_left_out;
            *count += 1;
            *duration_us += gap.to_us.saturating_sub(gap.from_us);
            let text = format!("{count} gaps of {:.0} s", *duration_us as f64 / 1e6);
            (info.options).insert("series_gaps_left_out".to_owned(), text);
        }
        (self.archive).note(serde_json::to_value(info).expect("plain data"))
    }

    /// Writes a lost connection, before the executions that ended with it or later.
    ///
    /// # Errors
    /// If writing fails.
    pub fn lost_connection(&mut self, lost: &LostConnection) -> Result<(), ArchiveError> {
        self.must_flush = true;
        let table = &mut self.lost_connections;
        add_row(&self.archive, lost_connection::TABLE, table, lost)
    }

    /// Writes the workload's contexts, at most once. They survive a kill of this process.
    ///
    /// # Errors
    /// If they cannot be read, or a file cannot be written.
    pub fn contexts(
        &mut self,
        contexts: impl Iterator<Item = Result<ContextText, ArchiveError>>,
    ) -> Result<(), ArchiveError> {
        if self.growing.is_some() {
            let contexts: Vec<ContextText> = contexts.collect::<Result<_, _>>()?;
            return self.add_texts(&[], &contexts);
        }
        let mut contexts = contexts.peekable();
        if contexts.peek().is_none() {
            return Ok(());
        }
        let mut table = (self.archive).table(ContextText::TABLE, ContextText::COLUMNS, ONE_FILE)?;
        for context in contexts {
            context?.write(&mut table)?;
        }
        self.files.extend(table.finish()?);
        Ok(())
    }

    /// Writes one execution. Executions come in the order in which they ended. What was lost or added before is on disk before
    /// it, so that a reader of the unfinished run has it first.
    ///
    /// # Errors
    /// If writing fails.
    pub fn execution(&mut self, execution: &Execution) -> Result<(), ArchiveError> {
        // The table ends row groups on its own.
        if self.must_flush {
            self.flush_leading()?;
        }
        self.counts.count(execution);
        write_execution(&mut self.executions, execution)
    }

    /// Writes the columns of a result.
    ///
    /// # Errors
    /// If writing fails.
    pub fn result_columns(&mut self, columns: &ResultColumns) -> Result<(), ArchiveError> {
        let table = &mut self.result_columns;
        add_row(&self.archive, result_columns::TABLE, table, columns)
    }

    /// Writes a value that the server generated.
    ///
    /// # Errors
    /// If writing fails.
    pub fn generated_value(&mut self, value: &GeneratedValue) -> Result<(), ArchiveError> {
        let table = &mut self.generated_values;
        add_row(&self.archive, generated_value::TABLE, table, value)
    }

    /// Adds an interval in which a part of the replay did not run, if it was at least [`TOOL_STALL_NS_MIN`] long.
    pub fn tool_stall(&mut self, from_ns: i64, until_ns: i64) {
        let longest_ns = until_ns - from_ns;
        if longest_ns >= TOOL_STALL_NS_MIN {
            self.counts.add_stall(ToolStall {
                from_ns,
                until_ns,
                longest_ns,
            });
        }
    }

    /// Adds an entry to [`RunInfo::options`].
    pub fn option(&mut self, name: String, value: String) {
        self.options.insert(name, value);
    }

    /// Sets the load of the replaying machine.
    pub fn machine_load(&mut self, load: MachineLoad) {
        self.counts.machine = Some(load);
    }

    /// Writes the facts of the target, at most once. They survive a kill of this process.
    ///
    /// # Errors
    /// If writing fails.
    pub fn facts(&mut self, facts: &Facts) -> Result<(), ArchiveError> {
        self.files.extend(write_facts(&self.archive, facts)?);
        Ok(())
    }

    /// Writes plans in this order, at most once.
    ///
    /// # Errors
    /// If writing fails.
    pub fn plans(&mut self, plans: &[PlanFact]) -> Result<(), ArchiveError> {
        self.files.extend(write_plans(&self.archive, plans)?);
        Ok(())
    }

    /// Writes the evidence of one moment, at most once for each. It survives a kill of this process.
    ///
    /// # Errors
    /// If writing fails.
    pub fn evidence(&mut self, moment: Moment, artefacts: &[Artefact]) -> Result<(), ArchiveError> {
        let files = write_evidence(&self.archive, moment, artefacts)?;
        self.files.extend(files);
        Ok(())
    }

    /// Begins the tables of a CPU profile, at most once. They can be written on any thread.
    /// [`Self::take_profile`] adds them to the run.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn profile(&self) -> Result<ProfileWriter, ArchiveError> {
        ProfileWriter::create(&self.archive)
    }

    /// Adds the tables of a profile. Without this call they are not part of the run.
    ///
    /// # Errors
    /// If writing fails.
    pub fn take_profile(&mut self, profile: ProfileWriter) -> Result<(), ArchiveError> {
        self.files.extend(profile.finish()?);
        Ok(())
    }

    /// Begins the tables of observations, at most once. They can be written on any thread.
    /// [`Self::take_observed`] adds them to the run.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn observed(&self) -> Result<ObservedWriter, ArchiveError> {
        ObservedWriter::create(&self.archive)
    }

    /// Adds the tables of observations. Without this call they are not part of the run.
    ///
    /// # Errors
    /// If writing fails.
    pub fn take_observed(&mut self, observed: ObservedWriter) -> Result<(), ArchiveError> {
        self.files.extend(observed.finish()?);
        Ok(())
    }

    /// Starts to sum service times by statement, for [`Self::most_expensive_statements`].
    pub fn sum_up_service_times(&mut self) {
        self.counts.sum_up_service_times();
    }

    /// Returns up to `count` statements with the highest total service time, the highest first. Empty if
    /// times were not summed.
    pub fn most_expensive_statements(&self, count: usize) -> Vec<ServiceTime> {
        self.counts.costliest(count)
    }

    /// Flushes the rows so far, so that they survive a kill of this process.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        // Executions come last: a replay that resumes the run takes them as done, with everything that belongs to them.
        for table in [&mut self.result_columns, &mut self.generated_values] {
            flush_table(table)?;
        }
        if self.must_flush {
            self.flush_leading()?;
        }
        self.executions.flush()?;
        Ok(())
    }

    /// Flushes the tables that a reader of the unfinished run needs before the next execution.
    fn flush_leading(&mut self) -> Result<(), ArchiveError> {
        flush_table(&mut self.lost_connections)?;
        if let Some(growing) = &mut self.growing {
            growing.statements.flush()?;
            flush_table(&mut growing.contexts)?;
        }
        self.must_flush = false;
        Ok(())
    }

    /// Removes the unfinished run of a replay that has sent nothing.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn discard(self) -> Result<(), ArchiveError> {
        let directory = self.archive.directory().to_owned();
        drop(self);
        std::fs::remove_dir_all(&directory)
            .map_err(|error| ArchiveError::io("remove", &directory, error))
    }

    /// Returns the directory that is being written.
    pub fn directory(&self) -> &Path {
        self.archive.directory()
    }

    /// Writes the manifest, syncs and renames. The counts and spans in `info` are replaced by those of the
    /// executions; `elapsed_ns` stays if nothing was executed. `unreached` is the number of statements after
    /// a stop. They have no rows and count as skipped.
    ///
    /// # Errors
    /// If writing fails; the partial stays.
    pub fn finish(mut self, mut info: RunInfo, unreached: u64) -> Result<RunInfo, ArchiveError> {
        let elapsed_ns = info.elapsed_ns;
        self.counts.fill(&mut info);
        info.elapsed_ns = info.elapsed_ns.max(elapsed_ns);
        info.options.append(&mut self.options);
        info.series_gaps = self.unfinished.series_gaps;
        let left_out = (self.unfinished.options).remove_entry("series_gaps_left_out");
        info.options.extend(left_out);
        if unreached > 0 {
            info.statements += unreached;
            *info
                .skipped
                .entry(SkipReason::Stopped.name().to_owned())
                .or_default() += unreached;
        }
        let mut tables = vec![
            self.result_columns,
            self.lost_connections,
            self.generated_values,
        ];
        if let Some(growing) = self.growing {
            tables.extend([Some(growing.statements), growing.contexts]);
        }
        let mut others = Vec::new();
        for table in tables.into_iter().flatten() {
            others.extend(table.finish()?);
        }
        // A reader of the unfinished run has everything else before the last executions.
        let mut files = self.executions.finish()?;
        files.append(&mut others);
        files.append(&mut self.files);
        let body = serde_json::to_value(&info).expect("plain data");
        self.archive.finish(files, body)?;
        Ok(info)
    }
}

/// Tables of a run to which texts are added while it is written.
struct GrowingTexts {
    statements: TableWriter,
    /// Contexts, from the first on.
    contexts: Option<TableWriter>,
}

/// Flushes a table, if it has begun.
fn flush_table(table: &mut Option<TableWriter>) -> Result<(), ArchiveError> {
    match table {
        Some(table) => table.flush().map(|_| ()),
        None => Ok(()),
    }
}

/// Adds a row to a table that is created with its first row.
fn add_row<R: Row>(
    archive: &ArchiveWriter,
    name: &'static str,
    table: &mut Option<TableWriter>,
    row: &R,
) -> Result<(), ArchiveError> {
    let table = match table {
        Some(table) => table,
        created => created.insert(archive.table(name, R::COLUMNS, PARTS)?),
    };
    row.write(table);
    table.end_row()
}

/// Finishes a run whose replay was killed, with the executions of its complete row groups. Returns the path
/// of the run.
///
/// # Errors
/// If `partial` is no unfinished run, or writing fails.
pub fn recover(partial: &Path) -> Result<(PathBuf, RunInfo), ArchiveError> {
    let body = unfinished_body(partial, KIND)?;
    let mut info: RunInfo =
        serde_json::from_value(body).map_err(|error| ArchiveError::WrongKind {
            path: partial.to_owned(),
            kind: "unfinished run".to_owned(),
            reason: format!("it was stopped before it began ({error})"),
        })?;
    let archive = ArchiveWriter::resume(partial, KIND, FORMAT)?;
    let tables = [
        &["executions", "statements", ContextText::TABLE][..],
        &[
            result_columns::TABLE,
            lost_connection::TABLE,
            generated_value::TABLE,
        ],
        &TABLES[..],
        &PROFILE_TABLES[..],
        &OBSERVED_TABLES[..],
        &EVIDENCE_TABLES[..],
    ]
    .concat();
    let files = recover_tables(partial, &tables, &archive::Keyring::default())?;
    let paths = files
        .iter()
        .filter(|file| file.table == "executions")
        .map(|file| partial.join(&file.name))
        .collect();
    let mut counts = ExecutionCounts::default();
    let mut rows = archive::TableReader::open(paths, EXECUTION)?;
    while let Some(batch) = rows.next_batch()? {
        for row in 0..batch.rows() {
            let execution =
                read_execution(&batch, row).map_err(|reason| ArchiveError::Damaged {
                    path: partial.to_owned(),
                    reason,
                })?;
            counts.count(&execution);
        }
    }
    counts.fill(&mut info);
    info.status = RunStatus::Recovered;
    let path = archive.path().to_owned();
    archive.finish(files, serde_json::to_value(&info).expect("plain data"))?;
    Ok((path, info))
}
