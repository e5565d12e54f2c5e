//! Final place of an archive: a directory, or a directory of objects that is written locally first.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use object_storage::{
    StorageErrorKind, create_object, is_object_url, read_small_object, upload_file,
};

use crate::error::ArchiveError;
use crate::manifest::{MANIFEST, MANIFEST_BYTES_MAX};

/// Environment variable with the directory for archives until they are uploaded.
const STAGING: &str = "REHEARSE_STAGING";

/// Returns the path of an archive while it is being written. One for an object store is in the current directory then,
/// or in that of `REHEARSE_STAGING`.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = Destination::of(path).local_path().as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Whether an archive, or anything else, has this name.
///
/// # Errors
/// If it is in an object store that cannot be asked.
pub fn archive_exists(path: &Path) -> Result<bool, ArchiveError> {
    if !is_object_url(path) {
        return Ok(path.exists());
    }
    // Unlike a request for its size, one for its content is answered with the reason if it fails.
    match read_small_object(&path.join(MANIFEST), MANIFEST_BYTES_MAX) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(false),
        Err(error) => Err(ArchiveError::Storage(error)),
    }
}

/// Whether an archive of this name is there, or is being written.
///
/// # Errors
/// If it is in an object store that cannot be asked.
pub fn is_name_taken(path: &Path) -> Result<bool, ArchiveError> {
    match Destination::of(path).require_absent() {
        Ok(()) => Ok(partial_path(path).exists()),
        Err(ArchiveError::Exists(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the path on this machine of an archive that was completed but not uploaded to `url`; `None` if there is none.
pub fn find_not_uploaded(url: &Path) -> Option<PathBuf> {
    let destination = Destination::of(url);
    let local = destination.local_path();
    (is_object_url(url) && local.exists()).then(|| local.to_owned())
}

/// Uploads an archive that [`find_not_uploaded`] returns, and removes it from this machine.
///
/// # Errors
/// If an object cannot be written, or the name is taken. The local directory stays.
pub fn upload(url: &Path) -> Result<(), ArchiveError> {
    Destination::of(url).upload()
}

/// Place of an archive when complete.
#[derive(Debug)]
pub(crate) enum Destination {
    Directory(PathBuf),
    Objects { url: PathBuf, local: PathBuf },
}

impl Destination {
    /// Returns the destination that a path or a URL names.
    pub(crate) fn of(path: &Path) -> Self {
        if !is_object_url(path) {
            // `NAME.run/` would create its partial inside of itself.
            return Destination::Directory(path.components().collect());
        }
        let staging = std::env::var_os(STAGING).map(PathBuf::from);
        let mut name = path.file_name().unwrap_or(OsStr::new("archive")).to_owned();
        // A part of a run has a name that is unique in that run only.
        if let Some(run) = path.parent().and_then(Path::file_name)
            && Path::new(run).extension() == Some(OsStr::new("run"))
        {
            let part = std::mem::replace(&mut name, run.to_owned());
            name.push(".");
            name.push(part);
        }
        Destination::Objects {
            url: path.to_owned(),
            local: staging.unwrap_or_default().join(name),
        }
    }

    /// Returns the path or the URL.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Destination::Directory(path) => path,
            Destination::Objects { url, .. } => url,
        }
    }

    /// Returns the path of the directory that is written on this machine.
    pub(crate) fn local_path(&self) -> &Path {
        match self {
            Destination::Directory(path) => path,
            Destination::Objects { local, .. } => local,
        }
    }

    /// Checks that nothing has this name.
    ///
    /// # Errors
    /// If something has it, or the store cannot be asked: better now than after a long capture.
    pub(crate) fn require_absent(&self) -> Result<(), ArchiveError> {
        let local = self.local_path();
        if fs::symlink_metadata(local).is_ok() {
            return Err(ArchiveError::Exists(local.to_owned()));
        }
        if let Destination::Objects { url, .. } = self
            && archive_exists(url)?
        {
            return Err(ArchiveError::Exists(url.clone()));
        }
        Ok(())
    }

    /// Uploads the complete local directory, if the destination is an object store, and removes it then. The manifest is
    /// last, so that an interrupted upload is no archive.
    ///
    /// # Errors
    /// If an object cannot be written. The local directory stays.
    pub(crate) fn upload(&self) -> Result<(), ArchiveError> {
        let Destination::Objects { url, local } = self else {
            return Ok(());
        };
        upload_directory(local, url).map_err(|error| ArchiveError::NotUploaded {
            local: local.clone(),
            url: url.clone(),
            source: Box::new(error),
        })?;
        fs::remove_dir_all(local).map_err(|error| ArchiveError::io("remove", local, error))
    }
}

fn upload_directory(local: &Path, url: &Path) -> Result<(), ArchiveError> {
    // Another archive may have got the name since the start. Its files would be replaced before its manifest is noticed.
    if archive_exists(url)? {
        return Err(ArchiveError::Exists(url.to_owned()));
    }
    let unreadable = |error| ArchiveError::io("read", local, error);
    for entry in fs::read_dir(local).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if name != MANIFEST {
            upload_file(&local.join(&name), &url.join(&name)).map_err(ArchiveError::Storage)?;
        }
    }
    let manifest = fs::read(local.join(MANIFEST)).map_err(unreadable)?;
    create_object(&url.join(MANIFEST), manifest.into()).map_err(ArchiveError::Storage)
}
