//! A row group while it is gathered.
//!
//! Rows come with all their columns, and Parquet wants a column after the other: so each column is
//! encoded and compressed into memory, and goes into the file when the group ends. A column whose rows all have
//! the same is not even begun before that.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescriptor;

use crate::alike;
use crate::builder::Builder;

/// The columns of a row group, encoded as far as they are.
pub(crate) struct RowGroup {
    /// `None` as long as all rows have the same: the column's builder knows it.
    columns: Vec<Option<(ColumnWriter<'static>, Pages)>>,
    schema: Arc<SchemaDescriptor>,
    properties: Properties,
    /// Rows that it has.
    pub(crate) rows: usize,
}

/// How columns are encoded.
#[derive(Clone)]
pub(crate) struct Properties {
    pub(crate) usual: WriterPropertiesPtr,
    /// Texts are kept as they are, and not numbered.
    pub(crate) of_differing: WriterPropertiesPtr,
}

impl RowGroup {
    /// One without rows.
    pub(crate) fn begin(schema: &Arc<SchemaDescriptor>, properties: &Properties) -> Self {
        RowGroup {
            columns: schema.columns().iter().map(|_| None).collect(),
            schema: schema.clone(),
            properties: properties.clone(),
            rows: 0,
        }
    }

    /// Takes what was gathered of `rows` rows.
    ///
    /// # Errors
    /// Where it cannot be encoded.
    pub(crate) fn take(&mut self, builders: &mut [Builder], rows: usize) -> Result<()> {
        let columns = self.columns.iter_mut().zip(self.schema.columns());
        for (builder, (column, descriptor)) in builders.iter_mut().zip(columns) {
            if builder.is_parted() {
                let (writer, _) = column.get_or_insert_with(|| {
                    let pages = Pages::default();
                    let to = Box::new(pages.clone());
                    let properties = match builder.differs() {
                        true => &self.properties.of_differing,
                        false => &self.properties.usual,
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

    /// Bytes of it that are encoded and compressed: all but what a page or a dictionary still gathers.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.columns.iter().flatten();
        columns.map(|(_, pages)| pages.bytes()).sum()
    }

    /// Ends it in the file. Its rows were all taken from the builders, which begin another.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub(crate) fn end<W: Write + Send>(
        self,
        builders: &mut [Builder],
        file: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        let mut group = file.next_row_group()?;
        let columns = self.columns.into_iter().zip(self.schema.columns());
        for (builder, (column, descriptor)) in builders.iter_mut().zip(columns) {
            match (builder.alike(), column) {
                (Some(alike), None) => {
                    let (pages, closed) = alike::chunk(descriptor, &alike)?;
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
