//! A file of an archive while it is written. It is encrypted if the archive is, and hashed as stored.

use std::fs::File;
use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::encryption::{EncryptedWriter, Encryption};
use crate::manifest::hex;

/// A file that is being written.
pub(crate) struct OutputFile {
    /// `None` after [`OutputFile::finish`].
    sink: Option<Sink>,
    content_bytes: u64,
}

enum Sink {
    Plain(HashedFile),
    Encrypted(EncryptedWriter<HashedFile>),
}

struct HashedFile {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl OutputFile {
    /// Begins the content of an empty file.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub(crate) fn begin(file: File, encryption: Option<&Encryption>) -> io::Result<Self> {
        let file = HashedFile {
            file,
            hash: Sha256::new(),
            bytes: 0,
        };
        Ok(OutputFile {
            sink: Some(match encryption {
                None => Sink::Plain(file),
                Some(encryption) => Sink::Encrypted(EncryptedWriter::begin(file, encryption)?),
            }),
            content_bytes: 0,
        })
    }

    /// Returns the number of bytes of content so far, before encryption.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns the last bytes of the content, which may not be in the file yet. Empty for a plain file.
    pub(crate) fn tail(&self) -> Vec<u8> {
        match &self.sink {
            Some(Sink::Encrypted(writer)) => writer.tail(),
            _ => Vec::new(),
        }
    }

    /// Ends the content and syncs the file. Returns its size in bytes and its SHA-256 in hex.
    ///
    /// # Errors
    /// If the file cannot be written, or was finished before.
    pub(crate) fn finish(&mut self) -> io::Result<(u64, String)> {
        let file = match self.sink.take().ok_or_else(finished_error)? {
            Sink::Plain(file) => file,
            Sink::Encrypted(writer) => writer.finish()?,
        };
        file.file.sync_all()?;
        Ok((file.bytes, hex(&file.hash.finalize())))
    }
}

fn finished_error() -> io::Error {
    io::Error::other("the file is already finished")
}

impl Write for OutputFile {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let written = match self.sink.as_mut().ok_or_else(finished_error)? {
            Sink::Plain(file) => file.write(content)?,
            Sink::Encrypted(writer) => writer.write(content)?,
        };
        self.content_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.sink.as_mut().ok_or_else(finished_error)? {
            Sink::Plain(file) => file.flush(),
            Sink::Encrypted(writer) => writer.flush(),
        }
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
