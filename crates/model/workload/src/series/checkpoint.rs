//! State of a part, for a capture that is continued after a kill.

use std::fs;
use std::io::Write;
use std::path::Path;

use archive::{ArchiveError, read_small_file};
use serde::{Deserialize, Serialize};

use super::{HeldEvent, RunningEvent, SERIES_BYTES_MAX};

/// Name of the file in the directory of the part.
pub(crate) const CHECKPOINT_FILE: &str = "checkpoint.json";

/// State of a part of a series from a log or packets at its last checkpoint. A part has it from before its first event until
/// the description of the series has noted the complete part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCheckpoint {
    /// Number of this checkpoint in its capture. Parts that are open at the same time can have different ones.
    pub order: u64,
    /// Time up to which the files of the part have every event of it that had ended, in microseconds since 1970-01-01 UTC.
    /// `i64::MIN` if nothing is known to be in them.
    pub to_us: i64,
    /// Whether the files have an event that had ended by then.
    pub has_events: bool,
    /// Events that the source had not delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldEvent>,
    /// Last statements, without a duration, of sessions that were open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unended: Vec<RunningEvent>,
    /// Events of the part that are not settled at `to_us`, if it gets no more events. All its events are in its files then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedPart>,
}

/// Events of a part that gets no more events, and that ended near the time up to which it is complete or later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedPart {
    /// Events of clients.
    pub running: Vec<RunningEvent>,
    /// Times of server events, which are in the files once the part is complete.
    pub running_server: Vec<i64>,
}

impl Default for PartCheckpoint {
    /// Returns the state of a part of which nothing is known.
    fn default() -> Self {
        PartCheckpoint {
            order: 0,
            to_us: i64::MIN,
            has_events: false,
            held: Vec::new(),
            unended: Vec::new(),
            closed: None,
        }
    }
}

impl PartCheckpoint {
    /// Reads it from the directory of a part. Returns `None` if there is none that can be read.
    pub fn read(part: &Path) -> Option<Self> {
        let text = read_small_file(&part.join(CHECKPOINT_FILE), SERIES_BYTES_MAX).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns the time up to which the files have everything, if anything is known to be in them.
    pub(crate) fn known_to_us(&self) -> Option<i64> {
        Some(self.to_us).filter(|to_us| *to_us > i64::MIN)
    }

    /// Replaces that of a part, so that a reader finds the old one or the new one.
    pub(crate) fn write(&self, part: &Path) -> Result<(), ArchiveError> {
        let path = part.join(CHECKPOINT_FILE);
        let fresh = part.join("checkpoint.json.new");
        let text = serde_json::to_vec(self).expect("plain data");
        let mut file = archive::create_private(&fresh)?;
        let written = file.write_all(&text);
        // Survives a kill of the process, as the events do. A part that is closed is synced when it is complete.
        let synced = written.and_then(|()| match self.closed {
            Some(_) => file.sync_all(),
            None => Ok(()),
        });
        synced
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|error| ArchiveError::io("write", &path, error))
    }

    /// Removes that of a part which is complete and noted. It does no harm if it stays.
    pub fn remove(part: &Path) {
        let _ = fs::remove_file(part.join(CHECKPOINT_FILE));
    }
}
