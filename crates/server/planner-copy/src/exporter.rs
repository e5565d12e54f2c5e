//! Queries of an export, in one transaction.

use connect::login::{LoginError, QueryConnection, Row};
use serde::de::DeserializeOwned;

use crate::document::{NotExported, PlannerExport};
use crate::error::PlannerCopyError;

/// `lock_not_available`.
const LOCK_TIMEOUT: &[u8; 5] = b"55P03";

/// Export in progress.
pub(crate) struct Exporter<'c> {
    pub(crate) connection: QueryConnection<'c>,
    pub(crate) export: PlannerExport,
}

impl Exporter<'_> {
    /// Sends a query without which there is no export.
    pub(crate) fn query(&mut self, part: &str, sql: &str) -> Result<Vec<Row>, PlannerCopyError> {
        self.connection.query(sql).map_err(|error| {
            let advice = match &error.sqlstate {
                LOCK_TIMEOUT => "; another session has an exclusive lock on a table: export again when it has ended",
                _ => "",
            };
            PlannerCopyError::Failed(format!(
                "cannot export the {part}: the server refuses the query ({error}){advice}"
            ))
        })
    }

    /// Reads rows of JSON.
    pub(crate) fn read<T: DeserializeOwned>(
        &mut self,
        part: &str,
        sql: &str,
    ) -> Result<Vec<T>, PlannerCopyError> {
        let rows = self.query(part, sql)?;
        parse_rows(part, rows)
    }

    /// Sends a query whose refusal is no failure of the export.
    pub(crate) fn attempt(
        &mut self,
        sql: &str,
    ) -> Result<Result<Vec<Row>, LoginError>, PlannerCopyError> {
        self.query("transaction", "SAVEPOINT part")?;
        let answer = self.connection.query(sql);
        // A rollback releases the locks, for which changes of tables would wait.
        let end = "ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part";
        self.query("transaction", end)?;
        Ok(answer)
    }

    /// Notes a part that is not exported.
    pub(crate) fn not_exported(&mut self, subject: impl Into<String>, reason: impl Into<String>) {
        self.export.not_exported.push(NotExported {
            subject: subject.into(),
            reason: reason.into(),
        });
    }
}

/// Reads the first column of rows as JSON.
pub(crate) fn parse_rows<T: DeserializeOwned>(
    part: &str,
    rows: Vec<Row>,
) -> Result<Vec<T>, PlannerCopyError> {
    let texts = rows.into_iter().filter_map(|row| row.into_iter().next()?);
    texts
        .map(|text| {
            serde_json::from_str(&text).map_err(|error| {
                PlannerCopyError::Failed(format!(
                    "cannot export the {part}: the server's answer has an unexpected form ({error})"
                ))
            })
        })
        .collect()
}
