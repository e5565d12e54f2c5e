//! A thread that reads, and decompresses, while the bytes before are looked at.
//!
//! Who drives: [`super::input::Window`], from its second look at an input on, where the process has
//! more than one core. The thread ends with the input, with an error, or when nobody takes what it
//! read; nobody waits for its end, since standard input may be silent for ever.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Bytes of a chunk. Each costs both threads a wake.
pub(super) const CHUNK_BYTES: usize = 512 << 10;

/// Space before a chunk's bytes, for what is left of those before.
pub(super) const HEADROOM_BYTES: usize = 16 << 10;

/// Chunks that wait to be taken.
const CHUNKS_AHEAD: usize = 4;

/// Bytes that were read: those from [`HEADROOM_BYTES`] on, as many as `length`.
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
    /// Where the system gives no thread.
    pub(super) fn start(reader: Box<dyn Read + Send>) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        let (free, freed) = channel();
        std::thread::Builder::new()
            .name("log-reader".to_owned())
            .spawn(move || read(reader, &sender, &freed))?;
        Ok(ReadAhead { chunks, free })
    }

    /// The next chunk, which has at least one byte; `None` at the end of the input.
    pub(super) fn next(&self) -> Option<io::Result<Chunk>> {
        self.chunks.recv().ok()
    }

    /// Gives a chunk's memory back.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() == HEADROOM_BYTES + CHUNK_BYTES {
            // After its end the thread wants no more.
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
        // A pipe gives little at a time, and is not waited for: what is there is handed on.
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
