//! Evidence that a sceptic needs to repeat a run: texts, each with its source, or the reason why it is
//! missing. This module has the data only; the crate `observe` collects them.

use archive::{
    Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry, TableWriter,
};

use crate::facts_table::{Row, has, optional_text, read, text, write};

use ColumnType::Text;

/// Tables of the evidence before the first statement and after the last.
pub(crate) const TABLES: [&str; 2] = ["evidence-before", "evidence-after"];

/// Time of collection relative to the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Before the first statement.
    Before,
    /// After the last statement.
    After,
}

impl Moment {
    /// Returns `before` or `after`.
    pub fn name(self) -> &'static str {
        match self {
            Moment::Before => "before",
            Moment::After => "after",
        }
    }

    fn table(self) -> &'static str {
        TABLES[self as usize]
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Artefact {
    /// Name as a path: `machine/cpuinfo`, `database/shop/tables`.
    pub name: String,
    /// Source, so that others can read it too: a file name, or an SQL query.
    pub how: String,
    /// Text; `None` if it is missing.
    pub content: Option<String>,
    /// Reason why it is missing.
    pub missing: Option<String>,
}

impl Row for Artefact {
    const COLUMNS: &'static [Column] = &[
        Column::required("name", Text),
        Column::required("how", Text),
        Column::nullable("content", Text),
        Column::nullable("missing", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.text(self.name.as_str());
        table.text(self.how.as_str());
        table.text(self.content.as_deref());
        table.text(self.missing.as_deref());
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(Artefact {
            name: text(batch, 0, row),
            how: text(batch, 1, row),
            content: optional_text(batch, 2, row),
            missing: optional_text(batch, 3, row),
        })
    }
}

pub(crate) fn write_evidence(
    archive: &ArchiveWriter,
    moment: Moment,
    artefacts: &[Artefact],
) -> Result<Vec<FileEntry>, ArchiveError> {
    write(archive, moment.table(), artefacts)
}

/// Returns `None` if nothing was collected.
pub(crate) fn read_evidence(
    archive: &Archive,
    moment: Moment,
) -> Result<Option<Vec<Artefact>>, ArchiveError> {
    match has(archive, moment.table()) {
        true => read(archive, moment.table()).map(Some),
        false => Ok(None),
    }
}
