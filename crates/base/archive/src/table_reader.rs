//! Reads the rows of Parquet files, a batch at a time.

use std::collections::VecDeque;
use std::path::PathBuf;

use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::checked_pages::CheckedPages;
use crate::column::Column;
use crate::content::Content;
use crate::decoded::{Decoded, Values};
use crate::decoder_panic::{catch_decoder_panic, open_parquet};
use crate::encryption::Keyring;
use crate::error::ArchiveError;

/// Maximum rows decoded at a time …
const BATCH_ROWS_MAX: usize = 2_048;
/// … and their approximate bytes if rows are long, which limits the memory of a reader.
const BATCH_BYTES: i64 = 32 << 20;

/// Reads a table's files one after the other.
pub struct TableReader {
    files: std::vec::IntoIter<PathBuf>,
    columns: &'static [Column],
    keyring: Keyring,
    current: Option<OpenFile>,
}

impl TableReader {
    /// Reads these files in this order. `columns` are the columns that the reader knows.
    ///
    /// # Errors
    /// If the first file cannot be opened or lacks a column.
    pub fn open(files: Vec<PathBuf>, columns: &'static [Column]) -> Result<Self, ArchiveError> {
        Self::open_with(files, columns, Keyring::default())
    }

    /// Reads files as [`Self::open`] does, with keys for encrypted files.
    ///
    /// # Errors
    /// As [`Self::open`]; also if no key decrypts a file.
    pub fn open_with(
        files: Vec<PathBuf>,
        columns: &'static [Column],
        keyring: Keyring,
    ) -> Result<Self, ArchiveError> {
        let mut reader = TableReader {
            files: files.into_iter(),
            columns,
            keyring,
            current: None,
        };
        reader.open_next()?;
        Ok(reader)
    }

    /// Returns the next rows, or `None` after the last.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, ArchiveError> {
        loop {
            let Some(file) = &mut self.current else {
                return Ok(None);
            };
            match catch_decoder_panic(|| file.next_batch(self.columns)) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => self.open_next()?,
                Err(error) => {
                    let error = ArchiveError::unreadable(&file.path, error);
                    self.current = None;
                    return Err(error);
                }
            }
        }
    }

    /// Returns an iterator over the rows, which `read` converts. It ends after the first error.
    pub fn rows<T, F>(self, read: F) -> impl Iterator<Item = Result<T, ArchiveError>> + use<T, F>
    where
        F: FnMut(&Batch, usize) -> Result<T, ArchiveError>,
    {
        Rows {
            table: self,
            read,
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// Reads the row groups of one file from the number `first_group` on.
    ///
    /// # Errors
    /// If it cannot be read as a Parquet file, or lacks a column.
    pub(crate) fn open_groups(
        path: PathBuf,
        content: Content,
        columns: &'static [Column],
        first_group: usize,
    ) -> Result<Self, ArchiveError> {
        let mut reader = TableReader {
            files: Vec::new().into_iter(),
            columns,
            keyring: Keyring::default(),
            current: None,
        };
        reader.open_content(path, content)?;
        if let Some(file) = &mut reader.current {
            file.next_group = first_group;
        }
        Ok(reader)
    }

    /// Returns the number of row groups of the current file.
    pub(crate) fn group_count(&self) -> usize {
        (self.current.as_ref()).map_or(0, |file| file.reader.num_row_groups())
    }

    fn open_next(&mut self) -> Result<(), ArchiveError> {
        self.current = None;
        let Some(path) = self.files.next() else {
            return Ok(());
        };
        let content = Content::open(&path, &self.keyring)?;
        self.open_content(path, content)
    }

    fn open_content(&mut self, path: PathBuf, content: Content) -> Result<(), ArchiveError> {
        let reader = open_parquet(content.clone())
            .map_err(|error| ArchiveError::unreadable(&path, error))?;
        let in_file = reader.metadata().file_metadata().schema_descr().columns();
        let mut found = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let path_in_file = column.path();
            let index = in_file
                .iter()
                .position(|found| *found.path() == path_in_file);
            let found_at = index.map(|index| (index, in_file[index].max_def_level()));
            if !index.map_or(column.is_optional(), |index| {
                column.matches(&in_file[index])
            }) {
                return Err(ArchiveError::damaged(
                    &path,
                    format!("it has no column {} of the expected type", column.name),
                ));
            }
            found.push(found_at);
        }
        self.current = Some(OpenFile {
            content,
            batch_rows: batch_rows(reader.metadata()),
            path,
            reader,
            found,
            next_group: 0,
            group: Vec::new(),
            group_rows: 0,
        });
        Ok(())
    }
}

/// The file that is being read.
struct OpenFile {
    path: PathBuf,
    /// The same content as the reader's, for requests ahead.
    content: Content,
    reader: SerializedFileReader<Content>,
    batch_rows: usize,
    /// Index of each column in the file, and its highest definition level; `None` for a column that the file
    /// lacks.
    found: Vec<Option<(usize, i16)>>,
    next_group: usize,
    /// Columns of the current row group …
    group: Vec<Option<ColumnReader>>,
    /// … and the number of its remaining rows.
    group_rows: usize,
}

impl OpenFile {
    fn next_batch(&mut self, columns: &[Column]) -> ParquetResult<Option<Batch>> {
        while self.group_rows == 0 {
            if self.next_group == self.reader.num_row_groups() {
                return Ok(None);
            }
            self.open_group()?;
        }
        let rows = self.group_rows.min(self.batch_rows);
        let mut decoded = Vec::with_capacity(columns.len());
        for ((column, found), reader) in columns.iter().zip(&self.found).zip(&mut self.group) {
            decoded.push(match (found, reader) {
                (Some((_, highest)), Some(reader)) => {
                    Decoded::read(column, reader, *highest, rows)?
                }
                _ => Decoded::absent(column, rows),
            });
        }
        self.group_rows -= rows;
        Ok(Some(Batch {
            columns: decoded,
            rows,
        }))
    }

    /// Requests the known columns of the next row group and of the one after it.
    fn read_ahead(&self) -> ParquetResult<()> {
        let groups = self.reader.metadata().row_groups();
        for (index, group) in groups.iter().enumerate().skip(self.next_group).take(2) {
            let mut ranges = Vec::new();
            for (column, _) in self.found.iter().flatten() {
                check_offsets(group.column(*column))?;
                let (start, length) = group.column(*column).byte_range();
                ranges.push(start..start.saturating_add(length));
            }
            if index == self.next_group {
                let start = ranges.iter().map(|range| range.start).min();
                self.content.release_before(start.unwrap_or(0));
            }
            self.content.read_ahead(&ranges);
        }
        Ok(())
    }

    fn open_group(&mut self) -> ParquetResult<()> {
        self.read_ahead()?;
        let group = self.reader.get_row_group(self.next_group)?;
        self.next_group += 1;
        self.group_rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.group.clear();
        for found in &self.found {
            let reader = found.map(|(index, _)| -> ParquetResult<ColumnReader> {
                check_offsets(group.metadata().column(index))?;
                let pages = CheckedPages(group.get_column_page_reader(index)?);
                let descriptor = group.metadata().column(index).column_descr_ptr();
                Ok(get_column_reader(descriptor, Box::new(pages)))
            });
            self.group.push(reader.transpose()?);
        }
        Ok(())
    }
}

/// Refuses a column of a damaged footer, with which the Parquet reader would panic.
fn check_offsets(column: &ColumnChunkMetaData) -> ParquetResult<()> {
    let first = column.dictionary_page_offset();
    let values = [
        first.unwrap_or(column.data_page_offset()),
        column.compressed_size(),
    ];
    match values.iter().any(|value| *value < 0) {
        true => Err(ParquetError::General(
            "a column has a negative offset or size".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Returns the number of rows to decode at a time, by the row group with the longest rows.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let of_group = |group: &RowGroupMetaData| {
        let row_bytes = group.total_byte_size() / group.num_rows().max(1);
        BATCH_BYTES / row_bytes.max(1)
    };
    let fewest = metadata.row_groups().iter().map(of_group).min();
    let rows = usize::try_from(fewest.unwrap_or(i64::MAX)).unwrap_or(BATCH_ROWS_MAX);
    rows.clamp(1, BATCH_ROWS_MAX)
}

/// Rows of a table. Columns are numbered in the order that the reader gave.
///
/// # Panics
/// Reading a column as another type than its own is a bug and panics.
pub struct Batch {
    columns: Vec<Decoded>,
    rows: usize,
}

impl Batch {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn value(&self, column: usize, row: usize) -> Option<(&Values, usize)> {
        let column = &self.columns[column];
        column.index(row).map(|index| (&column.values, index))
    }

    /// Returns a value; `None` for null.
    pub fn u64(&self, column: usize, row: usize) -> Option<u64> {
        self.i64(column, row).map(i64::cast_unsigned)
    }

    /// Returns a value; `None` for null.
    pub fn i64(&self, column: usize, row: usize) -> Option<i64> {
        self.value(column, row).map(|(values, index)| match values {
            Values::I64(values) => values[index],
            _ => mismatch(column, "a number of 64 bits"),
        })
    }

    /// Returns a value; `None` for null.
    pub fn u32(&self, column: usize, row: usize) -> Option<u32> {
        self.value(column, row).map(|(values, index)| match values {
            Values::I32(values) => values[index].cast_unsigned(),
            _ => mismatch(column, "a number of 32 bits"),
        })
    }

    /// Returns a value; `None` for null.
    pub fn f64(&self, column: usize, row: usize) -> Option<f64> {
        self.value(column, row).map(|(values, index)| match values {
            Values::F64(values) => values[index],
            _ => mismatch(column, "a number with a fraction"),
        })
    }

    /// Returns a value; `None` for null.
    pub fn bool(&self, column: usize, row: usize) -> Option<bool> {
        self.value(column, row).map(|(values, index)| match values {
            Values::Bool(values) => values[index],
            _ => mismatch(column, "true or false"),
        })
    }

    /// Returns a value; `None` for null.
    pub fn text(&self, column: usize, row: usize) -> Option<&str> {
        self.value(column, row).map(|(values, index)| match values {
            Values::Text(texts) => texts.get(index),
            _ => mismatch(column, "text"),
        })
    }

    /// Returns the elements of a list; `None` for null.
    pub fn text_list<T>(&self, column: usize, row: usize) -> Option<Vec<Option<T>>>
    where
        T: for<'a> From<&'a str>,
    {
        let decoded = &self.columns[column];
        let element = |index: Option<usize>| {
            index.map(|index| match &decoded.values {
                Values::Text(texts) => T::from(texts.get(index)),
                _ => mismatch(column, "a list of texts"),
            })
        };
        Some(decoded.elements(row)?.map(element).collect())
    }

    /// Returns a value; `None` for null.
    pub fn bytes(&self, column: usize, row: usize) -> Option<&[u8]> {
        self.value(column, row).map(|(values, index)| match values {
            Values::Bytes(bytes) => bytes.get(index),
            _ => mismatch(column, "bytes"),
        })
    }

    /// Returns the elements of a list; `None` for null.
    pub fn bytes_list(&self, column: usize, row: usize) -> Option<Vec<Option<Box<[u8]>>>> {
        let decoded = &self.columns[column];
        let element = |index: Option<usize>| {
            index.map(|index| match &decoded.values {
                Values::Bytes(bytes) => Box::from(bytes.get(index)),
                _ => mismatch(column, "a list of bytes"),
            })
        };
        Some(decoded.elements(row)?.map(element).collect())
    }

    /// Returns the elements of a list; `None` for null.
    pub fn u32_list(&self, column: usize, row: usize) -> Option<Vec<u32>> {
        let decoded = &self.columns[column];
        let element = |index: usize| match &decoded.values {
            Values::I32(values) => values[index].cast_unsigned(),
            _ => mismatch(column, "a list of numbers"),
        };
        Some(decoded.elements(row)?.flatten().map(element).collect())
    }
}

/// Panics because a column was read as another type.
fn mismatch(column: usize, wanted: &str) -> ! {
    panic!("column {column} does not hold {wanted}")
}

struct Rows<T, F> {
    table: TableReader,
    read: F,
    ready: VecDeque<T>,
    failed: bool,
}

impl<T, F> Iterator for Rows<T, F>
where
    F: FnMut(&Batch, usize) -> Result<T, ArchiveError>,
{
    type Item = Result<T, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.failed {
                return None;
            }
            let next = self.table.next_batch().and_then(|batch| match batch {
                None => Ok(false),
                Some(batch) => {
                    for row in 0..batch.rows() {
                        self.ready.push_back((self.read)(&batch, row)?);
                    }
                    Ok(true)
                }
            });
            match next {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    // The rows of the damaged batch are discarded, since they are not counted anywhere.
                    self.ready.clear();
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
