//! Writes a run.

use std::path::{Path, PathBuf};

use archive::{
    ArchiveError, ArchiveWriter, OnFailure, Parts, TableOptions, TableWriter, recover_tables,
    unfinished_body,
};
use workload::StatementText;

use crate::evidence::{Artefact, Moment, TABLES as EVIDENCE_TABLES, write_evidence};
use crate::execution::{Execution, SkipReason};
use crate::facts::{Facts, PlanFact};
use crate::facts_table::{TABLES, write_facts, write_plans};
use crate::format::{FORMAT, KIND, RunInfo, RunStatus};
use crate::observed_table::{ObservedWriter, TABLES as OBSERVED_TABLES};
use crate::profiled_table::{ProfileWriter, TABLES as PROFILE_TABLES};
use crate::table::{EXECUTION, read_execution, write_execution};
use crate::tally::{ServiceTime, Tally};

/// Rows in a part: a few minutes of a busy replay.
const PARTS: TableOptions = TableOptions {
    parts: Parts::Rows(1 << 22),
    group_rows: 1 << 16,
};

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// A run that is being written, at `PATH.partial`. Dropped unfinished, it stays there: a replay
/// cannot be had again for nothing.
pub struct RunWriter {
    archive: ArchiveWriter,
    executions: TableWriter,
    files: Vec<archive::FileEntry>,
    tally: Tally,
}

impl RunWriter {
    /// Makes `PATH.partial`, with the workload's statements. `info` is what is known before the
    /// replay; its counts are made by the writer.
    ///
    /// # Errors
    /// Where `path` or its partial exists, the workload's statements cannot be read, or the disk
    /// refuses.
    pub fn create(
        path: &Path,
        info: &RunInfo,
        statements: impl Iterator<Item = Result<StatementText, ArchiveError>>,
    ) -> Result<Self, ArchiveError> {
        let archive = ArchiveWriter::create(path, KIND, FORMAT, OnFailure::Keep)?;
        archive.note(serde_json::to_value(info).expect("plain data"))?;
        let mut table = archive.table("statements", StatementText::COLUMNS, ONE_FILE)?;
        for statement in statements {
            statement?.write(&mut table)?;
        }
        Ok(RunWriter {
            files: table.finish()?,
            executions: archive.table("executions", EXECUTION, PARTS)?,
            archive,
            tally: Tally::default(),
        })
    }

    /// Takes what became of one event; in the order in which they were done.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn execution(&mut self, execution: &Execution) -> Result<(), ArchiveError> {
        self.tally.count(execution);
        write_execution(&mut self.executions, execution)
    }

    /// Keeps what was found of the target. It survives a kill of this process. Once at most.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn facts(&mut self, facts: &Facts) -> Result<(), ArchiveError> {
        self.files.extend(write_facts(&self.archive, facts)?);
        Ok(())
    }

    /// Keeps plans, in the order in which they are to be read. Once at most.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn plans(&mut self, plans: &[PlanFact]) -> Result<(), ArchiveError> {
        self.files.extend(write_plans(&self.archive, plans)?);
        Ok(())
    }

    /// Keeps what was gathered at one moment. It survives a kill of this process. Once at most for each.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn evidence(&mut self, moment: Moment, artefacts: &[Artefact]) -> Result<(), ArchiveError> {
        let files = write_evidence(&self.archive, moment, artefacts)?;
        self.files.extend(files);
        Ok(())
    }

    /// Begins the tables of a CPU profile. They are written apart from the executions, on whichever
    /// thread; [`Self::take_profile`] takes them back. Once at most.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn profile(&self) -> Result<ProfileWriter, ArchiveError> {
        ProfileWriter::create(&self.archive)
    }

    /// Takes the tables of a profile. Without this they are not part of the run.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn take_profile(&mut self, profile: ProfileWriter) -> Result<(), ArchiveError> {
        self.files.extend(profile.finish()?);
        Ok(())
    }

    /// Begins the tables of what is seen meanwhile. They are written apart from the executions, on
    /// whichever thread; [`Self::take_observed`] takes them back. Once at most.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn observed(&self) -> Result<ObservedWriter, ArchiveError> {
        ObservedWriter::create(&self.archive)
    }

    /// Takes the tables of what was seen. Without this they are not part of the run.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn take_observed(&mut self, observed: ObservedWriter) -> Result<(), ArchiveError> {
        self.files.extend(observed.finish()?);
        Ok(())
    }

    /// Sums up service times by statement from now on, for [`Self::costliest`].
    pub fn sum_up_service_times(&mut self) {
        self.tally.sum_up_service_times();
    }

    /// The statements that took the most service time of those that were taken, the most first, up
    /// to `count`. Empty where they were not summed up.
    pub fn costliest(&self, count: usize) -> Vec<ServiceTime> {
        self.tally.costliest(count)
    }

    /// Makes sure that what was taken so far survives a kill of this process.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.executions.flush()
    }

    /// Where the run is being written.
    pub fn directory(&self) -> &Path {
        self.archive.directory()
    }

    /// Writes the manifest, syncs and renames. The counts and spans in `info` are replaced by
    /// those of what was taken; `elapsed_ns` stays where nothing was done. `unreached` statements of the workload were not come to before a
    /// stop: they have no rows, and count as skipped for that reason.
    ///
    /// # Errors
    /// Where the disk refuses; the partial stays.
    pub fn finish(mut self, mut info: RunInfo, unreached: u64) -> Result<RunInfo, ArchiveError> {
        let elapsed_ns = info.elapsed_ns;
        self.tally.fill(&mut info);
        info.elapsed_ns = info.elapsed_ns.max(elapsed_ns);
        if unreached > 0 {
            info.statements += unreached;
            *info
                .skipped
                .entry(SkipReason::Stopped.name().to_owned())
                .or_default() += unreached;
        }
        let mut files = self.executions.finish()?;
        files.append(&mut self.files);
        let body = serde_json::to_value(&info).expect("plain data");
        self.archive.finish(files, body)?;
        Ok(info)
    }
}

/// Finishes a run whose replay was killed, with the executions of its complete row groups. Returns
/// where it now lies.
///
/// # Errors
/// Where `partial` is no unfinished run, or the disk refuses.
pub fn recover(partial: &Path) -> Result<(PathBuf, RunInfo), ArchiveError> {
    let body = unfinished_body(partial, KIND)?;
    let mut info: RunInfo =
        serde_json::from_value(body).map_err(|error| ArchiveError::Foreign {
            path: partial.to_owned(),
            kind: "unfinished run".to_owned(),
            reason: format!("it was stopped before it began ({error})"),
        })?;
    let archive = ArchiveWriter::resume(partial, KIND, FORMAT)?;
    let tables = [
        &["executions", "statements"],
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
    let mut tally = Tally::default();
    let mut rows = archive::TableReader::open(paths, EXECUTION)?;
    while let Some(batch) = rows.next_batch()? {
        for row in 0..batch.rows() {
            let execution =
                read_execution(&batch, row).map_err(|reason| ArchiveError::Damaged {
                    path: partial.to_owned(),
                    reason,
                })?;
            tally.count(&execution);
        }
    }
    tally.fill(&mut info);
    info.status = RunStatus::Recovered;
    let path = archive.path().to_owned();
    archive.finish(files, serde_json::to_value(&info).expect("plain data"))?;
    Ok((path, info))
}
