//! Recovers the data that was written before a kill.
//!
//! A Parquet file ends with a footer that holds the offsets of its row groups; without it the file cannot be
//! read. So while a file is written, `FILE.footer` holds the footer that the file would have if it ended
//! after the last complete row group: eight bytes with the length of the data it covers (little-endian), then
//! the footer. Recovery truncates the file to this length and appends the footer.
//!
//! The end of an encrypted file's data may not be on disk yet, because a chunk is written only when another
//! follows. The footer's file holds this end, and is encrypted as well: the length of the data, the length of
//! the end (four bytes), the end, the footer. Recovery rewrites the file.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::{
    FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::reader::FileReader;
use parquet::schema::types::SchemaDescriptor;
use sha2::{Digest, Sha256};

use crate::content::{Content, is_encrypted};
use crate::decoder_panic::open_parquet;
use crate::encryption::{Encryption, Keyring, Recipient, SUFFIX, decrypt, encrypt, open_stream};
use crate::error::ArchiveError;
use crate::lock::is_being_written;
use crate::manifest::{FileEntry, Manifest, SeriesMember, hex};
use crate::output_file::OutputFile;
use crate::private_file::create_private;

const PARQUET_VERSION: i32 = 1;
pub(crate) const LENGTH_BYTES: usize = 8;

pub(crate) fn footer_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".footer");
    PathBuf::from(name)
}

pub(crate) fn save_footer(
    file: &Path,
    schema: &Arc<SchemaDescriptor>,
    groups: Vec<RowGroupMetaData>,
    data: &OutputFile,
    encryption: Option<&Encryption>,
) -> Result<(), ArchiveError> {
    let path = footer_path(file);
    let writing = |error| ArchiveError::writing(&path, error);
    let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
    let metadata = ParquetMetaDataBuilder::new(FileMetaData::new(
        PARQUET_VERSION,
        rows,
        None,
        None,
        schema.clone(),
        None,
    ))
    .set_row_groups(groups)
    .build();
    let mut bytes = data.content_bytes().to_le_bytes().to_vec();
    if encryption.is_some() {
        let tail = data.tail();
        bytes.extend_from_slice(&(tail.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&tail);
    }
    ParquetMetaDataWriter::new(&mut bytes, &metadata)
        .finish()
        .map_err(writing)?;
    if let Some(encryption) = encryption {
        bytes =
            encrypt(encryption, &bytes).map_err(|error| ArchiveError::io("write", &path, error))?;
    }
    let fresh = path.with_extension("footer.new");
    let mut handle = create_private(&fresh)?;
    handle
        .write_all(&bytes)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| ArchiveError::io("write", &path, error))
}

/// Returns the `body` stored in the manifest of an unfinished archive of this kind.
///
/// # Errors
/// If `partial` is not an unfinished archive of the kind.
pub fn unfinished_body(
    partial: &Path,
    kind: &'static str,
) -> Result<serde_json::Value, ArchiveError> {
    UnfinishedArchive::open(partial, kind, &Keyring::default()).map(|unended| unended.body)
}

/// An archive that was never finished.
#[derive(Debug)]
pub struct UnfinishedArchive {
    /// Stored body of the manifest.
    pub body: serde_json::Value,
    /// Recipients it is encrypted to; none if it is not encrypted.
    pub recipients: Vec<Recipient>,
    /// Place in a series, if it is a part of one.
    pub series: Option<SeriesMember>,
}

impl UnfinishedArchive {
    /// Opens an unfinished archive of this kind, with keys for encrypted files.
    ///
    /// # Errors
    /// If `partial` is no unfinished archive, or no key decrypts it.
    pub fn open(
        partial: &Path,
        kind: &'static str,
        keyring: &Keyring,
    ) -> Result<Self, ArchiveError> {
        let foreign = |reason: String| ArchiveError::WrongKind {
            path: partial.to_owned(),
            kind: format!("unfinished {kind}"),
            reason,
        };
        if partial
            .extension()
            .is_none_or(|extension| extension != "partial")
        {
            return Err(foreign("its name does not end in .partial".to_owned()));
        }
        if is_being_written(partial) {
            return Err(foreign(
                "it is being written right now; wait until what writes it has ended".to_owned(),
            ));
        }
        let manifest = Manifest::read(partial).map_err(foreign)?;
        if manifest.kind != kind {
            return Err(foreign(format!("it is a {}", manifest.kind)));
        }
        let recipients = manifest.encryption.iter().flat_map(|note| &note.recipients);
        Ok(UnfinishedArchive {
            body: manifest.open_body(partial, keyring)?,
            recipients: recipients.filter_map(|text| text.parse().ok()).collect(),
            series: manifest.series.clone(),
        })
    }
}

/// Makes the Parquet files in an unfinished archive readable up to their last complete row group. Returns
/// them by name, without files that have no complete row group. `tables` are the tables that the archive may
/// have; files are assigned to them by name. `keyring` decrypts encrypted files.
///
/// # Errors
/// If the directory cannot be read or written.
pub fn recover_tables(
    partial: &Path,
    tables: &[&'static str],
    keyring: &Keyring,
) -> Result<Vec<FileEntry>, ArchiveError> {
    let listing =
        fs::read_dir(partial).map_err(|error| ArchiveError::io("read", partial, error))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    // A pipe would be waited for without end.
    paths.retain(|path| path.is_file());
    paths.sort();
    let mut files = Vec::new();
    for path in &paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let plain_name = name.strip_suffix(SUFFIX).unwrap_or(name);
        let Some(table) = plain_name.strip_suffix(".parquet").and_then(|stem| {
            tables.iter().find(|table| {
                stem.strip_prefix(**table).is_some_and(|rest| {
                    rest.is_empty()
                        || rest.strip_prefix('-').is_some_and(|number| {
                            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
                        })
                })
            })
        }) else {
            continue;
        };
        match is_encrypted(path) {
            true => rewrite(path, keyring)?,
            false => append_footer(path)?,
        }
        // An unreadable file shares the fate of the directory.
        let Some(rows) = rows_in(path, keyring) else {
            continue;
        };
        let (bytes, sha256) = checksum(path)?;
        files.push(FileEntry {
            name: name.to_owned(),
            table: (*table).to_owned(),
            rows,
            bytes,
            sha256,
        });
    }
    Ok(files)
}

fn append_footer(path: &Path) -> Result<(), ArchiveError> {
    let footer = footer_path(path);
    let Ok(bytes) = fs::read(&footer) else {
        return Ok(());
    };
    // The footer's file stays until the file is complete, so that an interrupted recovery can be repeated.
    if rows_in(path, &Keyring::default()).is_none() && bytes.len() > LENGTH_BYTES {
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(&bytes[..LENGTH_BYTES]);
        let failed = |error| ArchiveError::io("recover", path, error);
        let covered = u64::from_le_bytes(length);
        let mut file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        let on_disk = file.metadata().map_err(failed)?.len();
        // A longer file would be filled with zeros, and read as if it were whole.
        if on_disk < covered {
            return Err(too_short(path, on_disk, covered));
        }
        file.set_len(covered).map_err(failed)?;
        file.write_all(&bytes[LENGTH_BYTES..]).map_err(failed)?;
        file.sync_all().map_err(failed)?;
    }
    fs::remove_file(&footer).map_err(|error| ArchiveError::io("remove", &footer, error))
}

/// Rewrites an encrypted file with its saved footer, to the recipient of the key that decrypts it. Its own
/// key may have encrypted other content at the offset of the footer.
fn rewrite(path: &Path, keyring: &Keyring) -> Result<(), ArchiveError> {
    let footer = footer_path(path);
    if !footer.exists() {
        return Ok(());
    }
    let failed = |error| ArchiveError::io("recover", path, error);
    if rows_in(path, keyring).is_none() {
        let saved = decrypt(&footer, keyring)?;
        let Some((length, tail, parquet_footer)) = parts(&saved) else {
            return Err(ArchiveError::damaged(&footer, "it is no footer"));
        };
        let on_disk = length.saturating_sub(tail.len() as u64);
        let fresh = path.with_extension("new");
        let encryption = Encryption::to(&keyring.recipients());
        let mut rewritten =
            OutputFile::begin(create_private(&fresh)?, Some(&encryption)).map_err(failed)?;
        let content = open_stream(path, keyring)?;
        let copied = io::copy(&mut content.take(on_disk), &mut rewritten).map_err(failed)?;
        if copied < on_disk {
            return Err(too_short(path, copied, on_disk));
        }
        rewritten
            .write_all(tail)
            .and_then(|()| rewritten.write_all(parquet_footer))
            .and_then(|()| rewritten.finish())
            .and_then(|_| fs::rename(&fresh, path))
            .map_err(failed)?;
    }
    fs::remove_file(&footer).map_err(|error| ArchiveError::io("remove", &footer, error))
}

fn too_short(path: &Path, on_disk: u64, covered: u64) -> ArchiveError {
    let reason = format!("it has {on_disk} of the {covered} bytes that its saved footer covers");
    ArchiveError::damaged(path, reason)
}

/// Splits a saved footer into the length of the data, the end of the data, and the Parquet footer.
fn parts(saved: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (length, rest) = saved.split_first_chunk::<LENGTH_BYTES>()?;
    let (tail, rest) = rest.split_first_chunk::<4>()?;
    let (tail, parquet_footer) = rest.split_at_checked(u32::from_le_bytes(*tail) as usize)?;
    Some((u64::from_le_bytes(*length), tail, parquet_footer))
}

/// Returns the number of rows in a Parquet file; `None` if it cannot be read as one.
fn rows_in(path: &Path, keyring: &Keyring) -> Option<u64> {
    let file = Content::open(path, keyring).ok()?;
    let reader = open_parquet(file).ok()?;
    u64::try_from(reader.metadata().file_metadata().num_rows()).ok()
}

fn checksum(path: &Path) -> Result<(u64, String), ArchiveError> {
    let failed = |error| ArchiveError::io("read", path, error);
    let mut file = fs::File::open(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    let mut hash = Sha256::new();
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_for_more_data_than_the_file_has_is_damage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("executions.parquet");
        fs::write(&path, b"PAR1 and some").unwrap();
        let mut saved = 1_000_u64.to_le_bytes().to_vec();
        saved.extend_from_slice(b"a footer");
        fs::write(footer_path(&path), &saved).unwrap();
        let error = append_footer(&path).unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("13 of the 1000 bytes"), "{text}");
        // Nothing was changed, so that the rest can be looked at.
        assert_eq!(fs::read(&path).unwrap(), b"PAR1 and some");
        assert!(footer_path(&path).exists());
    }
}
