//! Checks that an archive is what its manifest says, as far as that costs nearly nothing: names, identity, sizes and
//! row counts. Contents are compared with their checksums by [`crate::Archive::verify`].

use std::collections::HashSet;
use std::path::Path;

use object_storage::is_object_url;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::FileReader;

use crate::content::Content;
use crate::decoder_panic::open_parquet;
use crate::encryption::{Keyring, SUFFIX};
use crate::error::ArchiveError;
use crate::manifest::{FileEntry, MANIFEST, Manifest};
use crate::stored_file::stored_bytes;

/// Objects that are checked at the same time.
const OBJECTS_AT_A_TIME: usize = 64;

/// Returns the part of a table's file name before its number, such as `events` of `events-00000.parquet`; `None` for
/// any other name.
fn table_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(SUFFIX).unwrap_or(name);
    let stem = name.strip_suffix(".parquet")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !stem.bytes().all(is_plain) {
        return None;
    }
    match stem.rsplit_once('-') {
        Some((table, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => Some(table),
        _ => Some(stem),
    }
}

/// Checks the manifest's list of files. An error describes what is wrong.
pub(crate) fn check_list(manifest: &Manifest) -> Result<(), String> {
    let mut names = HashSet::new();
    for file in &manifest.files {
        let name = file.name.as_str();
        // Any other name could lead out of the directory.
        let Some(table) = table_of(name) else {
            return Err(format!(
                "its {MANIFEST} names {name:?}, which is no table's file"
            ));
        };
        if table != file.table {
            let named = &file.table;
            return Err(format!(
                "its {MANIFEST} says that {name} is of the table {named:?}"
            ));
        }
        if !names.insert(name) {
            return Err(format!("its {MANIFEST} lists {name} twice"));
        }
    }
    match Manifest::content_id(&manifest.files) == manifest.id {
        true => Ok(()),
        false => Err(format!(
            "its {MANIFEST} was changed: the id does not belong to the list of files"
        )),
    }
}

/// Checks the size and the row count of a file.
///
/// # Errors
/// If it is missing, or is not as the manifest says.
fn check_file(directory: &Path, file: &FileEntry, keyring: &Keyring) -> Result<(), ArchiveError> {
    let path = directory.join(&file.name);
    let damaged = |reason: String| ArchiveError::damaged(&path, reason);
    // Opening a plain object asks for its size. A file must be known to be a regular one before it is opened.
    let object = match is_object_url(&path) {
        true => Content::open(&path, keyring).ok(),
        false => None,
    };
    let stored = match &object {
        Some(Content::Object(object)) => object.size(),
        _ => stored_bytes(&path)?,
    };
    if stored != file.bytes {
        return Err(damaged(format!(
            "it has {stored} bytes, and its manifest says {}",
            file.bytes
        )));
    }
    let content = match object {
        Some(content) => content,
        None => Content::open(&path, keyring)?,
    };
    let reader = open_parquet(content).map_err(|error| ArchiveError::unreadable(&path, error))?;
    let metadata = reader.metadata();
    let in_groups = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    let rows = in_groups.fold(0, i64::saturating_add);
    let total = metadata.file_metadata().num_rows();
    if total != rows || u64::try_from(rows) != Ok(file.rows) {
        return Err(damaged(format!(
            "it has {rows} rows, and its manifest says {}",
            file.rows
        )));
    }
    Ok(())
}

/// Checks every file of the manifest. Objects are checked several at a time, since each costs a few round trips.
///
/// # Errors
/// As [`check_file`], with the first file in the list that fails.
pub(crate) fn check_files(
    directory: &Path,
    files: &[FileEntry],
    keyring: &Keyring,
) -> Result<(), ArchiveError> {
    if !is_object_url(directory) {
        return files
            .iter()
            .try_for_each(|file| check_file(directory, file, keyring));
    }
    files.chunks(OBJECTS_AT_A_TIME).try_for_each(|group| {
        std::thread::scope(|scope| {
            let checks: Vec<_> = group
                .iter()
                .map(|file| scope.spawn(|| check_file(directory, file, keyring)))
                .collect();
            checks.into_iter().try_for_each(|check| {
                check
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_a_file_is_its_name_without_number_and_suffix() {
        assert_eq!(table_of("events-00012.parquet"), Some("events"));
        assert_eq!(
            table_of("server-events-00000.parquet.age"),
            Some("server-events")
        );
        assert_eq!(table_of("statements.parquet"), Some("statements"));
        for name in [
            "..",
            "",
            "../x.parquet",
            "a\0b.parquet",
            "manifest.json",
            "a/b.parquet",
        ] {
            assert_eq!(table_of(name), None, "{name:?}");
        }
    }
}
