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
use super::read_ahead::{CHUNK_BYTES, Chunk, HEADROOM_BYTES, ReadAhead};
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
    at_end: bool,
    /// Disables reading uncompressed input ahead in another thread.
    no_read_ahead: bool,
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
        Self::new(ByteSource::Own(Box::new(watched)), raw)
    }

    fn new(origin: ByteSource, raw: Arc<StreamState>) -> Self {
        Window {
            origin,
            raw,
            compression: None,
            damage: None,
            no_read_ahead: false,
            waits: 0,
            buffer: Buffer::new(SAMPLE_BYTES),
            at_end: false,
            consumed: 0,
        }
    }

    /// Reads in the caller's thread only. If reading is all that is done, passing plain bytes
    /// between cores would cost more than reading them.
    pub(super) fn disable_read_ahead(&mut self) {
        self.no_read_ahead = true;
    }

    /// Creates a window on bytes in memory.
    pub(super) fn from_bytes(bytes: impl AsRef<[u8]> + 'static) -> Self {
        Self::new(
            ByteSource::Own(Box::new(Cursor::new(bytes))),
            Arc::default(),
        )
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
        self.grow();
        loop {
            let space = self.buffer.space();
            if space.is_empty() {
                break;
            }
            let read = match &mut self.origin {
                ByteSource::Own(reader) => reader.read(space),
                ByteSource::Sample(reader) => reader.read(space),
                ByteSource::Ahead(_) if space.len() < CHUNK_BYTES => break,
                ByteSource::Ahead(ahead) => match ahead.next_chunk() {
                    None => Ok(0),
                    Some(Err(error)) => Err(error),
                    Some(Ok(Chunk { bytes, length })) => {
                        let new = &bytes[HEADROOM_BYTES..HEADROOM_BYTES + length];
                        space[..length].copy_from_slice(new);
                        ahead.recycle(bytes);
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
        if self.consumed == 0 && self.bytes().is_empty()
            || !matches!(self.origin, ByteSource::Sample(_))
        {
            return Ok(());
        }
        let own = ByteSource::Own(Box::new(io::empty()));
        let ByteSource::Sample(reader) = std::mem::replace(&mut self.origin, own) else {
            unreachable!("it is the sample's");
        };
        let alone = self.no_read_ahead && self.compression.is_none()
            || std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
        self.origin = match alone {
            true => ByteSource::Own(reader),
            false => ByteSource::Ahead(ReadAhead::start(reader)?),
        };
        Ok(())
    }

    /// Makes the chunk's memory the window, with the unconsumed bytes copied before the chunk's.
    fn adopt_chunk(&mut self, chunk: Chunk) {
        let Chunk { bytes, length } = chunk;
        let old = self.buffer.replace_memory(bytes, HEADROOM_BYTES, length);
        if let ByteSource::Ahead(ahead) = &self.origin {
            ahead.recycle(old);
        }
    }

    fn grow(&mut self) {
        let (used, size) = (self.bytes().len(), self.buffer.size());
        self.buffer.compact();
        let spare = size - used;
        // The other thread's data comes in whole chunks.
        let is_short = matches!(self.origin, ByteSource::Ahead(_)) && spare < CHUNK_BYTES;
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
mod tests {
    use super::*;
    use std::io::Write;

    fn read_all(mut window: Window) -> Vec<u8> {
        let mut all = Vec::new();
        while !window.is_at_end() {
            window.fill().unwrap();
            all.extend_from_slice(window.bytes());
            window.consume(window.bytes().len());
        }
        all
    }

    fn packed(text: &[u8]) -> [(&'static str, Vec<u8>); 4] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(text).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(text).unwrap();
        [
            ("gzip", gzip.finish().unwrap()),
            ("bzip2", bzip2.finish().unwrap()),
            ("xz", xz.finish().unwrap()),
            ("zstd", zstd::encode_all(text, 1).unwrap()),
        ]
    }

    fn open(bytes: Vec<u8>) -> Window {
        Window::open(Box::new(Cursor::new(bytes)), "x.log").unwrap()
    }

    #[test]
    fn compression_is_told_by_the_bytes_and_not_by_the_name() {
        let text = b"2026-01-01 00:00:00.000 UTC [1] LOG:  x\n".repeat(100_000);
        for (name, packed) in packed(&text) {
            assert!(read_all(open(packed.clone())) == text, "{name}");
            // Two members in one file, as `cat a.gz b.gz` makes.
            let twice = [packed.clone(), packed].concat();
            assert!(read_all(open(twice)) == text.repeat(2), "{name}");
        }
        assert!(read_all(open(text.clone())) == text);
        assert_eq!(read_all(open(b"abc".to_vec())), b"abc");
        let zip = Box::new(Cursor::new(b"PK\x03\x04\x14\0\0\0"));
        let error = Window::open(zip, "x.zip").err().unwrap().to_string();
        assert!(
            error.contains("unzip -p x.zip | rehearse capture log -"),
            "{error}"
        );
        let zip = Box::new(Cursor::new(b"PK\x03\x04\x14\0\0\0"));
        let error = Window::open(zip, &Input::Stdin.name()).err().unwrap();
        let error = error.to_string();
        assert!(error.starts_with("standard input is "), "{error}");
        assert!(
            error.contains("unzip -p FILE | rehearse capture log -"),
            "{error}"
        );
    }

    #[test]
    fn a_cut_or_damaged_file_is_read_as_far_as_it_goes() {
        // Noise, so that the packed files are long and a cut loses little of them.
        let mut state = 1u64;
        let text: Vec<u8> = (0..3_000_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                b"0123456789abcdef"[(state >> 60) as usize]
            })
            .collect();
        for (name, packed) in packed(&text) {
            let mut window = open(packed[..packed.len() * 3 / 4].to_vec());
            let mut read = Vec::new();
            while !window.is_at_end() {
                window.fill().unwrap();
                read.extend_from_slice(window.bytes());
                window.consume(window.bytes().len());
            }
            assert!(window.damage().unwrap().contains(name), "{name}");
            assert!(text.starts_with(&read), "{name}");
            assert!(read.len() > text.len() / 3, "{name}: {}", read.len());
            // The checksum at the end is wrong: all data is read and the damage is reported.
            if name == "gzip" {
                let mut altered = packed.clone();
                let at = altered.len() - 6;
                altered[at] ^= 1;
                let mut window = open(altered);
                while !window.is_at_end() {
                    window.fill().unwrap();
                    window.consume(window.bytes().len());
                }
                assert_eq!(window.consumed_bytes(), text.len() as u64);
                assert!(window.damage().unwrap().contains("damaged"));
            }
        }
    }

    struct Refusing;

    impl Read for Refusing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is broken"))
        }
    }

    #[test]
    fn a_disk_that_refuses_is_an_error_and_no_damage() {
        let (_, packed) = &packed(&[b'x'; 1_000])[0];
        let half = Cursor::new(packed[..packed.len() / 2].to_vec());
        let mut window = Window::open(Box::new(half.chain(Refusing)), "x.gz").unwrap();
        assert!(window.fill().unwrap_err().to_string().contains("broken"));
    }

    #[test]
    fn the_window_grows_for_one_entry_and_shrinks_again() {
        let mut window = Window::from_bytes(vec![b'x'; 20 << 20]);
        while window.bytes().len() < 10 << 20 {
            window.fill().unwrap();
        }
        assert!(window.buffer.size() >= 10 << 20);
        window.consume(window.bytes().len());
        window.fill().unwrap();
        assert_eq!(window.buffer.size(), WINDOW_BYTES);
    }

    #[test]
    fn what_another_thread_reads_is_the_same_bytes_in_any_bites() {
        let text: Vec<u8> = (0..3_000_000u32)
            .map(|at| (u64::from(at).pow(2) >> 7) as u8)
            .collect();
        for (bite, least) in [
            (1_000, 1),
            (100_000, 50_000),
            (200_000, 20_000),
            (2_500_000, 2_400_000),
        ] {
            let reader = Box::new(Cursor::new(text.clone()));
            let mut window = Window {
                origin: ByteSource::Ahead(ReadAhead::start(reader).unwrap()),
                ..Window::from_bytes([])
            };
            let mut read = Vec::new();
            // As a reader does that needs this number of bytes for its next entry.
            while !(window.is_at_end() && window.bytes().is_empty()) {
                if window.bytes().len() < least && !window.is_at_end() {
                    window.fill().unwrap();
                    continue;
                }
                let length = window.bytes().len().min(bite);
                read.extend_from_slice(&window.bytes()[..length]);
                window.consume(length);
                assert!(window.buffer.size() <= 4 * least.max(SAMPLE_BYTES));
            }
            assert!(read == text, "{bite}");
        }
    }

    #[test]
    fn a_disk_that_refuses_another_thread_is_an_error_too() {
        let text = Cursor::new(vec![b'x'; 3 << 20]).chain(Refusing);
        let mut window = Window::open(Box::new(text), "x.log").unwrap();
        let error = loop {
            match window.fill() {
                Ok(()) => assert!(!window.is_at_end()),
                Err(error) => break error,
            }
            window.consume(window.bytes().len());
        };
        assert!(error.to_string().contains("broken"));
        assert_eq!(window.consumed_bytes(), 3 << 20);
    }
}
