//! A directory with a manifest and Parquet tables, written completely or not at all.
//!
//! Workloads and runs are archives. An archive that is being written is called `NAME.partial`. When every
//! table is closed, the manifest is written and all files are synced, it is renamed. So an archive under its
//! own name is complete. A `.partial` is unfinished and can be recovered up to its last row group
//! ([`recover_tables`]).
//!
//! The crates `workload` and `run` define the tables and push rows; nothing else writes archives. Only this
//! crate uses parquet, so a new version of parquet affects no other crate. Files are readable by their owner
//! alone, since SQL holds secrets.
//!
//! The meaning of columns is left to the callers. Queries are left to programs that read Parquet, such as
//! DuckDB, Spark, Polars and ClickHouse.

mod builder;
mod checked_pages;
mod column;
mod constant_column;
mod content;
mod decoded;
mod decoder_panic;
mod destination;
mod directory;
mod encoder;
mod encoder_thread;
mod encryption;
mod error;
mod growing_table;
mod integrity;
mod lock;
mod manifest;
mod open;
mod output_file;
mod private_file;
mod recover;
mod row_group;
mod small_file;
mod stored_file;
mod table_reader;
mod table_writer;
mod values;

pub use column::{Column, ColumnType};
pub use destination::{archive_exists, find_not_uploaded, is_name_taken, partial_path, upload};
pub use directory::{ArchiveWriter, OnFailure, sync_parent};
pub use encoder::{Parts, TableOptions};
pub use encryption::{
    Identity, KeyError, Keyring, Recipient, key_file, parse_identities, parse_recipients,
};
pub use error::{ArchiveError, UnfinishedDirectory};
pub use growing_table::{GrowingTable, growing_body, is_growing};
pub use lock::DirectoryLock;
pub use manifest::{EncryptionNote, FileEntry, Manifest, SeriesMember};
pub use object_storage::is_object_url;
pub use open::Archive;
pub use private_file::create_private;
pub use recover::{UnfinishedArchive, recover_tables, unfinished_body};
pub use small_file::{create_small_file, find_small_file, read_small_file, write_small_file};
pub use table_reader::{Batch, TableReader};
pub use table_writer::TableWriter;
