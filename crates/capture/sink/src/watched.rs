//! A stream that is watched before it is decompressed: how far it was read, for the progress, and whether
//! it was the stream that failed or what was made of it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of a stream before decompression.
#[derive(Debug, Default)]
pub struct Raw {
    /// Bytes read: for the progress.
    pub bytes: AtomicU64,
    /// It was the stream that failed, not what is made of it.
    pub failed: AtomicBool,
}

/// Watches the stream before decompression.
pub struct Watched<R> {
    /// The stream.
    pub reader: R,
    /// Counts what is read of it.
    pub raw: Arc<Raw>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into);
        match &read {
            Ok(length) => {
                self.raw.bytes.fetch_add(*length as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(_) => self.raw.failed.store(true, Ordering::Relaxed),
        }
        read
    }
}
