//! A row group while it is gathered.
//!
//! Rows come with all their columns, and Parquet wants a column after the other: so each column is
//! encoded and compressed into memory, and goes into the file when the group ends. A column that has had nothing but
//! nulls is not even begun before that.

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
    columns: Vec<Encoded>,
    schema: Arc<SchemaDescriptor>,
    properties: Properties,
    /// Rows that it has.
    pub(crate) rows: usize,
}

/// How columns are encoded.
#[derive(Clone)]
pub(crate) struct Properties {
    pub(crate) usual: WriterPropertiesPtr,
    /// As the usual ones but for the compression, of which there is none: making what compresses takes longer than
    /// a column of nothing.
    pub(crate) of_nulls: WriterPropertiesPtr,
}

/// A column of a row group. Many hold nothing at all, and nothing is made for those until they end.
enum Encoded {
    Nulls(usize),
    Values(ColumnWriter<'static>, Pages),
}

impl Encoded {
    fn begin(
        descriptor: &ColumnDescPtr,
        properties: &WriterPropertiesPtr,
    ) -> (ColumnWriter<'static>, Pages) {
        let pages = Pages::default();
        let to = Box::new(pages.clone());
        let writer = get_column_writer(descriptor.clone(), properties.clone(), to);
        (writer, pages)
    }
}

impl RowGroup {
    /// One without rows.
    pub(crate) fn begin(schema: &Arc<SchemaDescriptor>, properties: &Properties) -> Self {
        RowGroup {
            columns: schema.columns().iter().map(|_| Encoded::Nulls(0)).collect(),
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
            match column {
                Encoded::Values(writer, _) => builder.write_to(writer)?,
                Encoded::Nulls(nulls) => match builder.only_nulls() {
                    Some(more) => {
                        *nulls += more;
                        builder.forget_nulls();
                    }
                    None => {
                        let (mut writer, pages) =
                            Encoded::begin(descriptor, &self.properties.usual);
                        builder.put_nulls_before(*nulls);
                        builder.write_to(&mut writer)?;
                        *column = Encoded::Values(writer, pages);
                    }
                },
            }
        }
        self.rows += rows;
        Ok(())
    }

    /// Bytes of it that are encoded and compressed: all but what a page or a dictionary still gathers.
    pub(crate) fn bytes(&self) -> usize {
        let of = |column: &Encoded| match column {
            Encoded::Nulls(_) => 0,
            Encoded::Values(_, pages) => pages.bytes(),
        };
        self.columns.iter().map(of).sum()
    }

    /// Ends it in the file. `builders` are those of its columns, empty.
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
            let (writer, pages) = match column {
                Encoded::Values(writer, pages) => (writer, pages),
                Encoded::Nulls(nulls) => {
                    let (mut writer, pages) = Encoded::begin(descriptor, &self.properties.of_nulls);
                    builder.put_nulls_before(nulls);
                    builder.write_to(&mut writer)?;
                    (writer, pages)
                }
            };
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
