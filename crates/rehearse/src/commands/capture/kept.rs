//! A workload's writer for sources of both kinds: files, which are still there when a capture fails, and
//! what is said once, of which a kill leaves what was written about a second before.

use std::path::Path;

use capture_sink::{EventSink, SinkError};
use clock::{Clock, SystemClock};
use transform::SecretRedactor;
use workload::{
    ArchiveError, EventRef, Recipient, ServerEvent, Session, WorkloadWriter, WriterOptions,
};

/// Time between two checkpoints, in nanoseconds.
const CHECKPOINT_NS: i64 = 1_000_000_000;

/// How late events may come, in microseconds.
const LATE_US: i64 = 1_000_000;

/// A workload's writer that makes safe what will not come again.
pub(super) struct Kept {
    pub(super) writer: WorkloadWriter,
    is_said_once: bool,
    clock: SystemClock,
    checkpoint_ns: i64,
}

impl Kept {
    /// Makes the workload's `.partial`.
    ///
    /// # Errors
    /// Where it is there already, or cannot be made.
    pub(super) fn create(
        output: &Path,
        is_said_once: bool,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        let options = WriterOptions {
            keep_unfinished: is_said_once,
            ..WriterOptions::default()
        };
        Ok(Kept {
            writer: WorkloadWriter::create_for(
                output,
                options,
                recipients,
                SecretRedactor::default(),
            )?,
            is_said_once,
            clock: SystemClock::start(),
            checkpoint_ns: 0,
        })
    }
}

impl EventSink for Kept {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        EventSink::event(&mut self.writer, event)?;
        if self.is_said_once {
            // The machine's time, not the events': what is piped in may come faster than it once happened.
            let now_ns = self.clock.now_ns();
            if now_ns - self.checkpoint_ns >= CHECKPOINT_NS {
                self.checkpoint_ns = now_ns;
                self.writer
                    .make_safe(event.due_us - LATE_US)
                    .map_err(SinkError::new)?;
            }
        }
        Ok(())
    }

    fn session(&mut self, session: Session) -> Result<(), SinkError> {
        EventSink::session(&mut self.writer, session)
    }

    fn server_event(&mut self, event: ServerEvent) -> Result<(), SinkError> {
        EventSink::server_event(&mut self.writer, event)
    }
}
