//! What can go wrong with an archive, in sentences for its user.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::directory::is_being_written;

/// A directory that was left unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The `.partial` directory.
    pub path: PathBuf,
    /// A process is writing it.
    pub being_written: bool,
}

impl Unfinished {
    pub(crate) fn at(path: PathBuf) -> Self {
        Unfinished {
            being_written: is_being_written(&path),
            path,
        }
    }
}

fn unfinished(found: &Unfinished) -> String {
    let path = found.path.display();
    match found.being_written {
        true => format!("{path} is being written right now; wait until that has ended"),
        false => format!(
            "{path} is unfinished: what wrote it was stopped; run `rehearse recover {path}` to keep what is complete in it, or remove it"
        ),
    }
}

/// What can go wrong with an archive.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// There is nothing of that name.
    #[error("{path} does not exist; give the directory of a {kind} (NAME.{kind})")]
    NotFound {
        /// As given.
        path: PathBuf,
        /// The kind of archive that was wanted.
        kind: String,
    },
    /// It is not an archive of the kind that was wanted.
    #[error("{path} is not a {kind}: {reason}")]
    Foreign {
        /// As given.
        path: PathBuf,
        /// The kind of archive that was wanted.
        kind: String,
        /// What was found.
        reason: String,
    },
    /// It was never finished.
    #[error("{}", unfinished(.0))]
    Unfinished(Unfinished),
    /// It was made by a later version.
    #[error("{path} has format {found}, this program reads up to {known}; use a newer rehearse")]
    Newer {
        /// As given.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The highest known.
        known: u32,
    },
    /// It is encrypted, and no key that opens it was given.
    #[error("{}", locked(path, recipients, given))]
    Locked {
        /// The archive, or a file of it.
        path: PathBuf,
        /// To whom it is encrypted, where that is known.
        recipients: Vec<String>,
        /// For whom the keys are that were given.
        given: Vec<String>,
    },
    /// A file of it is missing, cut or altered.
    #[error("{path} is damaged: {reason}; make it again, or fetch a whole copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Something of that name is there already.
    #[error("{0} is there already; give another name, or remove it first")]
    Exists(PathBuf),
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
}

fn locked(path: &Path, recipients: &[String], given: &[String]) -> String {
    let to = match recipients {
        [] => String::new(),
        some => format!(" to {}", some.join(", ")),
    };
    let given = match given {
        [] => "no key was given".to_owned(),
        some => format!("the key given is that of {}", some.join(", ")),
    };
    format!(
        "{} is encrypted{to}, and {given}; give the file with its secret key as --key FILE, or name it in REHEARSE_KEY_FILE",
        path.display()
    )
}

impl ArchiveError {
    /// Wraps an answer of the operating system.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        ArchiveError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        ArchiveError::Damaged {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// A failure of the Parquet writer is nearly always the disk's: find its `io::Error`.
    pub(crate) fn writing(path: &Path, error: parquet::errors::ParquetError) -> Self {
        let source = match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(io) => *io,
                Err(other) => io::Error::other(other),
            },
            other => io::Error::other(other),
        };
        ArchiveError::io("write", path, source)
    }
}
