//! Counts the bytes of a stream before decompression, for the progress, and distinguishes errors of
//! the stream from those of its decoder.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State of a stream before decompression.
#[derive(Debug, Default)]
pub struct StreamState {
    /// Number of bytes read, for the progress.
    pub bytes: AtomicU64,
    /// Whether the stream itself failed, rather than its decoder.
    pub failed: AtomicBool,
}

/// Counts the bytes of a stream.
pub struct CountingReader<R> {
    /// The stream.
    pub reader: R,
    /// The counters.
    pub raw: Arc<StreamState>,
}

impl<R: Read> Read for CountingReader<R> {
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
