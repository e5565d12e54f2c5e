//! Reads and decompresses in a thread while earlier bytes are parsed.
//!
//! [`super::input::Window`] starts it at its second read of an input, if the process has more than
//! one core. The thread ends with the input, with an error, or when its receiver is dropped. Nobody
//! joins it, since standard input may block for ever.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Size of a chunk in bytes. Each chunk costs both threads a wake-up.
pub(super) const CHUNK_BYTES: usize = 512 << 10;

/// Space before a chunk's bytes, for the unconsumed bytes before them.
pub(super) const HEADROOM_BYTES: usize = 16 << 10;

/// Maximum number of chunks waiting to be consumed.
const CHUNKS_AHEAD: usize = 4;

/// Bytes that were read: `length` bytes from [`HEADROOM_BYTES`] on.
pub(super) struct Chunk {
    pub bytes: Vec<u8>,
    pub length: usize,
}

/// The chunks of one input, in order.
pub(super) struct ReadAhead {
    chunks: Receiver<io::Result<Chunk>>,
    free: Sender<Vec<u8>>,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(super) fn start(reader: Box<dyn Read + Send>) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let (free, freed) = channel();
        std::thread::Builder::new()
            .name("log-reader".to_owned())
            .spawn(move || read(reader, &sender, &freed))?;
        Ok(ReadAhead { chunks, free })
    }

    /// Receives the next chunk, which has at least one byte; `None` at the end of the input.
    pub(super) fn next_chunk(&self) -> Option<io::Result<Chunk>> {
        self.chunks.recv().ok()
    }

    /// Returns a chunk's memory for reuse.
    pub(super) fn recycle(&self, bytes: Vec<u8>) {
        if bytes.len() == HEADROOM_BYTES + CHUNK_BYTES {
            // After its end the thread needs no more chunks.
            let _ = self.free.send(bytes);
        }
    }
}

fn read(
    mut reader: Box<dyn Read + Send>,
    chunks: &SyncSender<io::Result<Chunk>>,
    freed: &Receiver<Vec<u8>>,
) {
    loop {
        let mut bytes = freed
            .try_recv()
            .unwrap_or_else(|_| vec![0; HEADROOM_BYTES + CHUNK_BYTES]);
        let (mut length, mut failed) = (0, None);
        // A pipe delivers little at a time: available data is passed on without waiting for
        // more.
        while length == 0 && failed.is_none() {
            match reader.read(&mut bytes[HEADROOM_BYTES..]) {
                Ok(0) => return,
                Ok(read) => length = read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => failed = Some(error),
            }
        }
        let ends = failed.is_some();
        let sent = match failed {
            Some(error) => chunks.send(Err(error)),
            None => chunks.send(Ok(Chunk { bytes, length })),
        };
        if ends || sent.is_err() {
            return;
        }
    }
}
