//! File of an export: JSON, compressed with zstd.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::PlannerCopyError;

/// Name and version of the format. A reader refuses others.
pub const FORMAT: &str = "rehearse/planner/2";
/// Largest size of an export after decompression, in bytes.
const JSON_BYTES_MAX: u64 = 4 << 30;
const COMPRESSION_LEVEL: i32 = 6;

/// Data of one database that the planner reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannerExport {
    /// [`FORMAT`].
    pub format: String,
    /// Version of the server as it reports it, such as `15.8`.
    pub server_version: String,
    /// Version as a number (`server_version_num`).
    pub version_number: u32,
    /// Database.
    pub database: String,
    /// Time of the export on the server's clock, in ISO 8601.
    pub exported_at: String,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Encoding and locale.
    pub locale: DatabaseLocale,
    /// Settings of the server that affect planning or the reading of values, and are not defaults.
    pub settings: Vec<ServerSetting>,
    /// The same of databases and roles (`ALTER DATABASE`, `ALTER ROLE`).
    pub role_settings: Vec<RoleSetting>,
    /// Roles.
    pub roles: Vec<RoleFacts>,
    /// Objects of the schema, in an order in which most can be created.
    pub objects: Vec<SchemaObject>,
    /// Sizes of tables, materialized views and indexes.
    pub relations: Vec<RelationSize>,
    /// Statistics of columns.
    pub statistics: Vec<ColumnStatistics>,
    /// Data of extended statistics.
    pub extended_statistics: Vec<ExtendedStatistics>,
    /// Fingerprint of the key with which the values in statistics are masked; `None` if they are not.
    #[serde(default)]
    pub mask_key: Option<String>,
    /// Parts that could not be exported.
    pub not_exported: Vec<NotExported>,
}

/// Encoding and locale of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseLocale {
    /// Encoding, such as `UTF8`.
    pub encoding: String,
    /// `LC_COLLATE`.
    pub collate: String,
    /// `LC_CTYPE`.
    pub ctype: String,
    /// Provider: `c` (the C library), `i` (ICU) or `b` (built in).
    pub provider: String,
    /// Locale of ICU or of the built-in provider.
    pub provider_locale: Option<String>,
}

/// Setting of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSetting {
    /// Name.
    pub name: String,
    /// Value with its unit.
    pub value: String,
}

/// Setting of a database or a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSetting {
    /// Role; `None` for all.
    pub role: Option<String>,
    /// Whether it is limited to this database.
    pub in_database: bool,
    /// Name.
    pub name: String,
    /// Value as stored.
    pub value: String,
}

/// Role, without its password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleFacts {
    /// Name.
    pub name: String,
    /// Whether it is a superuser.
    pub superuser: bool,
    /// Whether policies of rows do not apply to it.
    pub bypass_rls: bool,
    /// Roles of which it is a member.
    pub member_of: Vec<String>,
}

/// Object of the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaObject {
    /// Kind: `table`, `index` …
    pub kind: String,
    /// Name with the schema.
    pub name: String,
    /// Statement that creates it.
    pub sql: String,
}

/// Size of a relation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelationSize {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// `relkind`: `r` table, `p` partitioned table, `m` materialized view, `i` index, `I` partitioned index.
    pub kind: String,
    /// Number of blocks of its main fork.
    pub pages: u32,
    /// `relpages` of the last VACUUM or ANALYZE.
    pub relpages: i32,
    /// `reltuples` of the last VACUUM or ANALYZE; -1 if unknown (from version 14).
    pub reltuples: f64,
    /// `relallvisible` of the last VACUUM.
    pub relallvisible: i32,
    /// Access method of an index.
    pub method: Option<String>,
    /// Beginning of the first block of a B-tree, GIN or BRIN index, in hexadecimal. It has numbers of blocks and
    /// entries, and no values.
    pub metapage: Option<String>,
    /// Average width of the keys of a B-tree index in bytes, for an estimate of its height without a metapage.
    pub key_width: Option<f64>,
}

/// Statistics of a column, as in `pg_statistic`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    /// Schema.
    pub schema: String,
    /// Table, or index on expressions.
    pub relation: String,
    /// Name of the column; `None` for the column of an index, whose name depends on the version.
    pub column: Option<String>,
    /// Number of the column.
    pub number: i16,
    /// Whether it includes the tables that inherit.
    pub inherited: bool,
    /// Share of NULL.
    pub null_fraction: f64,
    /// Average width in bytes.
    pub width: i32,
    /// Number of distinct values; negative for a multiple of the number of rows.
    pub distinct: f64,
    /// Slots, at most five.
    pub slots: Vec<StatisticsSlot>,
    /// Smallest and largest value in a B-tree index on the column. The planner reads them from the index in place of
    /// the ends of the histogram (`get_actual_variable_range`).
    #[serde(default)]
    pub range: Option<(String, String)>,
}

/// Slot of `pg_statistic`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatisticsSlot {
    /// Kind: 1 most common values, 2 histogram, 3 correlation … (`pg_statistic.h`).
    pub kind: i16,
    /// Operator as `regoperator`.
    pub operator: Option<String>,
    /// Numbers, as the text of an array.
    pub numbers: Option<String>,
    /// Values, as the text of an array.
    pub values: Option<String>,
    /// Type of the values.
    pub value_type: Option<String>,
}

/// Data of extended statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtendedStatistics {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Whether it includes the tables that inherit.
    pub inherited: bool,
    /// Numbers of distinct values (`pg_ndistinct`), in hexadecimal.
    pub ndistinct: Option<String>,
    /// Dependencies (`pg_dependencies`), in hexadecimal.
    pub dependencies: Option<String>,
    /// Most common combinations (`pg_mcv_list`), the most common one first.
    pub combinations: Option<Vec<Combination>>,
}

/// Common combination of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combination {
    /// Value of each column and expression; `None` for NULL.
    pub values: Vec<Option<String>>,
    /// Share of the rows.
    pub frequency: f64,
    /// Share of the rows if the columns were independent.
    pub base_frequency: f64,
}

/// Part that could not be exported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotExported {
    /// Kind and name of an object, or a part of the data.
    pub subject: String,
    /// Reason.
    pub reason: String,
}

impl ColumnStatistics {
    /// Returns the name of the column with its table.
    pub(crate) fn describe(&self) -> String {
        let name = self
            .column
            .clone()
            .unwrap_or_else(|| self.number.to_string());
        format!("{}.{}.{name}", self.schema, self.relation)
    }
}

impl PlannerExport {
    /// Returns the major version of the server.
    pub fn major(&self) -> u16 {
        u16::try_from(self.version_number / 10_000).unwrap_or(0)
    }

    /// Writes it to a file that only its owner can read, and that does not exist yet.
    ///
    /// # Errors
    /// If it exists, or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlannerCopyError> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let failed = |source| PlannerCopyError::file("write", path)(source);
        // It has the mode 0600, and its name only when it is complete.
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        let mut encoder = zstd::Encoder::new(&mut file, COMPRESSION_LEVEL).map_err(failed)?;
        serde_json::to_writer(&mut encoder, self).map_err(|error| failed(error.into()))?;
        encoder.finish().map_err(failed)?.flush().map_err(failed)?;
        file.persist_noclobber(path).map_err(|error| {
            match error.error.kind() == std::io::ErrorKind::AlreadyExists {
                true => PlannerCopyError::Usage(format!(
                    "cannot write {}: it already exists; remove it or choose another -o",
                    path.display()
                )),
                false => failed(error.error),
            }
        })?;
        Ok(())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no export of a known version.
    pub fn read(path: &Path) -> Result<Self, PlannerCopyError> {
        let file = File::open(path).map_err(PlannerCopyError::file("read", path))?;
        let no_export = |reason: &dyn std::fmt::Display| {
            PlannerCopyError::Usage(format!(
                "{} is no export of `rehearse plans export`, or it is damaged ({reason})",
                path.display()
            ))
        };
        let decoder = zstd::Decoder::new(file).map_err(|error| no_export(&error))?;
        let mut text = Vec::new();
        decoder
            .take(JSON_BYTES_MAX)
            .read_to_end(&mut text)
            .map_err(|error| no_export(&error))?;
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let head: Head = serde_json::from_slice(&text).map_err(|error| no_export(&error))?;
        if head.format != FORMAT {
            return Err(PlannerCopyError::Usage(format!(
                "{} has the format {}, and this version of rehearse reads {FORMAT}; export it again with this version",
                path.display(),
                head.format
            )));
        }
        serde_json::from_slice(&text).map_err(|error| no_export(&error))
    }
}
