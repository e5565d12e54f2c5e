//! Where a log's bytes come from: a file or standard input, compressed or not, through one window
//! of memory.
//!
//! A compressed file that is cut or damaged is read as far as it goes; [`Window::damage`] says what
//! was wrong with it then. A disk that refuses is an error: it may be asked again.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LogError;
use super::read_ahead::{CHUNK_BYTES, Chunk, HEADROOM_BYTES, ReadAhead};
use super::text::{Buffer, Text};
use capture_sink::Raw;
use capture_sink::Watched;
use capture_sink::compression::{Compression, MAGIC_BYTES, Told, tell};

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// A file that was not named but found in a directory. It is left out where it is no log.
    Found(PathBuf),
    /// Standard input.
    Stdin,
}

impl Input {
    /// As the user names it.
    pub fn name(&self) -> String {
        match self {
            Input::Path(path) | Input::Found(path) => path.display().to_string(),
            Input::Stdin => "standard input".to_owned(),
        }
    }

    /// Bytes to be read, before decompression, where that is known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Input::Path(path) | Input::Found(path) => {
                std::fs::metadata(path).ok().map(|found| found.len())
            }
            Input::Stdin => None,
        }
    }

    /// When it was last changed, in microseconds since 1970-01-01 UTC, where the system knows: of
    /// a pipe, about when it was last written to.
    pub(super) fn modified_us(&self) -> Option<i64> {
        let path = match self {
            Input::Path(path) | Input::Found(path) => path,
            Input::Stdin => Path::new("/dev/stdin"),
        };
        let modified = std::fs::metadata(path).ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    }

    /// Opens it and recognises its compression by its first bytes.
    pub(super) fn open(&self) -> Result<Window, LogError> {
        let failed = |error| LogError::Read {
            name: self.name(),
            error,
        };
        let raw: Box<dyn Read + Send> = match self {
            Input::Stdin => Box::new(io::stdin()),
            Input::Path(path) | Input::Found(path) => {
                let file = File::open(path).map_err(failed)?;
                if file.metadata().map_err(failed)?.is_dir() {
                    return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
                }
                Box::new(file)
            }
        };
        Window::open(raw, &self.name())
    }
}

/// The size of the window at first: what an input is told by.
const SAMPLE_BYTES: usize = 1 << 20;

/// From this size on the window grows by quarters, for an entry that does not fit: what is not needed
/// of so much memory is much.
const LARGE_BYTES: usize = 8 << 20;

/// The least size of the window behind that: it stays in a core's own cache.
const WINDOW_BYTES: usize = 128 << 10;

/// A log that is being written counts as silent after so many waits for more of it in a row: a
/// second, at four a second.
const SILENT_WAITS: u32 = 4;

/// A window on a stream of bytes: what was read and not yet taken. It grows where one entry does
/// not fit, and shrinks again.
pub(super) struct Window {
    origin: Origin,
    raw: Arc<Raw>,
    compression: Option<Compression>,
    damage: Option<String>,
    buffer: Buffer,
    ended: bool,
    /// No other thread is to read what is not compressed.
    alone: bool,
    /// Waits in a row that brought nothing.
    waits: u32,
    /// Bytes taken, after decompression.
    taken: u64,
}

/// Who reads.
enum Origin {
    /// The window itself.
    Own(Box<dyn Read>),
    /// The window itself for the sample; then another thread, if there is a core for it.
    Sample(Box<dyn Read + Send>),
    Ahead(ReadAhead),
}

impl Window {
    fn open(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, LogError> {
        let failed = |error| LogError::Read {
            name: name.to_owned(),
            error,
        };
        let raw = Arc::new(Raw::default());
        let mut watched = Watched {
            reader,
            raw: raw.clone(),
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut watched)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let told = tell(&magic);
        // What some editors write before UTF-8.
        if magic.starts_with(b"\xef\xbb\xbf") {
            magic.drain(..3);
        }
        let whole = Cursor::new(magic).chain(watched);
        Ok(match told {
            Told::Plain => Self::new(Origin::Sample(Box::new(whole)), raw),
            Told::Compressed(compression) => {
                let decoder = compression.decoder(whole).map_err(failed)?;
                Window {
                    compression: Some(compression),
                    ..Self::new(Origin::Sample(decoder), raw)
                }
            }
            Told::Foreign(foreign) => return Err(LogError::foreign(name, foreign)),
        })
    }

    /// A window on a log that is still being written, which is never compressed. Its reader says
    /// [`io::ErrorKind::WouldBlock`] after having waited for more in vain.
    pub(super) fn following(reader: Box<dyn Read>) -> Self {
        let raw = Arc::new(Raw::default());
        let watched = Watched {
            reader,
            raw: raw.clone(),
        };
        Self::new(Origin::Own(Box::new(watched)), raw)
    }

    fn new(origin: Origin, raw: Arc<Raw>) -> Self {
        Window {
            origin,
            raw,
            compression: None,
            damage: None,
            alone: false,
            waits: 0,
            buffer: Buffer::new(SAMPLE_BYTES),
            ended: false,
            taken: 0,
        }
    }

    /// Reading is all that is done: handing plain bytes from one core to another would cost more
    /// than reading them does.
    pub(super) fn read_alone(&mut self) {
        self.alone = true;
    }

    /// A window on bytes in memory.
    pub(super) fn on(bytes: impl AsRef<[u8]> + 'static) -> Self {
        Self::new(Origin::Own(Box::new(Cursor::new(bytes))), Arc::default())
    }

    /// What was read and not yet taken.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// The same, with what is known of it.
    #[inline]
    pub(super) fn text(&self) -> Text<'_> {
        self.buffer.text()
    }

    /// Nothing comes behind [`Self::bytes`].
    #[inline]
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes read so far, before decompression.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw.bytes.load(Ordering::Relaxed)
    }

    /// What was wrong with the compressed file, where it ended before its end.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// What is there is whole for now: a log that is being written has been silent for a while
    /// behind a whole line.
    pub(super) fn settled(&self) -> bool {
        self.waits >= SILENT_WAITS && self.bytes().last() == Some(&b'\n')
    }

    /// Bytes taken so far, after decompression.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// Done with the first bytes.
    #[inline]
    pub(super) fn take(&mut self, length: usize) {
        self.take_lines(length, 0);
    }

    /// As [`Self::take`]; they are so many lines, as far as the caller knows.
    #[inline]
    pub(super) fn take_lines(&mut self, length: usize, lines: u64) {
        self.buffer.take(length, lines as usize);
        self.taken += length as u64;
    }

    /// Reads on: until the window is full, or what another thread has read. It is made larger where
    /// much of it is in use, so that what is looked at again and again is looked at few times.
    pub(super) fn more(&mut self) -> io::Result<()> {
        let read = self.read();
        self.buffer.look();
        read
    }

    fn read(&mut self) -> io::Result<()> {
        self.read_ahead()?;
        if let Origin::Ahead(ahead) = &self.origin
            && self.bytes().len() <= HEADROOM_BYTES
        {
            match ahead.next() {
                None => self.ended = true,
                Some(Ok(chunk)) => self.change_to(chunk),
                Some(Err(error)) => return self.failed(error),
            }
            return Ok(());
        }
        self.make_room();
        loop {
            let space = self.buffer.space();
            if space.is_empty() {
                break;
            }
            let read = match &mut self.origin {
                Origin::Own(reader) => reader.read(space),
                Origin::Sample(reader) => reader.read(space),
                Origin::Ahead(_) if space.len() < CHUNK_BYTES => break,
                Origin::Ahead(ahead) => match ahead.next() {
                    None => Ok(0),
                    Some(Err(error)) => Err(error),
                    Some(Ok(Chunk { bytes, length })) => {
                        let new = &bytes[HEADROOM_BYTES..HEADROOM_BYTES + length];
                        space[..length].copy_from_slice(new);
                        ahead.give_back(bytes);
                        Ok(length)
                    }
                },
            };
            match read {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(length) => {
                    self.waits = 0;
                    self.buffer.filled(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waits += 1;
                    break;
                }
                Err(error) => return self.failed(error),
            }
        }
        Ok(())
    }

    /// From the second look on another thread reads, where there is a core for it.
    fn read_ahead(&mut self) -> io::Result<()> {
        if self.taken == 0 && self.bytes().is_empty() || !matches!(self.origin, Origin::Sample(_)) {
            return Ok(());
        }
        let own = Origin::Own(Box::new(io::empty()));
        let Origin::Sample(reader) = std::mem::replace(&mut self.origin, own) else {
            unreachable!("it is the sample's");
        };
        let alone = self.alone && self.compression.is_none()
            || std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
        self.origin = match alone {
            true => Origin::Own(reader),
            false => Origin::Ahead(ReadAhead::start(reader)?),
        };
        Ok(())
    }

    /// What is left stands before the chunk's bytes, and the chunk's memory is the window's.
    fn change_to(&mut self, chunk: Chunk) {
        let Chunk { bytes, length } = chunk;
        let old = self.buffer.change_to(bytes, HEADROOM_BYTES, length);
        if let Origin::Ahead(ahead) = &self.origin {
            ahead.give_back(old);
        }
    }

    fn make_room(&mut self) {
        let (used, size) = (self.bytes().len(), self.buffer.size());
        self.buffer.compact();
        let spare = size - used;
        // What another thread has read comes in one piece.
        let is_short = matches!(self.origin, Origin::Ahead(_)) && spare < CHUNK_BYTES;
        let grows = match size < LARGE_BYTES {
            true => used > size / 2 || is_short,
            false => spare < size / 8,
        };
        if grows {
            self.buffer
                .resize(size + size.min((size / 4).max(LARGE_BYTES)));
        } else if size > 4 * WINDOW_BYTES && self.taken > 0 && used < WINDOW_BYTES {
            self.buffer.resize(WINDOW_BYTES);
        }
    }

    /// A compressed file that is cut or damaged ends there; any other error is handed on.
    fn failed(&mut self, error: io::Error) -> io::Result<()> {
        match self.compression {
            Some(compression) if !self.raw.failed.load(Ordering::Relaxed) => {
                self.damage = Some(compression.damage(&error));
                self.ended = true;
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
        while !window.ended() {
            window.more().unwrap();
            all.extend_from_slice(window.bytes());
            window.take(window.bytes().len());
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
            while !window.ended() {
                window.more().unwrap();
                read.extend_from_slice(window.bytes());
                window.take(window.bytes().len());
            }
            assert!(window.damage().unwrap().contains(name), "{name}");
            assert!(text.starts_with(&read), "{name}");
            assert!(read.len() > text.len() / 3, "{name}: {}", read.len());
            // The checksum at the end is wrong: everything is there, and it is told.
            if name == "gzip" {
                let mut altered = packed.clone();
                let at = altered.len() - 6;
                altered[at] ^= 1;
                let mut window = open(altered);
                while !window.ended() {
                    window.more().unwrap();
                    window.take(window.bytes().len());
                }
                assert_eq!(window.taken_bytes(), text.len() as u64);
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
        assert!(window.more().unwrap_err().to_string().contains("broken"));
    }

    #[test]
    fn the_window_grows_for_one_entry_and_shrinks_again() {
        let mut window = Window::on(vec![b'x'; 20 << 20]);
        while window.bytes().len() < 10 << 20 {
            window.more().unwrap();
        }
        assert!(window.buffer.size() >= 10 << 20);
        window.take(window.bytes().len());
        window.more().unwrap();
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
                origin: Origin::Ahead(ReadAhead::start(reader).unwrap()),
                ..Window::on([])
            };
            let mut read = Vec::new();
            // As a reader does that needs so many bytes for its next entry.
            while !(window.ended() && window.bytes().is_empty()) {
                if window.bytes().len() < least && !window.ended() {
                    window.more().unwrap();
                    continue;
                }
                let length = window.bytes().len().min(bite);
                read.extend_from_slice(&window.bytes()[..length]);
                window.take(length);
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
            match window.more() {
                Ok(()) => assert!(!window.ended()),
                Err(error) => break error,
            }
            window.take(window.bytes().len());
        };
        assert!(error.to_string().contains("broken"));
        assert_eq!(window.taken_bytes(), 3 << 20);
    }
}
