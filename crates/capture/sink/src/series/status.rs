//! Status of a series that is being captured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// State of a series that is being captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeriesStatus {
    /// Path of the series.
    pub series: String,
    /// File name of the part that is being written; `null` if nothing has happened in its time range.
    pub part: Option<String>,
    /// Time up to which everything that had ended is in complete parts, in microseconds since 1970-01-01 UTC.
    pub captured_to_us: Option<i64>,
    /// Time at which the first recorded statement, or other event of a client, was sent; in microseconds since 1970-01-01
    /// UTC.
    pub first_event_us: Option<i64>,
    /// Time at which the last one was sent.
    pub last_event_us: Option<i64>,
    /// Number of parts that this capture has completed.
    pub parts_written: u64,
    /// Their size, in bytes.
    pub bytes_written: u64,
    /// Number of events in these parts, without those that continue sessions of earlier parts.
    pub events: u64,
    /// Number of these events that are statements.
    pub statements: u64,
    /// Number of sessions in these parts, each counted once.
    pub sessions: u64,
    /// Number of parts that the retention of this capture has removed.
    pub parts_removed: u64,
    /// Their size, in bytes.
    pub bytes_removed: u64,
    /// Number of complete parts in the series.
    pub parts_kept: u64,
    /// Their size, in bytes.
    pub bytes_kept: u64,
    /// Number of times that the retention could not remove a part, since a process reads it or an error occurred.
    pub removals_failed: u64,
    /// Number of events that ended after the part of their time was complete. They are in a later part.
    pub late_events: u64,
    /// Number of events, with those of the server, whose times are more than a minute ahead of this machine's clock. They are
    /// in the part of the time at which they arrived.
    pub events_ahead: u64,
    /// Number of events, with those of the server, that were left out, since the series has them from an earlier capture of
    /// the same log or packets.
    pub repeated_events: u64,
    /// Number of these that ended in a gap of the series, so that it may not have them.
    pub repeated_in_gaps: u64,
    /// Number of sessions that began in a part with an incomplete state, because of the limits of memory.
    pub preludes_cut: u64,
    /// Number of open sessions.
    pub open_sessions: u64,
    /// Memory of the statements that restore their state, in bytes.
    pub carried_bytes: u64,
}

/// A handle for reading the status, for other threads. It is serialised as the current status.
#[derive(Debug, Clone, Default)]
pub struct SeriesWatch(Arc<Mutex<SeriesStatus>>);

impl SeriesStatus {
    /// Returns the time from the first event to the last, in microseconds.
    pub fn span_us(&self) -> i64 {
        let times = self.first_event_us.zip(self.last_event_us);
        times.map_or(0, |(first_us, last_us)| last_us - first_us)
    }
}

impl SeriesWatch {
    /// Returns the current status.
    pub fn status(&self) -> SeriesStatus {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SeriesStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serialize for SeriesWatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.status().serialize(serializer)
    }
}
