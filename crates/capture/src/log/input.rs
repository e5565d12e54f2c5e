//! Where a log's bytes come from: a file or standard input, compressed or not, through one window
//! of memory.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LogError;

/// One thing to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

impl Input {
    /// As the user names it.
    pub fn name(&self) -> String {
        match self {
            Input::Path(path) => path.display().to_string(),
            Input::Stdin => "-".to_owned(),
        }
    }

    /// Bytes to be read, before decompression, where that is known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Input::Path(path) => std::fs::metadata(path).ok().map(|found| found.len()),
            Input::Stdin => None,
        }
    }

    /// When it was last changed, in microseconds since 1970-01-01 UTC, where the system knows: of
    /// a pipe, about when it was last written to.
    pub(super) fn modified_us(&self) -> Option<i64> {
        let path = match self {
            Input::Path(path) => path,
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
        let raw: Box<dyn Read> = match self {
            Input::Stdin => Box::new(io::stdin()),
            Input::Path(path) => {
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

/// The least size of the window.
const WINDOW_BYTES: usize = 1 << 20;

/// As many bytes tell every compression.
const MAGIC_BYTES: usize = 6;

/// A window on a stream of bytes: what was read and not yet taken. It grows where one entry does
/// not fit, and shrinks again.
pub(super) struct Window {
    reader: Box<dyn Read>,
    raw: Arc<AtomicU64>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Bytes taken, after decompression.
    taken: u64,
}

/// Counts bytes before decompression, for the progress.
struct Counting {
    reader: Box<dyn Read>,
    count: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(into)?;
        self.count.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl Window {
    fn open(raw: Box<dyn Read>, name: &str) -> Result<Self, LogError> {
        let failed = |error| LogError::Read {
            name: name.to_owned(),
            error,
        };
        let count = Arc::new(AtomicU64::new(0));
        let mut raw = Counting {
            reader: raw,
            count: count.clone(),
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut raw)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        let unsupported = |compression, command| LogError::Compression {
            name: name.to_owned(),
            compression,
            command,
        };
        let kind = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Some(true),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(false),
            [b'B', b'Z', b'h', ..] => return Err(unsupported("bzip2", "bzip2 -dc")),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => return Err(unsupported("xz", "xz -dc")),
            _ => None,
        };
        let whole = Cursor::new(magic).chain(raw);
        let reader: Box<dyn Read> = match kind {
            Some(true) => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Some(false) => Box::new(zstd::stream::read::Decoder::new(whole).map_err(failed)?),
            None => Box::new(whole),
        };
        Ok(Self::new(reader, count))
    }

    fn new(reader: Box<dyn Read>, raw: Arc<AtomicU64>) -> Self {
        Window {
            reader,
            raw,
            bytes: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            ended: false,
            taken: 0,
        }
    }

    /// A window on bytes in memory.
    pub(super) fn on(bytes: impl AsRef<[u8]> + 'static) -> Self {
        Self::new(Box::new(Cursor::new(bytes)), Arc::default())
    }

    /// What was read and not yet taken.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Nothing comes behind [`Self::bytes`].
    #[inline]
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes read so far, before decompression.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw.load(Ordering::Relaxed)
    }

    /// Bytes taken so far, after decompression.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// Done with the first bytes.
    #[inline]
    pub(super) fn take(&mut self, length: usize) {
        self.start += length;
        self.taken += length as u64;
        debug_assert!(self.start <= self.end);
    }

    /// Reads on, until the window is full. It is made twice as large where more than half of it
    /// is in use, so that what is looked at again and again is at most looked at twice.
    pub(super) fn more(&mut self) -> io::Result<()> {
        let used = self.end - self.start;
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, used);
        if used > self.bytes.len() / 2 {
            self.bytes.resize(self.bytes.len() * 2, 0);
        } else if self.bytes.len() > 4 * WINDOW_BYTES && used < WINDOW_BYTES {
            self.bytes.truncate(WINDOW_BYTES);
            self.bytes.shrink_to_fit();
        }
        while self.end < self.bytes.len() {
            match self.reader.read(&mut self.bytes[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(length) => self.end += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
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

    #[test]
    fn compression_is_told_by_the_bytes_and_not_by_the_name() {
        let text = b"2026-01-01 00:00:00.000 UTC [1] LOG:  x\n".repeat(1_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        // Two members in one file, as `cat a.gz b.gz` makes.
        let twice = [gzip.clone(), gzip].concat();
        for (packed, whole) in [
            (text.clone(), text.clone()),
            (twice, text.repeat(2)),
            (zstd::encode_all(&text[..], 1).unwrap(), text.clone()),
            (b"abc".to_vec(), b"abc".to_vec()),
        ] {
            let window = Window::open(Box::new(Cursor::new(packed)), "x.log").unwrap();
            assert!(read_all(window) == whole);
        }
        for packed in [&b"BZh91AY"[..], b"\xfd7zXZ\0\0"] {
            let error = Window::open(Box::new(Cursor::new(packed)), "x.log")
                .err()
                .unwrap();
            assert!(error.to_string().contains("decompress it first"), "{error}");
        }
    }

    #[test]
    fn the_window_grows_for_one_entry_and_shrinks_again() {
        let mut window = Window::on(vec![b'x'; 20 << 20]);
        while window.bytes().len() < 10 << 20 {
            window.more().unwrap();
        }
        assert!(window.bytes.len() >= 10 << 20);
        window.take(window.bytes().len());
        window.more().unwrap();
        assert_eq!(window.bytes.len(), WINDOW_BYTES);
    }
}
