//! Reads a run while a replay writes it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use archive::{ArchiveError, Batch, GrowingTable, growing_body, is_growing, partial_path};
use workload::StatementText;

use crate::execution::Execution;
use crate::facts_table::Row;
use crate::format::{KIND, RunInfo};
use crate::lost_connection::{self, LostConnection};
use crate::reader::RunReader;
use crate::table::{EXECUTION, read_execution};
use crate::writer::{ONE_FILE, PARTS};

/// Time up to which lost connections are handed out before executions that ended earlier, in nanoseconds. The threads of a
/// replay record losses in the order of time only within a few seconds.
const LOST_AHEAD_NS: i64 = 10_000_000_000;

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
    /// Lost connection.
    Lost(LostConnection),
    /// Text of a statement.
    Statement(StatementText),
}

/// Reader of a run that may still be written.
pub struct RunFollower {
    path: PathBuf,
    partial: PathBuf,
    info: RunInfo,
    executions: GrowingTable,
    lost: GrowingTable,
    /// Lost connections that were read, and not handed out.
    pending_lost: VecDeque<LostConnection>,
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
            lost: GrowingTable::new(lost_connection::TABLE, LostConnection::COLUMNS, PARTS.parts),
            pending_lost: VecDeque::new(),
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

    /// Calls `take` with each execution that was written since the last call, in the order in which they ended. Before them it
    /// gets their statements, and the connections that were lost up to their end or shortly later. Holds one batch in memory.
    ///
    /// # Errors
    /// If a table cannot be read, or has a damaged row.
    pub fn new_results(
        &mut self,
        mut take: impl FnMut(FollowedResult<'_>),
    ) -> Result<(), ArchiveError> {
        while let Some(batch) = self.executions.next_batch(&self.directory())? {
            let rows = 0..batch.rows();
            let executions = rows.map(|row| self.execution(&batch, row));
            let executions: Vec<Execution> = executions.collect::<Result<_, _>>()?;
            // Both were on disk before these executions.
            self.new_statements(&mut take)?;
            let ends = executions.iter().map(Execution::ended_ns);
            if let Some(until_ns) = ends.max() {
                self.new_lost(until_ns.saturating_add(LOST_AHEAD_NS), &mut take)?;
            }
            for execution in &executions {
                take(FollowedResult::Execution(execution));
            }
        }
        self.new_statements(&mut take)?;
        self.new_lost(i64::MAX, &mut take)
    }

    fn new_statements(
        &mut self,
        mut take: impl FnMut(FollowedResult<'_>),
    ) -> Result<(), ArchiveError> {
        while let Some(batch) = self.statements.next_batch(&self.directory())? {
            for row in 0..batch.rows() {
                take(FollowedResult::Statement(StatementText::read(&batch, row)));
            }
        }
        Ok(())
    }

    /// Calls `take` with the connections that were lost up to a time, which are a batch in memory at most.
    fn new_lost(
        &mut self,
        until_ns: i64,
        mut take: impl FnMut(FollowedResult<'_>),
    ) -> Result<(), ArchiveError> {
        loop {
            while let Some(lost) = self
                .pending_lost
                .pop_front_if(|lost| lost.at_ns <= until_ns)
            {
                take(FollowedResult::Lost(lost));
            }
            if !self.pending_lost.is_empty() {
                return Ok(());
            }
            let Some(batch) = self.lost.next_batch(&self.directory())? else {
                return Ok(());
            };
            for row in 0..batch.rows() {
                let lost = LostConnection::read(&batch, row);
                let lost = lost.map_err(|reason| self.damaged(reason))?;
                self.pending_lost.push_back(lost);
            }
        }
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
