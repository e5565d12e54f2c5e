//! Completes parts on a separate thread, so that the source need not wait for the disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use workload::series::{
    CarriedCounts, HeldEvent, PartCheckpoint, SERIES_FILE, SeriesInfo, SeriesState,
};
use workload::{ArchiveError, DirectoryLock, Provenance, WorkloadInfo, WorkloadWriter};

use super::retention::{PartList, directory_bytes, enforce_retention};
use super::status::SeriesWatch;
use super::{OnNote, wall_us};
use crate::mask::MaskSink;

/// Maximum number of parts that wait for completion. Each holds the memory of its writer.
const WAITING_MAX: usize = match cfg!(test) {
    false => 1,
    // A test can keep the finisher from completing any.
    true => 1000,
};

/// A part whose events are all known.
pub(super) struct FinishedPart {
    pub(super) number: u64,
    /// Its last state. Its time is at most the end of the part's time range.
    pub(super) state: PartCheckpoint,
    pub(super) path: PathBuf,
    pub(super) sink: MaskSink<WorkloadWriter>,
    pub(super) provenance: Provenance,
}

/// A task of the finisher.
pub(super) enum FinisherTask {
    Part(Box<FinishedPart>),
    /// Nothing happened until this time, in microseconds since 1970-01-01 UTC, but these events, which the source has not
    /// delivered.
    Advance {
        to_us: i64,
        held: Vec<HeldEvent>,
    },
    /// A change of `series.json`.
    Change(Box<dyn FnOnce(&mut SeriesInfo) + Send>),
}

/// Handle of the finishing thread.
pub(super) struct Finisher {
    tasks: Option<SyncSender<FinisherTask>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<ArchiveError>>>,
}

/// State of the finishing thread, which alone writes `series.json`.
pub(super) struct FinisherState {
    pub(super) path: PathBuf,
    pub(super) info: SeriesInfo,
    pub(super) watch: SeriesWatch,
    pub(super) on_note: OnNote,
    pub(super) parts: PartList,
    /// Lock that shows that the series is being captured.
    pub(super) lock: DirectoryLock,
    #[cfg(test)]
    pub(super) gate: Option<std::sync::Arc<super::tests::gate::Gate>>,
}

impl Finisher {
    /// Starts the thread.
    pub(super) fn start(state: FinisherState) -> Result<Self, ArchiveError> {
        let (tasks, received) = sync_channel(WAITING_MAX);
        let failure = Arc::new(Mutex::new(None));
        let (path, failed) = (state.path.clone(), failure.clone());
        let thread = std::thread::Builder::new()
            .name("series-finisher".to_owned())
            .spawn(move || {
                if let Err(error) = state.run(&received) {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            })
            .map_err(|error| ArchiveError::io("start a thread for", &path, error))?;
        Ok(Finisher {
            tasks: Some(tasks),
            thread: Some(thread),
            failure,
        })
    }

    /// Passes a task on. Waits if a part is being completed and another one waits.
    pub(super) fn send(&mut self, task: FinisherTask) -> Result<(), ArchiveError> {
        match self.tasks.as_ref().map(|tasks| tasks.send(task)) {
            Some(Ok(())) => Ok(()),
            // The thread has ended, so it has failed.
            _ => self.join(),
        }
    }

    /// Changes `series.json`, and waits until the change is on disk.
    pub(super) fn change(
        &mut self,
        change: impl FnOnce(&mut SeriesInfo) + Send + 'static,
    ) -> Result<(), ArchiveError> {
        self.send(FinisherTask::Change(Box::new(change)))?;
        let (written, is_written) = channel();
        // The next task begins when this one is done.
        self.send(FinisherTask::Change(Box::new(move |_| {
            let _ = written.send(());
        })))?;
        match is_written.recv() {
            Ok(()) => Ok(()),
            Err(_) => self.join(),
        }
    }

    /// Waits until all tasks are done; returns the error of the first that failed.
    pub(super) fn join(&mut self) -> Result<(), ArchiveError> {
        self.tasks = None;
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        // Parts that are being completed are completed, whatever ended the capture.
        let _ = self.join();
    }
}

impl FinisherState {
    fn run(mut self, tasks: &Receiver<FinisherTask>) -> Result<(), ArchiveError> {
        self.count_kept();
        for task in tasks {
            match task {
                FinisherTask::Part(part) => self.complete(*part)?,
                FinisherTask::Advance { to_us, held } => self.advance(to_us, held)?,
                FinisherTask::Change(change) => {
                    change(&mut self.info);
                    self.info.write(&self.path)?;
                }
            }
        }
        let is_abandoned = self.info.captures == 1 && self.info.state != SeriesState::Complete;
        if is_abandoned {
            remove_if_empty(&self.path);
        }
        drop(self.lock);
        Ok(())
    }

    /// Counts the parts of earlier captures.
    fn count_kept(&mut self) {
        for failure in self.parts.update(&self.path, &self.info.uuid) {
            (self.on_note)(&failure);
        }
        let mut status = self.watch.lock();
        (status.parts_kept, status.bytes_kept) = self.parts.total();
    }

    fn complete(&mut self, part: FinishedPart) -> Result<(), ArchiveError> {
        #[cfg(test)]
        self.pass(super::tests::gate::Stage::Closed);
        let (mut writer, masked) = part.sink.finish();
        writer.note_masks(masked);
        let written = writer.finish(part.provenance)?;
        #[cfg(test)]
        self.pass(super::tests::gate::Stage::Complete);
        let bytes = directory_bytes(&part.path);
        self.count(&written, bytes);
        self.info.note_complete(part.number, part.state);
        self.write_info()?;
        #[cfg(test)]
        self.pass(super::tests::gate::Stage::Noted);
        PartCheckpoint::remove(&part.path);
        (self.on_note)(&format!(
            "completed {}: {} statements, {:.1} MB",
            part.path.display(),
            written.statements,
            bytes as f64 / 1e6
        ));
        self.remove_oldest()
    }

    #[cfg(test)]
    fn pass(&self, stage: super::tests::gate::Stage) {
        self.gate.iter().for_each(|gate| gate.pass(stage));
    }

    fn count(&self, written: &WorkloadInfo, bytes: u64) {
        let account = written.part.clone().unwrap_or_default();
        // Sessions that continue were counted before, if they have an event in an earlier part.
        let carried: CarriedCounts = account.left_out_since(1);
        let mut status = self.watch.lock();
        status.parts_written += 1;
        status.bytes_written += bytes;
        status.events += written.events - carried.events.min(written.events);
        status.statements += written.statements - carried.statements.min(written.statements);
        status.sessions += written.sessions - carried.sessions.min(written.sessions);
        status.late_events += account.late_events;
        status.preludes_cut += account.preludes_cut;
    }

    fn advance(&mut self, to_us: i64, held: Vec<HeldEvent>) -> Result<(), ArchiveError> {
        let to_us = Some(to_us).filter(|to_us| *to_us > i64::MIN);
        self.info.captured_to_us = self.info.captured_to_us.max(to_us);
        self.info.held = held;
        self.info.forget_settled();
        self.write_info()
    }

    fn write_info(&mut self) -> Result<(), ArchiveError> {
        self.watch.lock().captured_to_us = self.info.captured_to_us;
        self.info.write(&self.path)
    }

    fn remove_oldest(&mut self) -> Result<(), ArchiveError> {
        let result = enforce_retention(&self.path, &mut self.info, &mut self.parts, wall_us());
        let mut status = self.watch.lock();
        status.parts_removed += result.removed;
        status.bytes_removed += result.removed_bytes;
        status.parts_kept = result.kept;
        status.bytes_kept = result.kept_bytes;
        status.removals_failed += result.removals_failed;
        drop(status);
        for failure in &result.failures {
            (self.on_note)(failure);
        }
        if result.removed == 0 {
            return Ok(());
        }
        (self.on_note)(&format!(
            "the retention removed {} parts of {:.1} MB",
            result.removed,
            result.removed_bytes as f64 / 1e6
        ));
        self.info.write(&self.path)
    }
}

/// Marks the series as complete.
pub(super) fn mark_complete(info: &mut SeriesInfo) {
    info.state = SeriesState::Complete;
}

/// Removes a series that a capture began and that failed before it had a part, so that it can be begun again.
fn remove_if_empty(path: &Path) {
    let is_description = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name() == SERIES_FILE)
    };
    if std::fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_description)) {
        // What stays is an empty series, which --append continues.
        let _ = std::fs::remove_file(path.join(SERIES_FILE));
        let _ = std::fs::remove_dir(path);
    }
}
