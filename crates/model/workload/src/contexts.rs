//! The table of contexts, which the events refer to.

use std::borrow::Cow;
use std::collections::HashSet;

use archive::{ArchiveError, Batch, Column, ColumnType, FileEntry, TableWriter};
use sql::{ContextId, ContextKey, StatementContext};

use ColumnType::{Text, U64};

/// Maximum number of contexts of a workload. An application that puts values into its routes has one for each
/// statement, and they must not exhaust memory. Events with further contexts refer to none.
const CONTEXTS_MAX: usize = 1 << 16;

/// A context with its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextText {
    /// The identity.
    pub id: ContextId,
    /// The context.
    pub context: StatementContext<'static>,
}

impl ContextText {
    /// Name of the table, which runs have too.
    pub const TABLE: &'static str = "contexts";

    /// Columns of the table: the identity, and a column for each of [`ContextKey::ALL`].
    pub const COLUMNS: &'static [Column] = &[
        Column::required("context", U64),
        Column::nullable("route", Text),
        Column::nullable("controller", Text),
        Column::nullable("action", Text),
        Column::nullable("application", Text),
        Column::nullable("job", Text),
    ];

    /// Writes a row of [`Self::COLUMNS`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, table: &mut TableWriter) -> Result<(), ArchiveError> {
        write(self.id, &self.context, table)
    }

    /// Reads a row of [`Self::COLUMNS`].
    pub fn read(batch: &Batch, row: usize) -> ContextText {
        let value = |key| batch.text(1 + key as usize, row).unwrap_or_default();
        let values = ContextKey::ALL.map(|key| Cow::Owned(value(key).to_owned()));
        ContextText {
            id: ContextId(batch.u64(0, row).unwrap_or_default()),
            context: StatementContext::from_values(values),
        }
    }
}

fn write(
    id: ContextId,
    context: &StatementContext<'_>,
    table: &mut TableWriter,
) -> Result<(), ArchiveError> {
    table.u64(id.0);
    for key in ContextKey::ALL {
        table.text(context.value(key));
    }
    table.end_row()
}

/// Writes each context at its first appearance.
pub(crate) struct ContextWriter {
    table: TableWriter,
    written: HashSet<ContextId>,
}

impl ContextWriter {
    pub(crate) fn new(table: TableWriter) -> Self {
        ContextWriter {
            table,
            written: HashSet::new(),
        }
    }

    /// Returns the identity of a context, if it is in the table.
    pub(crate) fn add(
        &mut self,
        context: &StatementContext<'_>,
    ) -> Result<Option<ContextId>, ArchiveError> {
        if context.is_empty() {
            return Ok(None);
        }
        let id = context.id();
        if !self.written.contains(&id) {
            if self.written.len() >= CONTEXTS_MAX {
                return Ok(None);
            }
            self.written.insert(id);
            write(id, context, &mut self.table)?;
        }
        Ok(Some(id))
    }

    pub(crate) fn finish(self) -> Result<Vec<FileEntry>, ArchiveError> {
        self.table.finish()
    }
}
