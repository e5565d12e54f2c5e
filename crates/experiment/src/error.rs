//! Why an experiment could not go on.

use std::path::PathBuf;

/// Why an experiment could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// What was asked for makes no sense; a sentence for who asked.
    #[error("{0}")]
    Usage(String),
    /// It made sense and could not be done; a sentence.
    #[error("{0}")]
    Failed(String),
    /// The replay of a trial.
    #[error(transparent)]
    Replay(#[from] replay::ReplayError),
    /// The private server.
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    /// A workload or run.
    #[error(transparent)]
    Archive(#[from] workload::ArchiveError),
    /// A file of the experiment's own.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was to be done with it.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl ExperimentError {
    /// Something with a file, as `map_err` takes it.
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
