//! Refuses files of a target that could be waited for, or read, without end.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Accepts files, and pipes of the shell (`<(command)`).
///
/// # Errors
/// If it is another pipe, a device or a socket, or is missing.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    let kind = std::fs::metadata(path)?.file_type();
    let is_of_shell = path.starts_with("/dev/fd") || path.starts_with("/proc");
    match kind.is_file() || kind.is_dir() || kind.is_fifo() && is_of_shell {
        true => Ok(()),
        false => Err(io::Error::other("it is a pipe or device, not a file")),
    }
}
