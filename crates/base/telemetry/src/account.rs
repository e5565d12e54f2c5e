//! Account of an export: items that were accepted, and those that were lost, with the reason.

/// Reason why a request was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportFailure {
    /// There was no answer: the collector is not there, or too slow.
    NoAnswer(String),
    /// The collector answered with this status, and a message.
    Refused(u16, String),
    /// The collector accepted the request except for some items.
    PartlyRejected(String),
    /// The thread of the exporter ended early.
    Panicked,
}

/// Account of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportAccount {
    /// Address of the collector, without credentials.
    pub endpoint: String,
    /// Accepted requests.
    pub accepted: u64,
    /// Attempts to send a request that failed.
    pub failed_attempts: u64,
    /// Readings of all metrics that were made.
    pub readings: u64,
    /// Readings that were not accepted, or only in part.
    pub readings_lost: u64,
    /// Spans that were accepted.
    pub spans: u64,
    /// Spans that were not accepted, or for which there was no room.
    pub spans_lost: u64,
    /// The last failure.
    pub last_failure: Option<ExportFailure>,
}

impl ExportAccount {
    /// Whether everything was accepted.
    pub fn is_complete(&self) -> bool {
        let is_counted = self.last_failure != Some(ExportFailure::Panicked);
        self.readings_lost == 0 && self.spans_lost == 0 && is_counted
    }
}
