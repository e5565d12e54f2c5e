//! Writes an archive's directory under a temporary name, and renames it when complete. An archive for an object store is
//! uploaded then.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::column::Column;
use crate::destination::{Destination, partial_path};
use crate::encoder::TableOptions;
use crate::encryption::{Encryption, Recipient};
use crate::error::{ArchiveError, UnfinishedDirectory};
use crate::lock::lock;
use crate::manifest::{FileEntry, MANIFEST, Manifest, PRIVATE, SeriesMember};
use crate::table_reader::TableReader;
use crate::table_writer::TableWriter;

/// Archives hold SQL, and SQL holds secrets, so only the owner may read them.
const DIRECTORY_MODE: u32 = 0o700;

/// Treatment of the `.partial` directory when its writer is dropped unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Removes it. Its source still exists, so it can be made again.
    Remove,
    /// Keeps it for a recovery. Its source cannot be read again.
    Keep,
}

/// An archive that is being written.
#[derive(Debug)]
pub struct ArchiveWriter {
    destination: Destination,
    partial: PathBuf,
    kind: &'static str,
    format: u32,
    on_failure: OnFailure,
    encryption: Option<Encryption>,
    series: Option<SeriesMember>,
    /// File that is no table and stays in the finished archive.
    kept_file: Option<&'static str>,
    finished: bool,
    /// Lock on the directory, which prevents a recovery while it is being written.
    _lock: Option<fs::File>,
}

impl ArchiveWriter {
    /// Creates `PATH.partial` with a manifest that marks it as unfinished.
    ///
    /// # Errors
    /// If `path` or its partial exists, or the directory cannot be created.
    pub fn create(
        path: &Path,
        kind: &'static str,
        format: u32,
        on_failure: OnFailure,
    ) -> Result<Self, ArchiveError> {
        Self::create_for(path, kind, format, on_failure, &[])
    }

    /// Creates an archive as [`Self::create`] does, with every file encrypted to these recipients, if there
    /// are any.
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
        let writer = Self::make_directory(path, (kind, format), on_failure, recipients)?;
        writer.note(serde_json::Value::Null)?;
        Ok(writer)
    }

    /// Creates an archive as [`Self::create_for`] does, as a part of a series. `prepare` writes the files that the part must
    /// have before its manifest, by which it is recognised.
    ///
    /// # Errors
    /// As [`Self::create`], and those of `prepare`.
    pub fn create_part(
        path: &Path,
        (kind, format): (&'static str, u32),
        on_failure: OnFailure,
        recipients: &[Recipient],
        member: SeriesMember,
        prepare: impl FnOnce(&mut Self) -> Result<(), ArchiveError>,
    ) -> Result<Self, ArchiveError> {
        let mut writer = Self::make_directory(path, (kind, format), on_failure, recipients)?;
        writer.series = Some(member);
        prepare(&mut writer)?;
        writer.note(serde_json::Value::Null)?;
        Ok(writer)
    }

    fn make_directory(
        path: &Path,
        (kind, format): (&'static str, u32),
        on_failure: OnFailure,
        recipients: &[Recipient],
    ) -> Result<Self, ArchiveError> {
        let destination = Destination::of(path);
        let partial = partial_path(path);
        destination.require_absent()?;
        if fs::symlink_metadata(&partial).is_ok() {
            return Err(ArchiveError::Unfinished(UnfinishedDirectory::at(partial)));
        }
        DirBuilder::new()
            .mode(DIRECTORY_MODE)
            .create(&partial)
            .map_err(|error| ArchiveError::io("make", &partial, error))?;
        Ok(ArchiveWriter {
            _lock: lock(&partial),
            destination,
            partial,
            kind,
            format,
            on_failure,
            encryption: (!recipients.is_empty()).then(|| Encryption::to(recipients)),
            series: None,
            kept_file: None,
            finished: false,
        })
    }

    /// Opens a `.partial` whose tables have been recovered, to finish it.
    ///
    /// # Errors
    /// If its final name is taken.
    pub fn resume(partial: &Path, kind: &'static str, format: u32) -> Result<Self, ArchiveError> {
        let destination = Destination::of(&partial.with_extension(""));
        destination.require_absent()?;
        Ok(ArchiveWriter {
            destination,
            partial: partial.to_owned(),
            kind,
            format,
            on_failure: OnFailure::Keep,
            encryption: None,
            series: None,
            kept_file: None,
            finished: false,
            _lock: lock(partial),
        })
    }

    /// Keeps a file of the directory when the archive is finished. Others that are no tables are removed.
    pub fn keep_file(&mut self, name: &'static str) {
        self.kept_file = Some(name);
    }

    /// Stores `body` in the unfinished manifest, for a recovery.
    ///
    /// # Errors
    /// If the manifest cannot be written.
    pub fn note(&self, body: serde_json::Value) -> Result<(), ArchiveError> {
        self.manifest(false, Vec::new(), body).map(|_| ())
    }

    /// Returns the directory that is being written.
    pub fn directory(&self) -> &Path {
        &self.partial
    }

    /// Returns the path of the archive when complete.
    pub fn path(&self) -> &Path {
        self.destination.path()
    }

    /// Begins a table.
    ///
    /// # Errors
    /// If its first file cannot be created.
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

    /// Reads files of this archive, in this order.
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

    /// Writes the final manifest, syncs, renames and uploads. `files` are those of all tables, in the order in which
    /// they are read. Any other file in the directory is removed. The unfinished manifest stays until the final one replaces
    /// it, so that a kill leaves an archive that can be recovered. Returns the id.
    ///
    /// # Errors
    /// If writing fails; the archive then remains a `.partial`. If the upload fails, it remains complete on this machine.
    pub fn finish(
        mut self,
        files: Vec<FileEntry>,
        body: serde_json::Value,
    ) -> Result<String, ArchiveError> {
        self.remove_all_but(&files)?;
        let id = self.manifest(true, files, body)?;
        sync_directory(&self.partial)?;
        let local = self.destination.local_path();
        // A directory that appeared meanwhile is not replaced: rename fails if it is not empty.
        fs::rename(&self.partial, local)
            .map_err(|error| ArchiveError::io("rename to", local, error))?;
        self.finished = true;
        sync_parent(local)?;
        self.destination.upload()?;
        Ok(id)
    }

    fn remove_all_but(&self, files: &[FileEntry]) -> Result<(), ArchiveError> {
        let listing = fs::read_dir(&self.partial)
            .map_err(|error| ArchiveError::io("read", &self.partial, error))?;
        for entry in listing.flatten() {
            let name = entry.file_name();
            let is_private = self.encryption.is_some() && name == PRIVATE;
            let is_manifest = name == MANIFEST;
            let is_state = self.kept_file.is_some_and(|kept| name == kept);
            let is_kept = is_private || is_manifest || is_state;
            if !is_kept && !files.iter().any(|file| name == file.name.as_str()) {
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
            series: self.series.clone(),
            body,
        }
        .write(&self.partial, self.encryption.as_ref())?;
        Ok(id)
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        if !self.finished && self.on_failure == OnFailure::Remove {
            // If this fails, the name still ends in `.partial`.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Writes the name of a file or directory to the disk.
///
/// # Errors
/// If its directory cannot be synced.
pub fn sync_parent(path: &Path) -> Result<(), ArchiveError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

fn sync_directory(path: &Path) -> Result<(), ArchiveError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| ArchiveError::io("sync", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_series_has_its_files_and_its_place_with_its_first_manifest() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.workload");
        let member = SeriesMember {
            uuid: "id".to_owned(),
            number: 1,
            from_us: 0,
            to_us: 1,
        };
        let prepare = |writer: &mut ArchiveWriter| {
            assert!(!writer.directory().join(MANIFEST).exists());
            Ok(())
        };
        let kind = ("workload", 1);
        let keep = OnFailure::Keep;
        ArchiveWriter::create_part(&path, kind, keep, &[], member.clone(), prepare).unwrap();
        let read = SeriesMember::read(&partial_path(&path));
        assert_eq!(read, Ok(Some(member)));
    }
}
