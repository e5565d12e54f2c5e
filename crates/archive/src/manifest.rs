//! `manifest.json`: what an archive is, who made it, and what belongs to it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::directory::create_private;
use crate::error::ArchiveError;

/// The manifest's file name.
pub(crate) const MANIFEST: &str = "manifest.json";

/// What an archive is, who made it, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `workload` or `run`.
    pub kind: String,
    /// The version of the kind's format.
    pub format: u32,
    /// False while the archive is being written; such a manifest lies in a `.partial` only.
    pub complete: bool,
    /// Derived from the checksums of the files, so that equal content has the same id; empty
    /// while unfinished.
    pub id: String,
    /// Program and version that wrote it.
    pub tool: String,
    /// The tables' files.
    pub files: Vec<FileEntry>,
    /// The kind's own part.
    pub body: serde_json::Value,
}

/// One file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The file's name within the directory.
    pub name: String,
    /// The table that it is a part of.
    pub table: String,
    /// Rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

impl Manifest {
    pub(crate) fn content_id(files: &[FileEntry]) -> String {
        let mut hash = Sha256::new();
        for file in files {
            hash.update(file.name.as_bytes());
            hash.update(b"\n");
            hash.update(file.sha256.as_bytes());
            hash.update(b"\n");
        }
        hex(&hash.finalize())[..16].to_owned()
    }

    pub(crate) fn write(&self, directory: &Path) -> Result<(), ArchiveError> {
        let path = directory.join(MANIFEST);
        // Written beside and renamed: a manifest is whole or the one before it.
        let fresh = directory.join("manifest.json.new");
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| ArchiveError::io("write", &path, std::io::Error::other(error)))?;
        let mut file: File = create_private(&fresh)?;
        file.write_all(&text)
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all())
            .map_err(|error| ArchiveError::io("write", &fresh, error))?;
        std::fs::rename(&fresh, &path).map_err(|error| ArchiveError::io("write", &path, error))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
