//! Parquet files become rows again, a batch at a time.

use std::collections::VecDeque;
use std::path::PathBuf;

use parquet::column::reader::ColumnReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::column::Column;
use crate::content::Content;
use crate::decoded::{Decoded, Values};
use crate::encryption::Keyring;
use crate::error::ArchiveError;

/// Rows decoded at a time at most …
const BATCH_ROWS_MAX: usize = 2_048;
/// … and of long rows, so many that they have about this many bytes: what a reader holds in memory.
const BATCH_BYTES: i64 = 32 << 20;

/// Reads a table's files one after the other.
pub struct TableReader {
    files: std::vec::IntoIter<PathBuf>,
    columns: &'static [Column],
    keyring: Keyring,
    current: Option<OpenFile>,
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
            let Some(file) = &mut self.current else {
                return Ok(None);
            };
            match file.next_batch(self.columns) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => self.open_next()?,
                Err(error) => return Err(ArchiveError::damaged(&file.path, error)),
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
        let reader =
            SerializedFileReader::new(file).map_err(|error| ArchiveError::damaged(&path, error))?;
        let in_file = reader.metadata().file_metadata().schema_descr().columns();
        let mut found = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let path_in_file = column.path();
            let place = in_file
                .iter()
                .position(|found| *found.path() == path_in_file);
            let kept = place.map(|place| (place, in_file[place].max_def_level()));
            if !place.map_or(column.later, |place| column.is_kept_in(&in_file[place])) {
                return Err(ArchiveError::damaged(
                    &path,
                    format!("it has no column {} of the expected type", column.name),
                ));
            }
            found.push(kept);
        }
        self.current = Some(OpenFile {
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
    reader: SerializedFileReader<Content>,
    batch_rows: usize,
    /// Where the file has each column, and its highest definition level; `None` for one that came later.
    found: Vec<Option<(usize, i16)>>,
    next_group: usize,
    /// The columns of the row group that is being read …
    group: Vec<Option<ColumnReader>>,
    /// … and how many of its rows are left.
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

    fn open_group(&mut self) -> ParquetResult<()> {
        let group = self.reader.get_row_group(self.next_group)?;
        self.next_group += 1;
        self.group_rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.group.clear();
        for found in &self.found {
            let reader = found.map(|(place, _)| group.get_column_reader(place));
            self.group.push(reader.transpose()?);
        }
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
    columns: Vec<Decoded>,
    rows: usize,
}

impl Batch {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn value(&self, column: usize, row: usize) -> Option<(&Values, usize)> {
        let column = &self.columns[column];
        column.place(row).map(|place| (&column.values, place))
    }

    /// A value; `None` for null.
    pub fn u64(&self, column: usize, row: usize) -> Option<u64> {
        self.i64(column, row).map(i64::cast_unsigned)
    }

    /// A value; `None` for null.
    pub fn i64(&self, column: usize, row: usize) -> Option<i64> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Wide(values) => values[place],
            _ => mismatch(column, "a number of 64 bits"),
        })
    }

    /// A value; `None` for null.
    pub fn u32(&self, column: usize, row: usize) -> Option<u32> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Narrow(values) => values[place].cast_unsigned(),
            _ => mismatch(column, "a number of 32 bits"),
        })
    }

    /// A value; `None` for null.
    pub fn f64(&self, column: usize, row: usize) -> Option<f64> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Fractions(values) => values[place],
            _ => mismatch(column, "a number with a fraction"),
        })
    }

    /// A value; `None` for null.
    pub fn bool(&self, column: usize, row: usize) -> Option<bool> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Flags(values) => values[place],
            _ => mismatch(column, "true or false"),
        })
    }

    /// A value; `None` for null.
    pub fn text(&self, column: usize, row: usize) -> Option<&str> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Text(texts) => texts.get(place),
            _ => mismatch(column, "text"),
        })
    }

    /// A list's elements; `None` for null.
    pub fn text_list<T>(&self, column: usize, row: usize) -> Option<Vec<Option<T>>>
    where
        T: for<'a> From<&'a str>,
    {
        let decoded = &self.columns[column];
        let element = |place: Option<usize>| {
            place.map(|place| match &decoded.values {
                Values::Text(texts) => T::from(texts.get(place)),
                _ => mismatch(column, "a list of texts"),
            })
        };
        Some(decoded.elements(row)?.map(element).collect())
    }

    /// A value; `None` for null.
    pub fn bytes(&self, column: usize, row: usize) -> Option<&[u8]> {
        self.value(column, row).map(|(values, place)| match values {
            Values::Bytes(bytes) => bytes.get(place),
            _ => mismatch(column, "bytes"),
        })
    }

    /// A list's elements; `None` for null.
    pub fn bytes_list(&self, column: usize, row: usize) -> Option<Vec<Option<Box<[u8]>>>> {
        let decoded = &self.columns[column];
        let element = |place: Option<usize>| {
            place.map(|place| match &decoded.values {
                Values::Bytes(bytes) => Box::from(bytes.get(place)),
                _ => mismatch(column, "a list of bytes"),
            })
        };
        Some(decoded.elements(row)?.map(element).collect())
    }

    /// A list's elements; `None` for null.
    pub fn u32_list(&self, column: usize, row: usize) -> Option<Vec<u32>> {
        let decoded = &self.columns[column];
        let element = |place: usize| match &decoded.values {
            Values::Narrow(values) => values[place].cast_unsigned(),
            _ => mismatch(column, "a list of numbers"),
        };
        Some(decoded.elements(row)?.flatten().map(element).collect())
    }
}

/// A bug: a column is read as what it is not.
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
                    // What was read of the damaged batch is not handed out: it is counted nowhere.
                    self.ready.clear();
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
