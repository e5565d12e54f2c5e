//! A row group while it is written.
//!
//! Rows arrive with all their columns, and Parquet stores one column after the other. So each column is
//! encoded and compressed into memory, and written to the file when the group ends. A column with one value
//! in all rows gets no encoder before that.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescriptor;

use crate::builder::Builder;
use crate::constant_column;

/// Columns of a row group, as far as they are encoded.
pub(crate) struct RowGroup {
    /// `None` while all rows have the same value, which the column's builder holds.
    columns: Vec<Option<(ColumnWriter<'static>, Pages)>>,
    schema: Arc<SchemaDescriptor>,
    properties: Properties,
    /// Number of rows.
    pub(crate) rows: usize,
}

/// Encoding options of the columns.
#[derive(Clone)]
pub(crate) struct Properties {
    pub(crate) with_dictionary: WriterPropertiesPtr,
    /// Options for columns of distinct texts, which get no dictionary.
    pub(crate) without_dictionary: WriterPropertiesPtr,
}

impl RowGroup {
    /// Creates a row group without rows.
    pub(crate) fn begin(schema: &Arc<SchemaDescriptor>, properties: &Properties) -> Self {
        RowGroup {
            columns: schema.columns().iter().map(|_| None).collect(),
            schema: schema.clone(),
            properties: properties.clone(),
            rows: 0,
        }
    }

    /// Encodes `rows` rows from the builders.
    ///
    /// # Errors
    /// If the rows cannot be encoded.
    pub(crate) fn encode(&mut self, builders: &mut [Builder], rows: usize) -> Result<()> {
        let columns = self.columns.iter_mut().zip(self.schema.columns());
        for (builder, (column, descriptor)) in builders.iter_mut().zip(columns) {
            if builder.has_different_values() {
                let (writer, _) = column.get_or_insert_with(|| {
                    let pages = Pages::default();
                    let to = Box::new(pages.clone());
                    let properties = match builder.is_mostly_distinct() {
                        true => &self.properties.without_dictionary,
                        false => &self.properties.with_dictionary,
                    };
                    let writer = get_column_writer(descriptor.clone(), properties.clone(), to);
                    (writer, pages)
                });
                builder.write_to(writer)?;
            }
        }
        self.rows += rows;
        Ok(())
    }

    /// Returns the number of encoded and compressed bytes, without those of the current page and dictionary.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.columns.iter().flatten();
        columns.map(|(_, pages)| pages.bytes()).sum()
    }

    /// Writes the group to the file. The builders, whose rows were all taken, begin the next group.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn end<W: Write + Send>(
        self,
        builders: &mut [Builder],
        file: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        let mut group = file.next_row_group()?;
        let columns = self.columns.into_iter().zip(self.schema.columns());
        for (builder, (column, descriptor)) in builders.iter_mut().zip(columns) {
            match (builder.constant(), column) {
                (Some(constant), None) => {
                    let (pages, closed) = constant_column::encode(descriptor, &constant)?;
                    group.append_column(&pages, closed)?;
                }
                (_, Some((writer, pages))) => {
                    let closed = writer.close()?;
                    group.append_column(&pages.take()?, closed)?;
                }
                (None, None) => unreachable!("what is parted was taken"),
            }
            builder.begin_group();
        }
        group.close()?;
        Ok(())
    }
}

/// Pages of a column in memory, shared by the encoder and the row group.
#[derive(Clone)]
struct Pages(Arc<Mutex<TrackedWrite<Vec<u8>>>>);

impl Default for Pages {
    fn default() -> Self {
        Pages(Arc::new(Mutex::new(TrackedWrite::new(Vec::new()))))
    }
}

impl Pages {
    fn with<T>(&self, work: impl FnOnce(&mut TrackedWrite<Vec<u8>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn bytes(&self) -> usize {
        self.with(|pages| pages.bytes_written())
    }

    fn take(&self) -> Result<Bytes> {
        let pages = self.with(|pages| std::mem::replace(pages, TrackedWrite::new(Vec::new())));
        pages.into_inner().map(Bytes::from)
    }
}

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        self.with(|pages| SerializedPageWriter::new(pages).write_page(page))
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
