//! Opens files that a user names as inputs, without waiting for ever.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens an input. Pipes of the shell (`<(command)`) are opened; named pipes are refused, since opening one without a
/// writer waits without end.
///
/// # Errors
/// If it cannot be opened, or is a directory or a named pipe.
pub fn open_input_file(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let is_of_shell =
        path.starts_with("/dev/fd") || path == Path::new("/dev/stdin") || path.starts_with("/proc");
    if kind.is_fifo() && !is_of_shell {
        return Err(io::Error::other(
            "it is a named pipe; pass it as standard input: give - as the file, and redirect with < from the pipe",
        ));
    }
    File::open(path)
}

/// Whether an input can be read only once: it is a pipe or a device.
pub fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_input_file_named_pipe_and_directory_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let refused = open_input_file(&pipe).unwrap_err().to_string();
        assert!(refused.starts_with("it is a named pipe"), "{refused}");
        assert!(open_input_file(directory.path()).is_err());
        assert!(is_stream(&pipe) && is_stream(Path::new("/dev/null")));
        assert!(!is_stream(directory.path()));
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(open_input_file(&file).is_ok() && !is_stream(&file));
    }
}
