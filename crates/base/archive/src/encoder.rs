//! Encodes batches of rows into row groups, and writes those into the files of a table.

use std::fs;
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

/// Encoded size at which a row group ends, regardless of its rows. It limits the data that a recovery can
/// lose, and the memory of a reader.
const GROUP_BYTES_MAX: usize = 32 << 20;
/// Lowest compression level. Measured on SQL text, level 3 saves a few percent for twice the CPU time.
const ZSTD_LEVEL: i32 = 1;
/// Maximum number of row groups in one of several files. Frequent flushes make small row groups.
const GROUPS_IN_A_PART_MAX: usize = 128;

/// Division of a table into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// One file, `NAME.parquet`.
    One,
    /// `NAME-00000.parquet` and so on, each with at most this many rows. Frequent flushes make smaller files.
    Rows(u64),
}

/// Layout of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// Division into files.
    pub parts: Parts,
    /// Maximum rows of a row group.
    pub group_rows: usize,
}

/// The files of a table that is being written.
pub(crate) struct Encoder {
    directory: PathBuf,
    name: &'static str,
    options: TableOptions,
    encryption: Option<Encryption>,
    schema: Arc<SchemaDescriptor>,
    properties: Properties,
    /// Values of the row group that are not encoded yet.
    builders: Vec<Builder>,
    part: Option<Part>,
    /// Number of the first part.
    pub(crate) first_part: u32,
    files: Vec<FileEntry>,
}

struct Part {
    path: PathBuf,
    writer: SerializedFileWriter<OutputFile>,
    /// Current row group, once it has rows.
    group: Option<RowGroup>,
    rows: u64,
    groups_saved: usize,
}

impl Encoder {
    pub(crate) fn new(
        directory: PathBuf,
        name: &'static str,
        columns: &'static [Column],
        options: TableOptions,
        encryption: Option<Encryption>,
    ) -> Self {
        Encoder {
            directory,
            name,
            options,
            encryption,
            schema: Arc::new(SchemaDescriptor::new(schema(columns))),
            properties: Properties {
                with_dictionary: Arc::new(writer_properties(columns, true)),
                without_dictionary: Arc::new(writer_properties(columns, false)),
            },
            builders: columns.iter().map(Builder::new).collect(),
            part: None,
            first_part: 0,
            files: Vec::new(),
        }
    }

    /// Returns the directory of the files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn next_part(&self) -> u32 {
        self.first_part + self.files.len() as u32
    }

    /// Encodes the rows of a batch, at most as many as a row group has. Leaves the batch empty.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn encode(
        &mut self,
        batch: &mut [Builder],
        rows: usize,
    ) -> Result<(), ArchiveError> {
        self.open_part()?;
        let part = self.part.as_mut().expect("just opened");
        let has_room =
            (part.group.as_ref()).is_none_or(|group| group.rows + rows <= self.options.group_rows);
        if !has_room {
            part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
        }
        for (collected, new) in self.builders.iter_mut().zip(batch) {
            collected.absorb(new);
        }
        part.rows += rows as u64;
        let group = part
            .group
            .get_or_insert_with(|| RowGroup::begin(&self.schema, &self.properties));
        group
            .encode(&mut self.builders, rows)
            .map_err(|error| ArchiveError::writing(&part.path, error))?;
        if group.rows >= self.options.group_rows || group.bytes() >= GROUP_BYTES_MAX {
            part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
        }
        Ok(())
    }

    /// Ends the row group. Returns whether that ended its file, too.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn flush(&mut self) -> Result<bool, ArchiveError> {
        let Some(part) = &mut self.part else {
            return Ok(false);
        };
        part.end_group(&self.schema, &mut self.builders, self.encryption.as_ref())?;
        // Metadata of the row groups stays in memory until a file is closed.
        let is_cut = matches!(self.options.parts, Parts::Rows(_))
            && part.writer.flushed_row_groups().len() >= GROUPS_IN_A_PART_MAX;
        if is_cut {
            self.close_part()?;
        }
        Ok(is_cut)
    }

    /// Ends the table, and returns its files in order.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn finish(mut self) -> Result<Vec<FileEntry>, ArchiveError> {
        if self.files.is_empty() {
            self.open_part()?;
        }
        self.close_part()?;
        Ok(self.files)
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

    /// Ends the current file, if there is one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn close_part(&mut self) -> Result<(), ArchiveError> {
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
