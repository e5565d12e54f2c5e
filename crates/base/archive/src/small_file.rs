//! Reads small files and objects that a user names, such as manifests and keys, without waiting for ever or taking all memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use object_storage::{StorageErrorKind, is_object_url, read_small_object};

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
