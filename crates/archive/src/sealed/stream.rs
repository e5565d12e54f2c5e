//! A file's content: chunks of 64 KiB, each with its place and whether it is the last in its nonce.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ring::aead::{Aad, LessSafeKey, Nonce};

use super::header::{Header, cipher, derive};
use super::keys::{Encryption, Keyring, random};
use crate::error::ArchiveError;

const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
const NONCE: usize = 16;

fn nonce(place: u64, last: bool) -> Nonce {
    let mut bytes = [0; 12];
    bytes[3..11].copy_from_slice(&place.to_be_bytes());
    bytes[11] = u8::from(last);
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts what a file is to hold.
pub(crate) struct Sealing {
    key: LessSafeKey,
    place: u64,
    /// What is not yet encrypted: a chunk is held until it is known whether it is the last.
    held: Vec<u8>,
}

impl Sealing {
    /// Begins a file: with what it begins.
    pub(crate) fn begin(encryption: &Encryption) -> io::Result<(Vec<u8>, Self)> {
        let (mut head, key) = Header::create(encryption)?;
        let salt: [u8; NONCE] = random();
        head.extend_from_slice(&salt);
        let sealing = Sealing {
            key: cipher(&derive(&key, &salt, b"payload")),
            place: 0,
            held: Vec::with_capacity(CHUNK + TAG),
        };
        Ok((head, sealing))
    }

    /// Takes content; `write` gets what is encrypted.
    pub(crate) fn take(
        &mut self,
        mut content: &[u8],
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !content.is_empty() {
            if self.held.len() == CHUNK {
                write(self.chunk(false)?)?;
                self.held.clear();
            }
            let (now, later) = content.split_at(content.len().min(CHUNK - self.held.len()));
            self.held.extend_from_slice(now);
            content = later;
        }
        Ok(())
    }

    /// What was taken and not handed on.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// The last chunk.
    pub(crate) fn end(&mut self) -> io::Result<Vec<u8>> {
        self.chunk(true)?;
        Ok(std::mem::take(&mut self.held))
    }

    fn chunk(&mut self, last: bool) -> io::Result<&[u8]> {
        self.key
            .seal_in_place_append_tag(nonce(self.place, last), Aad::empty(), &mut self.held)
            .map_err(|_| io::Error::other("a chunk could not be encrypted"))?;
        self.place += 1;
        Ok(&self.held)
    }
}

/// Encrypts a whole file's content.
pub(crate) fn seal(encryption: &Encryption, content: &[u8]) -> io::Result<Vec<u8>> {
    let (mut out, mut sealing) = Sealing::begin(encryption)?;
    sealing.take(content, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    out.extend(sealing.end()?);
    Ok(out)
}

/// An encrypted file that is read from any place.
#[derive(Clone)]
pub(crate) struct SealedFile {
    file: Arc<File>,
    key: Arc<LessSafeKey>,
    /// Where its chunks begin.
    from: u64,
    chunks: u64,
    length: u64,
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "it was altered or cut: what it holds does not fit its key",
    )
}

impl SealedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be read, is none of age, or the keyring has no key for it.
    pub(crate) fn open(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                ArchiveError::damaged(path, error)
            }
            _ => ArchiveError::io("read", path, error),
        };
        let file = File::open(path).map_err(failed)?;
        let mut reader = BufReader::new(&file);
        let header = Header::read(&mut reader).map_err(failed)?;
        let Some(key) = keyring.file_key(&header) else {
            return Err(ArchiveError::Locked {
                path: path.to_owned(),
                given: keyring
                    .recipients()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                recipients: Vec::new(),
            });
        };
        let mut salt = [0; NONCE];
        reader.read_exact(&mut salt).map_err(failed)?;
        let from = header.bytes + NONCE as u64;
        let stored = file.metadata().map_err(failed)?.len().saturating_sub(from);
        let chunks = stored.div_ceil((CHUNK + TAG) as u64);
        Ok(SealedFile {
            key: Arc::new(cipher(&derive(&key, &salt, b"payload"))),
            length: stored.saturating_sub(chunks * TAG as u64),
            file: Arc::new(file),
            from,
            chunks,
        })
    }

    /// How long its content is.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    fn chunk(&self, place: u64, last: bool) -> io::Result<Vec<u8>> {
        let at = self.from + place * (CHUNK + TAG) as u64;
        let mut bytes = vec![0; CHUNK + TAG];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], at + read as u64)? {
                0 => break,
                some => read += some,
            }
        }
        bytes.truncate(read);
        let content = self
            .key
            .open_in_place(nonce(place, last), Aad::empty(), &mut bytes)
            .map_err(|_| damaged())?
            .len();
        bytes.truncate(content);
        Ok(bytes)
    }

    /// A reader from a place on.
    pub(crate) fn read_from(&self, start: u64) -> SealedReader {
        SealedReader {
            file: self.clone(),
            place: start / CHUNK as u64,
            skip: (start % CHUNK as u64) as usize,
            whole_chunks: false,
            content: Vec::new(),
            at: 0,
        }
    }

    /// A reader of the chunks of a file that was never ended: all of them were followed by another.
    pub(crate) fn read_unended(&self) -> SealedReader {
        SealedReader {
            whole_chunks: true,
            ..self.read_from(0)
        }
    }

    /// All of it.
    pub(crate) fn read_all(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.read_from(0).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Reads on from a place.
pub(crate) struct SealedReader {
    file: SealedFile,
    place: u64,
    skip: usize,
    whole_chunks: bool,
    content: Vec<u8>,
    at: usize,
}

impl Read for SealedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.content.len() {
            if self.place >= self.file.chunks {
                return match self.file.chunks {
                    // Even what is empty has a chunk.
                    0 => Err(damaged()),
                    _ => Ok(0),
                };
            }
            let last = !self.whole_chunks && self.place + 1 == self.file.chunks;
            self.content = self.file.chunk(self.place, last)?;
            self.at = std::mem::take(&mut self.skip).min(self.content.len());
            self.place += 1;
        }
        let read = buffer.len().min(self.content.len() - self.at);
        buffer[..read].copy_from_slice(&self.content[self.at..self.at + read]);
        self.at += read;
        Ok(read)
    }
}
