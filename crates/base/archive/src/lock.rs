//! Locks of archives that are being written.

use std::fs;
use std::path::Path;

/// Locks the directory; `None` if the file system does not support it.
pub(crate) fn lock(partial: &Path) -> Option<fs::File> {
    let directory = fs::File::open(partial).ok()?;
    directory.try_lock().ok().map(|()| directory)
}

/// Whether a process is writing this unfinished archive.
pub(crate) fn is_being_written(partial: &Path) -> bool {
    let directory = fs::File::open(partial);
    let locked = directory.map(|directory| directory.try_lock());
    matches!(locked, Ok(Err(fs::TryLockError::WouldBlock)))
}
