//! Defines the status of the capture: the current recording, and the finished ones.

use schemars::JsonSchema;
use serde::Serialize;
use workload::{Provenance, WorkloadInfo};

use super::recording::{IncompleteRange, RecordingAccount};
use capture_sink::series::{SeriesStatus, SeriesWatch};
use capture_wire::conversation::DecoderAccount;

/// State of the workload of a recording that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingState {
    /// Everything that was read is in the workload.
    Complete,
    /// The recording ended early; what was written by then is in the workload.
    Recovered,
    /// The recording ended early; what was written by then is at the workload's name with
    /// `.partial` appended.
    Partial,
    /// The directory was removed while it was written. The program detects that; the capture does
    /// not.
    Gone,
}

/// A recording that has ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FinishedRecording {
    /// Path of the workload.
    #[serde(rename = "workload")]
    pub name: String,
    /// State of the workload.
    pub state: RecordingState,
    /// Sessions in the workload; of a partial one, those that were read.
    pub sessions: u64,
    /// Statements in the workload; of a partial one, those that were read.
    pub statements: u64,
    /// Events in the workload; of a partial one, those that were read.
    pub events: u64,
    /// Account of all bytes that passed.
    #[serde(flatten)]
    pub account: RecordingAccount,
    /// Origin of the workload, as its manifest has it.
    #[serde(skip)]
    pub provenance: Provenance,
}

impl FinishedRecording {
    /// Describes a recording that was completed, or that ended early and was not.
    pub(super) fn new(
        name: String,
        state: RecordingState,
        account: RecordingAccount,
        provenance: Provenance,
    ) -> Self {
        let DecoderAccount {
            sessions,
            statements,
            events,
            ..
        } = account.conversation;
        FinishedRecording {
            name,
            state,
            sessions,
            statements,
            events,
            account,
            provenance,
        }
    }

    /// Records that a workload was recovered from a partial recording.
    pub fn mark_recovered(&mut self, info: &WorkloadInfo) {
        self.state = RecordingState::Recovered;
        (self.sessions, self.statements, self.events) =
            (info.sessions, info.statements, info.events);
    }

    /// Records that nothing of the recording is left.
    pub fn mark_gone(&mut self) {
        self.state = RecordingState::Gone;
        (self.sessions, self.statements, self.events) = (0, 0, 0);
    }
}

/// State of the capture.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CaptureStatus {
    /// The recording in progress; `null` if nothing is being recorded.
    pub recording: Option<RecordingStatus>,
    /// Recordings that have ended, in order.
    #[serde(rename = "recordings")]
    pub finished: Vec<FinishedRecording>,
    /// The series that the recordings are parts of, if any.
    #[serde(rename = "written_series", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SeriesStatus>")]
    pub series: Option<SeriesWatch>,
    /// Message of the panic that ended the capture.
    pub broken_down: Option<String>,
}

/// The current recording.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct RecordingStatus {
    /// Path of the workload.
    #[serde(rename = "workload")]
    pub name: String,
    /// Start of the recording, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Number of bytes whose copies were dropped.
    pub lost_bytes: u64,
    /// Time ranges in which copies were dropped. At most 1,000, the last ones.
    pub incomplete: Vec<IncompleteRange>,
    /// Number of earlier time ranges that are not listed.
    pub incomplete_left_out: u64,
    /// Account of what was read so far.
    #[serde(rename = "conversation")]
    pub account: DecoderAccount,
}
