//! Removes what killed or refused operations left on disk.

use std::io::ErrorKind;
use std::path::Path;

use crate::failure::Failure;
use crate::notes;

/// Removes a directory that a killed process may have left.
///
/// # Errors
/// If it exists and cannot be removed.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::could_not(format!(
            "cannot remove {}, which an earlier process left: {error}; remove it, or give another -o",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Removes the directory of a refused operation, and reports as a note if that fails. The refusal remains the failure.
pub(crate) fn remove_refused(path: &Path) {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => notes::note(&format!(
            "cannot remove {}, which holds no result: {error}; remove it before the next attempt",
            path.display()
        )),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_that_cannot_be_removed_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("side-1.0.workload");
        remove(&path).unwrap();
        std::fs::create_dir_all(path.join("part")).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
        // A file is no directory, so that even root cannot remove it as one.
        std::fs::write(&path, "").unwrap();
        let failure = remove(&path).unwrap_err();
        let start = format!("cannot remove {}, which", path.display());
        assert!(failure.message.starts_with(&start), "{}", failure.message);
    }
}
