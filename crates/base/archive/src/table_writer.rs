//! Writes rows to Parquet files.

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
use crate::encryption::{Encryption, SUFFIX};
use crate::error::ArchiveError;
use crate::manifest::FileEntry;
use crate::output_file::OutputFile;
use crate::private_file::create_private;
use crate::recover;
use crate::row_group::{Properties, RowGroup};

/// Maximum rows of a batch that is passed to Parquet …
const BATCH_ROWS_MAX: usize = 1_024;
/// … or its approximate bytes of text, whichever comes first.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Encoded size at which a row group ends, regardless of its rows. It limits the data that a recovery can
/// lose, and the memory of a reader.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// Lowest compression level. Measured on SQL text, level 3 saves a few percent for twice the CPU time.
const ZSTD_LEVEL: i32 = 1;

/// Division of a table into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// One file, `NAME.parquet`.
    One,
    /// `NAME-00000.parquet` and so on, each with at most this many rows. Frequent flushes make smaller files.
    Rows(u64),
}

/// Maximum number of row groups in one of several files. Frequent flushes make small row groups.
const GROUPS_IN_A_PART_MAX: usize = 128;

/// Layout of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// Division into files.
    pub parts: Parts,
    /// Maximum rows of a row group.
    pub group_rows: usize,
}

/// A table that is being written. Each row is passed column by column, in the order of the columns, and ended
/// with [`TableWriter::end_row`].
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
    repeated: RepeatedColumns,
    batch_rows: usize,
    batch_bytes: usize,
    part: Option<Part>,
    first_part: u32,
    files: Vec<FileEntry>,
}

/// Columns whose last values are repeated, and the number of repetitions. They are added when other columns
/// are repeated, or the batch ends.
#[derive(Default)]
struct RepeatedColumns {
    columns: Range<usize>,
    rows: usize,
}

struct Part {
    path: PathBuf,
    writer: SerializedFileWriter<OutputFile>,
    /// Current row group, once it has rows.
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
                with_dictionary: Arc::new(writer_properties(columns, true)),
                without_dictionary: Arc::new(writer_properties(columns, false)),
            },
            builders: columns.iter().map(Builder::new).collect(),
            next_column: 0,
            repeated: RepeatedColumns::default(),
            batch_rows: 0,
            batch_bytes: 0,
            part: None,
            first_part: 0,
            files: Vec::new(),
        })
    }

    /// Numbers the parts from `first` on, for a table that replaces parts of another table.
    pub fn number_parts_from(mut self, first: u32) -> Self {
        self.first_part = first;
        self
    }

    /// Returns the number of the next part.
    pub fn next_part(&self) -> u32 {
        self.first_part + self.files.len() as u32 + u32::from(self.part.is_some())
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
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), ArchiveError> {
        self.write_batch()?;
        if let Some(part) = &mut self.part {
            part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
            // Metadata of the row groups stays in memory until a file is closed.
            let is_cut = matches!(self.options.parts, Parts::Rows(_));
            if is_cut && part.writer.flushed_row_groups().len() >= GROUPS_IN_A_PART_MAX {
                self.close_part()?;
            }
        }
        Ok(())
    }

    /// Ends the table and returns its files, in order. A table without rows has one empty file.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self) -> Result<Vec<FileEntry>, ArchiveError> {
        self.write_batch()?;
        if self.files.is_empty() && self.part.is_none() {
            self.open_part()?;
        }
        self.close_part()?;
        Ok(std::mem::take(&mut self.files))
    }

    /// Returns the complete files so far, in order.
    pub fn complete_files(&self) -> &[FileEntry] {
        &self.files
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
        self.open_part()?;
        let part = self.part.as_mut().expect("just opened");
        part.rows += self.batch_rows as u64;
        let group = part
            .group
            .get_or_insert_with(|| RowGroup::begin(&self.schema, &self.properties));
        group
            .encode(&mut self.builders, self.batch_rows)
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
        let writer = SerializedFileWriter::new(file, root, self.properties.with_dictionary.clone())
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
    /// Ends the row group, if there is one. Saves a footer for the row groups on disk, for a recovery.
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

/// Returns the encoding options of the columns. Low-cardinality texts and booleans are not compressed, since
/// that takes longer than writing them. Numbers are delta-encoded unless they repeat. Texts use a dictionary,
/// if at all, while it is small. Values of lists are nearly all distinct and stored plainly. Texts need no
/// statistics, since no query searches by them.
fn writer_properties(columns: &[Column], has_text_dictionary: bool) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).expect("a valid level");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        // No reader seeks to a page.
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in columns {
        let path = column.path();
        let has_few_texts = column.kind == ColumnType::Text && column.is_low_cardinality();
        if has_few_texts || column.kind == ColumnType::Bool {
            let none = Compression::UNCOMPRESSED;
            properties = properties.set_column_compression(path.clone(), none);
        }
        properties = match column.kind {
            ColumnType::U64 | ColumnType::I64 | ColumnType::U32 if !column.is_low_cardinality() => {
                properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            ColumnType::Text => properties
                .set_column_dictionary_enabled(path.clone(), has_text_dictionary)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            ColumnType::Bytes | ColumnType::TextList | ColumnType::BytesList => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            _ => properties,
        };
    }
    properties.build()
}
