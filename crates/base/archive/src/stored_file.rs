//! The bytes of a file or of an object, as they are stored.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use object_storage::{ObjectFile, ObjectReader, StorageErrorKind, is_object_url, object_size};

use crate::error::ArchiveError;
use crate::small_file::require_regular;

/// A file, or an object of a store.
pub(crate) enum StoredFile {
    File(File),
    Object(ObjectReader),
}

impl StoredFile {
    /// Opens a file or an object.
    ///
    /// # Errors
    /// If it does not exist or cannot be read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if !is_object_url(path) {
            return File::open(path).map(StoredFile::File);
        }
        let object = ObjectFile::open(path).map_err(io::Error::other)?;
        Ok(StoredFile::Object(ObjectReader::new(object, 0)))
    }
}

impl Read for StoredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            StoredFile::File(file) => file.read(buffer),
            StoredFile::Object(object) => object.read(buffer),
        }
    }
}

impl Seek for StoredFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            StoredFile::File(file) => file.seek(to),
            StoredFile::Object(object) => object.seek(to),
        }
    }
}

/// Returns the size of a file or an object in bytes.
///
/// # Errors
/// [`ArchiveError::Damaged`] if it is missing or no regular file; or if its store cannot be asked.
pub(crate) fn stored_bytes(path: &Path) -> Result<u64, ArchiveError> {
    let damaged = |reason: &dyn std::fmt::Display| ArchiveError::damaged(path, reason);
    if is_object_url(path) {
        return object_size(path).map_err(|error| match error.kind() {
            StorageErrorKind::NotFound => damaged(&"it does not exist"),
            _ => ArchiveError::Storage(error),
        });
    }
    let metadata = fs::metadata(path).map_err(|error| damaged(&error))?;
    require_regular(&metadata).map_err(|reason| damaged(&reason))?;
    Ok(metadata.len())
}
