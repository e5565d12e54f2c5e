//! Reads a run, a batch at a time.

use std::path::Path;

use archive::{Archive, ArchiveError};
use workload::StatementText;

use crate::execution::Execution;
use crate::facts::{Facts, PlanFact};
use crate::facts_table::{read_facts, read_plans};
use crate::format::{FORMAT, KIND, RunInfo};
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
}
