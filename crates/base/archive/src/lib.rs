//! A directory with a manifest and Parquet tables, written whole or not at all.
//!
//! Both artefacts of the house are archives. While one is being written it is called
//! `NAME.partial`; when every table is closed, the manifest written and all of it synced, it is
//! renamed. What lies under its own name is therefore complete, and what ends in `.partial` is
//! recognised as unfinished and can be recovered up to its last row group ([`recover_tables`]).
//!
//! Who drives: the crates `workload` and `run` define tables and push rows; nothing else writes
//! archives. This is the only crate that uses parquet, so that a change of its version ends here. Files are created readable by their owner alone: SQL holds secrets.
//!
//! Deliberately absent: any knowledge of what the columns mean, and any query: the files are
//! Parquet, so that DuckDB, Spark, Polars and ClickHouse read them as they are.

mod alike;
mod builder;
mod column;
mod content;
mod decoded;
mod directory;
mod encryption;
mod error;
mod manifest;
mod open;
mod output_file;
mod recover;
mod row_group;
mod table_reader;
mod table_writer;
mod values;

pub use column::{Column, ColumnType};
pub use directory::{ArchiveWriter, OnFailure, partial_path};
pub use encryption::{
    Identity, KeyError, Keyring, Recipient, key_file, parse_identities, parse_recipients,
};
pub use error::{ArchiveError, Unfinished};
pub use manifest::{EncryptionNote, FileEntry, Manifest};
pub use open::Archive;
pub use recover::{Unended, recover_tables, unfinished_body};
pub use table_reader::{Batch, TableReader};
pub use table_writer::{Parts, TableOptions, TableWriter};
