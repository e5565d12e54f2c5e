//! Writes files and names to the disk, so that they survive a loss of power.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::{ErrorContext, Result};

/// Writes the names of a directory to the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.context("write", path)
}

/// Writes all files of a directory's file system to the disk, with their names.
pub(crate) fn sync_file_system(path: &Path) -> Result<()> {
    let directory = File::open(path).context("open", path)?;
    sync_all_of(&directory).context("write", path)
}

#[cfg(target_os = "linux")]
fn sync_all_of(directory: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as the call lasts.
    match unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(directory)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn sync_all_of(_: &File) -> io::Result<()> {
    // SAFETY: the call has no preconditions.
    unsafe { libc::sync() };
    Ok(())
}
