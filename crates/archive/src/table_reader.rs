//! Parquet files become rows again, a batch at a time.

use std::collections::VecDeque;
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, new_null_array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::column::{Column, arrow_schema};
use crate::content::Content;
use crate::error::ArchiveError;
use crate::sealed::Keyring;

/// Rows decoded at a time at most …
const BATCH_ROWS_MAX: usize = 2_048;
/// … and of long rows, so many that they have about this many bytes: what a reader holds in memory.
const BATCH_BYTES: i64 = 32 << 20;

/// Reads a table's files one after the other.
pub struct TableReader {
    files: std::vec::IntoIter<PathBuf>,
    columns: &'static [Column],
    keyring: Keyring,
    current: Option<(PathBuf, ParquetRecordBatchReader)>,
}

impl TableReader {
    /// Reads these files in this order. `columns` are those that the reader knows.
    ///
    /// # Errors
    /// Where the first file cannot be opened or lacks a column.
    pub fn open(files: Vec<PathBuf>, columns: &'static [Column]) -> Result<Self, ArchiveError> {
        Self::open_with(files, columns, Keyring::default())
    }

    /// As [`Self::open`], with keys for files that are encrypted.
    ///
    /// # Errors
    /// As [`Self::open`]; and where no key opens a file.
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

    /// The next rows, or `None` after the last.
    ///
    /// # Errors
    /// Where a file cannot be read or is damaged.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, ArchiveError> {
        loop {
            let Some((path, reader)) = &mut self.current else {
                return Ok(None);
            };
            match reader.next() {
                Some(Ok(batch)) => {
                    let columns = self
                        .columns
                        .iter()
                        .zip(arrow_schema(self.columns).fields())
                        .map(|(column, field)| match batch.column_by_name(column.name) {
                            Some(array) => array.clone(),
                            // One that came later, as checked when the file was opened.
                            None => new_null_array(field.data_type(), batch.num_rows()),
                        })
                        .collect();
                    return Ok(Some(Batch {
                        columns,
                        rows: batch.num_rows(),
                    }));
                }
                Some(Err(error)) => return Err(ArchiveError::damaged(path, error)),
                None => self.open_next()?,
            }
        }
    }

    /// The rows as an iterator, made of each batch by `read`. It ends after the first error.
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

    fn open_next(&mut self) -> Result<(), ArchiveError> {
        self.current = None;
        let Some(path) = self.files.next() else {
            return Ok(());
        };
        let file = Content::open(&path, &self.keyring)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)
            .map_err(|error| ArchiveError::damaged(&path, error))?;
        let batch_rows = batch_rows(builder.metadata());
        for (column, wanted) in self.columns.iter().zip(arrow_schema(self.columns).fields()) {
            let found = builder.schema().field_with_name(column.name);
            if found.is_err() && column.later {
                continue;
            }
            if !found.is_ok_and(|field| field.data_type() == wanted.data_type()) {
                return Err(ArchiveError::damaged(
                    &path,
                    format!("it has no column {} of the expected type", column.name),
                ));
            }
        }
        let mask = ProjectionMask::columns(
            builder.parquet_schema(),
            self.columns.iter().map(|column| column.name),
        );
        let reader = builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
            .map_err(|error| ArchiveError::damaged(&path, error))?;
        self.current = Some((path, reader));
        Ok(())
    }
}

/// How many rows to decode at a time, by the row group with the longest rows.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let of_group = |group: &RowGroupMetaData| {
        let row_bytes = group.total_byte_size() / group.num_rows().max(1);
        BATCH_BYTES / row_bytes.max(1)
    };
    let fewest = metadata.row_groups().iter().map(of_group).min();
    let rows = usize::try_from(fewest.unwrap_or(i64::MAX)).unwrap_or(BATCH_ROWS_MAX);
    rows.clamp(1, BATCH_ROWS_MAX)
}

/// Some rows of a table. Columns are numbered in the order in which the reader asked for them.
/// Asking for a column as another type than its own is a bug and panics.
pub struct Batch {
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl Batch {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A value; `None` for null.
    pub fn u64(&self, column: usize, row: usize) -> Option<u64> {
        let array = self.columns[column].as_primitive::<UInt64Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A value; `None` for null.
    pub fn i64(&self, column: usize, row: usize) -> Option<i64> {
        let array = self.columns[column].as_primitive::<Int64Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A value; `None` for null.
    pub fn u32(&self, column: usize, row: usize) -> Option<u32> {
        let array = self.columns[column].as_primitive::<UInt32Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A value; `None` for null.
    pub fn f64(&self, column: usize, row: usize) -> Option<f64> {
        let array = self.columns[column].as_primitive::<Float64Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A value; `None` for null.
    pub fn bool(&self, column: usize, row: usize) -> Option<bool> {
        let array = self.columns[column].as_boolean();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A value; `None` for null.
    pub fn text(&self, column: usize, row: usize) -> Option<&str> {
        let array = self.columns[column].as_string::<i32>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A list's elements; `None` for null.
    pub fn text_list<T>(&self, column: usize, row: usize) -> Option<Vec<Option<T>>>
    where
        T: for<'a> From<&'a str>,
    {
        let array = self.columns[column].as_list::<i32>();
        if array.is_null(row) {
            return None;
        }
        let elements = array.value(row);
        let elements = elements.as_string::<i32>();
        Some(
            elements
                .iter()
                .map(|element| element.map(T::from))
                .collect(),
        )
    }

    /// A value; `None` for null.
    pub fn bytes(&self, column: usize, row: usize) -> Option<&[u8]> {
        let array = self.columns[column].as_binary::<i32>();
        array.is_valid(row).then(|| array.value(row))
    }

    /// A list's elements; `None` for null.
    pub fn bytes_list(&self, column: usize, row: usize) -> Option<Vec<Option<Box<[u8]>>>> {
        let array = self.columns[column].as_list::<i32>();
        if array.is_null(row) {
            return None;
        }
        let elements = array.value(row);
        let elements = elements.as_binary::<i32>();
        let owned = |element: Option<&[u8]>| element.map(Box::from);
        Some(elements.iter().map(owned).collect())
    }

    /// A list's elements; `None` for null.
    pub fn u32_list(&self, column: usize, row: usize) -> Option<Vec<u32>> {
        let array = self.columns[column].as_list::<i32>();
        if array.is_null(row) {
            return None;
        }
        let elements = array.value(row);
        Some(elements.as_primitive::<UInt32Type>().values().to_vec())
    }
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
                    // What was read of the damaged batch is not handed out: it is counted nowhere.
                    self.ready.clear();
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
