//! The directory while it is being written: made under a temporary name, renamed when complete.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::column::Column;
use crate::encryption::{Encryption, Recipient};
use crate::error::{ArchiveError, Unfinished};
use crate::manifest::{FileEntry, Manifest, PRIVATE};
use crate::table_reader::TableReader;
use crate::table_writer::{TableOptions, TableWriter};

/// Artefacts hold SQL, and SQL holds secrets: for their owner alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// What becomes of the `.partial` directory when its writer is dropped unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It goes: its source is still there, and it can be made again.
    Remove,
    /// It stays, to be recovered: what it records cannot be had again.
    Keep,
}

/// An archive that is being written.
#[derive(Debug)]
pub struct ArchiveWriter {
    path: PathBuf,
    partial: PathBuf,
    kind: &'static str,
    format: u32,
    on_failure: OnFailure,
    encryption: Option<Encryption>,
    finished: bool,
    /// The directory, locked as long as it is being written: nobody recovers it meanwhile.
    _lock: Option<fs::File>,
}

/// The directory, locked; `None` where the system does not lock there.
fn lock(partial: &Path) -> Option<fs::File> {
    let directory = fs::File::open(partial).ok()?;
    directory.try_lock().ok().map(|()| directory)
}

/// Whether a process is writing this unfinished archive.
pub(crate) fn is_being_written(partial: &Path) -> bool {
    let directory = fs::File::open(partial);
    let locked = directory.map(|directory| directory.try_lock());
    matches!(locked, Ok(Err(fs::TryLockError::WouldBlock)))
}

/// Where an archive lies while it is being written.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

impl ArchiveWriter {
    /// Makes `PATH.partial` with a manifest that says it is unfinished.
    ///
    /// # Errors
    /// Where `path` or its partial exists, or the directory cannot be made.
    pub fn create(
        path: &Path,
        kind: &'static str,
        format: u32,
        on_failure: OnFailure,
    ) -> Result<Self, ArchiveError> {
        Self::create_for(path, kind, format, on_failure, &[])
    }

    /// As [`Self::create`], with every file encrypted to these recipients, if there are any.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(
        path: &Path,
        kind: &'static str,
        format: u32,
        on_failure: OnFailure,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        // `NAME.run/` would make its partial inside of itself.
        let path: PathBuf = path.components().collect();
        let partial = partial_path(&path);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(ArchiveError::Exists(path));
        }
        if fs::symlink_metadata(&partial).is_ok() {
            return Err(ArchiveError::Unfinished(Unfinished::at(partial)));
        }
        DirBuilder::new()
            .mode(DIRECTORY_MODE)
            .create(&partial)
            .map_err(|error| ArchiveError::io("make", &partial, error))?;
        let writer = ArchiveWriter {
            _lock: lock(&partial),
            path,
            partial,
            kind,
            format,
            on_failure,
            encryption: (!recipients.is_empty()).then(|| Encryption::to(recipients)),
            finished: false,
        };
        writer.manifest(false, Vec::new(), serde_json::Value::Null)?;
        Ok(writer)
    }

    /// Takes up a `.partial` whose tables have been recovered, to finish it.
    ///
    /// # Errors
    /// Where the name that it would get is taken.
    pub fn resume(partial: &Path, kind: &'static str, format: u32) -> Result<Self, ArchiveError> {
        let path = partial.with_extension("");
        if fs::symlink_metadata(&path).is_ok() {
            return Err(ArchiveError::Exists(path));
        }
        Ok(ArchiveWriter {
            path,
            partial: partial.to_owned(),
            kind,
            format,
            on_failure: OnFailure::Keep,
            encryption: None,
            finished: false,
            _lock: lock(partial),
        })
    }

    /// Notes something in the unfinished manifest, for a recovery.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn note(&self, body: serde_json::Value) -> Result<(), ArchiveError> {
        self.manifest(false, Vec::new(), body).map(|_| ())
    }

    /// Where it is being written.
    pub fn directory(&self) -> &Path {
        &self.partial
    }

    /// Where it will lie when complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a table.
    ///
    /// # Errors
    /// Where its first file cannot be made.
    pub fn table(
        &self,
        name: &'static str,
        columns: &'static [Column],
        options: TableOptions,
    ) -> Result<TableWriter, ArchiveError> {
        TableWriter::create(
            &self.partial,
            name,
            columns,
            options,
            self.encryption.clone(),
        )
    }

    /// Reads files that were written here, in this order.
    ///
    /// # Errors
    /// As [`TableReader::open`].
    pub fn read(
        &self,
        files: &[FileEntry],
        columns: &'static [Column],
    ) -> Result<TableReader, ArchiveError> {
        let paths = files
            .iter()
            .map(|file| self.partial.join(&file.name))
            .collect();
        let keyring = self.encryption.as_ref().map(Encryption::keyring);
        TableReader::open_with(paths, columns, keyring.unwrap_or_default())
    }

    /// Writes the last manifest, syncs and renames. `files` are those of all tables, in the order
    /// in which they are read; anything else in the directory is removed. Returns the id.
    ///
    /// # Errors
    /// Where the disk refuses; the archive is then still a `.partial`.
    pub fn finish(
        mut self,
        files: Vec<FileEntry>,
        body: serde_json::Value,
    ) -> Result<String, ArchiveError> {
        self.remove_all_but(&files)?;
        let id = self.manifest(true, files, body)?;
        sync_directory(&self.partial)?;
        // Not over a directory that appeared meanwhile: rename fails on one that is not empty.
        fs::rename(&self.partial, &self.path)
            .map_err(|error| ArchiveError::io("rename to", &self.path, error))?;
        self.finished = true;
        if let Some(parent) = self.path.parent()
            && !parent.as_os_str().is_empty()
        {
            sync_directory(parent)?;
        }
        Ok(id)
    }

    fn remove_all_but(&self, files: &[FileEntry]) -> Result<(), ArchiveError> {
        let listing = fs::read_dir(&self.partial)
            .map_err(|error| ArchiveError::io("read", &self.partial, error))?;
        for entry in listing.flatten() {
            let name = entry.file_name();
            let is_private = self.encryption.is_some() && name == PRIVATE;
            if !is_private && !files.iter().any(|file| name == file.name.as_str()) {
                let path = entry.path();
                fs::remove_file(&path).map_err(|error| ArchiveError::io("remove", &path, error))?;
            }
        }
        Ok(())
    }

    fn manifest(
        &self,
        complete: bool,
        files: Vec<FileEntry>,
        body: serde_json::Value,
    ) -> Result<String, ArchiveError> {
        let id = if complete {
            Manifest::content_id(&files)
        } else {
            String::new()
        };
        Manifest {
            kind: self.kind.to_owned(),
            format: self.format,
            complete,
            id: id.clone(),
            tool: concat!("rehearse ", env!("CARGO_PKG_VERSION")).to_owned(),
            files,
            encryption: None,
            body,
        }
        .write(&self.partial, self.encryption.as_ref())?;
        Ok(id)
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        if !self.finished && self.on_failure == OnFailure::Remove {
            // Nothing more can be done where even this fails; the name still says `.partial`.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

pub(crate) fn create_private(path: &Path) -> Result<File, ArchiveError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|error| ArchiveError::io("make", path, error))
}

fn sync_directory(path: &Path) -> Result<(), ArchiveError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| ArchiveError::io("sync", path, error))
}
