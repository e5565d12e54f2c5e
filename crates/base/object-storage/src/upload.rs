//! Uploads, which appear complete or not at all.
//!
//! The library repeats a request whose answer is lost, although the store may have done it. So a repeated request can be
//! refused because of the first one. Both kinds of upload are checked for that.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, PutOptions, WriteMultipart};

use crate::connection::{Object, wait};
use crate::error::{StorageError, StorageErrorKind};
use crate::object_file::read_small_object;

/// Smallest part of an upload. S3 takes none below 5 MiB, except for the last.
const PART_BYTES_MIN: u64 = 8 << 20;
/// Parts of an upload. S3 takes at most 10,000.
const PARTS_MAX: u64 = 9_000;
/// Parts that are sent at the same time. It limits the memory.
const PARTS_IN_FLIGHT: usize = 4;
/// Uploads of one file, if a repeated request to complete one is refused.
const ATTEMPTS_MAX: u32 = 3;

/// Uploads a file, in parts if it is large. The object appears when all parts have arrived, and replaces an earlier one
/// of its name. A failed upload is cancelled.
///
/// # Errors
/// If the file cannot be read or the upload fails.
pub fn upload_file(file: &Path, url: &Path) -> Result<(), StorageError> {
    let object = Object::at(url)?;
    let unreadable = |error: io::Error| {
        let reason = format!("{} cannot be read ({error})", file.display());
        let kind = StorageErrorKind::Other;
        StorageError::new(kind, "write", url, reason, "repeat the command")
    };
    let size = file.metadata().map_err(unreadable)?.len();
    if size <= PART_BYTES_MIN {
        let content = std::fs::read(file).map_err(unreadable)?;
        return wait(object.store.put(&object.key, content.into()))
            .map(|_| ())
            .map_err(|error| StorageError::of_library("write", url, &error));
    }
    let mut attempt = 1;
    loop {
        let source = File::open(file).map_err(unreadable)?;
        match wait(upload_in_parts(&object, source, size)) {
            Ok(()) => return Ok(()),
            Err(UploadError::File(error)) => return Err(unreadable(error)),
            // The upload is unknown: it was cancelled, or completed by a request whose answer was lost.
            Err(UploadError::Store(object_store::Error::NotFound { .. }))
                if attempt < ATTEMPTS_MAX =>
            {
                attempt += 1;
            }
            Err(UploadError::Store(error)) => {
                return Err(StorageError::of_library("write", url, &error));
            }
        }
    }
}

enum UploadError {
    File(io::Error),
    Store(object_store::Error),
}

async fn upload_in_parts(object: &Object, mut source: File, size: u64) -> Result<(), UploadError> {
    let part_bytes = PART_BYTES_MIN.max(size.div_ceil(PARTS_MAX));
    let started = object.store.put_multipart(&object.key).await;
    let mut upload = WriteMultipart::new_with_chunk_size(
        started.map_err(UploadError::Store)?,
        usize::try_from(part_bytes).expect("a part fits into memory"),
    );
    loop {
        let mut part = Vec::new();
        let read = (&mut source).take(part_bytes).read_to_end(&mut part);
        let error = match read {
            Ok(0) => break,
            Ok(_) => match upload.wait_for_capacity(PARTS_IN_FLIGHT).await {
                Ok(()) => {
                    upload.put(part.into());
                    continue;
                }
                Err(error) => UploadError::Store(error),
            },
            Err(error) => UploadError::File(error),
        };
        // Parts of an upload that cannot be cancelled are removed by the bucket's rules, if it has any.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload
        .finish()
        .await
        .map_err(UploadError::Store)
        .map(|_| ())
}

/// Writes an object, and replaces an earlier one of its name.
///
/// # Errors
/// If the object cannot be written.
pub fn put_object(url: &Path, content: Bytes) -> Result<(), StorageError> {
    let object = Object::at(url)?;
    wait(object.store.put(&object.key, content.into()))
        .map(|_| ())
        .map_err(|error| StorageError::of_library("write", url, &error))
}

/// Creates an object, if none has this name.
///
/// # Errors
/// If the object exists or cannot be written.
pub fn create_object(url: &Path, content: Bytes) -> Result<(), StorageError> {
    let object = Object::at(url)?;
    let options = PutOptions::from(PutMode::Create);
    let put = wait(
        object
            .store
            .put_opts(&object.key, content.clone().into(), options),
    );
    let Err(error) = put else {
        return Ok(());
    };
    let error = StorageError::of_library("write", url, &error);
    // The object may be the one that a request with a lost answer created.
    let is_ours = error.kind() == StorageErrorKind::Exists
        && read_small_object(url, content.len() as u64).is_ok_and(|found| found == content);
    match is_ours {
        true => Ok(()),
        false => Err(error),
    }
}
