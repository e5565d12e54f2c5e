//! Errors of experiments.

use std::path::PathBuf;

/// An error that ends an experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The options make no sense; a sentence for the user.
    #[error("{0}")]
    Usage(String),
    /// It could not be done; a sentence for the user.
    #[error("{0}")]
    Failed(String),
    /// The replay of a trial failed.
    #[error(transparent)]
    Replay(#[from] replay::ReplayError),
    /// The target cannot be used.
    #[error(transparent)]
    Target(#[from] replay::TargetError),
    /// The private server failed.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// A workload or run cannot be read or written.
    #[error(transparent)]
    Archive(#[from] workload::ArchiveError),
    /// A file of the experiment cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The action, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl ExperimentError {
    /// Builds the error of an action on a file, for `map_err`.
    pub(crate) fn file(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ExperimentError::File {
            doing,
            path,
            source,
        }
    }
}
