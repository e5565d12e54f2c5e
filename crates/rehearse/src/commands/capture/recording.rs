//! Recordings of live traffic that the proxy and the probes write: workloads, or parts of a series.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capture_recorder::{
    CaptureStatus, FinishedRecording, OpenRecording, Recording, RecordingState,
};
use capture_sink::{EventSink, MaskSink, SinkError};
use study::{Failure, keys};
use transform::SecretRedactor;
use transform::mask::{Mask, Masker};
use workload::series::Series;
use workload::{
    EventRef, Provenance, Recipient, ServerEvent, Session, WorkloadInfo, WorkloadWriter,
    WriterOptions,
};

use super::check_output_name;
use super::series::{SeriesRecording, SeriesSource, recover_series, series_options};
use super::starting_point::{RecordingSwitch, StartingPointTaker};
use crate::options::live_capture::LiveCaptureArgs;
use crate::options::roll::RollArgs;
use crate::terminal;

/// Output of live traffic, with its protection.
pub(super) struct RecordingOutput {
    kind: &'static str,
    path: PathBuf,
    roll: RollArgs,
    mask: Option<Mask>,
    recipients: Vec<Recipient>,
}

impl RecordingOutput {
    /// Reads the options of a capture from a source of this kind.
    ///
    /// # Errors
    /// If the name is not that of a workload or series, or a file of the masking or the encryption cannot be read.
    pub(super) fn new(kind: &'static str, live: &LiveCaptureArgs) -> Result<Self, Failure> {
        check_output_name(&live.output, &live.roll)?;
        Ok(RecordingOutput {
            kind,
            path: live.output.clone(),
            roll: live.roll.clone(),
            mask: live.masking.masker()?.map(|masker| masker.mask().clone()),
            recipients: keys::read_recipients(&live.encryption.encrypt)?,
        })
    }

    /// Returns the unfinished directory, or the series that has it, if the capture is killed now.
    pub(super) fn partial(&self) -> PathBuf {
        match self.roll.roll {
            Some(_) => self.path.clone(),
            None => archive::partial_path(&self.path),
        }
    }

    /// Opens recordings: workloads, or parts of a series.
    pub(super) fn open(self, starting_point: Arc<StartingPointTaker>) -> OpenRecording {
        match self.roll.roll {
            None => self.open_workloads(starting_point),
            Some(_) => self.open_series(starting_point),
        }
    }

    /// Opens NAME.workload, then NAME-2.workload and so on. Existing names are skipped, since
    /// clients must not wait for the user.
    fn open_workloads(self, starting_point: Arc<StartingPointTaker>) -> OpenRecording {
        let mut passed_over = 0;
        Box::new(move |number, servers| {
            let is_taken = |path: &Path| archive::is_name_taken(path).map_err(SinkError::new);
            while is_taken(&numbered_path(&self.path, number + passed_over))? {
                passed_over += 1;
            }
            let path = numbered_path(&self.path, number + passed_over);
            let options = WriterOptions {
                // What passes does not come again.
                keep_unfinished: true,
                ..WriterOptions::default()
            };
            let redactor = SecretRedactor::default();
            let mut writer = WorkloadWriter::create_for(&path, options, &self.recipients, redactor)
                .map_err(SinkError::new)?;
            writer
                .note_servers(servers.to_vec())
                .map_err(SinkError::new)?;
            if let Some(point) = starting_point.taken() {
                writer.note_starting_point(point).map_err(SinkError::new)?;
            }
            let sink = MaskSink::new(writer, self.mask.clone().map(Masker::new));
            Ok(Box::new(WorkloadRecording { path, sink }))
        })
    }

    /// Opens the series, and continues it for later recordings of the same capture.
    fn open_series(self, starting_point: Arc<StartingPointTaker>) -> OpenRecording {
        Box::new(move |number, servers| {
            let mut given = series_options(
                &self.roll,
                &self.path,
                SeriesSource {
                    kind: self.kind,
                    is_live: true,
                    is_pipe: false,
                    recipients: self.recipients.clone(),
                    mask: self.mask.clone(),
                    starting_point: starting_point.taken(),
                    servers: servers.to_vec(),
                },
            );
            // A recording that was stopped is continued by the next one.
            given.append |= number > 1;
            let recording = SeriesRecording::create(given).map_err(SinkError::new)?;
            Ok(Box::new(recording))
        })
    }
}

fn numbered_path(output: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return output.to_owned();
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!("{stem}-{number}.workload"))
}

/// Recording that is written to a workload.
struct WorkloadRecording {
    path: PathBuf,
    sink: MaskSink<WorkloadWriter>,
}

impl EventSink for WorkloadRecording {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        self.sink.event(event)
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        self.sink.session(session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        self.sink.server_event(event)
    }
}

impl Recording for WorkloadRecording {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn checkpoint(&mut self, up_to_us: i64) -> Result<(), SinkError> {
        let writer = self.sink.inner_mut();
        writer.checkpoint(up_to_us).map_err(SinkError::new)
    }

    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError> {
        let (mut writer, masked) = self.sink.finish();
        writer.note_masks(masked);
        writer.finish(provenance).map_err(SinkError::new)
    }
}

/// Completes a recording that ended early, if the disk now allows that.
pub(super) fn recover(finished: &mut FinishedRecording) {
    if finished.state != RecordingState::Partial {
        return;
    }
    if Series::is_series(Path::new(&finished.name)) {
        recover_series(finished);
        return;
    }
    let partial = archive::partial_path(Path::new(&finished.name));
    // A directory that cannot be looked at may be there.
    if matches!(partial.try_exists(), Ok(false)) {
        finished.mark_gone();
    } else if let Ok((_, info)) = workload::recover_as(&partial, finished.provenance.clone()) {
        finished.mark_recovered(&info);
    }
}

/// Returns whether a recording is incomplete, or has ended early.
pub(super) fn is_incomplete(capture: &CaptureStatus) -> bool {
    capture.broken_down.is_some()
        || capture.finished.iter().any(|finished| {
            let account = &finished.account;
            account.failure.is_some() || !account.incomplete.is_empty()
        })
}

/// Starts or stops recording on a separate thread, since a disk may be slow. `start_failed` is set if a start fails.
pub(super) fn switch_recording(
    is_recording: bool,
    switch: RecordingSwitch,
    start_failed: Arc<AtomicBool>,
) {
    std::thread::spawn(move || {
        let result = match is_recording {
            true => switch.stop_recording(),
            false => switch.start_recording(),
        };
        if let Err(error) = result {
            terminal::note(&error);
            start_failed.fetch_or(!is_recording, Ordering::Relaxed);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_recordings_are_numbered() {
        let output = Path::new("/a/shop.workload");
        assert_eq!(numbered_path(output, 1), output);
        assert_eq!(numbered_path(output, 2), Path::new("/a/shop-2.workload"));
    }
}
