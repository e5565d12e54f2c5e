//! Reads a run while a replay writes it.

use std::path::{Path, PathBuf};

use archive::{ArchiveError, Batch, GrowingTable, growing_body, is_growing, partial_path};
use workload::StatementText;

use crate::connection_losses::{self, ConnectionLosses};
use crate::execution::Execution;
use crate::facts_table::Row;
use crate::format::{KIND, RunInfo};
use crate::reader::RunReader;
use crate::table::{EXECUTION, read_execution};
use crate::writer::{ONE_FILE, PARTS};

/// State of a run that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedState {
    /// A replay writes it.
    InProgress,
    /// It is complete.
    Complete,
    /// Its replay was killed: it is unfinished, and nothing writes it.
    Abandoned,
}

/// Row of a run that is followed.
#[derive(Debug)]
pub enum FollowedResult<'r> {
    /// Execution.
    Execution(&'r Execution),
    /// Losses of connections.
    Losses(ConnectionLosses),
}

/// Reader of a run that may still be written.
pub struct RunFollower {
    path: PathBuf,
    partial: PathBuf,
    info: RunInfo,
    executions: GrowingTable,
    losses: GrowingTable,
    statements: GrowingTable,
}

impl RunFollower {
    /// Opens the run at `path`, complete or not. The path may also be that of the unfinished run, `NAME.run.partial`.
    ///
    /// # Errors
    /// If there is no run, or its manifest cannot be read.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let path = match path.extension().is_some_and(|name| name == "partial") {
            true => path.with_extension(""),
            false => path.to_owned(),
        };
        let partial = partial_path(&path);
        let info = match !path.exists() && partial.exists() {
            true => {
                let body = growing_body(&partial, KIND)?;
                serde_json::from_value(body).map_err(|error| ArchiveError::WrongKind {
                    path: partial.clone(),
                    kind: "unfinished run".to_owned(),
                    reason: format!("its replay has not begun ({error})"),
                })?
            }
            false => RunReader::open(&path)?.info().clone(),
        };
        Ok(RunFollower {
            path,
            partial,
            info,
            executions: GrowingTable::new("executions", EXECUTION, PARTS.parts),
            losses: GrowingTable::new(
                connection_losses::TABLE,
                ConnectionLosses::COLUMNS,
                PARTS.parts,
            ),
            statements: GrowingTable::new("statements", StatementText::COLUMNS, ONE_FILE.parts),
        })
    }

    /// Opens a run as [`Self::open`] does. Returns `None` if no replay has begun to write it.
    ///
    /// # Errors
    /// If its manifest cannot be read.
    pub fn open_begun(path: &Path) -> Result<Option<Self>, ArchiveError> {
        match Self::open(path) {
            Err(ArchiveError::NotFound { .. }) => Ok(None),
            // The directory has no manifest yet.
            Err(ArchiveError::WrongKind { .. }) if is_growing(&partial_path(path)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns the run's part of the manifest, as it was when the run was opened.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Returns the state of the run. All rows are there if it is not [`FollowedState::InProgress`].
    pub fn state(&self) -> FollowedState {
        if self.path.exists() {
            return FollowedState::Complete;
        }
        match is_growing(&self.partial) {
            true => FollowedState::InProgress,
            // It may have been completed between the two looks.
            false if self.path.exists() => FollowedState::Complete,
            false => FollowedState::Abandoned,
        }
    }

    /// Returns the run's part of the manifest as it is now. Counts are those of a complete run only.
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn current_info(&self) -> Result<RunInfo, ArchiveError> {
        if self.path.exists() {
            return self.complete_info();
        }
        match growing_body(&self.partial, KIND) {
            Ok(body) => Ok(serde_json::from_value(body).unwrap_or_else(|_| self.info.clone())),
            // It was completed between the two looks.
            Err(_) if self.path.exists() => self.complete_info(),
            Err(error) => Err(error),
        }
    }

    /// Returns the run's part of the manifest as it is now that the run is complete.
    ///
    /// # Errors
    /// If the run is not complete, or its manifest cannot be read.
    pub fn complete_info(&self) -> Result<RunInfo, ArchiveError> {
        Ok(RunReader::open(&self.path)?.info().clone())
    }

    fn directory(&self) -> PathBuf {
        match self.path.exists() {
            true => self.path.clone(),
            false => self.partial.clone(),
        }
    }

    /// Calls `take` with each statement that was written since the last call.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn new_statements(
        &mut self,
        mut take: impl FnMut(StatementText),
    ) -> Result<(), ArchiveError> {
        while let Some(batch) = self.statements.next_batch(&self.directory())? {
            (0..batch.rows()).for_each(|row| take(StatementText::read(&batch, row)));
        }
        Ok(())
    }

    /// Calls `take` with each execution that was written since the last call, in the order in which they ended, and with the
    /// losses of connections before the executions that ended after them. Holds one batch in memory.
    ///
    /// # Errors
    /// If a table cannot be read, or has a damaged row.
    pub fn new_results(
        &mut self,
        mut take: impl FnMut(FollowedResult<'_>),
    ) -> Result<(), ArchiveError> {
        while let Some(batch) = self.executions.next_batch(&self.directory())? {
            // They were on disk before these executions.
            self.new_losses(&mut take)?;
            for row in 0..batch.rows() {
                take(FollowedResult::Execution(&self.execution(&batch, row)?));
            }
        }
        self.new_losses(&mut take)
    }

    fn new_losses(&mut self, mut take: impl FnMut(FollowedResult<'_>)) -> Result<(), ArchiveError> {
        while let Some(batch) = self.losses.next_batch(&self.directory())? {
            for row in 0..batch.rows() {
                let losses = ConnectionLosses::read(&batch, row);
                let losses = losses.map_err(|reason| self.damaged(reason))?;
                take(FollowedResult::Losses(losses));
            }
        }
        Ok(())
    }

    fn execution(&self, batch: &Batch, row: usize) -> Result<Execution, ArchiveError> {
        read_execution(batch, row).map_err(|reason| self.damaged(reason))
    }

    fn damaged(&self, reason: String) -> ArchiveError {
        ArchiveError::Damaged {
            path: self.directory(),
            reason,
        }
    }
}
