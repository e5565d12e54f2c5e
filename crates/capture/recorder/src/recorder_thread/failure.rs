//! Recordings that cannot be written any more.

use capture_sink::{EventCounter, SinkError};

use super::{Action, Command, FailedRecording, PendingCommand, RecorderThread, SourceMark};
use crate::capture_event::CaptureEvent;
use crate::capture_status::{FinishedRecording, RecordingState};

impl RecorderThread {
    /// Ends a recording that failed; connections are still tracked.
    pub(super) fn fail_recording(&mut self, error: &SinkError, at_us: i64) {
        let Some(current) = self.current.take() else {
            return;
        };
        let _ = self
            .conversations
            .stop_recording(at_us, &mut EventCounter::default());
        let reason = error.to_string();
        (self.parts.on_event)(CaptureEvent::RecordingFailed {
            name: current.name.clone(),
            reason: reason.clone(),
        });
        self.update_status(|status| status.recording = None);
        self.own_commands += 1;
        let number = self.own_commands;
        let sources = self.from.len();
        let command = Command {
            number,
            action: Action::Account,
            // Nothing waits for the reply.
            reply: crossbeam_channel::bounded(1).0,
        };
        let waiting = PendingCommand {
            command,
            marks: 0,
            at_us: i64::MIN,
            from: vec![SourceMark::default(); sources],
        };
        self.waiting.insert(number, waiting);
        let failed = FailedRecording {
            current,
            at_us,
            reason,
        };
        self.failed.insert(number, failed);
        for source in &self.parts.sources {
            source.request_mark(number);
        }
    }

    pub(super) fn close_failed(&mut self, number: u64, from: &[SourceMark]) {
        let Some(failed) = self.failed.remove(&number) else {
            return;
        };
        let (current, reason) = (&failed.current, failed.reason);
        let account = self.account(current, failed.at_us, from, Some(reason));
        let provenance = self.provenance(&account);
        let name = current.name.clone();
        let finished = FinishedRecording::new(name, RecordingState::Partial, account, provenance);
        self.update_status(|status| status.finished.push(finished));
    }

    /// Reports a recording that was dropped as by a crash, since the system has no thread to complete it.
    pub(super) fn report_not_completed(
        &self,
        mut finished: FinishedRecording,
        error: &std::io::Error,
    ) {
        let reason = format!("it was not completed, since the system has no thread: {error}");
        let name = finished.name.clone();
        finished.account.failure = Some(reason.clone());
        self.update_status(|status| status.finished.push(finished));
        (self.parts.on_event)(CaptureEvent::RecordingFailed { name, reason });
    }
}
