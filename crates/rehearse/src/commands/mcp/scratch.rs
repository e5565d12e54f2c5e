//! Temporary files of the server. They are removed at its end, or at the start of the next server after a kill.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "rehearse-mcp-";
/// File that the server and its workers hold a shared lock on.
const LOCK: &str = "lock";

/// Directory with a directory for each call in progress.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates the directory, and removes those that killed servers left.
    ///
    /// # Errors
    /// If it cannot be created, or its file system has no locks.
    pub fn create() -> io::Result<Self> {
        loop {
            let directory = TempDir::with_prefix(PREFIX)?;
            File::create_new(directory.path().join(LOCK))?;
            // Another server may have found the directory before it was locked, and removed it.
            match lock_shared(directory.path()) {
                Ok(lock) => {
                    remove_leftovers(directory.path())?;
                    return Ok(Scratch {
                        directory,
                        _lock: lock,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the directory of the server.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Creates the directory of a call.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn call_directory(&self) -> io::Result<TempDir> {
        TempDir::with_prefix_in("call-", self.directory.path())
    }
}

/// Locks the directory of a server, so that another one does not remove it. The lock ends with the process.
///
/// # Errors
/// If the directory was removed, or cannot be locked.
pub fn lock_shared(directory: &Path) -> io::Result<File> {
    let path = directory.join(LOCK);
    let lock = File::open(&path)?;
    lock.lock_shared()?;
    // The path may have been removed while this process waited.
    fs::metadata(&path)?;
    Ok(lock)
}

/// Removes the directories of this user that no process has locked.
fn remove_leftovers(own: &Path) -> io::Result<()> {
    let user = fs::metadata(own)?.uid();
    let parent = own.parent().unwrap_or(Path::new("."));
    for path in fs::read_dir(parent)?.flatten().map(|entry| entry.path()) {
        if path == own {
            continue;
        }
        // Locked while it is removed, so that a server that just created it notices.
        if let Some(_lock) = lock_leftover(&path, user) {
            // What cannot be removed now is tried again by the next server.
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}

/// Locks the directory of a server of this user that has ended.
fn lock_leftover(path: &Path, user: u32) -> Option<File> {
    let name = path.file_name().unwrap_or_default();
    let metadata = fs::symlink_metadata(path).ok()?;
    let is_own = metadata.is_dir() && metadata.uid() == user;
    if !is_own || !name.to_string_lossy().starts_with(PREFIX) {
        return None;
    }
    let lock = File::open(path.join(LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_a_killed_server_is_a_leftover_and_a_locked_one_is_not() {
        let room = tempfile::tempdir().unwrap();
        let user = fs::metadata(room.path()).unwrap().uid();
        let at = room.path().join("rehearse-mcp-x");
        fs::create_dir(&at).unwrap();
        let is_leftover = |at: &Path, user| lock_leftover(at, user).is_some();
        assert!(!is_leftover(&at, user), "no lock yet");
        fs::write(at.join(LOCK), "").unwrap();
        let lock = lock_shared(&at).unwrap();
        assert!(!is_leftover(&at, user));
        drop(lock);
        assert!(is_leftover(&at, user));
        assert!(!is_leftover(&at, user + 1));
        let other = room.path().join("other");
        fs::rename(&at, &other).unwrap();
        assert!(!is_leftover(&other, user));
    }
}
