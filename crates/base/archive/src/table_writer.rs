//! Writes rows to Parquet files.

use std::ops::Range;
use std::path::Path;

use crate::builder::Builder;
use crate::column::{Column, ColumnType};
use crate::encoder::{Encoder, Parts, TableOptions};
use crate::encoder_thread::EncoderThread;
use crate::encryption::Encryption;
use crate::error::ArchiveError;
use crate::manifest::FileEntry;

/// Maximum rows of a batch that is passed to Parquet …
const BATCH_ROWS_MAX: usize = 1_024;
/// … or its approximate bytes of text, whichever comes first.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A table that is being written. Each row is passed column by column, in the order of the columns, and ended
/// with [`TableWriter::end_row`].
pub struct TableWriter {
    name: &'static str,
    columns: &'static [Column],
    options: TableOptions,
    builders: Vec<Builder>,
    next_column: usize,
    repeated: RepeatedColumns,
    batch_rows: usize,
    batch_bytes: usize,
    /// Number of rows of the current file without those of the batch.
    part_rows: u64,
    encoding: Encoding,
}

/// The thread that encodes and writes batches. Both have the same result.
enum Encoding {
    Here(Box<Encoder>),
    InThread(EncoderThread),
}

/// Columns whose last values are repeated, and the number of repetitions. They are added when other columns
/// are repeated, or the batch ends.
#[derive(Default)]
struct RepeatedColumns {
    columns: Range<usize>,
    rows: usize,
}

impl TableWriter {
    pub(crate) fn create(
        directory: &Path,
        name: &'static str,
        columns: &'static [Column],
        options: TableOptions,
        encryption: Option<Encryption>,
    ) -> Result<Self, ArchiveError> {
        let directory = directory.to_owned();
        let encoder = Encoder::new(directory, name, columns, options, encryption);
        Ok(TableWriter {
            name,
            columns,
            options,
            builders: columns.iter().map(Builder::new).collect(),
            next_column: 0,
            repeated: RepeatedColumns::default(),
            batch_rows: 0,
            batch_bytes: 0,
            part_rows: 0,
            encoding: Encoding::Here(Box::new(encoder)),
        })
    }

    /// Numbers the parts from `first` on, for a table that replaces parts of another table. To be called before the
    /// first row.
    pub fn number_parts_from(mut self, first: u32) -> Self {
        if let Encoding::Here(encoder) = &mut self.encoding {
            encoder.first_part = first;
        }
        self
    }

    /// Encodes in another thread while rows are collected, if the process may use more than one processor. The files are
    /// the same. To be called before the first row.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn encode_in_thread(mut self) -> Result<Self, ArchiveError> {
        let has_processors =
            std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        self.encoding = match self.encoding {
            Encoding::Here(encoder) if has_processors => {
                Encoding::InThread(EncoderThread::start(*encoder, self.columns)?)
            }
            other => other,
        };
        Ok(self)
    }

    /// Adds the row's next column.
    #[inline]
    pub fn u64(&mut self, value: impl Into<Option<u64>>) {
        let value = value.into().map(u64::cast_signed);
        self.builder().push_i64(ColumnType::U64, value);
    }

    /// Adds the row's next column.
    #[inline]
    pub fn i64(&mut self, value: impl Into<Option<i64>>) {
        self.builder().push_i64(ColumnType::I64, value.into());
    }

    /// Adds the row's next column.
    #[inline]
    pub fn u32(&mut self, value: impl Into<Option<u32>>) {
        self.builder().push_u32(value.into());
    }

    /// Adds the row's next column.
    #[inline]
    pub fn f64(&mut self, value: impl Into<Option<f64>>) {
        self.builder().push_f64(value.into());
    }

    /// Adds the row's next column.
    #[inline]
    pub fn bool(&mut self, value: impl Into<Option<bool>>) {
        self.builder().push_bool(value.into());
    }

    /// Adds the row's next column.
    #[inline]
    pub fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) {
        let value = value.into();
        self.batch_bytes += value.map_or(0, str::len);
        self.builder()
            .push_bytes(ColumnType::Text, value.map(str::as_bytes));
    }

    /// Adds the row's next column: a static string, which is not copied.
    #[inline]
    pub fn name(&mut self, value: impl Into<Option<&'static str>>) {
        self.builder().push_static(value.into());
    }

    /// Repeats the next `columns` columns of the row before. Returns `false`, and adds nothing, at the
    /// beginning of a batch.
    #[inline]
    pub fn same_as_before(&mut self, columns: usize) -> bool {
        let columns = self.next_column..self.next_column + columns;
        if self.repeated.columns != columns {
            self.add_repeated();
        }
        if self.batch_rows == 0 {
            return false;
        }
        self.next_column = columns.end;
        self.repeated.columns = columns;
        self.repeated.rows += 1;
        true
    }

    fn add_repeated(&mut self) {
        let RepeatedColumns { columns, rows } = std::mem::take(&mut self.repeated);
        if rows > 0 {
            for builder in &mut self.builders[columns] {
                builder.repeat_last(rows);
            }
        }
    }

    /// Adds the row's next column: a list, or null.
    pub fn text_list<'a>(&mut self, values: Option<impl Iterator<Item = Option<&'a str>>>) {
        let values = values.map(|values| values.map(|value| value.map(str::as_bytes)));
        self.batch_bytes += self.builder().push_bytes_list(ColumnType::TextList, values);
    }

    /// Adds the row's next column.
    #[inline]
    pub fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) {
        let value = value.into();
        self.batch_bytes += value.map_or(0, <[u8]>::len);
        self.builder().push_bytes(ColumnType::Bytes, value);
    }

    /// Adds the row's next column: a list, or null.
    pub fn bytes_list<'a>(&mut self, values: Option<impl Iterator<Item = Option<&'a [u8]>>>) {
        self.batch_bytes += self
            .builder()
            .push_bytes_list(ColumnType::BytesList, values);
    }

    /// Adds the row's next column: a list, or null.
    pub fn u32_list(&mut self, values: Option<impl Iterator<Item = u32>>) {
        self.builder().push_u32_list(values);
    }

    /// Returns the columns of a row.
    pub fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Ends the row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end_row(&mut self) -> Result<(), ArchiveError> {
        assert_eq!(
            self.next_column,
            self.columns.len(),
            "a row of table {} has every column",
            self.name
        );
        self.next_column = 0;
        self.batch_rows += 1;
        let is_part_full = matches!(self.options.parts,
            Parts::Rows(most) if self.part_rows + self.batch_rows as u64 >= most);
        if is_part_full
            || self.batch_rows >= BATCH_ROWS_MAX.min(self.options.group_rows)
            || self.batch_bytes >= BATCH_BYTES_MAX
        {
            self.write_batch()?;
        }
        if is_part_full {
            self.part_rows = 0;
            return match &mut self.encoding {
                Encoding::Here(encoder) => encoder.close_part(),
                Encoding::InThread(thread) => thread.close_part(),
            };
        }
        Ok(())
    }

    /// Ends the row group, so that all rows so far survive a kill of this process. Returns whether that ended the
    /// file, too.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<bool, ArchiveError> {
        self.write_batch()?;
        let is_file_ended = match &mut self.encoding {
            Encoding::Here(encoder) => encoder.flush(),
            Encoding::InThread(thread) => thread.flush(),
        }?;
        if is_file_ended {
            self.part_rows = 0;
        }
        Ok(is_file_ended)
    }

    /// Ends the table and returns its files, in order. A table without rows has one empty file.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self) -> Result<Vec<FileEntry>, ArchiveError> {
        self.write_batch()?;
        match self.encoding {
            Encoding::Here(encoder) => encoder.finish(),
            Encoding::InThread(thread) => thread.finish(),
        }
    }

    #[inline]
    fn builder(&mut self) -> &mut Builder {
        if self.repeated.rows > 0 && self.repeated.columns.contains(&self.next_column) {
            self.add_repeated();
        }
        let builder = &mut self.builders[self.next_column];
        self.next_column += 1;
        builder
    }

    fn write_batch(&mut self) -> Result<(), ArchiveError> {
        if self.batch_rows == 0 {
            return Ok(());
        }
        self.add_repeated();
        self.part_rows += self.batch_rows as u64;
        let rows = std::mem::take(&mut self.batch_rows);
        self.batch_bytes = 0;
        match &mut self.encoding {
            Encoding::Here(encoder) => encoder.encode(&mut self.builders, rows),
            Encoding::InThread(thread) => thread.encode(&mut self.builders, rows),
        }
    }
}
