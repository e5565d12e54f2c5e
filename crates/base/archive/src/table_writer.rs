//! Rows become Parquet files.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use crate::builder::Builder;
use crate::column::{Column, ColumnType, schema};
use crate::directory::create_private;
use crate::encryption::{Encryption, SUFFIX};
use crate::error::ArchiveError;
use crate::manifest::FileEntry;
use crate::output_file::OutputFile;
use crate::recover;
use crate::row_group::{Properties, RowGroup};

/// Rows are handed to Parquet in batches of at most this many rows …
const BATCH_ROWS_MAX: usize = 1_024;
/// … or about this many bytes of text, whichever comes first.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// A row group ends when its encoded size reaches this, however few its rows: it is what a
/// recovery can lose, and what a reader of one group holds.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// The lowest level: measured on SQL text, level 3 saves a few percent for twice the CPU.
const ZSTD_LEVEL: i32 = 1;

/// How a table is cut into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// One file, `NAME.parquet`.
    One,
    /// `NAME-00000.parquet` and on, each with at most this many rows, and fewer where the table is
    /// flushed often.
    Rows(u64),
}

/// The most row groups in one of several files: one that is flushed often has small ones.
const GROUPS_IN_A_PART_MAX: usize = 128;

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// How it is cut into files.
    pub parts: Parts,
    /// Rows in a row group at most.
    pub group_rows: usize,
}

/// A table that is being written. Rows are given column by column, in the columns' order, and
/// closed with [`TableWriter::end_row`].
pub struct TableWriter {
    directory: PathBuf,
    name: &'static str,
    columns: &'static [Column],
    options: TableOptions,
    encryption: Option<Encryption>,
    schema: Arc<SchemaDescriptor>,
    properties: Properties,
    builders: Vec<Builder>,
    next_column: usize,
    repeated: Repeated,
    batch_rows: usize,
    batch_bytes: usize,
    part: Option<Part>,
    first_part: u32,
    files: Vec<FileEntry>,
}

/// Columns whose last values were had again, and how often: it is made up for when they have others, or the batch
/// ends.
#[derive(Default)]
struct Repeated {
    columns: Range<usize>,
    rows: usize,
}

struct Part {
    path: PathBuf,
    writer: SerializedFileWriter<OutputFile>,
    /// The row group that is being gathered, once it has rows.
    group: Option<RowGroup>,
    rows: u64,
    groups_saved: usize,
}

impl TableWriter {
    pub(crate) fn create(
        directory: &Path,
        name: &'static str,
        columns: &'static [Column],
        options: TableOptions,
        encryption: Option<Encryption>,
    ) -> Result<Self, ArchiveError> {
        Ok(TableWriter {
            encryption,
            directory: directory.to_owned(),
            name,
            columns,
            options,
            schema: Arc::new(SchemaDescriptor::new(schema(columns))),
            properties: Properties {
                usual: Arc::new(properties(columns, true)),
                of_differing: Arc::new(properties(columns, false)),
            },
            builders: columns.iter().map(Builder::new).collect(),
            next_column: 0,
            repeated: Repeated::default(),
            batch_rows: 0,
            batch_bytes: 0,
            part: None,
            first_part: 0,
            files: Vec::new(),
        })
    }

    /// Numbers the parts from `first` on: for a table that replaces parts of another writing.
    pub fn number_parts_from(mut self, first: u32) -> Self {
        self.first_part = first;
        self
    }

    /// The number that the next part would get.
    pub fn next_part(&self) -> u32 {
        self.first_part + self.files.len() as u32 + u32::from(self.part.is_some())
    }

    /// Gives the row's next column.
    #[inline]
    pub fn u64(&mut self, value: impl Into<Option<u64>>) {
        let value = value.into().map(u64::cast_signed);
        self.builder().wide(ColumnType::U64, value);
    }

    /// Gives the row's next column.
    #[inline]
    pub fn i64(&mut self, value: impl Into<Option<i64>>) {
        self.builder().wide(ColumnType::I64, value.into());
    }

    /// Gives the row's next column.
    #[inline]
    pub fn u32(&mut self, value: impl Into<Option<u32>>) {
        self.builder().narrow(value.into());
    }

    /// Gives the row's next column.
    #[inline]
    pub fn f64(&mut self, value: impl Into<Option<f64>>) {
        self.builder().fraction(value.into());
    }

    /// Gives the row's next column.
    #[inline]
    pub fn bool(&mut self, value: impl Into<Option<bool>>) {
        self.builder().flag(value.into());
    }

    /// Gives the row's next column.
    #[inline]
    pub fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) {
        let value = value.into();
        self.batch_bytes += value.map_or(0, str::len);
        self.builder()
            .bytes(ColumnType::Text, value.map(str::as_bytes));
    }

    /// Gives the row's next column: a text of the program's own, which it need not copy.
    #[inline]
    pub fn name(&mut self, value: impl Into<Option<&'static str>>) {
        self.builder().name(value.into());
    }

    /// The row's next `columns` columns are as in the row before; `false`, and nothing is given, where that cannot be
    /// done: at the beginning of a batch.
    #[inline]
    pub fn same_as_before(&mut self, columns: usize) -> bool {
        let columns = self.next_column..self.next_column + columns;
        if self.repeated.columns != columns {
            self.make_up_for_repeated();
        }
        if self.batch_rows == 0 {
            return false;
        }
        self.next_column = columns.end;
        self.repeated.columns = columns;
        self.repeated.rows += 1;
        true
    }

    fn make_up_for_repeated(&mut self) {
        let Repeated { columns, rows } = std::mem::take(&mut self.repeated);
        if rows > 0 {
            for builder in &mut self.builders[columns] {
                builder.repeat_last(rows);
            }
        }
    }

    /// Gives the row's next column: a list, or null.
    pub fn text_list<'a>(&mut self, values: Option<impl Iterator<Item = Option<&'a str>>>) {
        let values = values.map(|values| values.map(|value| value.map(str::as_bytes)));
        self.batch_bytes += self.builder().bytes_list(ColumnType::TextList, values);
    }

    /// Gives the row's next column.
    #[inline]
    pub fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) {
        let value = value.into();
        self.batch_bytes += value.map_or(0, <[u8]>::len);
        self.builder().bytes(ColumnType::Bytes, value);
    }

    /// Gives the row's next column: a list, or null.
    pub fn bytes_list<'a>(&mut self, values: Option<impl Iterator<Item = Option<&'a [u8]>>>) {
        self.batch_bytes += self.builder().bytes_list(ColumnType::BytesList, values);
    }

    /// Gives the row's next column: a list, or null.
    pub fn u32_list(&mut self, values: Option<impl Iterator<Item = u32>>) {
        self.builder().narrow_list(values);
    }

    /// The columns of a row.
    pub fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Ends the row.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn end_row(&mut self) -> Result<(), ArchiveError> {
        assert_eq!(
            self.next_column,
            self.columns.len(),
            "a row of table {} has every column",
            self.name
        );
        self.next_column = 0;
        self.batch_rows += 1;
        let rows_before = self.part.as_ref().map_or(0, |part| part.rows);
        let part_full = matches!(self.options.parts,
            Parts::Rows(most) if rows_before + self.batch_rows as u64 >= most);
        let group = self.part.as_ref().and_then(|part| part.group.as_ref());
        let group_rows = group.map_or(0, |group| group.rows) + self.batch_rows;
        if part_full
            || self.batch_rows >= BATCH_ROWS_MAX
            || self.batch_bytes >= BATCH_BYTES_MAX
            || group_rows >= self.options.group_rows
        {
            self.write_batch()?;
        }
        if part_full {
            self.close_part()?;
        }
        Ok(())
    }

    /// Ends the row group, so that all rows so far survive a kill of this process.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.write_batch()?;
        if let Some(part) = &mut self.part {
            part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
            // What is known of its row groups is held until a file is closed.
            let is_cut = matches!(self.options.parts, Parts::Rows(_));
            if is_cut && part.writer.flushed_row_groups().len() >= GROUPS_IN_A_PART_MAX {
                self.close_part()?;
            }
        }
        Ok(())
    }

    /// Ends the table: its files, in order. A table without rows has one empty file.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn finish(mut self) -> Result<Vec<FileEntry>, ArchiveError> {
        self.write_batch()?;
        if self.files.is_empty() && self.part.is_none() {
            self.open_part()?;
        }
        self.close_part()?;
        Ok(std::mem::take(&mut self.files))
    }

    /// The files that are complete so far, in order.
    pub fn complete_files(&self) -> &[FileEntry] {
        &self.files
    }

    #[inline]
    fn builder(&mut self) -> &mut Builder {
        if self.repeated.rows > 0 && self.repeated.columns.contains(&self.next_column) {
            self.make_up_for_repeated();
        }
        let builder = &mut self.builders[self.next_column];
        self.next_column += 1;
        builder
    }

    fn write_batch(&mut self) -> Result<(), ArchiveError> {
        if self.batch_rows == 0 {
            return Ok(());
        }
        self.make_up_for_repeated();
        self.open_part()?;
        let part = self.part.as_mut().expect("just opened");
        part.rows += self.batch_rows as u64;
        let group = part
            .group
            .get_or_insert_with(|| RowGroup::begin(&self.schema, &self.properties));
        group
            .take(&mut self.builders, self.batch_rows)
            .map_err(|error| ArchiveError::writing(&part.path, error))?;
        if group.rows >= self.options.group_rows || group.bytes() >= GROUP_BYTES_MAX {
            part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
        }
        self.batch_rows = 0;
        self.batch_bytes = 0;
        Ok(())
    }

    fn open_part(&mut self) -> Result<(), ArchiveError> {
        if self.part.is_some() {
            return Ok(());
        }
        let mut file_name = match self.options.parts {
            Parts::One => format!("{}.parquet", self.name),
            Parts::Rows(_) => format!("{}-{:05}.parquet", self.name, self.next_part()),
        };
        if self.encryption.is_some() {
            file_name.push_str(SUFFIX);
        }
        let path = self.directory.join(file_name);
        let file = OutputFile::begin(create_private(&path)?, self.encryption.as_ref())
            .map_err(|error| ArchiveError::io("write", &path, error))?;
        let root = self.schema.root_schema_ptr();
        let writer = SerializedFileWriter::new(file, root, self.properties.usual.clone())
            .map_err(|error| ArchiveError::writing(&path, error))?;
        self.part = Some(Part {
            path,
            writer,
            group: None,
            rows: 0,
            groups_saved: 0,
        });
        Ok(())
    }

    fn close_part(&mut self) -> Result<(), ArchiveError> {
        let Some(mut part) = self.part.take() else {
            return Ok(());
        };
        if let Some(group) = part.group.take() {
            group
                .end(&mut self.builders, &mut part.writer)
                .map_err(|error| ArchiveError::writing(&part.path, error))?;
        }
        part.writer
            .finish()
            .and_then(|_| part.writer.flush().map_err(Into::into))
            .map_err(|error| ArchiveError::writing(&part.path, error))?;
        let (bytes, sha256) = part
            .writer
            .inner_mut()
            .finish()
            .map_err(|error| ArchiveError::io("sync", &part.path, error))?;
        let footer = recover::footer_path(&part.path);
        if part.groups_saved > 0 {
            fs::remove_file(&footer).map_err(|error| ArchiveError::io("remove", &footer, error))?;
        }
        self.files.push(FileEntry {
            name: part
                .path
                .file_name()
                .expect("a part has a name")
                .to_string_lossy()
                .into_owned(),
            table: self.name.to_owned(),
            rows: part.rows,
            bytes,
            sha256,
        });
        Ok(())
    }
}

impl Part {
    /// Ends the row group, if there is one, and keeps a footer for those that are on disk beside the
    /// file, for a recovery.
    fn end_group(
        &mut self,
        schema: &Arc<SchemaDescriptor>,
        builders: &mut [Builder],
        encryption: Option<&Encryption>,
    ) -> Result<(), ArchiveError> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        group
            .end(builders, &mut self.writer)
            .map_err(|error| ArchiveError::writing(&self.path, error))?;
        self.writer
            .flush()
            .map_err(|error| ArchiveError::io("write", &self.path, error))?;
        let groups = self.writer.flushed_row_groups().to_vec();
        self.groups_saved = groups.len();
        recover::save_footer(&self.path, schema, groups, self.writer.inner(), encryption)
    }
}

/// What is small as it is, is not compressed: that takes longer than writing it. Numbers are kept as differences unless they repeat; texts are numbered as long as they are few, if at all;
/// the values of lists are nearly all different, and kept as they are. Texts need no statistics:
/// nobody seeks by them.
fn properties(columns: &[Column], numbers_texts: bool) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a valid level");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        // Nobody looks for a page.
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in columns {
        let path = column.path();
        if column.few || column.kind == ColumnType::Bool {
            let none = Compression::UNCOMPRESSED;
            properties = properties.set_column_compression(path.clone(), none);
        }
        properties = match column.kind {
            ColumnType::U64 | ColumnType::I64 | ColumnType::U32 if !column.repeating => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            ColumnType::Text => properties
                .set_column_dictionary_enabled(path.clone(), numbers_texts)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            ColumnType::Bytes | ColumnType::TextList | ColumnType::BytesList => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            _ => properties,
        };
    }
    properties.build()
}
