//! `manifest.json`: kind, origin and files of an archive.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encryption;
use crate::encryption::{Encryption, Keyring, decrypt, encrypt};
use crate::error::ArchiveError;
use crate::private_file::create_private;
use crate::small_file::read_small_file;
use crate::stored_file::stored_bytes;

/// File name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Largest manifest that is read. One with 100,000 files has 20 MB.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// File name of the encrypted body of the manifest.
pub(crate) const PRIVATE: &str = "manifest-body.json.age";

/// Kind, origin and files of an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `workload` or `run`.
    pub kind: String,
    /// Version of the kind's format.
    pub format: u32,
    /// False while the archive is being written, in a `.partial`.
    pub complete: bool,
    /// Id derived from the checksums of the files, so that equal content has the same id; empty while
    /// unfinished.
    pub id: String,
    /// Program and version that wrote it.
    pub tool: String,
    /// Files of the tables.
    pub files: Vec<FileEntry>,
    /// Encryption of the files, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<EncryptionNote>,
    /// Place in a series of archives, if it is a part of one. It is never encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesMember>,
    /// Part that the kind defines. In an encrypted archive it is in a separate, encrypted file.
    pub body: serde_json::Value,
}

/// Place of an archive in a series of archives that follow each other in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesMember {
    /// Identity of the series, which all its parts share.
    pub uuid: String,
    /// Number of the part, from 1, without gaps.
    pub number: u64,
    /// Start of the part's time range, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// End of the part's time range (exclusive), in microseconds since 1970-01-01 UTC.
    pub to_us: i64,
}

impl SeriesMember {
    /// Reads the place in a series from the manifest of an archive, complete or not. Needs no key.
    ///
    /// # Errors
    /// If the manifest cannot be read; the reason begins with "its manifest.json".
    pub fn read(directory: &Path) -> Result<Option<Self>, String> {
        Ok(Manifest::read(directory)?.series)
    }
}

/// Encryption of an archive's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionNote {
    /// `age-encryption.org/v1`.
    pub format: String,
    /// Public keys to which each file is encrypted.
    pub recipients: Vec<String>,
}

/// One file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name within the directory.
    pub name: String,
    /// Table that the file is a part of.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hex.
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

    /// Reads the manifest of an archive, complete or not.
    pub(crate) fn read(directory: &Path) -> Result<Self, String> {
        let unreadable = |error: String| format!("its {MANIFEST} cannot be read ({error})");
        let path = directory.join(MANIFEST);
        let text =
            read_small_file(&path, MANIFEST_BYTES_MAX).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("it has no {MANIFEST}"),
                _ => unreadable(error.to_string()),
            })?;
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))
    }

    /// Returns the kind of whatever has a manifest, such as a proof, which is no archive.
    pub(crate) fn read_kind(directory: &Path) -> Option<String> {
        let text = read_small_file(&directory.join(MANIFEST), MANIFEST_BYTES_MAX).ok()?;
        let manifest: serde_json::Value = serde_json::from_slice(&text).ok()?;
        manifest.get("kind")?.as_str().map(str::to_owned)
    }

    /// Returns the body, decrypted if necessary.
    pub(crate) fn open_body(
        &self,
        directory: &Path,
        keyring: &Keyring,
    ) -> Result<serde_json::Value, ArchiveError> {
        let Some(encryption) = &self.encryption else {
            return Ok(self.body.clone());
        };
        let path = directory.join(PRIVATE);
        if stored_bytes(&path)? > MANIFEST_BYTES_MAX {
            return Err(ArchiveError::damaged(&path, "it is larger than 64 MiB"));
        }
        let text = decrypt(&path, keyring).map_err(|error| match error {
            ArchiveError::Locked { given, .. } => ArchiveError::Locked {
                path: directory.to_owned(),
                recipients: encryption.recipients.clone(),
                given,
            },
            other => other,
        })?;
        serde_json::from_slice(&text).map_err(|error| ArchiveError::damaged(&path, error))
    }

    /// Writes the manifest. In an encrypted archive, `body` is written to a separate file first.
    pub(crate) fn write(
        mut self,
        directory: &Path,
        encryption: Option<&Encryption>,
    ) -> Result<(), ArchiveError> {
        if let Some(encryption) = encryption {
            let body = std::mem::take(&mut self.body).to_string();
            let path = directory.join(PRIVATE);
            let failed = |error| ArchiveError::io("write", &path, error);
            let fresh = directory.join("manifest-body.json.age.new");
            let encrypted = encrypt(encryption, body.as_bytes()).map_err(failed)?;
            let mut file = create_private(&fresh)?;
            file.write_all(&encrypted)
                .and_then(|()| file.sync_all())
                .and_then(|()| std::fs::rename(&fresh, &path))
                .map_err(failed)?;
            self.encryption = Some(EncryptionNote {
                format: encryption::FORMAT.to_owned(),
                recipients: encryption
                    .recipients()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            });
        }
        let path = directory.join(MANIFEST);
        // Written under another name and renamed, so that the manifest is always complete: the new one or the
        // old one.
        let fresh = directory.join("manifest.json.new");
        let text = serde_json::to_vec_pretty(&self)
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
