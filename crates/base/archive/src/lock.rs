//! Locks of archives that are being written or read, and of series of them.

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

/// Lock on a directory, held until it is dropped. Locks are advisory, and other processes of this machine see them.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: fs::File,
}

impl DirectoryLock {
    /// Locks a directory that is changed or removed. Returns `None` if a process has a lock on it.
    ///
    /// # Errors
    /// If it cannot be opened. A file system without locks is no error.
    pub fn try_exclusive(path: &Path) -> std::io::Result<Option<Self>> {
        Self::lock(path, fs::File::try_lock)
    }

    /// Locks a directory that is read. Returns `None` if a process changes or removes it.
    ///
    /// # Errors
    /// If it cannot be opened. A file system without locks is no error.
    pub fn try_shared(path: &Path) -> std::io::Result<Option<Self>> {
        Self::lock(path, fs::File::try_lock_shared)
    }

    fn lock(
        path: &Path,
        try_lock: impl Fn(&fs::File) -> Result<(), fs::TryLockError>,
    ) -> std::io::Result<Option<Self>> {
        let directory = fs::File::open(path)?;
        match try_lock(&directory) {
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(Some(DirectoryLock {
                _directory: directory,
            })),
        }
    }
}
