//! Files that only their owner can read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::ArchiveError;

const FILE_MODE: u32 = 0o600;

/// Creates an empty file that only its owner can read.
///
/// # Errors
/// If the file cannot be created.
pub fn create_private(path: &Path) -> Result<File, ArchiveError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|error| ArchiveError::io("make", path, error))
}
