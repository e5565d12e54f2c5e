//! Columns of the tables of facts, and functions that write and read one row of each.

use archive::{Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry};
use archive::{Parts, TableOptions, TableWriter};
use sql::Fingerprint;
use workload::Sqlstate;

use crate::facts::{
    BuildFact, DatabaseFact, ExtensionFact, FactNote, Facts, FunctionFact, IndexFact, IndexKey,
    NoPlan, PlanFact, PlanOutcome, RelationFact, SettingFact, TriggerFact,
};

use ColumnType::{Bool, Text, TextList, U64};

const SETTINGS: &str = "settings";
const EXTENSIONS: &str = "extensions";
const DATABASES: &str = "databases";
const RELATIONS: &str = "relations";
const INDEXES: &str = "indexes";
const FUNCTIONS: &str = "functions";
const TRIGGERS: &str = "triggers";
const BUILD: &str = "build";
const NOTES: &str = "target-notes";
const PLANS: &str = "plans";

/// Names of all tables. A recovery includes them.
pub(crate) const TABLES: [&str; 10] = [
    SETTINGS, EXTENSIONS, DATABASES, RELATIONS, INDEXES, FUNCTIONS, TRIGGERS, BUILD, NOTES, PLANS,
];

/// Returns the columns of one of these tables.
pub(crate) fn columns_of(table: &str) -> Option<&'static [Column]> {
    match table {
        SETTINGS => Some(SettingFact::COLUMNS),
        EXTENSIONS => Some(ExtensionFact::COLUMNS),
        DATABASES => Some(DatabaseFact::COLUMNS),
        RELATIONS => Some(RelationFact::COLUMNS),
        INDEXES => Some(IndexFact::COLUMNS),
        FUNCTIONS => Some(FunctionFact::COLUMNS),
        TRIGGERS => Some(TriggerFact::COLUMNS),
        BUILD => Some(BuildFact::COLUMNS),
        NOTES => Some(FactNote::COLUMNS),
        PLANS => Some(PlanFact::COLUMNS),
        _ => None,
    }
}

const ONE_FILE: TableOptions = TableOptions {
    parts: Parts::One,
    group_rows: 1 << 16,
};

/// A type of row: its columns, and functions that write and read it.
pub(crate) trait Row: Sized {
    const COLUMNS: &'static [Column];
    fn write(&self, table: &mut TableWriter);
    fn read(batch: &Batch, row: usize) -> Result<Self, String>;
}

/// Writes a whole table of the archive.
pub(crate) fn write<R: Row>(
    archive: &ArchiveWriter,
    name: &'static str,
    rows: &[R],
) -> Result<Vec<FileEntry>, ArchiveError> {
    let mut table = archive.table(name, R::COLUMNS, ONE_FILE)?;
    for row in rows {
        row.write(&mut table);
        table.end_row()?;
    }
    table.finish()
}

/// Reads a whole table.
pub(crate) fn read<R: Row>(archive: &Archive, name: &str) -> Result<Vec<R>, ArchiveError> {
    let path = archive.path().to_owned();
    let rows = archive.table(name, R::COLUMNS)?.rows(move |batch, row| {
        R::read(batch, row).map_err(|reason| ArchiveError::Damaged {
            path: path.clone(),
            reason,
        })
    });
    rows.collect()
}

pub(crate) fn write_facts(
    archive: &ArchiveWriter,
    facts: &Facts,
) -> Result<Vec<FileEntry>, ArchiveError> {
    let mut files = write(archive, SETTINGS, &facts.settings)?;
    files.extend(write(archive, EXTENSIONS, &facts.extensions)?);
    files.extend(write(archive, DATABASES, &facts.databases)?);
    files.extend(write(archive, RELATIONS, &facts.relations)?);
    files.extend(write(archive, INDEXES, &facts.indexes)?);
    files.extend(write(archive, FUNCTIONS, &facts.functions)?);
    files.extend(write(archive, TRIGGERS, &facts.triggers)?);
    files.extend(write(archive, BUILD, &facts.build)?);
    files.extend(write(archive, NOTES, &facts.notes)?);
    Ok(files)
}

pub(crate) fn write_plans(
    archive: &ArchiveWriter,
    plans: &[PlanFact],
) -> Result<Vec<FileEntry>, ArchiveError> {
    write(archive, PLANS, plans)
}

pub(crate) fn read_facts(archive: &Archive) -> Result<Option<Facts>, ArchiveError> {
    if !has(archive, NOTES) {
        return Ok(None);
    }
    Ok(Some(Facts {
        settings: read(archive, SETTINGS)?,
        extensions: read(archive, EXTENSIONS)?,
        databases: read(archive, DATABASES)?,
        relations: read(archive, RELATIONS)?,
        indexes: read(archive, INDEXES)?,
        functions: read_later(archive, FUNCTIONS)?,
        triggers: read_later(archive, TRIGGERS)?,
        build: read_later(archive, BUILD)?,
        notes: read(archive, NOTES)?,
    }))
}

/// Reads a table that older runs lack.
fn read_later<R: Row>(archive: &Archive, name: &str) -> Result<Vec<R>, ArchiveError> {
    match has(archive, name) {
        true => read(archive, name),
        false => Ok(Vec::new()),
    }
}

pub(crate) fn read_plans(archive: &Archive) -> Result<Option<Vec<PlanFact>>, ArchiveError> {
    match has(archive, PLANS) {
        true => read(archive, PLANS).map(Some),
        false => Ok(None),
    }
}

pub(crate) fn has(archive: &Archive, table: &str) -> bool {
    let mut files = archive.manifest().files.iter();
    files.any(|file| file.table == table)
}

pub(crate) fn text(batch: &Batch, column: usize, row: usize) -> String {
    batch.text(column, row).unwrap_or_default().to_owned()
}

pub(crate) fn optional_text(batch: &Batch, column: usize, row: usize) -> Option<String> {
    batch.text(column, row).map(str::to_owned)
}

pub(crate) fn texts(batch: &Batch, column: usize, row: usize) -> Vec<String> {
    let list = batch.text_list::<String>(column, row).unwrap_or_default();
    list.into_iter().flatten().collect()
}

pub(crate) fn write_texts(table: &mut TableWriter, texts: &[String]) {
    table.text_list(Some(texts.iter().map(|text| Some(text.as_str()))));
}

fn bool(batch: &Batch, column: usize, row: usize) -> bool {
    batch.bool(column, row).unwrap_or_default()
}

impl Row for SettingFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("name", Text),
        Column::nullable("value", Text),
        Column::nullable("unit", Text),
        Column::required("category", Text),
        Column::required("source", Text),
        Column::nullable("boot_value", Text),
        Column::required("pending_restart", Bool),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.name.as_str());
        table.text(self.value.as_deref());
        table.text(self.unit.as_deref());
        table.text(self.category.as_str());
        table.text(self.source.as_str());
        table.text(self.boot_value.as_deref());
        table.bool(self.pending_restart);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(SettingFact {
            name: text(batch, 0, row),
            value: optional_text(batch, 1, row),
            unit: optional_text(batch, 2, row),
            category: text(batch, 3, row),
            source: text(batch, 4, row),
            boot_value: optional_text(batch, 5, row),
            pending_restart: bool(batch, 6, row),
        })
    }
}

impl Row for ExtensionFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("database", Text),
        Column::required("name", Text),
        Column::required("version", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.database.as_str());
        table.text(self.name.as_str());
        table.text(self.version.as_str());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(ExtensionFact {
            database: text(batch, 0, row),
            name: text(batch, 1, row),
            version: text(batch, 2, row),
        })
    }
}

impl Row for DatabaseFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("name", Text),
        Column::required("encoding", Text),
        Column::required("collate", Text),
        Column::required("ctype", Text),
        Column::nullable("provider", Text),
        Column::nullable("locale", Text),
        Column::nullable("collation_version", Text),
        Column::nullable("collation_version_now", Text),
        Column::nullable("bytes", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.name.as_str());
        table.text(self.encoding.as_str());
        table.text(self.collate.as_str());
        table.text(self.ctype.as_str());
        table.text(self.provider.as_deref());
        table.text(self.locale.as_deref());
        table.text(self.collation_version.as_deref());
        table.text(self.collation_version_now.as_deref());
        table.u64(self.bytes);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(DatabaseFact {
            name: text(batch, 0, row),
            encoding: text(batch, 1, row),
            collate: text(batch, 2, row),
            ctype: text(batch, 3, row),
            provider: optional_text(batch, 4, row),
            locale: optional_text(batch, 5, row),
            collation_version: optional_text(batch, 6, row),
            collation_version_now: optional_text(batch, 7, row),
            bytes: batch.u64(8, row),
        })
    }
}

impl Row for RelationFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("database", Text),
        Column::required("schema", Text),
        Column::required("name", Text),
        Column::required("kind", Text),
        Column::required("persistence", Text),
        Column::nullable("estimated_rows", U64),
        Column::nullable("bytes", U64),
        Column::nullable("partition_of", Text),
        Column::nullable("partition_key", Text),
        Column::nullable("options", TextList),
        Column::nullable("column_names", TextList),
        Column::nullable("columns", TextList),
        Column::later("column_collations", TextList),
        Column::later("column_statistics", TextList),
        Column::later("partition_bound", Text),
        Column::later("has_statistics", Bool),
        Column::later("analysed_ago_s", U64),
        Column::later("changed_since_analyze", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.database.as_str());
        table.text(self.schema.as_str());
        table.text(self.name.as_str());
        table.text(self.kind.as_str());
        table.text(self.persistence.as_str());
        table.u64(self.rows);
        table.u64(self.bytes);
        table.text(self.partition_of.as_deref());
        table.text(self.partition_key.as_deref());
        write_texts(table, &self.options);
        write_texts(table, &self.column_names);
        write_texts(table, &self.columns);
        write_texts(table, &self.column_collations);
        write_texts(table, &self.column_statistics);
        table.text(self.partition_bound.as_deref());
        table.bool(self.has_statistics);
        table.u64(self.analysed_ago_s);
        table.u64(self.changed_since_analyze);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(RelationFact {
            database: text(batch, 0, row),
            schema: text(batch, 1, row),
            name: text(batch, 2, row),
            kind: text(batch, 3, row),
            persistence: text(batch, 4, row),
            rows: batch.u64(5, row),
            bytes: batch.u64(6, row),
            partition_of: optional_text(batch, 7, row),
            partition_key: optional_text(batch, 8, row),
            options: texts(batch, 9, row),
            column_names: texts(batch, 10, row),
            columns: texts(batch, 11, row),
            column_collations: texts(batch, 12, row),
            column_statistics: texts(batch, 13, row),
            partition_bound: optional_text(batch, 14, row),
            has_statistics: batch.bool(15, row),
            analysed_ago_s: batch.u64(16, row),
            changed_since_analyze: batch.u64(17, row),
        })
    }
}

impl Row for IndexFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("database", Text),
        Column::required("schema", Text),
        Column::required("table", Text),
        Column::required("name", Text),
        Column::required("definition", Text),
        Column::nullable("bytes", U64),
        Column::required("valid", Bool),
        Column::required("ready", Bool),
        Column::required("unique", Bool),
        Column::required("primary", Bool),
        Column::nullable("tablespace", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.database.as_str());
        table.text(self.schema.as_str());
        table.text(self.table.as_str());
        table.text(self.name.as_str());
        table.text(self.definition.as_str());
        table.u64(self.bytes);
        table.bool(self.valid);
        table.bool(self.ready);
        table.bool(self.key.is_unique());
        table.bool(self.key.is_primary());
        table.text(self.tablespace.as_deref());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(IndexFact {
            database: text(batch, 0, row),
            schema: text(batch, 1, row),
            table: text(batch, 2, row),
            name: text(batch, 3, row),
            definition: text(batch, 4, row),
            bytes: batch.u64(5, row),
            valid: bool(batch, 6, row),
            ready: bool(batch, 7, row),
            key: IndexKey::new(bool(batch, 8, row), bool(batch, 9, row)),
            tablespace: optional_text(batch, 10, row),
        })
    }
}

impl Row for FunctionFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("database", Text),
        Column::required("schema", Text),
        Column::required("name", Text),
        Column::required("arguments", Text),
        Column::required("definition", Text),
        Column::required("source_hash", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.database.as_str());
        table.text(self.schema.as_str());
        table.text(self.name.as_str());
        table.text(self.arguments.as_str());
        table.text(self.definition.as_str());
        table.text(self.source_hash.as_str());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(FunctionFact {
            database: text(batch, 0, row),
            schema: text(batch, 1, row),
            name: text(batch, 2, row),
            arguments: text(batch, 3, row),
            definition: text(batch, 4, row),
            source_hash: text(batch, 5, row),
        })
    }
}

impl Row for TriggerFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("database", Text),
        Column::required("schema", Text),
        Column::required("table", Text),
        Column::required("name", Text),
        Column::required("definition", Text),
        Column::required("state", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.database.as_str());
        table.text(self.schema.as_str());
        table.text(self.table.as_str());
        table.text(self.name.as_str());
        table.text(self.definition.as_str());
        table.text(self.state.as_str());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(TriggerFact {
            database: text(batch, 0, row),
            schema: text(batch, 1, row),
            table: text(batch, 2, row),
            name: text(batch, 3, row),
            definition: text(batch, 4, row),
            state: text(batch, 5, row),
        })
    }
}

impl Row for BuildFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("name", Text),
        Column::required("value", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.name.as_str());
        table.text(self.value.as_str());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(BuildFact {
            name: text(batch, 0, row),
            value: text(batch, 1, row),
        })
    }
}

impl Row for FactNote {
    const COLUMNS: &'static [Column] = &[
        Column::required("about", Text),
        Column::required("text", Text),
        Column::nullable("count", U64),
        Column::later("database", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.about.as_str());
        table.text(self.text.as_str());
        table.u64(self.count);
        table.text(self.database.as_deref());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(FactNote {
            about: text(batch, 0, row),
            text: text(batch, 1, row),
            count: batch.u64(2, row),
            database: optional_text(batch, 3, row),
        })
    }
}

impl Row for PlanFact {
    const COLUMNS: &'static [Column] = &[
        Column::required("fingerprint", U64),
        Column::required("service_ns", U64),
        Column::required("calls", U64),
        Column::nullable("session", U64),
        Column::nullable("sequence", U64),
        Column::required("database", Text),
        Column::required("user", Text),
        Column::nullable("plan", Text),
        Column::nullable("reason", Text),
        Column::nullable("sqlstate", Text),
        Column::nullable("message", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.fingerprint.0);
        table.u64(self.service_ns);
        table.u64(self.calls);
        table.u64(self.example.map(|(session, _)| session));
        table.u64(self.example.map(|(_, sequence)| sequence));
        table.text(self.database.as_str());
        table.text(self.user.as_str());
        let (plan, reason, refused) = match &self.outcome {
            PlanOutcome::Planned(plan) => (Some(plan.as_str()), None, None),
            PlanOutcome::Refused { sqlstate, message } => {
                (None, Some("refused"), Some((sqlstate, message)))
            }
            PlanOutcome::Unasked(reason) => (None, Some(reason.name()), None),
        };
        table.text(plan);
        table.text(reason);
        table.text(refused.map(|(sqlstate, _)| sqlstate.as_str()));
        table.text(refused.map(|(_, message)| message.as_str()));
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let outcome = match (batch.text(7, row), batch.text(8, row)) {
            (Some(plan), _) => PlanOutcome::Planned(plan.to_owned()),
            (None, Some("refused")) => PlanOutcome::Refused {
                sqlstate: batch
                    .text(9, row)
                    .and_then(Sqlstate::parse)
                    .unwrap_or(Sqlstate::UNKNOWN),
                message: text(batch, 10, row),
            },
            (None, reason) => {
                let reason = reason.unwrap_or_default();
                let known = NoPlan::from_name(reason);
                PlanOutcome::Unasked(
                    known.ok_or_else(|| format!("no plan for unknown reason '{reason}'"))?,
                )
            }
        };
        Ok(PlanFact {
            fingerprint: Fingerprint(batch.u64(0, row).unwrap_or_default()),
            service_ns: batch.u64(1, row).unwrap_or_default(),
            calls: batch.u64(2, row).unwrap_or_default(),
            example: batch.u64(3, row).zip(batch.u64(4, row)),
            database: text(batch, 5, row),
            user: text(batch, 6, row),
            outcome,
        })
    }
}
