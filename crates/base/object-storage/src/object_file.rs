//! Objects that are read by ranges, with read-ahead.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::{GetOptions, ObjectStoreExt};

use crate::connection::{Object, repeat_reading, runtime, wait};
use crate::error::{StorageError, StorageErrorKind};

/// Bytes at the end of an object that are read when it is opened: the footer of a Parquet file is there.
const TAIL_BYTES: u64 = 64 << 10;
/// Bytes that a sequential reader requests at a time.
const BLOCK_BYTES: u64 = 1 << 20;

/// Reads a whole object of at most `bytes_max`.
///
/// # Errors
/// If it does not exist, is larger, or cannot be read.
pub fn read_small_object(url: &Path, bytes_max: u64) -> Result<Bytes, StorageError> {
    let object = Object::at(url)?;
    let failed = |error| StorageError::of_library("read", url, &error);
    let read = wait(repeat_reading(|| async {
        let found = object.store.get(&object.key).await?;
        match found.meta.size > bytes_max {
            true => Ok(Err(found.meta.size)),
            false => found.bytes().await.map(Ok),
        }
    }));
    read.map_err(failed)?.map_err(|size| {
        StorageError::new(
            StorageErrorKind::Other,
            "read",
            url,
            format!("it has {size} bytes, more than {bytes_max}"),
            "correct the URL",
        )
    })
}

/// Returns the size of an object in bytes.
///
/// # Errors
/// If it does not exist or cannot be read.
pub fn object_size(url: &Path) -> Result<u64, StorageError> {
    let object = Object::at(url)?;
    wait(object.store.head(&object.key))
        .map(|meta| meta.size)
        .map_err(|error| StorageError::of_library("read", url, &error))
}

/// An object of fixed content. An object that is replaced while it is read gives an error.
#[derive(Debug)]
pub struct ObjectFile {
    url: PathBuf,
    object: Object,
    size: u64,
    /// Version of the content, if the store has one.
    version: Option<String>,
    tail: Bytes,
    requested: Mutex<VecDeque<Requested>>,
}

impl ObjectFile {
    /// Returns bytes from `offset` on: those up to the end of a range that was requested ahead, or else a block.
    /// Empty at the end of the object.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_some(&self, offset: u64) -> Result<Bytes, StorageError> {
        let start = offset.min(self.size);
        let requested = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ahead = requested
            .iter()
            .find(|other| other.range.contains(&start))
            .map(|other| other.range.end);
        drop(requested);
        let end = ahead.unwrap_or_else(|| start.saturating_add(BLOCK_BYTES).min(self.size));
        self.read(start..end)
    }
}

/// Reads an object from an offset on.
#[derive(Debug)]
pub struct ObjectReader {
    file: Arc<ObjectFile>,
    position: u64,
    /// Bytes from the position on that were read already.
    ready: Bytes,
}

impl ObjectReader {
    /// Reads from `position` on.
    pub fn new(file: Arc<ObjectFile>, position: u64) -> Self {
        ObjectReader {
            file,
            position,
            ready: Bytes::new(),
        }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() {
            self.ready = self
                .file
                .read_some(self.position)
                .map_err(io::Error::other)?;
        }
        let length = buffer.len().min(self.ready.len());
        buffer[..length].copy_from_slice(&self.ready.split_to(length));
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.file.size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        let forward = target.checked_sub(self.position);
        match forward.filter(|distance| *distance <= self.ready.len() as u64) {
            Some(distance) => drop(self.ready.split_to(distance as usize)),
            None => self.ready = Bytes::new(),
        }
        self.position = target;
        Ok(target)
    }
}

/// A range that was requested ahead.
#[derive(Debug)]
struct Requested {
    range: Range<u64>,
    state: State,
}

#[derive(Debug)]
enum State {
    Pending(Receiver<object_store::Result<Bytes>>),
    Loaded(Bytes),
}

impl ObjectFile {
    /// Opens an object and reads its end.
    ///
    /// # Errors
    /// If it does not exist or cannot be read.
    pub fn open(url: &Path) -> Result<Arc<Self>, StorageError> {
        let object = Object::at(url)?;
        let failed = |error| StorageError::of_library("read", url, &error);
        let meta = wait(object.store.head(&object.key)).map_err(failed)?;
        let start = meta.size.saturating_sub(TAIL_BYTES);
        let mut file = ObjectFile {
            url: url.to_owned(),
            object,
            size: meta.size,
            version: meta.e_tag,
            tail: Bytes::new(),
            requested: Mutex::default(),
        };
        if meta.size > 0 {
            file.tail = wait(file.request(start..meta.size)).map_err(failed)?;
        }
        Ok(Arc::new(file))
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Requests ranges ahead of their use. They stay in memory until [`Self::release_before`].
    pub fn read_ahead(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        let mut requested = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for range in ranges {
            let known = requested.iter().any(|other| covers(&other.range, &range));
            if range.is_empty() || known {
                continue;
            }
            let (to, pending) = sync_channel(1);
            let request = self.request(range.clone());
            runtime().spawn(async move {
                // The receiver is gone if the file was closed.
                let _ = to.send(request.await);
            });
            let state = State::Pending(pending);
            requested.push_back(Requested { range, state });
        }
    }

    /// Drops ranges that end at or before this offset.
    pub fn release_before(&self, offset: u64) {
        let mut requested = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        requested.retain(|other| other.range.end > offset);
    }

    /// Reads a range, from what was requested ahead if it is there.
    ///
    /// # Errors
    /// If the range exceeds the object, or the object cannot be read or was replaced.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, StorageError> {
        if range.start > range.end || range.end > self.size {
            return Err(StorageError::new(
                StorageErrorKind::Other,
                "read",
                &self.url,
                format!("bytes {range:?} exceed its {} bytes", self.size),
                "make it again, or fetch a whole copy",
            ));
        }
        let tail_start = self.size - self.tail.len() as u64;
        if range.start >= tail_start {
            return Ok(slice(&self.tail, tail_start, &range));
        }
        let failed = |error| StorageError::of_library("read", &self.url, &error);
        let mut requested = self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = requested
            .iter_mut()
            .find(|other| covers(&other.range, &range))
        {
            if let State::Pending(pending) = &found.state {
                // A request whose task ended without an answer is repeated.
                let answer = pending.recv();
                let bytes = match answer {
                    Ok(answer) => answer.map_err(failed)?,
                    Err(_) => wait(self.request(found.range.clone())).map_err(failed)?,
                };
                found.state = State::Loaded(bytes);
            }
            if let State::Loaded(bytes) = &found.state {
                return Ok(slice(bytes, found.range.start, &range));
            }
        }
        drop(requested);
        wait(self.request(range)).map_err(failed)
    }

    fn request(
        &self,
        range: Range<u64>,
    ) -> impl Future<Output = object_store::Result<Bytes>> + Send + 'static {
        let object = self.object.clone();
        let mut options = GetOptions::new().with_range(Some(range.clone()));
        options.if_match.clone_from(&self.version);
        async move { repeat_reading(|| read_range(&object, &options, &range)).await }
    }
}

async fn read_range(
    object: &Object,
    options: &GetOptions,
    range: &Range<u64>,
) -> object_store::Result<Bytes> {
    let found = object.store.get_opts(&object.key, options.clone()).await?;
    let bytes = found.bytes().await?;
    match bytes.len() as u64 == range.end - range.start {
        true => Ok(bytes),
        false => Err(object_store::Error::Generic {
            store: "object",
            source: format!("{} bytes came for the range {range:?}", bytes.len()).into(),
        }),
    }
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Returns the part of `bytes`, which begin at the offset `start` of the object.
fn slice(bytes: &Bytes, start: u64, range: &Range<u64>) -> Bytes {
    let at = |offset: u64| usize::try_from(offset - start).expect("within the bytes");
    bytes.slice(at(range.start)..at(range.end))
}
