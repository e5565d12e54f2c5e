//! Errors of exports and copies.

use std::path::{Path, PathBuf};

/// Reason why an export or a copy failed; a sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum PlannerCopyError {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// It could not be done.
    #[error("{0}")]
    Failed(String),
    /// The private server failed.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The action, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl PlannerCopyError {
    /// Builds the error of an action on a file, for `map_err`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| PlannerCopyError::File {
            action,
            path,
            source,
        }
    }
}
