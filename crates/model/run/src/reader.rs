//! Reads a run, a batch at a time.

use std::io;
use std::path::{Path, PathBuf};

use archive::{Archive, ArchiveError, TableReader};
use workload::{ContextText, StatementText};

use crate::csv::{columns_of, write_head, write_rows};
use crate::evidence::{Artefact, Moment, read_evidence};
use crate::execution::Execution;
use crate::facts::{Facts, PlanFact};
use crate::facts_table::{Row, has, read_facts, read_plans};
use crate::format::{FORMAT, KIND, RunInfo};
use crate::generated_value::{self, GeneratedValue};
use crate::lost_connection::{self, LostConnection};
use crate::merge::{MergedExecutions, archive_executions};
use crate::observed::{
    Activity, Blocking, Counter, LockCount, ProbeNote, SampleWindow, SampledStatement,
    StatementStatistics,
};
use crate::observed_table as observed;
use crate::parts::Parts;
use crate::profiled_table::ProfileReader;
use crate::result_columns::{self, ResultColumns};
use crate::shards::ShardAccount;

/// Tables that each part of a run has completely.
const COMMON_TABLES: [&str; 2] = ["statements", ContextText::TABLE];

/// A complete run, open for reading.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
    id: String,
    info: RunInfo,
    /// The run, or the readable parts of one that several workers wrote.
    archives: Vec<Archive>,
    /// Division among several workers.
    shards: Option<ShardAccount>,
}

impl RunReader {
    /// Opens the run at `path`. One that several workers wrote has the executions of all parts that can be read, and the
    /// status [`crate::RunStatus::Incomplete`] if that is not all.
    ///
    /// # Errors
    /// If it is no run, newer than this program, unfinished, truncated or unreadable.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let archive = match Archive::open(path, KIND, FORMAT) {
            Ok(archive) => archive,
            Err(error @ (ArchiveError::NotFound { .. } | ArchiveError::WrongKind { .. })) => {
                return match Parts::open(path)? {
                    Some(parts) => Self::of_parts(path, parts),
                    None => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        Ok(RunReader {
            path: path.to_owned(),
            id: archive.manifest().id.clone(),
            info: archive.body()?,
            archives: vec![archive],
            shards: None,
        })
    }

    fn of_parts(path: &Path, parts: Parts) -> Result<Self, ArchiveError> {
        let shards = parts.account()?;
        let archives: Vec<Archive> = parts
            .readable()
            .map(|(archive, _)| archive.clone())
            .collect();
        let ids = archives
            .iter()
            .map(|archive| archive.manifest().id.as_str());
        Ok(RunReader {
            path: path.to_owned(),
            id: ids.collect::<Vec<_>>().join("+"),
            info: parts.info(&shards),
            archives,
            shards: Some(shards),
        })
    }

    /// Returns the run's part of the manifest.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Returns the shards of a run that several workers wrote, with what is missing; `None` for other runs.
    pub fn shards(&self) -> Option<&ShardAccount> {
        self.shards.as_ref()
    }

    /// Returns the run's id, which is equal for equal content.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares every file with its checksum.
    ///
    /// # Errors
    /// If a file differs; the error names the first one.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        self.archives.iter().try_for_each(Archive::verify)
    }

    /// Returns the names of the tables, each once.
    pub fn tables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let files = self.archives.iter().flat_map(|one| &one.manifest().files);
        for file in files {
            if !names.contains(&file.table.as_str()) {
                names.push(&file.table);
            }
        }
        names
    }

    /// Writes a table as comma-separated values, with a header of its columns, and without those in
    /// `left_out`. Holds one batch in memory. Returns the number of rows.
    ///
    /// # Errors
    /// If the table cannot be read, or `out` cannot be written.
    pub fn write_csv(
        &self,
        table: &str,
        left_out: &[&str],
        out: &mut impl io::Write,
    ) -> Result<u64, ArchiveError> {
        let columns = columns_of(table).ok_or_else(|| ArchiveError::Damaged {
            path: self.path.clone(),
            reason: format!("no run has a table '{table}'"),
        })?;
        let refused = |error| ArchiveError::io("write the values of", &self.path, error);
        write_head(columns, left_out, out).map_err(refused)?;
        let mut rows = 0;
        for archive in self.with_table(table) {
            let mut reader = archive.table(table, columns)?;
            while let Some(batch) = reader.next_batch()? {
                write_rows(&batch, columns, left_out, out).map_err(refused)?;
                rows += batch.rows() as u64;
            }
        }
        Ok(rows)
    }

    /// Returns all executions, in the order in which they ended. Holds one batch of each part in memory.
    ///
    /// # Errors
    /// If the first file cannot be read. Later damage is an item of the iterator.
    pub fn executions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Execution, ArchiveError>> + use<>, ArchiveError> {
        let sources: Result<Vec<_>, _> = self.archives.iter().map(archive_executions).collect();
        Ok(MergedExecutions::new(sources?))
    }

    /// Returns the columns of results, in about the order in which the executions ended; none if they were not
    /// requested.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn result_columns(&self) -> Result<Stream<ResultColumns>, ArchiveError> {
        self.read_stream(result_columns::TABLE)
    }

    /// Returns the values that the server generated in place of captured ones, in about the order in which the executions
    /// ended; none if they were not followed.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn generated_values(&self) -> Result<Stream<GeneratedValue>, ArchiveError> {
        self.read_stream(generated_value::TABLE)
    }

    /// Returns the lost connections, in about the order of time.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn lost_connections(&self) -> Result<Stream<LostConnection>, ArchiveError> {
        self.read_stream(lost_connection::TABLE)
    }

    /// Returns all statements of the workload, in the order of first appearance.
    ///
    /// # Errors
    /// If the file cannot be read. Later damage is an item of the iterator.
    pub fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<StatementText, ArchiveError>> + use<>, ArchiveError>
    {
        let mut tables = Vec::new();
        for archive in self.with_table("statements") {
            tables.push(archive.table("statements", StatementText::COLUMNS)?);
        }
        let rows =
            |table: TableReader| table.rows(|batch, row| Ok(StatementText::read(batch, row)));
        Ok(tables.into_iter().flat_map(rows))
    }

    /// Returns the contexts of the workload; none if no comment of it names one, or in a run of a format before 7.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn contexts(&self) -> Result<Stream<ContextText>, ArchiveError> {
        let Some(archive) = self.with_table(ContextText::TABLE).next() else {
            return Ok(Box::new(std::iter::empty()));
        };
        let table = archive.table(ContextText::TABLE, ContextText::COLUMNS)?;
        Ok(Box::new(
            table.rows(|batch, row| Ok(ContextText::read(batch, row))),
        ))
    }

    /// Returns the facts of the target; `None` if they were not collected, or in a run of a format before 4.
    /// Holds all of them in memory.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn facts(&self) -> Result<Option<Facts>, ArchiveError> {
        self.first(read_facts)
    }

    /// Returns the CPU profile of the replay; `None` if none was requested.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn profile(&self) -> Result<Option<ProfileReader>, ArchiveError> {
        self.first(ProfileReader::open)
    }

    /// Returns the plans of statements, in the order of their total time; `None` if they were not collected.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn plans(&self) -> Result<Option<Vec<PlanFact>>, ArchiveError> {
        self.first(read_plans)
    }

    /// Returns the evidence of one moment; `None` if it was not collected.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn evidence(&self, moment: Moment) -> Result<Option<Vec<Artefact>>, ArchiveError> {
        self.first(|archive| read_evidence(archive, moment))
    }

    /// Whether the server was monitored during the replay, with more than its statement statistics. If not, all
    /// tables below except [`Self::statement_statistics`] are empty.
    pub fn is_observed(&self) -> bool {
        let is_other = |note: &ProbeNote| note.probe != crate::observed::STATISTICS_PROBE;
        self.with_table(observed::NOTES).next().is_some()
            && self
                .probes()
                .is_ok_and(|notes| notes.is_empty() || notes.iter().any(is_other))
    }

    /// Returns the notes of the probes, in time order.
    ///
    /// # Errors
    /// If the file cannot be read. This holds for all tables below, whose later damage is an item of the
    /// iterator.
    pub fn probes(&self) -> Result<Vec<ProbeNote>, ArchiveError> {
        self.read_stream(observed::NOTES)?.collect()
    }

    /// Returns the statements seen at the server.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn observed_statements(&self) -> Result<Stream<SampledStatement>, ArchiveError> {
        self.read_stream(observed::SEEN)
    }

    /// Returns the differences of the server's statement statistics.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn statement_statistics(&self) -> Result<Stream<StatementStatistics>, ArchiveError> {
        self.read_stream(observed::STATISTICS)
    }

    /// Returns the windows in which the activity was sampled.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn sample_windows(&self) -> Result<Stream<SampleWindow>, ArchiveError> {
        self.read_stream(observed::WINDOWS)
    }

    /// Returns the sampled activity.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn activity(&self) -> Result<Stream<Activity>, ArchiveError> {
        self.read_stream(observed::ACTIVITY)
    }

    /// Returns the sampled lock waits.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn blocking(&self) -> Result<Stream<Blocking>, ArchiveError> {
        self.read_stream(observed::BLOCKING)
    }

    /// Returns the sampled locks.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn locks(&self) -> Result<Stream<LockCount>, ArchiveError> {
        self.read_stream(observed::LOCKS)
    }

    /// Returns the counters, one row for each change.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn counters(&self) -> Result<Stream<Counter>, ArchiveError> {
        self.read_stream(observed::COUNTERS)
    }

    fn read_stream<R: Row + 'static>(&self, table: &str) -> Result<Stream<R>, ArchiveError> {
        let mut streams: Vec<Stream<R>> = Vec::new();
        for archive in self.with_table(table) {
            let path = archive.path().to_owned();
            let rows = archive.table(table, R::COLUMNS)?;
            streams.push(Box::new(rows.rows(move |batch, row| {
                R::read(batch, row).map_err(|reason| ArchiveError::Damaged {
                    path: path.clone(),
                    reason,
                })
            })));
        }
        Ok(match streams.len() {
            1 => streams.remove(0),
            _ => Box::new(streams.into_iter().flatten()),
        })
    }

    /// Returns the archives that have a table. Of a table that each part has completely, it is the first one.
    fn with_table(&self, table: &str) -> impl Iterator<Item = &Archive> {
        let most = match COMMON_TABLES.contains(&table) {
            true => 1,
            false => usize::MAX,
        };
        let archives = self.archives.iter();
        archives
            .filter(move |archive| has(archive, table))
            .take(most)
    }

    /// Returns what the first archive has that has any: the worker of shard 0 observes the server for all.
    fn first<T>(
        &self,
        read: impl Fn(&Archive) -> Result<Option<T>, ArchiveError>,
    ) -> Result<Option<T>, ArchiveError> {
        for archive in &self.archives {
            if let Some(found) = read(archive)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Iterator over the rows of a table; holds one batch in memory.
pub type Stream<R> = Box<dyn Iterator<Item = Result<R, ArchiveError>>>;
