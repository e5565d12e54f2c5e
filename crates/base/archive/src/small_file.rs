//! Reads small files and objects that a user names, such as manifests and keys, without waiting for ever or taking all memory.
//! Also writes those through which several processes agree.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use object_storage::{
    StorageErrorKind, create_object, is_object_url, put_object, read_small_object,
};

use crate::error::ArchiveError;
use crate::private_file::create_private;

/// Reads a whole file of at most `bytes_max`. Pipes of the shell (`<(command)`) are read, and named pipes refused: one
/// without a writer would be waited for without end.
///
/// # Errors
/// If the file cannot be read, is too large, or is no file with content.
pub fn read_small_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if is_object_url(path) {
        return match read_small_object(path, bytes_max) {
            Ok(content) => Ok(content.into()),
            Err(error) if error.kind() == StorageErrorKind::NotFound => {
                Err(io::Error::new(io::ErrorKind::NotFound, error))
            }
            Err(error) => Err(io::Error::other(error)),
        };
    }
    let kind = std::fs::metadata(path)?.file_type();
    let is_of_shell = path.starts_with("/dev/fd") || path.starts_with("/proc");
    let refusal = match kind {
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() && !is_of_shell => Some("a named pipe"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_char_device() || kind.is_block_device() => Some("a device"),
        _ => None,
    };
    if let Some(kind) = refusal {
        return Err(io::Error::other(format!("it is {kind}, not a file")));
    }
    let mut content = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        let limit = match bytes_max >> 10 {
            0 => format!("{bytes_max} bytes"),
            kib => format!("{kib} KiB"),
        };
        return Err(io::Error::other(format!("it is larger than {limit}")));
    }
    Ok(content)
}

/// Reads a whole file of at most `bytes_max`, as [`read_small_file`] does; `None` if it does not exist.
///
/// # Errors
/// If the file cannot be read, or is too large.
pub fn find_small_file(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, ArchiveError> {
    match read_small_file(path, bytes_max) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArchiveError::io("read", path, error)),
    }
}

/// Writes a file or an object, which readers see complete. It replaces an earlier one.
///
/// # Errors
/// If it cannot be written.
pub fn write_small_file(path: &Path, content: &[u8]) -> Result<(), ArchiveError> {
    if is_object_url(path) {
        return put_object(path, content.to_vec().into()).map_err(ArchiveError::Storage);
    }
    let written = write_unnamed(path, content)?;
    fs::rename(&written, path).map_err(|error| ArchiveError::io("write", path, error))
}

/// Creates a file or an object, if none has this name; false if one has. Of several processes that do this, one succeeds.
///
/// # Errors
/// If it cannot be written.
pub fn create_small_file(path: &Path, content: &[u8]) -> Result<bool, ArchiveError> {
    if is_object_url(path) {
        return match create_object(path, content.to_vec().into()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == StorageErrorKind::Exists => Ok(false),
            Err(error) => Err(ArchiveError::Storage(error)),
        };
    }
    let written = write_unnamed(path, content)?;
    // Unlike a renamed file, a link never replaces another, on network file systems as well.
    let linked = fs::hard_link(&written, path);
    let _ = fs::remove_file(&written);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(ArchiveError::io("write", path, error)),
    }
}

/// Writes content under a name that only this call uses. Processes in several containers may have the same number.
fn write_unnamed(path: &Path, content: &[u8]) -> Result<PathBuf, ArchiveError> {
    let mut name = path.as_os_str().to_owned();
    let random = RandomState::new().hash_one(std::process::id());
    name.push(format!(".{random:016x}.new"));
    let name = PathBuf::from(name);
    let mut file = create_private(&name)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| ArchiveError::io("write", &name, error))?;
    Ok(name)
}

/// Refuses what is no regular file with a reason. Reading a pipe could wait without end, and a device has no end.
pub(crate) fn require_regular(metadata: &std::fs::Metadata) -> Result<(), &'static str> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err("it is a directory, pipe or device, not a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_file_is_replaced_or_created_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready");
        assert_eq!(find_small_file(&path, 9).unwrap(), None);
        write_small_file(&path, b"first").unwrap();
        write_small_file(&path, b"second").unwrap();
        assert!(!create_small_file(&path, b"third").unwrap());
        assert_eq!(find_small_file(&path, 9).unwrap().unwrap(), b"second");
        let other = directory.path().join("start");
        assert!(create_small_file(&other, b"x").unwrap());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_without_end_are_refused_and_small_ones_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "secret").unwrap();
        assert_eq!(read_small_file(&path, 6).unwrap(), b"secret");
        let refused = |path: &Path| read_small_file(path, 5).unwrap_err().to_string();
        assert_eq!(refused(&path), "it is larger than 5 bytes");
        assert_eq!(
            refused(Path::new("/dev/zero")),
            "it is a device, not a file"
        );
        assert_eq!(refused(directory.path()), "it is a directory, not a file");
        let fifo = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        assert_eq!(refused(&fifo), "it is a named pipe, not a file");
    }
}
