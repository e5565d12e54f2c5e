//! Copies of the data that a query planner reads, without the rows.
//!
//! A planner needs the schema, the sizes of relations, statistics of columns, and settings. [`export()`] reads them from
//! a server into one file ([`PlannerExport`]). [`PlannerServer`] is a private server, of any supported major version,
//! that plans with them: its relations are empty, but their files have the exported number of blocks.
//!
//! ```text
//! server ─► export ─► NAME.planner ─► PlannerServer (schema, statistics, change, sizes) ─► EXPLAIN
//! ```
//!
//! Sources of what the planner reads: `estimate_rel_size` and `get_relation_info` in `plancat.c`, `selfuncs.c`,
//! `pg_statistic` (PostgreSQL documentation, 51.51), of the versions 10 to 18.

#![forbid(unsafe_code)]

mod array_text;
mod btree_pages;
mod definition_text;
mod document;
mod error;
mod export;
mod exporter;
mod index_ends;
mod index_keys;
mod mask_statistics;
mod metapages;
mod not_restored;
mod object_queries;
mod perturb;
mod planner_server;
mod quoting;
mod range_text;
mod relation_files;
mod restore_combinations;
mod restore_connections;
mod restore_objects;
mod restore_ranges;
mod restore_sizes;
mod restore_statistics;
mod setting_queries;
mod setting_values;
mod statistics_queries;
mod visible_statistics;

pub use document::{
    ColumnStatistics, Combination, DatabaseLocale, ExtendedStatistics, FORMAT, NotExported,
    PlannerExport, RelationSize, RoleFacts, RoleSetting, SchemaObject, ServerSetting,
    StatisticsSlot,
};
pub use error::PlannerCopyError;
pub use export::export;
pub use mask_statistics::ValueMask;
pub use not_restored::NotRestored;
pub use planner_server::{CopyRequest, PlannerServer};
pub use quoting::{quote_identifier, quote_literal};
pub use restore_connections::OWNER;
pub use restore_objects::{REACHING_EXTENSIONS, quote_setting};
pub use restore_sizes::CreatedTable;
pub use setting_values::assigned_value;
