//! Defines the status and the events of a capture by probes.

use capture_recorder::{CaptureEvent, CaptureStatus};
use schemars::JsonSchema;
use serde::Serialize;

/// State of a capture by probes.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct AttachStatus {
    /// Server, as the user named it.
    pub server: String,
    /// Counts of what the probes copied.
    #[serde(flatten)]
    pub counters: AttachCounters,
    /// Bytes that were not recorded, since the capture was too slow.
    pub lost_bytes: u64,
    /// Reason why the prober ended before the user ended the capture.
    pub prober_failure: Option<String>,
    /// Reason to doubt that the probes see the server's traffic.
    pub probe_warning: Option<String>,
    /// State of the capture.
    #[serde(flatten)]
    pub capture: CaptureStatus,
}

/// Counts of what the probes copied, recorded or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttachCounters {
    /// Process of the postmaster; `null` while the server is stopped.
    pub postmaster: Option<u32>,
    /// Number of times that the probes were attached: 1, and 1 for each restart of the server.
    pub attached: u64,
    /// Sessions that are open and have sent something.
    pub sessions: usize,
    /// Sessions that existed before the probes were attached, and have sent or received something since.
    pub existing: u64,
    /// Those of them that are left out, since only new sessions are captured.
    pub left_out_existing: u64,
    /// Those of them that are left out, since they send a replication stream.
    pub left_out_replication: u64,
    /// Sessions that this program opened itself, and that are left out.
    pub left_out_own: u64,
    /// Sessions that began after the attach, and whose first bytes were not recorded. They are read from their first
    /// request whose beginning is recognised.
    pub lost_beginnings: u64,
    /// Reads and writes of sessions that could not be tracked, since there were too many. Their bytes are in no other count.
    pub untracked_calls: u64,
    /// Bytes from clients, and from the server.
    pub bytes: [u64; 2],
}

/// An event of a capture by probes.
#[derive(Debug)]
pub enum AttachEvent {
    /// The probes are attached.
    Attached {
        /// Process of the postmaster.
        postmaster: u32,
        /// Whether the server was stopped before.
        is_again: bool,
    },
    /// The server has stopped. The prober waits for its next start.
    ServerStopped,
    /// The prober has ended, and so has the capture.
    ProberEnded {
        /// Reason.
        reason: String,
    },
    /// An event of the recording.
    Capture(CaptureEvent),
}
