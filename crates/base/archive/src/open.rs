//! Reads complete archives.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object_storage::is_object_url;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::column::Column;
use crate::destination::{archive_exists, partial_path};
use crate::encryption::Keyring;
use crate::error::{ArchiveError, UnfinishedDirectory};
use crate::integrity::{check_files, check_list};
use crate::manifest::{MANIFEST, Manifest, hex};
use crate::stored_file::StoredFile;
use crate::table_reader::TableReader;

/// Checks that a path is an existing directory.
///
/// # Errors
/// If it does not exist, is still unfinished, or is a file.
fn require_directory(path: &Path, kind: &str) -> Result<(), ArchiveError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let partial = partial_path(&path.components().collect::<PathBuf>());
            if partial.is_dir() {
                return Err(ArchiveError::Unfinished(UnfinishedDirectory::at(partial)));
            }
            return Err(ArchiveError::NotFound {
                path: path.to_owned(),
                kind: kind.to_owned(),
            });
        }
        Err(error) => return Err(ArchiveError::io("read", path, error)),
    };
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(ArchiveError::WrongKind {
            path: path.to_owned(),
            kind: kind.to_owned(),
            reason: format!(
                "it is a file, and a {kind} is a directory; capture a log first, with `rehearse capture log`"
            ),
        }),
    }
}

/// Checks that an object store has the manifest of an archive. It is uploaded last, so the archive is complete.
///
/// # Errors
/// If the manifest does not exist, or the store cannot be asked.
fn require_objects(url: &Path, kind: &str) -> Result<(), ArchiveError> {
    match archive_exists(url)? {
        true => Ok(()),
        false => Err(ArchiveError::NotFound {
            path: url.to_owned(),
            kind: kind.to_owned(),
        }),
    }
}

/// A complete archive.
#[derive(Debug, Clone)]
pub struct Archive {
    path: PathBuf,
    manifest: Manifest,
    keyring: Keyring,
}

impl Archive {
    /// Opens the archive at `path`, reads its manifest and checks that it lists the files that it was written with, and
    /// that each has its size and number of rows. Checksums are left to [`Archive::verify`], which has to read all files.
    ///
    /// # Errors
    /// If it is no archive, of another kind, newer, unfinished, truncated or altered.
    pub fn open(path: &Path, kind: &'static str, format: u32) -> Result<Self, ArchiveError> {
        Self::open_with(path, kind, format, &Keyring::default())
    }

    /// Opens an archive as [`Self::open`] does, with keys for encrypted files.
    ///
    /// # Errors
    /// As [`Self::open`]; also if it is encrypted and no key decrypts it.
    pub fn open_with(
        path: &Path,
        kind: &'static str,
        format: u32,
        keyring: &Keyring,
    ) -> Result<Self, ArchiveError> {
        let archive = Self::open_manifest(path, kind, format, keyring)?;
        archive.check_files()?;
        Ok(archive)
    }

    /// Opens an archive as [`Self::open_with`] does, but leaves the files to [`Self::check_files`]: for a look at many
    /// archives of which few are read.
    ///
    /// # Errors
    /// As [`Self::open_with`], apart from missing, truncated or altered files.
    pub fn open_manifest(
        path: &Path,
        kind: &'static str,
        format: u32,
        keyring: &Keyring,
    ) -> Result<Self, ArchiveError> {
        let foreign = |reason: String| ArchiveError::WrongKind {
            path: path.to_owned(),
            kind: kind.to_owned(),
            reason,
        };
        match is_object_url(path) {
            true => require_objects(path, kind)?,
            false => require_directory(path, kind)?,
        }
        let manifest = Manifest::read(path).map_err(foreign);
        if let Some(found) = Manifest::read_kind(path).filter(|found| *found != kind) {
            return Err(ArchiveError::OtherKind {
                path: path.to_owned(),
                kind: kind.to_owned(),
                found,
            });
        }
        let manifest = manifest?;
        if !manifest.complete {
            return Err(ArchiveError::Unfinished(UnfinishedDirectory::at(
                path.to_owned(),
            )));
        }
        if manifest.format > format {
            return Err(ArchiveError::Newer {
                path: path.to_owned(),
                found: manifest.format,
                known: format,
            });
        }
        let mut archive = Archive {
            path: path.to_owned(),
            manifest,
            keyring: keyring.clone(),
        };
        check_list(&archive.manifest).map_err(foreign)?;
        // Before the files, since it is what tells that a key is missing.
        archive.manifest.body = archive.manifest.open_body(path, keyring)?;
        Ok(archive)
    }

    /// Checks that each file has the size and the number of rows that the manifest says.
    ///
    /// # Errors
    /// If a file is missing, truncated or altered.
    pub fn check_files(&self) -> Result<(), ArchiveError> {
        check_files(&self.path, &self.manifest.files, &self.keyring)
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the part of the manifest that the kind defines.
    ///
    /// # Errors
    /// If it lacks a field of `T`.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ArchiveError> {
        serde_json::from_value(self.manifest.body.clone()).map_err(|error| {
            ArchiveError::WrongKind {
                path: self.path.clone(),
                kind: self.manifest.kind.clone(),
                reason: format!("its {MANIFEST} lacks what one has ({error})"),
            }
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a table for reading from the first row to the last. `columns` are the columns that the reader
    /// knows, in the order in which it numbers them.
    ///
    /// # Errors
    /// If the first file cannot be opened or lacks a column.
    pub fn table(
        &self,
        name: &str,
        columns: &'static [Column],
    ) -> Result<TableReader, ArchiveError> {
        let files = self
            .manifest
            .files
            .iter()
            .filter(|file| file.table == name)
            .map(|file| self.path.join(&file.name))
            .collect();
        TableReader::open_with(files, columns, self.keyring.clone())
    }

    /// Checks that the tables named first have as many rows as the counts in the body say.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`] with the first table that differs.
    pub fn check_rows(&self, counts: &[(&str, u64)]) -> Result<(), ArchiveError> {
        for (table, count) in counts {
            let files = self.manifest.files.iter();
            let rows: u64 = files
                .filter(|file| file.table == *table)
                .fold(0, |sum, file| sum.saturating_add(file.rows));
            if rows != *count {
                let reason =
                    format!("it has {rows} rows of {table}, and its {MANIFEST} counts {count}");
                return Err(ArchiveError::damaged(&self.path, reason));
            }
        }
        Ok(())
    }

    /// Reads every file and compares its checksum.
    ///
    /// # Errors
    /// [`ArchiveError::Damaged`] with the first file that differs.
    pub fn verify(&self) -> Result<(), ArchiveError> {
        let mut buffer = vec![0; 1 << 20];
        for file in &self.manifest.files {
            let path = self.path.join(&file.name);
            let mut handle =
                StoredFile::open(&path).map_err(|error| ArchiveError::io("read", &path, error))?;
            let mut hash = Sha256::new();
            loop {
                match handle.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => hash.update(&buffer[..read]),
                    Err(error) => return Err(ArchiveError::io("read", &path, error)),
                }
            }
            if hex(&hash.finalize()) != file.sha256 {
                return Err(ArchiveError::damaged(
                    &path,
                    "its content is not what its checksum says",
                ));
            }
        }
        Ok(())
    }
}
