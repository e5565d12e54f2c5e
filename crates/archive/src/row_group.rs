//! A row group while it is gathered.
//!
//! Rows come with all their columns, and Parquet wants a column after the other: so each column is
//! encoded and compressed into memory, and goes into the file when the group ends.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::builder::Builder;

/// The columns of a row group, encoded as far as they are.
pub(crate) struct RowGroup {
    columns: Vec<(ColumnWriter<'static>, Pages)>,
    /// Rows that it has.
    pub(crate) rows: usize,
}

impl RowGroup {
    /// One without rows.
    pub(crate) fn begin(schema: &SchemaDescriptor, properties: &WriterPropertiesPtr) -> Self {
        let column = |descriptor: &ColumnDescPtr| {
            let pages = Pages::default();
            let to = Box::new(pages.clone());
            let writer = get_column_writer(descriptor.clone(), properties.clone(), to);
            (writer, pages)
        };
        RowGroup {
            columns: schema.columns().iter().map(column).collect(),
            rows: 0,
        }
    }

    /// Takes what was gathered of `rows` rows.
    ///
    /// # Errors
    /// Where it cannot be encoded.
    pub(crate) fn take(&mut self, builders: &mut [Builder], rows: usize) -> Result<()> {
        for (builder, (writer, _)) in builders.iter_mut().zip(&mut self.columns) {
            builder.write_to(writer)?;
        }
        self.rows += rows;
        Ok(())
    }

    /// Bytes of it that are encoded and compressed: all but what a page or a dictionary still gathers.
    pub(crate) fn bytes(&self) -> usize {
        let of = |(_, pages): &(_, Pages)| pages.bytes();
        self.columns.iter().map(of).sum()
    }

    /// Ends it in the file.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub(crate) fn end<W: Write + Send>(self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        for (writer, pages) in self.columns {
            let closed = writer.close()?;
            group.append_column(&pages.take()?, closed)?;
        }
        group.close()?;
        Ok(())
    }
}

/// A column's pages in memory, shared by what writes them and by the group that takes them.
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
