//! Detects the compression of a file by its first bytes, never by its name, and decompresses it.
//! Files of several members (`cat a.gz b.gz`) are read to the last one.
//!
//! Archives are not read, since they contain several named files; they are refused with the command
//! that unpacks them.

use std::io::{self, Read};

/// Number of bytes that identify every compression.
pub const MAGIC_BYTES: usize = 6;

/// Maximum memory of a decoder of xz, in bytes. Files that `xz -9` writes need 65 MiB.
const XZ_BYTES_MAX: u64 = 256 << 20;

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
    /// `.bz2`
    Bzip2,
    /// `.xz`
    Xz,
}

/// Format of a file by its first bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// No known format, presumably text.
    Plain,
    /// Compressed in a supported format.
    Compressed(Compression),
    /// An unsupported format.
    Foreign(UnsupportedFormat),
}

/// An unsupported format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedFormat {
    /// "a zip archive"
    pub what: &'static str,
    /// Command that prints its text; the file's name is appended.
    pub command: &'static str,
}

/// Detects the format by a file's first bytes.
pub fn detect(magic: &[u8]) -> FileFormat {
    let foreign = |what, command| FileFormat::Foreign(UnsupportedFormat { what, command });
    match magic {
        [0x1f, 0x8b, ..] => FileFormat::Compressed(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => FileFormat::Compressed(Compression::Zstd),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => FileFormat::Compressed(Compression::Bzip2),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => FileFormat::Compressed(Compression::Xz),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            foreign("text in UTF-16", "iconv -f UTF-16 -t UTF-8")
        }
        [b'P', b'K', 3, 4, ..] => foreign("a zip archive", "unzip -p"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c] => foreign("a 7z archive", "7z x -so"),
        [b'R', b'a', b'r', b'!', 0x1a, 7] => foreign("a rar archive", "unrar p -inul"),
        [0x04, 0x22, 0x4d, 0x18, ..] => foreign("compressed as lz4", "lz4 -dc"),
        [b'L', b'Z', b'I', b'P', ..] => foreign("compressed as lzip", "lzip -dc"),
        [0x1f, 0x9d, ..] => foreign("compressed by compress (.Z)", "gzip -dc"),
        [0x89, b'L', b'Z', b'O', ..] => foreign("compressed as lzop", "lzop -dc"),
        _ => FileFormat::Plain,
    }
}

/// Returns whether the sample is a tar archive, by the header of its first file. A compressed
/// archive is detected after decompression.
pub fn is_tar(sample: &[u8]) -> bool {
    sample.get(257..262) == Some(b"ustar")
}

/// The format that [`is_tar`] detects. `tar` recognises a compression without an option.
pub const TAR: UnsupportedFormat = UnsupportedFormat {
    what: "a tar archive",
    command: "tar -xOf",
};

impl Compression {
    /// Decompresses a stream.
    ///
    /// # Errors
    /// If there is not enough memory for a decoder.
    pub fn decoder(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
            Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
            Compression::Xz => {
                let flags = liblzma::stream::CONCATENATED;
                let stream = liblzma::stream::Stream::new_auto_decoder(XZ_BYTES_MAX, flags)?;
                Box::new(liblzma::read::XzDecoder::new_stream(packed, stream))
            }
        })
    }

    /// Name of the compression.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }

    /// Describes a decoder's error for the file's owner.
    pub fn damage(self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("its {} data ends too early: the file is cut", self.name())
            }
            _ => format!("its {} data is damaged ({error})", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_told_with_what_unpacks_them() {
        for (magic, word) in [
            (&b"PK\x03\x04\x14\0"[..], "unzip"),
            (b"7z\xbc\xaf\x27\x1c", "7z"),
            (b"\x04\x22\x4d\x18\0\0", "lz4"),
            (b"\x1f\x9d\x90\0\0\0", "gzip"),
        ] {
            let FileFormat::Foreign(foreign) = detect(magic) else {
                panic!("{magic:?}")
            };
            assert!(foreign.command.contains(word), "{foreign:?}");
        }
        // A statement may begin with any letters; only whole signatures count.
        assert_eq!(detect(b"BZh is"), FileFormat::Plain);
        assert_eq!(detect(b""), FileFormat::Plain);
        let mut header = vec![0; 512];
        header[257..262].copy_from_slice(b"ustar");
        assert!(is_tar(&header) && !is_tar(&header[..260]));
    }
}
