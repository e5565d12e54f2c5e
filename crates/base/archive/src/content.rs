//! Input of the Parquet reader: a plain or an encrypted file, or an object.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use object_storage::{ObjectFile, ObjectReader, is_object_url};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::encryption::{EncryptedFile, Keyring, SUFFIX};
use crate::error::ArchiveError;

/// Content of a file. Clones share it.
#[derive(Clone)]
pub(crate) enum Content {
    Plain(Arc<File>),
    Encrypted(EncryptedFile),
    Object(Arc<ObjectFile>),
    Growing(Arc<GrowingFile>),
}

/// A file that is being written, up to its last complete row group, with the footer that it would have if it ended there.
pub(crate) struct GrowingFile {
    pub(crate) file: File,
    /// Number of bytes that the footer covers.
    pub(crate) covered: u64,
    pub(crate) footer: Bytes,
}

impl GrowingFile {
    fn len(&self) -> u64 {
        self.covered + self.footer.len() as u64
    }

    fn read_from(&self, start: u64) -> Result<Box<dyn Read>> {
        let in_footer = usize::try_from(start.saturating_sub(self.covered)).unwrap_or(usize::MAX);
        let footer = self.footer.slice(in_footer.min(self.footer.len())..);
        let footer = io::Cursor::new(footer);
        if start >= self.covered {
            return Ok(Box::new(footer));
        }
        let data = self.file.get_read(start)?.take(self.covered - start);
        Ok(Box::new(data.chain(footer)))
    }
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
        if is_object_url(path) {
            return Ok(Content::Object(
                ObjectFile::open(path).map_err(ArchiveError::Storage)?,
            ));
        }
        let file = File::open(path).map_err(|error| ArchiveError::io("read", path, error))?;
        Ok(Content::Plain(Arc::new(file)))
    }

    /// Requests the ranges of a row group ahead of their use, and drops what was requested for earlier ones. Files
    /// need no such request, since the operating system reads them ahead.
    pub(crate) fn read_ahead(&self, group: &[Range<u64>]) {
        if let Content::Object(object) = self {
            object.read_ahead(group.iter().cloned());
        }
    }

    /// Drops the ranges that were requested ahead and end before `offset`.
    pub(crate) fn release_before(&self, offset: u64) {
        if let Content::Object(object) = self {
            object.release_before(offset);
        }
    }
}

impl Length for Content {
    fn len(&self) -> u64 {
        match self {
            Content::Plain(file) => Length::len(&**file),
            Content::Encrypted(file) => file.len(),
            Content::Object(object) => object.size(),
            Content::Growing(file) => file.len(),
        }
    }
}

impl ChunkReader for Content {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(match self {
            Content::Plain(file) => Box::new(file.get_read(start)?),
            Content::Encrypted(file) => Box::new(file.read_from(start)),
            Content::Object(object) => Box::new(ObjectReader::new(object.clone(), start)),
            Content::Growing(file) => file.read_from(start)?,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self {
            Content::Plain(file) => file.get_bytes(start, length),
            Content::Encrypted(file) => read_exactly(file.read_from(start), length),
            Content::Growing(file) => read_exactly(file.read_from(start)?, length),
            Content::Object(object) => object
                .read(start..start.saturating_add(length as u64))
                .map_err(|error| ParquetError::External(Box::new(error))),
        }
    }
}

fn read_exactly(mut from: impl Read, length: usize) -> Result<Bytes> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)
        .map_err(|error| ParquetError::External(Box::new(error)))?;
    Ok(bytes.into())
}
