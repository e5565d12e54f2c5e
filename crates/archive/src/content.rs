//! What Parquet reads from: a file, or one that is encrypted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::ArchiveError;
use crate::sealed::{Keyring, SUFFIX, SealedFile};

/// A file's content.
pub(crate) enum Content {
    Plain(File),
    Sealed(SealedFile),
}

/// The name says that the file is encrypted.
pub(crate) fn is_sealed(path: &Path) -> bool {
    path.to_string_lossy().ends_with(SUFFIX)
}

impl Content {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be read, or no key opens it.
    pub(crate) fn open(path: &Path, keyring: &Keyring) -> std::result::Result<Self, ArchiveError> {
        if is_sealed(path) {
            return SealedFile::open(path, keyring).map(Content::Sealed);
        }
        let file = File::open(path).map_err(|error| ArchiveError::io("read", path, error))?;
        Ok(Content::Plain(file))
    }
}

impl Length for Content {
    fn len(&self) -> u64 {
        match self {
            Content::Plain(file) => Length::len(file),
            Content::Sealed(file) => file.len(),
        }
    }
}

impl ChunkReader for Content {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            Content::Plain(file) => Box::new(file.get_read(start)?),
            Content::Sealed(file) => Box::new(file.read_from(start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self {
            Content::Plain(file) => file.get_bytes(start, length),
            Content::Sealed(file) => {
                let mut bytes = vec![0; length];
                file.read_from(start)
                    .read_exact(&mut bytes)
                    .map_err(|error| ParquetError::External(Box::new(error)))?;
                Ok(bytes.into())
            }
        }
    }
}
