//! Errors of archives, as sentences for the user.

use std::io;
use std::path::{Path, PathBuf};

use object_storage::StorageError;
use thiserror::Error;

use crate::lock::is_being_written;

/// An unfinished archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedDirectory {
    /// The `.partial` directory.
    pub path: PathBuf,
    /// Whether a process is writing it.
    pub being_written: bool,
}

impl UnfinishedDirectory {
    /// Describes the unfinished archive at `path`, and whether a process is writing it.
    pub fn at(path: PathBuf) -> Self {
        UnfinishedDirectory {
            being_written: is_being_written(&path),
            path,
        }
    }
}

fn unfinished(found: &UnfinishedDirectory) -> String {
    let path = found.path.display();
    match found.being_written {
        true => format!("{path} is being written right now; wait until that has ended"),
        false => format!(
            "{path} is unfinished: what wrote it was stopped; run `rehearse recover {path}` to keep what is complete in it, or remove it"
        ),
    }
}

fn article(kind: &str) -> &'static str {
    match kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    }
}

/// Error of an archive.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// No archive has this name.
    #[error("{path} does not exist; give the directory of a {kind} (NAME.{kind})")]
    NotFound {
        /// Path as given.
        path: PathBuf,
        /// Expected kind of archive.
        kind: String,
    },
    /// It is not an archive of the expected kind.
    #[error("{path} is not {} {kind}: {reason}", article(kind))]
    WrongKind {
        /// Path as given.
        path: PathBuf,
        /// Expected kind of archive.
        kind: String,
        /// Reason why it is not.
        reason: String,
    },
    /// It is of another kind.
    #[error(
        "{path} is not {} {kind}: it is {} {found}",
        article(kind),
        article(found)
    )]
    OtherKind {
        /// Path as given.
        path: PathBuf,
        /// Expected kind.
        kind: String,
        /// Its kind.
        found: String,
    },
    /// It was never finished.
    #[error("{}", unfinished(.0))]
    Unfinished(UnfinishedDirectory),
    /// It was written by a later version.
    #[error("{path} has format {found}, this program reads up to {known}; use a newer rehearse")]
    Newer {
        /// Path as given.
        path: PathBuf,
        /// Version of its format.
        found: u32,
        /// Highest version that this program reads.
        known: u32,
    },
    /// It is encrypted, and no given key decrypts it.
    #[error("{}", locked(path, recipients, given))]
    Locked {
        /// The archive, or a file of it.
        path: PathBuf,
        /// Recipients that it is encrypted to, if known.
        recipients: Vec<String>,
        /// Recipients that the given keys belong to.
        given: Vec<String>,
    },
    /// A file is missing, truncated or altered.
    #[error("{path} is damaged: {reason}; make it again, or fetch a whole copy")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// A file or directory has this name already.
    #[error("{0} is there already; give another name, or remove it first")]
    Exists(PathBuf),
    /// An archive was written, and could not be uploaded.
    #[error(
        "the upload to {} failed: {source}. It is complete in {}; use it from there, or copy that directory to the store with its manifest.json last",
        url.display(),
        local.display()
    )]
    NotUploaded {
        /// Complete archive on this machine.
        local: PathBuf,
        /// Intended place.
        url: PathBuf,
        /// Failed request.
        source: Box<ArchiveError>,
    },
    /// A request to an object store failed.
    #[error(transparent)]
    Storage(StorageError),
    /// An operation of the operating system failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// Operation, as a verb.
        action: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
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
    /// Creates an error of a failed operation of the operating system.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let source = match source.downcast::<StorageError>() {
            Ok(storage) => return ArchiveError::Storage(storage),
            Err(other) => other,
        };
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

    /// Creates an error of a file that the Parquet reader refused. An error of our own reader comes back in a wrapper,
    /// which is removed.
    pub(crate) fn unreadable(path: &Path, error: parquet::errors::ParquetError) -> Self {
        match error {
            parquet::errors::ParquetError::External(inner) => {
                let inner = match inner.downcast::<io::Error>() {
                    Ok(io) => match io.downcast::<StorageError>() {
                        Ok(storage) => return ArchiveError::Storage(storage),
                        Err(io) => return ArchiveError::damaged(path, io),
                    },
                    Err(other) => other,
                };
                match inner.downcast::<StorageError>() {
                    Ok(storage) => ArchiveError::Storage(*storage),
                    Err(other) => ArchiveError::damaged(path, other),
                }
            }
            other => ArchiveError::damaged(path, other),
        }
    }

    /// Converts an error of the Parquet writer. It is nearly always an `io::Error`, which is extracted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_the_error_without_the_librarys_wrapper() {
        let inner = io::Error::other("a chunk was altered");
        let error = parquet::errors::ParquetError::External(Box::new(inner));
        let text = ArchiveError::unreadable(Path::new("a.parquet"), error).to_string();
        assert!(
            text.starts_with("a.parquet is damaged: a chunk was altered;"),
            "{text}"
        );
    }
}
