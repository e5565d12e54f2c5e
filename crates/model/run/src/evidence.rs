//! What a sceptic needs to do a run again: pieces of text, each with how it was got, or why not. Plain
//! data; who gathers them is not known here.

use archive::{
    Archive, ArchiveError, ArchiveWriter, Batch, Column, ColumnType, FileEntry, TableWriter,
};

use crate::facts_table::{Row, has, maybe, read, text, write};

use ColumnType::Text;

/// What was gathered before the first statement, and behind the last one.
pub(crate) const TABLES: [&str; 2] = ["evidence-before", "evidence-after"];

/// On which side of a replay something was gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// Before the first statement.
    Before,
    /// Behind the last one.
    After,
}

impl Moment {
    /// `before` or `after`.
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
    /// What it is, as a path: `machine/cpuinfo`, `database/shop/tables`.
    pub name: String,
    /// How it was got, so that another can get it too: a file's name, or a question in SQL.
    pub how: String,
    /// Its text; `None` where it was not got.
    pub content: Option<String>,
    /// Why it was not got.
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
            content: maybe(batch, 2, row),
            missing: maybe(batch, 3, row),
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

/// `None` where nothing was gathered.
pub(crate) fn read_evidence(
    archive: &Archive,
    moment: Moment,
) -> Result<Option<Vec<Artefact>>, ArchiveError> {
    match has(archive, moment.table()) {
        true => read(archive, moment.table()).map(Some),
        false => Ok(None),
    }
}
