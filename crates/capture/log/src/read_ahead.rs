//! Reads, decompresses and parses in threads while earlier bytes are assembled.
//!
//! [`super::input::Window`] starts the threads at its second read of an input, if the process has
//! more than one core. They take turns to read a chunk; then each scans and parses its own. The
//! receiver gets the chunks in their order. The threads end with the input, with an error, or when
//! the receiver is dropped. Nobody joins them, since standard input may block for ever.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::parse_ahead::{ChunkParser, ParsedEntries};
use super::text::Buffer;

/// Size of a chunk in bytes. Each chunk costs two threads a wake-up.
const CHUNK_BYTES: usize = 256 << 10;

/// Space before a chunk's bytes, for the unconsumed bytes before them.
pub(super) const HEADROOM_BYTES: usize = 64 << 10;

/// Maximum number of threads. Assembling is serial, and more would not help it.
const THREADS_MAX: usize = 8;

/// Number of chunks waiting to be consumed, in addition to one for each thread.
const CHUNKS_AHEAD: usize = 2;

/// Number of threads that read an input, and the size of their chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// Number of cores to use. With one, the caller's thread reads, parses and assembles.
    pub cores: usize,
    /// Size of the chunks that are parsed in parallel, in bytes; at least one.
    pub chunk_bytes: usize,
}

impl Default for Parallelism {
    /// Uses all cores of the process.
    fn default() -> Self {
        Parallelism {
            cores: std::thread::available_parallelism().map_or(2, usize::from),
            chunk_bytes: CHUNK_BYTES,
        }
    }
}

/// Bytes that were read, scanned and parsed.
pub(super) struct Chunk {
    /// The bytes are those from [`HEADROOM_BYTES`] on.
    pub buffer: Buffer,
    /// Position of the first line that begins in them, from which on they are scanned.
    pub first_line: usize,
    pub parsed: ParsedEntries,
}

/// Element of the queue.
enum Place {
    /// Receives a chunk, or the error that ended the reading.
    Chunk(Receiver<io::Result<Chunk>>),
    /// End of the input. A queue that ends without it lost its reader.
    End,
}

/// The chunks of one input, in order.
pub(super) struct ReadAhead {
    chunks: Receiver<Place>,
    /// The end of the input, or an error, was received.
    is_ended: Cell<bool>,
    free: Sender<(Buffer, ParsedEntries)>,
    parser: Arc<Mutex<Option<Box<dyn ChunkParser>>>>,
    chunk_bytes: usize,
}

/// The input and the queue of its chunks. One thread at a time reads.
struct Source {
    reader: Box<dyn Read + Send>,
    /// Receives a place for each chunk; `None` after the end of the input.
    queue: Option<SyncSender<Place>>,
    freed: Receiver<(Buffer, ParsedEntries)>,
    chunk_bytes: usize,
}

impl ReadAhead {
    /// Starts the threads: one, or several if there is a parser.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(super) fn start(
        reader: Box<dyn Read + Send>,
        parallelism: Parallelism,
        parser: Option<Box<dyn ChunkParser>>,
    ) -> io::Result<Self> {
        let threads = match parser {
            Some(_) => parallelism.cores.clamp(1, THREADS_MAX),
            None => 1,
        };
        let chunk_bytes = parallelism.chunk_bytes.max(1);
        let (queue, chunks) = sync_channel(threads + CHUNKS_AHEAD);
        let (free, freed) = channel();
        let source = Arc::new(Mutex::new(Source {
            reader,
            queue: Some(queue),
            freed,
            chunk_bytes,
        }));
        let parser = Arc::new(Mutex::new(parser));
        for _ in 0..threads {
            let (source, parser) = (source.clone(), parser.clone());
            std::thread::Builder::new()
                .name("log-reader".to_owned())
                .spawn(move || run(&source, &parser))?;
        }
        Ok(ReadAhead {
            chunks,
            is_ended: Cell::new(false),
            free,
            parser,
            chunk_bytes,
        })
    }

    /// Maximum size of a chunk, in bytes.
    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Replaces the parser, for the chunks that are read from now on.
    pub(super) fn set_parser(&self, parser: Option<Box<dyn ChunkParser>>) {
        *self.parser.lock().unwrap_or_else(PoisonError::into_inner) = parser;
    }

    /// Receives the next chunk, which has at least one byte; `None` at the end of the input.
    pub(super) fn next_chunk(&self) -> Option<io::Result<Chunk>> {
        if self.is_ended.get() {
            return None;
        }
        let failed = |_| {
            Err(io::Error::other(
                "a thread that reads or parses it has failed",
            ))
        };
        let chunk = match self.chunks.recv() {
            Ok(Place::End) => None,
            Ok(Place::Chunk(chunk)) => Some(chunk.recv().unwrap_or_else(failed)),
            Err(lost) => Some(failed(lost)),
        };
        self.is_ended.set(!matches!(chunk, Some(Ok(_))));
        chunk
    }

    /// Returns a chunk's memory for reuse.
    pub(super) fn recycle(&self, buffer: Buffer, parsed: ParsedEntries) {
        if buffer.size() == HEADROOM_BYTES + self.chunk_bytes {
            // After their end the threads need no more chunks.
            let _ = self.free.send((buffer, parsed));
        }
    }
}

/// Reads and parses chunks until there are no more.
fn run(source: &Mutex<Source>, shared: &Mutex<Option<Box<dyn ChunkParser>>>) {
    let mut parser: Option<Box<dyn ChunkParser>> = None;
    loop {
        let next = source.lock().map(|mut source| source.next());
        let Ok(Some((mut chunk, sender))) = next else {
            return;
        };
        if let Ok(shared) = shared.lock() {
            let version = |parser: &Option<Box<dyn ChunkParser>>| {
                parser.as_ref().map(|parser| parser.version())
            };
            if version(&parser) != version(&shared) {
                parser = shared.as_ref().map(|parser| parser.fork());
            }
        }
        chunk.scan();
        if let Some(parser) = &mut parser {
            parser.parse(&mut chunk.buffer, &mut chunk.parsed);
        }
        // The receiver may be gone.
        let _ = sender.send(Ok(chunk));
    }
}

impl Source {
    /// Reads the next chunk; `None` at the end of the input. Its place in the queue is that of the
    /// returned sender.
    fn next(&mut self) -> Option<(Chunk, SyncSender<io::Result<Chunk>>)> {
        let queue = self.queue.take()?;
        let (mut buffer, parsed) = self.freed.try_recv().unwrap_or_else(|_| {
            let size = HEADROOM_BYTES + self.chunk_bytes;
            (Buffer::new(size), ParsedEntries::default())
        });
        let space = buffer.memory_from(HEADROOM_BYTES);
        // A pipe delivers little at a time: available data is passed on without waiting for more.
        let length = loop {
            match self.reader.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                read => break read,
            }
        };
        let (sender, receiver) = sync_channel(1);
        match length {
            Ok(0) => {
                let _ = queue.send(Place::End);
                return None;
            }
            Ok(length) => buffer.renew(HEADROOM_BYTES, length),
            Err(error) => {
                let _ = sender.send(Err(error));
                let _ = queue.send(Place::Chunk(receiver));
                return None;
            }
        }
        queue.send(Place::Chunk(receiver)).ok()?;
        self.queue = Some(queue);
        let first_line = HEADROOM_BYTES;
        let chunk = Chunk {
            buffer,
            first_line,
            parsed,
        };
        Some((chunk, sender))
    }
}

impl Chunk {
    /// The bytes that were read.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.bytes_from(HEADROOM_BYTES)
    }

    /// Scans the bytes from the first line on that begins in them.
    fn scan(&mut self) {
        let bytes = self.buffer.bytes();
        let length = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |newline| newline + 1);
        self.buffer.consume(length, 0);
        self.first_line = self.buffer.position();
        self.buffer.scan();
        self.parsed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line, and panics or ends then.
    struct OneLine {
        is_read: bool,
        panics: bool,
    }

    impl Read for OneLine {
        fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
            let line = b"a line\n";
            match std::mem::replace(&mut self.is_read, true) {
                false => {
                    space[..line.len()].copy_from_slice(line);
                    Ok(line.len())
                }
                true if self.panics => panic!("the reader fails"),
                true => Ok(0),
            }
        }
    }

    fn read(panics: bool) -> (ReadAhead, Option<io::Result<Chunk>>) {
        let reader = OneLine {
            is_read: false,
            panics,
        };
        let ahead = ReadAhead::start(Box::new(reader), Parallelism::default(), None).unwrap();
        let first = ahead.next_chunk().unwrap().unwrap();
        assert_eq!(first.bytes(), b"a line\n");
        let next = ahead.next_chunk();
        (ahead, next)
    }

    #[test]
    fn next_chunk_of_a_reader_that_panics_is_an_error_and_not_the_end() {
        let (ahead, next) = read(true);
        assert!(next.unwrap().is_err());
        assert!(ahead.next_chunk().is_none());
        assert!(read(false).1.is_none());
    }
}
