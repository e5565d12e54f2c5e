//! State of a part at its last checkpoint, for a recovery.

use std::fs;
use std::path::Path;

use archive::{ArchiveError, read_small_file};
use serde::{Deserialize, Serialize};

use super::{HeldEvent, SERIES_BYTES_MAX};

/// Name of the file in the directory of an unfinished part.
const CHECKPOINT_FILE: &str = "checkpoint.json";

/// State of a part of a series from a log or packets at its last checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCheckpoint {
    /// Time up to which the files of the part have every event of it that had ended, in microseconds since 1970-01-01 UTC.
    pub to_us: i64,
    /// Events that had ended by then, and that the source had not delivered.
    #[serde(default)]
    pub held: Vec<HeldEvent>,
}

impl PartCheckpoint {
    /// Reads it from the directory of an unfinished part. Returns `None` if there is none that can be read.
    pub fn read(part: &Path) -> Option<Self> {
        let text = read_small_file(&part.join(CHECKPOINT_FILE), SERIES_BYTES_MAX).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Replaces that of an unfinished part, so that a reader finds the old one or the new one.
    pub(crate) fn write(&self, part: &Path) -> Result<(), ArchiveError> {
        let path = part.join(CHECKPOINT_FILE);
        let fresh = part.join("checkpoint.json.new");
        let text = serde_json::to_vec(self).expect("plain data");
        // Survives a kill of the process, as the events do.
        archive::create_private(&fresh)
            .map(drop)
            .and_then(|()| {
                fs::write(&fresh, text).map_err(|error| ArchiveError::io("write", &fresh, error))
            })
            .and_then(|()| {
                fs::rename(&fresh, &path).map_err(|error| ArchiveError::io("write", &path, error))
            })
    }

    /// Removes that of a part which is complete.
    pub(crate) fn remove(part: &Path) -> Result<(), ArchiveError> {
        let path = part.join(CHECKPOINT_FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ArchiveError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }
}
