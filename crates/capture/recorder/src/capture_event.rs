//! Defines the events of a capture, for its caller.

use super::capture_status::FinishedRecording;

/// An event of a capture that runs.
#[derive(Debug)]
pub enum CaptureEvent {
    /// A recording has begun.
    RecordingStarted {
        /// Path of the workload.
        name: String,
    },
    /// A recording is complete.
    RecordingFinished(Box<FinishedRecording>),
    /// Copies are dropped, since the capture or its disk is too slow. Reported once in a recording.
    CopiesDropped,
    /// A recording failed. The traffic is not affected.
    RecordingFailed {
        /// Intended path of the workload.
        name: String,
        /// Reason.
        reason: String,
    },
    /// The capture has panicked. Nothing is recorded any more.
    CapturePanicked {
        /// Message of the panic.
        reason: String,
    },
}
