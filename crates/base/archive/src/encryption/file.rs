//! The content of encrypted files, written from start to end and read from any offset.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use age::stream::{StreamReader, StreamWriter};
use age::{DecryptError, Decryptor};

use super::keys::{Encryption, Keyring};
use crate::error::ArchiveError;
use crate::stored_file::StoredFile;

/// Bytes of content in a chunk of the age format.
pub(super) const CHUNK: usize = 64 << 10;
/// Message for content that cannot be decrypted.
const DAMAGED: &str = "its encrypted content was altered or cut";

/// Encrypts the content of a file as it is written.
pub(crate) struct EncryptedWriter<W> {
    stream: StreamWriter<W>,
    /// Last bytes of the content, up to a chunk.
    tail: VecDeque<u8>,
}

impl<W: Write> EncryptedWriter<W> {
    /// Writes the header to `inner`, and encrypts what follows.
    pub(crate) fn begin(inner: W, encryption: &Encryption) -> io::Result<Self> {
        Ok(EncryptedWriter {
            stream: encryption.encryptor()?.wrap_output(inner)?,
            tail: VecDeque::with_capacity(CHUNK),
        })
    }

    /// Returns the last bytes of the content. All content before them has been encrypted and written: age
    /// retains a chunk until it knows whether another follows.
    pub(crate) fn tail(&self) -> Vec<u8> {
        self.tail.iter().copied().collect()
    }

    /// Encrypts the last chunk. Without it a file counts as truncated.
    pub(crate) fn finish(self) -> io::Result<W> {
        self.stream.finish()
    }
}

impl<W: Write> Write for EncryptedWriter<W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(content)?;
        let last = &content[written.saturating_sub(CHUNK)..written];
        let surplus = (self.tail.len() + last.len()).saturating_sub(CHUNK);
        self.tail.drain(..surplus);
        self.tail.extend(last);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Encrypts the content of a whole file.
pub(crate) fn encrypt(encryption: &Encryption, content: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = encryption.encryptor()?.wrap_output(Vec::new())?;
    stream.write_all(content)?;
    stream.finish()
}

/// Decrypts the content of a whole file.
///
/// # Errors
/// If the file cannot be read, is damaged, or is not encrypted to a key of the keyring.
pub(crate) fn decrypt(path: &Path, keyring: &Keyring) -> Result<Vec<u8>, ArchiveError> {
    let mut content = Vec::new();
    match open_stream(path, keyring)?.read_to_end(&mut content) {
        Ok(_) => Ok(content),
        Err(error) => Err(read_error(path, error)),
    }
}

/// Opens a file for decrypting it from its start.
///
/// # Errors
/// As [`decrypt`].
pub(crate) fn open_stream(
    path: &Path,
    keyring: &Keyring,
) -> Result<StreamReader<BufReader<StoredFile>>, ArchiveError> {
    let file = StoredFile::open(path).map_err(|error| read_error(path, error))?;
    let decrypted = Decryptor::new_buffered(BufReader::new(file))
        .and_then(|file| file.decrypt(keyring.identities()));
    decrypted.map_err(|error| match error {
        DecryptError::Io(error) => read_error(path, error),
        DecryptError::NoMatchingKeys => ArchiveError::Locked {
            path: path.to_owned(),
            recipients: Vec::new(),
            given: keyring
                .recipients()
                .iter()
                .map(ToString::to_string)
                .collect(),
        },
        _ => ArchiveError::damaged(path, "it is not an age file, or its header was altered"),
    })
}

fn read_error(path: &Path, error: io::Error) -> ArchiveError {
    match is_damage(&error) {
        true => ArchiveError::damaged(path, DAMAGED),
        false => ArchiveError::io("read", path, error),
    }
}

/// Whether reading failed because the content does not match its key, rather than because of the disk.
fn is_damage(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
    kinds.contains(&error.kind())
}

/// An encrypted file, for reading sections of its content.
#[derive(Clone)]
pub(crate) struct EncryptedFile {
    /// Shared by all sections. It holds the chunk that was decrypted last.
    stream: Arc<Mutex<StreamReader<BufReader<StoredFile>>>>,
    length: u64,
}

impl EncryptedFile {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`decrypt`]; damage of any but the last chunk is found when the chunk is read.
    pub(crate) fn open(path: &Path, keyring: &Keyring) -> Result<Self, ArchiveError> {
        let mut stream = open_stream(path, keyring)?;
        let length = stream
            .seek(SeekFrom::End(0))
            .map_err(|error| read_error(path, error))?;
        Ok(EncryptedFile {
            stream: Arc::new(Mutex::new(stream)),
            length,
        })
    }

    /// Returns the length of the content in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Returns a reader of the content from `start` on. Several readers of the same file may alternate.
    pub(crate) fn read_from(&self, start: u64) -> Section {
        Section {
            stream: self.stream.clone(),
            position: start,
            length: self.length,
        }
    }
}

/// Reads the content of an encrypted file from an offset to its end.
pub(crate) struct Section {
    stream: Arc<Mutex<StreamReader<BufReader<StoredFile>>>>,
    position: u64,
    length: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The stream does not expect to be read from an offset after its end.
        if self.position >= self.length {
            return Ok(0);
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // Within the current chunk, this only moves the stream's position.
        let read = stream
            .seek(SeekFrom::Start(self.position))
            .and_then(|_| stream.read(buffer))
            .map_err(|error| match is_damage(&error) {
                true => io::Error::new(error.kind(), DAMAGED),
                false => error,
            })?;
        self.position += read as u64;
        Ok(read)
    }
}
