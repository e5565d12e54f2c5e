//! Reads a run, a batch at a time.

use std::io;
use std::path::Path;

use archive::{Archive, ArchiveError};
use workload::StatementText;

use crate::csv::{columns_of, write_head, write_rows};
use crate::evidence::{Artefact, Moment, read_evidence};
use crate::execution::Execution;
use crate::facts::{Facts, PlanFact};
use crate::facts_table::{Row, has, read_facts, read_plans};
use crate::format::{FORMAT, KIND, RunInfo};
use crate::observed::{
    Activity, Blocking, Counter, LockCount, ProbeNote, SampleWindow, SeenStatement,
    StatementStatistics,
};
use crate::observed_table as observed;
use crate::profiled_table::ProfileReader;
use crate::table::{EXECUTION, read_execution};

/// A complete run, opened.
#[derive(Debug, Clone)]
pub struct RunReader {
    archive: Archive,
    info: RunInfo,
}

impl RunReader {
    /// Opens the run at `path`.
    ///
    /// # Errors
    /// Where it is none, newer than this program, unfinished, cut or unreadable.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let archive = Archive::open(path, KIND, FORMAT)?;
        let info = archive.body()?;
        Ok(RunReader { archive, info })
    }

    /// What the manifest says.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Equal for equal content.
    pub fn id(&self) -> &str {
        &self.archive.manifest().id
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.archive.path()
    }

    /// Compares every file with its checksum.
    ///
    /// # Errors
    /// Names the first file that differs.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        self.archive.verify()
    }

    /// The names of its tables, each once.
    pub fn tables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for file in &self.archive.manifest().files {
            if !names.contains(&file.table.as_str()) {
                names.push(&file.table);
            }
        }
        names
    }

    /// Writes a table as comma-separated values, with the names of its columns first and without
    /// those in `left_out`. Holds one batch in memory. Returns how many rows there were.
    ///
    /// # Errors
    /// Where the table cannot be read, or `out` refuses.
    pub fn write_csv(
        &self,
        table: &str,
        left_out: &[&str],
        out: &mut impl io::Write,
    ) -> Result<u64, ArchiveError> {
        let columns = columns_of(table).ok_or_else(|| ArchiveError::Damaged {
            path: self.archive.path().to_owned(),
            reason: format!("no run has a table '{table}'"),
        })?;
        let refused = |error| ArchiveError::io("write the values of", self.archive.path(), error);
        write_head(columns, left_out, out).map_err(refused)?;
        let mut reader = self.archive.table(table, columns)?;
        let mut rows = 0;
        while let Some(batch) = reader.next_batch()? {
            write_rows(&batch, columns, left_out, out).map_err(refused)?;
            rows += batch.rows() as u64;
        }
        Ok(rows)
    }

    /// All executions, in the order in which they were done. Holds one batch in memory.
    ///
    /// # Errors
    /// Where the first file cannot be read; later damage comes as an item.
    pub fn executions(
        &self,
    ) -> Result<impl Iterator<Item = Result<Execution, ArchiveError>> + use<>, ArchiveError> {
        let path = self.archive.path().to_owned();
        let table = self.archive.table("executions", EXECUTION)?;
        Ok(table.rows(move |batch, row| {
            read_execution(batch, row).map_err(|reason| ArchiveError::Damaged {
                path: path.clone(),
                reason,
            })
        }))
    }

    /// All statements of the workload, in the order of first sight.
    ///
    /// # Errors
    /// Where the file cannot be read; later damage comes as an item.
    pub fn statements(
        &self,
    ) -> Result<impl Iterator<Item = Result<StatementText, ArchiveError>> + use<>, ArchiveError>
    {
        let table = self.archive.table("statements", StatementText::COLUMNS)?;
        Ok(table.rows(|batch, row| Ok(StatementText::read(batch, row))))
    }

    /// What is known of the target; `None` where it was not asked: left out, or a run of a format
    /// before 4. Holds all of it.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn facts(&self) -> Result<Option<Facts>, ArchiveError> {
        read_facts(&self.archive)
    }

    /// The CPU profile that was recorded meanwhile; `None` where none was asked for.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn profile(&self) -> Result<Option<ProfileReader>, ArchiveError> {
        ProfileReader::open(&self.archive)
    }

    /// The plans of statements, those first that took most time; `None` where they were not asked
    /// for.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn plans(&self) -> Result<Option<Vec<PlanFact>>, ArchiveError> {
        read_plans(&self.archive)
    }

    /// What was gathered at one moment so that the run can be done again; `None` where nothing was.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn evidence(&self, moment: Moment) -> Result<Option<Vec<Artefact>>, ArchiveError> {
        read_evidence(&self.archive, moment)
    }

    /// Whether the server was watched meanwhile. Where it was not, what follows here is empty.
    pub fn is_observed(&self) -> bool {
        has(&self.archive, observed::NOTES)
    }

    /// What became of the probes, in the order in which it happened.
    ///
    /// # Errors
    /// Where the file cannot be read; so it is with all that follow, where later damage comes as an item.
    pub fn probes(&self) -> Result<Vec<ProbeNote>, ArchiveError> {
        self.seen(observed::NOTES)?.collect()
    }

    /// The statements that were seen.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn seen_statements(&self) -> Result<Stream<SeenStatement>, ArchiveError> {
        self.seen(observed::SEEN)
    }

    /// What the server's statistics of statements gained.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn statement_statistics(&self) -> Result<Stream<StatementStatistics>, ArchiveError> {
        self.seen(observed::STATISTICS)
    }

    /// When the activity was sampled, and how often.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn sample_windows(&self) -> Result<Stream<SampleWindow>, ArchiveError> {
        self.seen(observed::WINDOWS)
    }

    /// What was met in the samples.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn activity(&self) -> Result<Stream<Activity>, ArchiveError> {
        self.seen(observed::ACTIVITY)
    }

    /// Who held up whom.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn blocking(&self) -> Result<Stream<Blocking>, ArchiveError> {
        self.seen(observed::BLOCKING)
    }

    /// The locks that were there.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn locks(&self) -> Result<Stream<LockCount>, ArchiveError> {
        self.seen(observed::LOCKS)
    }

    /// Counters, whenever they changed.
    ///
    /// # Errors
    /// As [`Self::probes`].
    pub fn counters(&self) -> Result<Stream<Counter>, ArchiveError> {
        self.seen(observed::COUNTERS)
    }

    fn seen<R: Row + 'static>(&self, table: &str) -> Result<Stream<R>, ArchiveError> {
        if !has(&self.archive, table) {
            return Ok(Box::new(std::iter::empty()));
        }
        let path = self.archive.path().to_owned();
        let rows = self.archive.table(table, R::COLUMNS)?;
        Ok(Box::new(rows.rows(move |batch, row| {
            R::read(batch, row).map_err(|reason| ArchiveError::Damaged {
                path: path.clone(),
                reason,
            })
        })))
    }
}

/// Rows of a table, one after the other; holds one batch in memory.
pub type Stream<R> = Box<dyn Iterator<Item = Result<R, ArchiveError>>>;
