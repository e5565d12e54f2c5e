//! Clock of a sandbox's server, which libfaketime shifts.
//!
//! The library is preloaded into the server and reads the offset from a file, at most once a second in each process. The
//! monotonic clock stays as it is. So timeouts and measured times are real, and the clock runs at its normal speed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::privileges::RunAs;
use crate::server;

/// Environment variable that names the library.
pub(crate) const LIBRARY_VARIABLE: &str = "REHEARSE_FAKETIME_LIBRARY";

/// Name of the library.
const LIBRARY: &str = "libfaketime.so.1";

/// Directories of the library, in addition to `faketime` in the subdirectories of `/usr/lib` (Debian).
const LIBRARY_DIRS: [&str; 3] = [
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
    "/usr/local/lib/faketime",
];

/// Name of the file with the offset, in the directory of the sandbox.
const FILE: &str = "clock";

/// Clock of a running server.
#[derive(Clone, Debug)]
pub struct ServerClock {
    file: PathBuf,
    run_as: RunAs,
}

impl ServerClock {
    /// Longest time until a process of the server reads a new offset. The library compares whole seconds.
    pub const DELAY_MAX: Duration = Duration::from_secs(2);

    pub(crate) fn new(root: &Path, run_as: &RunAs) -> Self {
        ServerClock {
            file: root.join(FILE),
            run_as: run_as.clone(),
        }
    }

    /// Sets the offset from the machine's clock, in microseconds.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_offset(&self, offset_us: i64) -> Result<()> {
        server::write_for(&self.run_as, &self.file, &offset_text(offset_us))
    }

    /// Preloads the library into a server that is started.
    pub(crate) fn apply(&self, library: &Path, command: &mut Command) {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

/// Returns an offset as the library reads it: seconds with a sign.
fn offset_text(offset_us: i64) -> String {
    let sign = if offset_us < 0 { '-' } else { '+' };
    let us = offset_us.unsigned_abs();
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Finds the library. `named` is the value of [`LIBRARY_VARIABLE`], if it is set.
///
/// # Errors
/// If it is not installed, or the named file does not exist.
pub(crate) fn find_library(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(named) = named {
        return match named.is_file() {
            true => Ok(named),
            false => Err(Error::NoSuchFaketime { path: named }),
        };
    }
    let multiarch = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let multiarch = multiarch.map(|entry| entry.path().join("faketime"));
    let fixed = LIBRARY_DIRS.iter().map(PathBuf::from);
    let mut found = fixed.chain(multiarch).map(|dir| dir.join(LIBRARY));
    found.find(|path| path.is_file()).ok_or(Error::NoFaketime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_that_the_variable_names_is_used_or_reported_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(LIBRARY);
        let error = find_library(Some(file.clone())).unwrap_err().to_string();
        let expected = format!(
            "REHEARSE_FAKETIME_LIBRARY names {}, and there is no such file",
            file.display()
        );
        assert!(error.starts_with(&expected), "{error}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(find_library(Some(file.clone())).unwrap(), file);
    }

    #[test]
    fn offset_has_a_sign_and_microseconds() {
        assert_eq!(offset_text(-86_400_250_000), "-86400.250000");
        assert_eq!(offset_text(1), "+0.000001");
        assert_eq!(offset_text(0), "+0.000000");
    }
}
