//! Input of the Parquet reader: a plain or an encrypted file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::encryption::{EncryptedFile, Keyring, SUFFIX};
use crate::error::ArchiveError;

/// Content of a file.
pub(crate) enum Content {
    Plain(File),
    Encrypted(EncryptedFile),
}

/// Whether the name of a file marks it as encrypted.
pub(crate) fn is_encrypted(path: &Path) -> bool {
    path.to_string_lossy().ends_with(SUFFIX)
}

impl Content {
    /// Opens a file.
    ///
    /// # Errors
    /// If the file cannot be read, or if no key decrypts it.
    pub(crate) fn open(path: &Path, keyring: &Keyring) -> std::result::Result<Self, ArchiveError> {
        if is_encrypted(path) {
            return EncryptedFile::open(path, keyring).map(Content::Encrypted);
        }
        let file = File::open(path).map_err(|error| ArchiveError::io("read", path, error))?;
        Ok(Content::Plain(file))
    }
}

impl Length for Content {
    fn len(&self) -> u64 {
        match self {
            Content::Plain(file) => Length::len(file),
            Content::Encrypted(file) => file.len(),
        }
    }
}

impl ChunkReader for Content {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            Content::Plain(file) => Box::new(file.get_read(start)?),
            Content::Encrypted(file) => Box::new(file.read_from(start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self {
            Content::Plain(file) => file.get_bytes(start, length),
            Content::Encrypted(file) => {
                let mut bytes = vec![0; length];
                file.read_from(start)
                    .read_exact(&mut bytes)
                    .map_err(|error| ParquetError::External(Box::new(error)))?;
                Ok(bytes.into())
            }
        }
    }
}
