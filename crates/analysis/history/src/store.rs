//! Stores the numbers of runs in a directory: one archive a run, with one Parquet table. So a run is added
//! completely or not at all, several pipelines may add at once, and the directory can be copied.

use std::path::{Path, PathBuf};

use archive::{
    Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, OnFailure, Parts,
    TableOptions, TableWriter, partial_path,
};
use serde_json::json;
use sql::Fingerprint;

use crate::numbers::{RunNumbers, StatementNumbers};

const KIND: &str = "history-entry";
const FORMAT: u32 = 1;
const TABLE: &str = "numbers";

/// Number of characters of a run's id in the name of its entry.
const ID_LENGTH: usize = 16;

const COLUMNS: &[Column] = &[
    Column::required("run", ColumnType::Text).low_cardinality(),
    Column::required("started_us", ColumnType::I64),
    Column::required("label", ColumnType::Text).low_cardinality(),
    Column::required("workload", ColumnType::Text).low_cardinality(),
    Column::required("workload_id", ColumnType::Text).low_cardinality(),
    Column::required("speed", ColumnType::Text).low_cardinality(),
    Column::required("server_version", ColumnType::Text).low_cardinality(),
    Column::nullable("fingerprint", ColumnType::Text),
    Column::required("sql", ColumnType::Text),
    Column::required("done", ColumnType::U64),
    Column::required("failed", ColumnType::U64),
    Column::nullable("mean_ns", ColumnType::F64),
    Column::nullable("p50_ns", ColumnType::U64),
    Column::nullable("p99_ns", ColumnType::U64),
    Column::nullable("exec_ns", ColumnType::F64),
    Column::nullable("shared_blocks", ColumnType::F64),
    Column::nullable("temp_blocks", ColumnType::F64),
    Column::nullable("wal_records", ColumnType::F64),
];

const OPTIONS: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// Failure of a history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// An entry cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The directory cannot be read or created.
    #[error("the history {path} cannot be {action} ({error})")]
    Directory {
        /// Path of the history.
        path: PathBuf,
        /// "read" or "created".
        action: &'static str,
        /// Cause.
        error: std::io::Error,
    },
    /// The directory is a run, which belongs after the history.
    #[error(
        "{0} is a run, not a history; the history comes first: `rehearse history add HISTORY NAME.run`"
    )]
    Run(PathBuf),
    /// The directory has other contents.
    #[error(
        "{path} is no history: it contains {found}; give the directory of a history, or one that does not exist"
    )]
    Foreign {
        /// Path of the history.
        path: PathBuf,
        /// Name of something in it.
        found: String,
    },
    /// The run is of another workload or speed, so that its numbers cannot be compared.
    #[error(
        "{run} is of the workload {of}, and the history {path} of {kept}; give each its own history"
    )]
    OtherWorkload {
        /// Name of the run.
        run: String,
        /// Its workload and speed.
        of: String,
        /// Path of the history.
        path: PathBuf,
        /// Workload and speed of the history.
        kept: String,
    },
}

/// Result of adding a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was added.
    New,
    /// The history has it already.
    Known,
}

/// A history.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    runs: Vec<RunNumbers>,
}

impl Store {
    /// Opens a history. A directory that does not exist is an empty one.
    ///
    /// # Errors
    /// If it cannot be read or contains anything else.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let failed = |error| HistoryError::Directory {
            path: path.to_owned(),
            action: "read",
            error,
        };
        if path.join("manifest.json").exists() {
            return Err(HistoryError::Run(path.to_owned()));
        }
        let mut runs = Vec::new();
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(failed)?.path();
            match entry.extension().and_then(|extension| extension.to_str()) {
                Some("entry") => runs.extend(read_entry(&entry)?),
                // An addition that is under way, or was killed.
                Some("partial") => (),
                _ => {
                    let found = entry.file_name().unwrap_or_default();
                    return Err(HistoryError::Foreign {
                        path: path.to_owned(),
                        found: found.to_string_lossy().into_owned(),
                    });
                }
            }
        }
        runs.sort_by(|one, other| (one.started_us, &one.run).cmp(&(other.started_us, &other.run)));
        Ok(Store {
            path: path.to_owned(),
            runs,
        })
    }

    /// Returns the runs, the earliest first.
    pub fn runs(&self) -> &[RunNumbers] {
        &self.runs
    }

    /// Adds a run. `name` is the user's for it.
    ///
    /// # Errors
    /// If it is of another workload or speed, or cannot be written.
    pub fn add(&mut self, name: &str, numbers: RunNumbers) -> Result<Added, HistoryError> {
        if self.runs.iter().any(|one| one.run == numbers.run) {
            return Ok(Added::Known);
        }
        let of = |one: &RunNumbers| (one.workload_id.clone(), one.speed.clone());
        if let Some(kept) = self.runs.iter().find(|one| of(one) != of(&numbers)) {
            return Err(HistoryError::OtherWorkload {
                run: name.to_owned(),
                of: describe(&numbers),
                path: self.path.clone(),
                kept: describe(kept),
            });
        }
        std::fs::create_dir_all(&self.path).map_err(|error| HistoryError::Directory {
            path: self.path.clone(),
            action: "created",
            error,
        })?;
        write_entry(&self.path, &numbers)?;
        let place = self
            .runs
            .partition_point(|one| one.started_us <= numbers.started_us);
        self.runs.insert(place, numbers);
        Ok(Added::New)
    }
}

fn describe(numbers: &RunNumbers) -> String {
    let id: String = numbers.workload_id.chars().take(ID_LENGTH).collect();
    format!("{} ({id}) at speed {}", numbers.workload, numbers.speed)
}

fn write_entry(history: &Path, numbers: &RunNumbers) -> Result<(), ArchiveError> {
    let id: String = numbers.run.chars().take(ID_LENGTH).collect();
    let path = history.join(format!("{}-{id}.entry", numbers.started_us));
    // Left by an addition that was killed.
    let _ = std::fs::remove_dir_all(partial_path(&path));
    let archive = ArchiveWriter::create(&path, KIND, FORMAT, OnFailure::Remove)?;
    let mut table = archive.table(TABLE, COLUMNS, OPTIONS)?;
    for statement in &numbers.statements {
        write_row(&mut table, numbers, statement);
        table.end_row()?;
    }
    let files = table.finish()?;
    archive.finish(files, json!({}))?;
    Ok(())
}

fn write_row(table: &mut TableWriter, run: &RunNumbers, statement: &StatementNumbers) {
    let fingerprint = statement
        .fingerprint
        .map(|fingerprint| fingerprint.to_string());
    table.text(run.run.as_str());
    table.i64(run.started_us);
    table.text(run.label.as_str());
    table.text(run.workload.as_str());
    table.text(run.workload_id.as_str());
    table.text(run.speed.as_str());
    table.text(run.server_version.as_str());
    table.text(fingerprint.as_deref());
    table.text(statement.sql.as_str());
    table.u64(statement.done);
    table.u64(statement.failed);
    table.f64(statement.mean_ns);
    table.u64(statement.p50_ns);
    table.u64(statement.p99_ns);
    table.f64(statement.exec_ns);
    table.f64(statement.shared_blocks);
    table.f64(statement.temp_blocks);
    table.f64(statement.wal_records);
}

/// Reads the run of an entry; `None` if it has no rows.
fn read_entry(path: &Path) -> Result<Option<RunNumbers>, ArchiveError> {
    let archive = Archive::open(path, KIND, FORMAT)?;
    let damaged = path.to_owned();
    let rows = archive.table(TABLE, COLUMNS)?.rows(move |batch, row| {
        read_row(batch, row).ok_or_else(|| ArchiveError::Damaged {
            path: damaged.clone(),
            reason: format!("row {row} of its numbers lacks a value"),
        })
    });
    let mut run: Option<RunNumbers> = None;
    for row in rows {
        let mut row = row?;
        match &mut run {
            None => run = Some(row),
            Some(run) => run.statements.append(&mut row.statements),
        }
    }
    Ok(run)
}

/// Reads a row as a run with one statement.
fn read_row(batch: &Batch, row: usize) -> Option<RunNumbers> {
    let text = |column| batch.text(column, row).map(str::to_owned);
    let fingerprint = match batch.text(7, row) {
        Some(text) => Some(Fingerprint(u64::from_str_radix(text, 16).ok()?)),
        None => None,
    };
    let statement = StatementNumbers {
        fingerprint,
        sql: text(8)?,
        done: batch.u64(9, row)?,
        failed: batch.u64(10, row)?,
        mean_ns: batch.f64(11, row),
        p50_ns: batch.u64(12, row),
        p99_ns: batch.u64(13, row),
        exec_ns: batch.f64(14, row),
        shared_blocks: batch.f64(15, row),
        temp_blocks: batch.f64(16, row),
        wal_records: batch.f64(17, row),
    };
    Some(RunNumbers {
        run: text(0)?,
        started_us: batch.i64(1, row)?,
        label: text(2)?,
        workload: text(3)?,
        workload_id: text(4)?,
        speed: text(5)?,
        server_version: text(6)?,
        statements: vec![statement],
    })
}
