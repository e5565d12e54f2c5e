//! Writes a workload from files or from a stream.
//!
//! Files are still there when a capture fails. A stream cannot be read again, so its workload is
//! checkpointed every second.

use std::path::Path;

use clock::{Clock, SystemClock};
use transform::SecretRedactor;
use workload::{
    ArchiveError, EventRef, Recipient, ServerEvent, Session, WorkloadWriter, WriterOptions,
};

use crate::sink::{EventSink, SinkError};

/// Time between two checkpoints, in nanoseconds.
const CHECKPOINT_NS: i64 = 1_000_000_000;

/// Largest delay of events, in microseconds.
const LATE_US: i64 = 1_000_000;

/// Writer of a workload that checkpoints if its source is a stream.
pub struct WorkloadOutput {
    /// The writer.
    pub writer: WorkloadWriter,
    is_stream: bool,
    clock: SystemClock,
    checkpoint_ns: i64,
}

impl WorkloadOutput {
    /// Creates the workload's `.partial` directory.
    ///
    /// # Errors
    /// If it exists, or cannot be created.
    pub fn create(
        output: &Path,
        is_stream: bool,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        let options = WriterOptions {
            keep_unfinished: is_stream,
            ..WriterOptions::default()
        };
        Ok(WorkloadOutput {
            writer: WorkloadWriter::create_for(
                output,
                options,
                recipients,
                SecretRedactor::default(),
            )?,
            is_stream,
            clock: SystemClock::start(),
            checkpoint_ns: 0,
        })
    }
}

impl EventSink for WorkloadOutput {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        EventSink::event(&mut self.writer, event)?;
        if self.is_stream {
            // The machine's time, not the events': what is piped in may come faster than it once happened.
            let now_ns = self.clock.now_ns();
            if now_ns - self.checkpoint_ns >= CHECKPOINT_NS {
                self.checkpoint_ns = now_ns;
                self.writer
                    .checkpoint(event.due_us - LATE_US)
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
