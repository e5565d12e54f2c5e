//! Lock on the clones of a rehearsal. They are made hours before its directory exists, so that a lock on that is too late.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::failure::Failure;
use crate::notes;

/// Longest process id that is read from the file, in bytes.
const ID_MAX: u64 = 20;

/// Exclusive lock on the clones of an output, held until it is dropped. It is a lock on a file next to the output, with the id of
/// the process. The file is removed with the lock. The kernel unlocks the file of a killed process, so that it blocks nothing.
#[derive(Debug)]
pub(super) struct CloneLock {
    path: PathBuf,
    file: File,
}

impl CloneLock {
    /// Locks the clones of an output. `clones` is the beginning of their names. Creates the directory of the output.
    ///
    /// # Errors
    /// If another process has the lock, or the file cannot be written. A file system without locks is reported in a note.
    pub(super) fn take(output: &Path, clones: &str) -> Result<Self, Failure> {
        let path = lock_path(output);
        let failed = |error: io::Error| {
            Failure::could_not(format!(
                "cannot lock the clones of {}: cannot write {}: {error}; give an -o in a directory that you may write to",
                output.display(),
                path.display()
            ))
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        loop {
            let file = open(&path).map_err(failed)?;
            let locked = file.try_lock();
            if let Err(TryLockError::WouldBlock) = locked {
                return Err(in_use(output, clones, file));
            }
            // Between both calls, the process that held the lock can have removed the file.
            if !is_at(&file, &path).map_err(failed)? {
                continue;
            }
            if let Err(TryLockError::Error(error)) = locked {
                notes::note(&format!(
                    "{} cannot be locked ({error}), so that a second rehearsal with this output is not refused.",
                    path.display()
                ));
            }
            let mut lock = CloneLock {
                path: path.clone(),
                file,
            };
            lock.write_process().map_err(failed)?;
            return Ok(lock);
        }
    }

    fn write_process(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        write!(self.file, "{}", std::process::id())
    }
}

impl Drop for CloneLock {
    fn drop(&mut self) {
        // A file that cannot be removed is unlocked all the same.
        if let Ok(true) = is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn lock_path(output: &Path) -> PathBuf {
    let output = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".clones.lock");
    output.with_file_name(name)
}

/// Opens the lock file, and creates it if there is none. A symbolic link is refused: its target would be written.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let place = |one: &fs::Metadata| (one.dev(), one.ino());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(place(&found?) == place(&file.metadata()?)),
    }
}

fn in_use(output: &Path, clones: &str, file: File) -> Failure {
    let mut text = String::new();
    // The other process may not have written its id yet.
    let _ = file.take(ID_MAX).read_to_string(&mut text);
    let process = match text.trim().parse::<u32>() {
        Ok(id) => format!("process {id}"),
        Err(_) => "another process".to_owned(),
    };
    Failure::could_not(format!(
        "cannot rehearse in {}: {process} makes or uses its clones {clones}-old and {clones}-new; wait for its end, or stop it, or give another -o",
        output.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn clones_of_an_output_are_locked_until_the_lock_is_dropped_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("a/x.upgrade");
        let first = CloneLock::take(&output, "rehearse-x").unwrap();
        let path = directory.path().join("a/x.upgrade.clones.lock");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let refused = CloneLock::take(&output.join(""), "rehearse-x").unwrap_err();
        for part in [
            &format!("process {} makes", std::process::id()),
            "rehearse-x-old and rehearse-x-new",
            "wait for its end",
        ] {
            assert!(refused.message.contains(part), "{refused:?}");
        }
        CloneLock::take(&directory.path().join("a/y.upgrade"), "y").unwrap();
        drop(first);
        assert_eq!(fs::read_dir(directory.path().join("a")).unwrap().count(), 0);
        CloneLock::take(&output, "rehearse-x").unwrap();
    }

    #[test]
    fn file_of_a_killed_process_is_taken_and_a_symbolic_link_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("x.upgrade");
        let path = lock_path(&output);
        fs::write(&path, "4000000000 and more").unwrap();
        let lock = CloneLock::take(&output, "x").unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written, std::process::id().to_string());
        drop(lock);
        let other = directory.path().join("other");
        fs::write(&other, "content").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let refused = CloneLock::take(&output, "x").unwrap_err();
        assert!(refused.message.contains("cannot write"), "{refused:?}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "content");
    }

    #[test]
    fn file_that_was_replaced_is_neither_a_lock_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("x.upgrade");
        let first = CloneLock::take(&output, "x").unwrap();
        let path = lock_path(&output);
        fs::rename(&path, directory.path().join("removed")).unwrap();
        assert!(!is_at(&first.file, &path).unwrap());
        fs::write(&path, "").unwrap();
        assert!(!is_at(&first.file, &path).unwrap());
        drop(first);
        assert!(path.exists());
    }
}
