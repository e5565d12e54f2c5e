//! Reads a log's bytes from a file or standard input, compressed or not, through one window of
//! memory.
//!
//! A truncated or damaged compressed file is read up to the damage; [`Window::damage`] then
//! describes it. An I/O error is returned, since a retry may succeed.

use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LogError;
use super::entry::{ReadResult, Reader};
use super::parse_ahead::{ChunkParser, ParsedEntries};
use super::read_ahead::{Chunk, HEADROOM_BYTES, Parallelism, ReadAhead};
use super::reconcile::Location;
use super::text::{Buffer, Text};
use crate::line_ends::without_carriage_returns;
use capture_sink::CountingReader;
use capture_sink::StreamState;
use capture_sink::compression::{Compression, FileFormat, MAGIC_BYTES, detect};
use capture_sink::{is_stream, open_input_file};

/// One input of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// A file found in a directory. It is left out if it is no log.
    Found(PathBuf),
    /// Standard input.
    Stdin,
}

impl Input {
    /// The name as the user gave it.
    pub fn name(&self) -> String {
        match self {
            Input::Path(path) | Input::Found(path) => path.display().to_string(),
            Input::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether it can be read only once.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Input::Path(path) | Input::Found(path) => is_stream(path),
            Input::Stdin => true,
        }
    }

    /// Number of bytes to read, before decompression, if known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Input::Path(path) | Input::Found(path) => {
                std::fs::metadata(path).ok().map(|found| found.len())
            }
            Input::Stdin => None,
        }
    }

    /// Time of the last modification, in microseconds since 1970-01-01 UTC, if the system knows it.
    /// For a pipe, this is about the time of the last write.
    pub(super) fn modified_us(&self) -> Option<i64> {
        let path = match self {
            Input::Path(path) | Input::Found(path) => path,
            Input::Stdin => Path::new("/dev/stdin"),
        };
        let modified = std::fs::metadata(path).ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    }

    /// Opens the input and detects its compression by its first bytes.
    pub(super) fn open(&self) -> Result<Window, LogError> {
        let failed = |error| LogError::Read {
            name: self.name(),
            error,
        };
        let raw: Box<dyn Read + Send> = match self {
            Input::Stdin => Box::new(io::stdin()),
            Input::Path(path) | Input::Found(path) => {
                Box::new(open_input_file(path).map_err(failed)?)
            }
        };
        Window::open(raw, &self.name())
    }
}

/// Initial size of the window, and size of the sample by which a format is recognised.
const SAMPLE_BYTES: usize = 1 << 20;

/// Size from which the window grows by a quarter instead of doubling. This limits the unused part
/// of a large window.
const LARGE_BYTES: usize = 8 << 20;

/// Minimum size of the window after the sample; it fits into a core's own cache.
const WINDOW_BYTES: usize = 128 << 10;

/// Number of consecutive waits without data after which a followed log counts as idle: one second,
/// at four waits a second.
const SILENT_WAITS: u32 = 4;

/// A window on a stream of bytes: the bytes read and not yet consumed. It grows if one entry does
/// not fit, and shrinks again.
pub(super) struct Window {
    origin: ByteSource,
    raw: Arc<StreamState>,
    compression: Option<Compression>,
    damage: Option<String>,
    buffer: Buffer,
    /// Entries of the buffer that other threads have parsed.
    parsed: ParsedEntries,
    /// Parser for other threads, until they are started.
    parser: Option<Box<dyn ChunkParser>>,
    /// Version of the last parser.
    parser_version: Option<u64>,
    parallelism: Parallelism,
    at_end: bool,
    /// Disables reading uncompressed input ahead in a thread that does not parse.
    no_read_ahead: bool,
    /// The log is still being written.
    is_followed: bool,
    /// Consecutive waits without data.
    waits: u32,
    /// Bytes consumed, after decompression.
    consumed: u64,
}

/// The reader of the bytes.
enum ByteSource {
    /// The window reads in its own thread.
    Own(Box<dyn Read>),
    /// The window reads the sample itself; then another thread reads, if the process has a core for
    /// it.
    Sample(Box<dyn Read + Send>),
    Ahead(ReadAhead),
}

impl Window {
    fn open(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, LogError> {
        let failed = |error| LogError::Read {
            name: name.to_owned(),
            error,
        };
        let raw = Arc::new(StreamState::default());
        let mut watched = CountingReader {
            reader,
            raw: raw.clone(),
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut watched)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let file_format = detect(&magic);
        // UTF-8's byte order mark, which some editors write.
        if magic.starts_with(b"\xef\xbb\xbf") {
            magic.drain(..3);
        }
        let whole = Cursor::new(magic).chain(watched);
        Ok(match file_format {
            FileFormat::Plain => {
                let reader = without_carriage_returns(Box::new(whole)).map_err(failed)?;
                Self::new(ByteSource::Sample(reader), raw)
            }
            FileFormat::Compressed(compression) => {
                let decoder = compression.decoder(whole).map_err(failed)?;
                Window {
                    compression: Some(compression),
                    ..Self::new(ByteSource::Sample(decoder), raw)
                }
            }
            FileFormat::Foreign(foreign) => return Err(LogError::foreign(name, foreign)),
        })
    }

    /// Creates a window on a log that is still being written, which is never compressed. Its reader
    /// returns [`io::ErrorKind::WouldBlock`] after a wait without data.
    pub(super) fn new_following(reader: Box<dyn Read>) -> Self {
        let raw = Arc::new(StreamState::default());
        let watched = CountingReader {
            reader,
            raw: raw.clone(),
        };
        Window {
            is_followed: true,
            ..Self::new(ByteSource::Own(Box::new(watched)), raw)
        }
    }

    fn new(origin: ByteSource, raw: Arc<StreamState>) -> Self {
        Window {
            origin,
            raw,
            compression: None,
            damage: None,
            no_read_ahead: false,
            parallelism: Parallelism::default(),
            parser: None,
            parser_version: None,
            parsed: ParsedEntries::default(),
            is_followed: false,
            waits: 0,
            buffer: Buffer::new(SAMPLE_BYTES),
            at_end: false,
            consumed: 0,
        }
    }

    /// Reads in the caller's thread, unless other threads parse, too. If reading is all that they do,
    /// passing plain bytes between cores would cost more than reading them.
    pub(super) fn disable_read_ahead(&mut self) {
        self.no_read_ahead = true;
    }

    /// Sets the number of threads and the size of their chunks.
    pub(super) fn set_parallelism(&mut self, parallelism: Parallelism) {
        self.parallelism = parallelism;
    }

    /// Has other threads parse as this reader does, if there are any, and if it has changed.
    pub(super) fn update_parser(&mut self, reader: &mut impl Reader) {
        let version = reader.version();
        // Decompression takes a core.
        let cores = (self.parallelism.cores).saturating_sub(self.compression.is_some().into());
        if version == self.parser_version || cores <= 1 {
            return;
        }
        self.parser_version = version;
        let parser = reader.to_parser();
        match &self.origin {
            ByteSource::Ahead(ahead) => ahead.set_parser(parser),
            ByteSource::Sample(_) => self.parser = parser,
            ByteSource::Own(_) => (),
        }
    }

    /// Looks for an entry at the start of the bytes that another thread has parsed as `reader` would.
    #[inline(always)]
    pub(super) fn find_parsed(&mut self, reader: &mut impl Reader) -> bool {
        self.parsed.has_next() && self.parsed.find(self.buffer.position(), reader.version())
    }

    /// Restores the entry that was found, and its number of bytes.
    #[inline(always)]
    pub(super) fn parsed_entry<'a>(
        &'a self,
        reader: &'a mut impl Reader,
        place: Location,
    ) -> (ReadResult<'a>, usize) {
        let prefix = reader.pass_parsed();
        self.parsed.restore(self.buffer.text(), prefix, place)
    }

    /// Creates a window on bytes in memory.
    pub(super) fn from_bytes(bytes: impl AsRef<[u8]> + 'static) -> Self {
        Self::new(
            ByteSource::Own(Box::new(Cursor::new(bytes))),
            Arc::default(),
        )
    }

    /// Creates a window on bytes in memory, which other threads read from their first byte on.
    pub(super) fn from_bytes_ahead(
        bytes: impl AsRef<[u8]> + Send + 'static,
        parallelism: Parallelism,
    ) -> Self {
        if parallelism.cores == 1 {
            return Self::from_bytes(bytes);
        }
        let reader = ByteSource::Sample(Box::new(Cursor::new(bytes)));
        Window {
            parallelism,
            buffer: Buffer::new(0),
            ..Self::new(reader, Arc::default())
        }
    }

    /// The bytes read and not yet consumed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The same bytes with their line ends and UTF-8 validity.
    #[inline]
    pub(super) fn text(&self) -> Text<'_> {
        self.buffer.text()
    }

    /// Returns whether the log is still being written.
    pub(super) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Returns whether nothing follows [`Self::bytes`].
    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Number of bytes read so far, before decompression.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw.bytes.load(Ordering::Relaxed)
    }

    /// Damage at which a compressed file ended early.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Returns whether the bytes are complete for now: a followed log has been idle since a whole
    /// line.
    pub(super) fn is_idle(&self) -> bool {
        self.waits >= SILENT_WAITS && self.bytes().last() == Some(&b'\n')
    }

    /// Number of bytes consumed so far, after decompression.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed
    }

    /// Consumes the first bytes.
    #[inline]
    pub(super) fn consume(&mut self, length: usize) {
        self.consume_lines(length, 0);
    }

    /// Consumes the first bytes, which are `lines` lines as far as the caller knows.
    #[inline]
    pub(super) fn consume_lines(&mut self, length: usize, lines: u64) {
        self.buffer.consume(length, lines as usize);
        self.consumed += length as u64;
    }

    /// Reads more bytes: until the window is full, or one chunk of the other thread. Enlarges the
    /// window if most of it is in use, so that unfinished entries are rarely scanned again.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let read = self.read();
        self.buffer.scan();
        read
    }

    fn read(&mut self) -> io::Result<()> {
        self.start_read_ahead()?;
        if let ByteSource::Ahead(ahead) = &self.origin
            && self.bytes().len() <= HEADROOM_BYTES
        {
            match ahead.next_chunk() {
                None => self.at_end = true,
                Some(Ok(chunk)) => self.adopt_chunk(chunk),
                Some(Err(error)) => return self.handle_error(error),
            }
            return Ok(());
        }
        self.parsed.clear();
        self.grow();
        loop {
            let space = self.buffer.space();
            if space.is_empty() {
                break;
            }
            let read = match &mut self.origin {
                ByteSource::Own(reader) => reader.read(space),
                ByteSource::Sample(reader) => reader.read(space),
                ByteSource::Ahead(ahead) if space.len() < ahead.chunk_bytes() => break,
                ByteSource::Ahead(ahead) => match ahead.next_chunk() {
                    None => Ok(0),
                    Some(Err(error)) => Err(error),
                    Some(Ok(chunk)) => {
                        let new = chunk.bytes();
                        space[..new.len()].copy_from_slice(new);
                        let length = new.len();
                        ahead.recycle(chunk.buffer, chunk.parsed);
                        Ok(length)
                    }
                },
            };
            match read {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(length) => {
                    self.waits = 0;
                    self.buffer.commit(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waits += 1;
                    break;
                }
                Err(error) => return self.handle_error(error),
            }
        }
        Ok(())
    }

    /// Starts reading in another thread from the second read on, if there is a core for it.
    fn start_read_ahead(&mut self) -> io::Result<()> {
        let has_no_sample = self.consumed == 0 && self.bytes().is_empty();
        if has_no_sample && self.buffer.size() > 0 || !matches!(self.origin, ByteSource::Sample(_))
        {
            return Ok(());
        }
        let own = ByteSource::Own(Box::new(io::empty()));
        let ByteSource::Sample(reader) = std::mem::replace(&mut self.origin, own) else {
            unreachable!("it is the sample's");
        };
        let only_reads = self.parser.is_none() && self.compression.is_none();
        let alone = self.no_read_ahead && only_reads || self.parallelism.cores == 1;
        self.origin = match alone {
            true => ByteSource::Own(reader),
            false => {
                let parser = self.parser.take();
                ByteSource::Ahead(ReadAhead::start(reader, self.parallelism, parser)?)
            }
        };
        Ok(())
    }

    /// Makes the chunk's buffer that of the window, with the unconsumed bytes copied before the chunk's.
    fn adopt_chunk(&mut self, chunk: Chunk) {
        let old = self
            .buffer
            .continue_with(chunk.buffer, HEADROOM_BYTES, chunk.first_line);
        let parsed = std::mem::replace(&mut self.parsed, chunk.parsed);
        if let ByteSource::Ahead(ahead) = &self.origin {
            ahead.recycle(old, parsed);
        }
    }

    fn grow(&mut self) {
        let (used, size) = (self.bytes().len(), self.buffer.size());
        self.buffer.compact();
        let spare = size - used;
        // The other thread's data comes in whole chunks.
        let is_short = match &self.origin {
            ByteSource::Ahead(ahead) => spare < ahead.chunk_bytes(),
            _ => false,
        };
        let grows = match size < LARGE_BYTES {
            true => used > size / 2 || is_short,
            false => spare < size / 8,
        };
        if grows {
            self.buffer
                .resize(size + size.min((size / 4).max(LARGE_BYTES)));
        } else if size > 4 * WINDOW_BYTES && self.consumed > 0 && used < WINDOW_BYTES {
            self.buffer.resize(WINDOW_BYTES);
        }
    }

    /// Ends a truncated or damaged compressed file at the damage; returns any other error.
    fn handle_error(&mut self, error: io::Error) -> io::Result<()> {
        match self.compression {
            Some(compression) if !self.raw.failed.load(Ordering::Relaxed) => {
                self.damage = Some(compression.damage(&error));
                self.at_end = true;
                Ok(())
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
