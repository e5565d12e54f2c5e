//! Which compression a file has, told by its first bytes and never by its name, and the readers
//! that undo it. Files of several members (`cat a.gz b.gz`) are read to their last.
//!
//! Deliberately absent: archives, which hold files with names of their own; they are refused with
//! the command that unpacks them.

use std::io::{self, Read};

/// As many bytes tell every compression.
pub const MAGIC_BYTES: usize = 6;

/// How a file is compressed.
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

/// What a file is by its first bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing that is known here: text, it is hoped.
    Plain,
    /// Compressed, and can be read.
    Compressed(Compression),
    /// Of a kind that is not read.
    Foreign(Foreign),
}

/// What is told and not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// "a zip archive"
    pub what: &'static str,
    /// What prints its text; the file's name comes behind it.
    pub command: &'static str,
}

/// Looks at a file's first bytes.
pub fn tell(magic: &[u8]) -> Told {
    let foreign = |what, command| Told::Foreign(Foreign { what, command });
    match magic {
        [0x1f, 0x8b, ..] => Told::Compressed(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Told::Compressed(Compression::Zstd),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Told::Compressed(Compression::Bzip2),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Told::Compressed(Compression::Xz),
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
        _ => Told::Plain,
    }
}

/// A tar archive, told by the header of its first file. It may itself have been compressed: then
/// this is asked of what came out.
pub fn is_tar(sample: &[u8]) -> bool {
    sample.get(257..262) == Some(b"ustar")
}

/// The answer to [`is_tar`]. `tar` tells a compression by itself.
pub const TAR: Foreign = Foreign {
    what: "a tar archive",
    command: "tar -xOf",
};

impl Compression {
    /// Reads what was compressed.
    ///
    /// # Errors
    /// Where a decoder cannot be made for want of memory.
    pub fn decoder(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
            Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(packed)),
            Compression::Xz => Box::new(liblzma::read::XzDecoder::new_multi_decoder(packed)),
        })
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }

    /// What a decoder's error means to the file's owner.
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
            let Told::Foreign(foreign) = tell(magic) else {
                panic!("{magic:?}")
            };
            assert!(foreign.command.contains(word), "{foreign:?}");
        }
        // A statement may begin with anything; only whole signatures count.
        assert_eq!(tell(b"BZh is"), Told::Plain);
        assert_eq!(tell(b""), Told::Plain);
        let mut header = vec![0; 512];
        header[257..262].copy_from_slice(b"ustar");
        assert!(is_tar(&header) && !is_tar(&header[..260]));
    }
}
