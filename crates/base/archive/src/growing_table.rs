//! Reads a table while another process writes it.
//!
//! The writer saves a footer for the row groups that are complete, for a recovery ([`crate::recover_tables`]). A reader
//! uses it to read these groups. The files are only read, so the writer notices nothing.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::column::Column;
use crate::content::{Content, GrowingFile};
use crate::encoder::Parts;
use crate::encryption::Keyring;
use crate::error::ArchiveError;
use crate::lock::is_being_written;
use crate::manifest::Manifest;
use crate::recover::{LENGTH_BYTES, footer_path};
use crate::table_reader::{Batch, TableReader};

/// Whether a process is writing the unfinished archive `partial`. False if the file system has no locks.
pub fn is_growing(partial: &Path) -> bool {
    is_being_written(partial)
}

/// Returns the `body` of the manifest of an archive that is being written.
///
/// # Errors
/// If `partial` has no manifest, or one of another kind.
pub fn growing_body(partial: &Path, kind: &'static str) -> Result<serde_json::Value, ArchiveError> {
    let foreign = |reason: String| ArchiveError::WrongKind {
        path: partial.to_owned(),
        kind: format!("unfinished {kind}"),
        reason,
    };
    let manifest = Manifest::read(partial).map_err(foreign)?;
    match manifest.kind == kind {
        true => Ok(manifest.body),
        false => Err(foreign(format!("it is a {}", manifest.kind))),
    }
}

/// Reader of the rows of a plain table that grows. A table that is complete ends.
pub struct GrowingTable {
    name: &'static str,
    columns: &'static [Column],
    parts: Parts,
    part: usize,
    /// Number of row groups of the part that were read.
    groups: usize,
    reader: Option<TableReader>,
    /// Whether the reader's file is complete.
    is_complete: bool,
}

impl GrowingTable {
    /// Creates a reader that begins with the first row. `parts` tells whether the table has numbered files.
    pub fn new(name: &'static str, columns: &'static [Column], parts: Parts) -> Self {
        GrowingTable {
            name,
            columns,
            parts,
            part: 0,
            groups: 0,
            reader: None,
            is_complete: false,
        }
    }

    /// Returns the next rows; `None` if there are no more now. `directory` is where the archive is now: it gets another
    /// name when it is complete.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged.
    pub fn next_batch(&mut self, directory: &Path) -> Result<Option<Batch>, ArchiveError> {
        loop {
            if let Some(reader) = &mut self.reader {
                let count = reader.group_count();
                if let Some(batch) = reader.next_batch()? {
                    return Ok(Some(batch));
                }
                self.groups = self.groups.max(count);
                self.reader = None;
                if self.is_complete {
                    self.part += 1;
                    self.groups = 0;
                }
            }
            if !self.open_groups(directory)? {
                return Ok(None);
            }
        }
    }

    /// Opens the current file if it has further row groups, or is complete.
    fn open_groups(&mut self, directory: &Path) -> Result<bool, ArchiveError> {
        let path = match self.parts {
            Parts::One if self.part > 0 => return Ok(false),
            Parts::One => directory.join(format!("{}.parquet", self.name)),
            Parts::Rows(_) => directory.join(format!("{}-{:05}.parquet", self.name, self.part)),
        };
        let growing = growing_file(&path)?;
        self.is_complete = growing.is_none();
        let content = match growing {
            Some(growing) => Content::Growing(Arc::new(growing)),
            None if !path.exists() => return Ok(false),
            None => Content::open(&path, &Keyring::default())?,
        };
        let reader = TableReader::open_groups(path, content, self.columns, self.groups);
        let reader = match reader {
            // Its first row group is not complete, or it was completed between the two looks. In a complete archive it is
            // damaged.
            Err(_) if self.is_complete && is_partial(directory) => return Ok(false),
            opened => opened?,
        };
        let has_news = self.is_complete || reader.group_count() > self.groups;
        if has_news {
            self.reader = Some(reader);
        }
        Ok(has_news)
    }
}

/// Whether an archive has the name of an unfinished one.
fn is_partial(directory: &Path) -> bool {
    directory.extension().is_some_and(|name| name == "partial")
}

/// Opens a file with its saved footer; `None` without one.
fn growing_file(path: &Path) -> Result<Option<GrowingFile>, ArchiveError> {
    let footer = footer_path(path);
    let saved = match fs::read(&footer) {
        Ok(saved) => saved,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ArchiveError::io("read", &footer, error)),
    };
    let file = match File::open(path) {
        Ok(file) => file,
        // The archive got its final name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ArchiveError::io("read", path, error)),
    };
    let Some((length, parquet_footer)) = saved.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(ArchiveError::damaged(&footer, "it is no footer"));
    };
    Ok(Some(GrowingFile {
        file,
        covered: u64::from_le_bytes(*length),
        footer: Bytes::copy_from_slice(parquet_footer),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::ColumnType;
    use crate::directory::{ArchiveWriter, OnFailure};
    use crate::encoder::TableOptions;

    const COLUMNS: &[Column] = &[
        Column::required("number", ColumnType::U64),
        Column::nullable("text", ColumnType::Text),
    ];

    fn read_new(table: &mut GrowingTable, directory: &Path) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(batch) = table.next_batch(directory).unwrap() {
            numbers.extend((0..batch.rows()).filter_map(|row| batch.u64(0, row)));
        }
        numbers
    }

    #[test]
    fn growing_table_is_read_up_to_each_flush_and_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.run");
        let archive = ArchiveWriter::create(&path, "run", 1, OnFailure::Keep).unwrap();
        let partial = archive.directory().to_owned();
        let parts = Parts::Rows(100);
        let options = TableOptions {
            parts,
            group_rows: 40,
        };
        let mut writer = archive.table("rows", COLUMNS, options).unwrap();
        let mut table = GrowingTable::new("rows", COLUMNS, parts);
        assert!(read_new(&mut table, &partial).is_empty());
        let mut read = Vec::new();
        for number in 0..1_000 {
            writer.u64(number);
            writer.text(Some("text"));
            writer.end_row().unwrap();
            if number % 7 == 6 {
                writer.flush().unwrap();
                read.extend(read_new(&mut table, &partial));
                assert_eq!(read.len() as u64, number + 1);
            }
        }
        assert!(is_growing(&partial));
        let files = writer.finish().unwrap();
        archive.finish(files, serde_json::Value::Null).unwrap();
        assert!(!partial.exists());
        read.extend(read_new(&mut table, &path));
        assert_eq!(read, (0..1_000).collect::<Vec<u64>>());
        assert!(read_new(&mut table, &path).is_empty());
    }
}
