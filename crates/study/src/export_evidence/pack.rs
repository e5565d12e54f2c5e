//! Archive of evidence: a tar file compressed with zstd. It is complete, or does not exist.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// Compression level of zstd: a compromise of speed and size.
const LEVEL: i32 = 6;
/// Top directory in the archive.
const TOP: &str = "evidence";

/// Archive that is being written.
pub struct Pack {
    /// `None` in a dry run.
    archive: Option<tar::Builder<zstd::Encoder<'static, File>>>,
    path: PathBuf,
    partial: PathBuf,
    /// Modification time of its files, in seconds since 1970-01-01 UTC.
    at_s: u64,
}

/// Size and checksum of a packed file.
pub struct Packed {
    pub bytes: u64,
    pub sha256: String,
}

impl Pack {
    /// Creates a pack that counts bytes and computes checksums, but writes nothing.
    pub fn dry_run() -> Self {
        Pack {
            archive: None,
            path: PathBuf::new(),
            partial: PathBuf::new(),
            at_s: 0,
        }
    }

    /// Creates a partial file next to `path`, with files of this modification time (seconds
    /// since 1970-01-01 UTC).
    ///
    /// # Errors
    /// If `path` exists, or cannot be written.
    pub fn begin(path: &Path, at_s: u64) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!(
                "{} is there already; give another name with -o, or remove it",
                path.display()
            )));
        }
        let partial = PathBuf::from(format!("{}.partial", path.display()));
        // A bundle is its owner's, as a run is.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)
            .map_err(|error| cannot(&partial, &error))?;
        let encoder = zstd::Encoder::new(file, LEVEL).map_err(|error| cannot(&partial, &error))?;
        Ok(Pack {
            archive: Some(tar::Builder::new(encoder)),
            path: path.to_owned(),
            partial,
            at_s,
        })
    }

    /// Packs a small file.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn file(&mut self, name: &str, content: &[u8]) -> Result<Packed, Failure> {
        self.append(name, content.len() as u64, content)?;
        Ok(Packed {
            bytes: content.len() as u64,
            sha256: hex(Sha256::digest(content).as_slice()),
        })
    }

    /// Packs a file that `write` writes. It passes through an unnamed temporary file, as it may
    /// be large.
    ///
    /// # Errors
    /// If the disk refuses, or `write` fails.
    pub fn written(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut io::BufWriter<&mut HashedFile>) -> Result<(), Failure>,
    ) -> Result<Packed, Failure> {
        let file = tempfile::tempfile().map_err(|error| cannot(&self.partial, &error))?;
        let mut summed = HashedFile {
            file,
            hash: Sha256::new(),
            bytes: 0,
        };
        let mut out = io::BufWriter::with_capacity(1 << 16, &mut summed);
        write(&mut out)?;
        out.flush().map_err(|error| cannot(&self.partial, &error))?;
        drop(out);
        let HashedFile {
            mut file,
            hash,
            bytes,
        } = summed;
        file.rewind()
            .map_err(|error| cannot(&self.partial, &error))?;
        self.append(name, bytes, file)?;
        Ok(Packed {
            bytes,
            sha256: hex(hash.finalize().as_slice()),
        })
    }

    /// Packs a directory.
    ///
    /// # Errors
    /// If it cannot be read or the disk refuses.
    pub fn directory(&mut self, name: &str, path: &Path) -> Result<(), Failure> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        archive
            .append_dir_all(format!("{TOP}/{name}"), path)
            .map_err(|error| cannot(&self.partial, &error))
    }

    fn append(&mut self, name: &str, bytes: u64, content: impl Read) -> Result<(), Failure> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(self.at_s);
        archive
            .append_data(&mut header, format!("{TOP}/{name}"), content)
            .map_err(|error| cannot(&self.partial, &error))
    }

    /// Completes the archive, and returns its size in bytes unless it is a dry run.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn finish(mut self) -> Result<Option<u64>, Failure> {
        let Some(archive) = self.archive.take() else {
            return Ok(None);
        };
        let finish = || {
            let file = archive.into_inner()?.finish()?;
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            fs::rename(&self.partial, &self.path)?;
            Ok(bytes)
        };
        let bytes: io::Result<u64> = finish();
        bytes.map(Some).map_err(|error| cannot(&self.path, &error))
    }
}

impl Drop for Pack {
    /// Removes an incomplete file. Its contents can be collected again.
    fn drop(&mut self) {
        if self.archive.is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::could_not(format!("{} cannot be written: {error}", path.display()))
}

/// File that computes the checksum of what is written to it.
pub struct HashedFile {
    file: File,
    hash: Sha256,
    bytes: u64,
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
