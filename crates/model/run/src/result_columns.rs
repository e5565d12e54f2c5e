//! Columns of a result: a checksum of each column, and the first rows of some results.

use archive::{Batch, Column, ColumnType, TableWriter};
use sql::Fingerprint;

use crate::facts_table::Row;

use ColumnType::{Bytes, BytesList, TextList, U32List, U64};

/// Name of the table.
pub(crate) const TABLE: &str = "result-columns";

/// Columns of the rows that one execution returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultColumns {
    /// Session of the execution.
    pub session: u64,
    /// Sequence of the execution within its session.
    pub sequence: u64,
    /// Fingerprint of the statement.
    pub fingerprint: Option<Fingerprint>,
    /// Number of rows.
    pub rows: u64,
    /// Checksum of the rows ([`workload::RowDigest`], summed over them).
    pub digest: u64,
    /// Names of the columns; empty if the server did not describe them for this execution.
    pub names: Vec<Box<str>>,
    /// OIDs of their types; empty if the names are.
    pub types: Vec<u32>,
    /// 1 for columns in binary form, 0 for those in text form; empty if the names are.
    pub formats: Vec<u32>,
    /// Checksum of each column: that of its values ([`workload::value_digest`]), summed over the rows.
    pub digests: Vec<u64>,
    /// The first rows, each as the body of a DataRow message. Empty for executions that are not in the sample, and if
    /// the workload is masked.
    pub kept_rows: Vec<Box<[u8]>>,
}

impl ResultColumns {
    /// Returns the bytes of the kept rows.
    pub fn kept_bytes(&self) -> usize {
        self.kept_rows.iter().map(|row| row.len()).sum()
    }
}

impl Row for ResultColumns {
    const COLUMNS: &'static [Column] = &[
        Column::required("session", U64),
        Column::required("sequence", U64),
        Column::nullable("fingerprint", U64).low_cardinality(),
        Column::required("rows", U64),
        Column::required("result_digest", U64),
        Column::nullable("column_names", TextList),
        Column::nullable("column_types", U32List),
        Column::nullable("column_formats", U32List),
        Column::required("column_digests", Bytes),
        Column::nullable("kept_rows", BytesList),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.session);
        table.u64(self.sequence);
        table.u64(self.fingerprint.map(|fingerprint| fingerprint.0));
        table.u64(self.rows);
        table.u64(self.digest);
        let names = self.names.iter().map(|name| Some(&**name));
        table.text_list((!self.names.is_empty()).then_some(names));
        for list in [&self.types, &self.formats] {
            table.u32_list((!list.is_empty()).then(|| list.iter().copied()));
        }
        let digests = self.digests.iter().flat_map(|digest| digest.to_le_bytes());
        table.bytes(&digests.collect::<Vec<u8>>()[..]);
        let rows = self.kept_rows.iter().map(|row| Some(&**row));
        table.bytes_list((!self.kept_rows.is_empty()).then_some(rows));
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let names: Vec<Option<Box<str>>> = batch.text_list(5, row).unwrap_or_default();
        let kept = batch.bytes_list(9, row).unwrap_or_default();
        let columns = ResultColumns {
            session: batch.u64(0, row).unwrap_or_default(),
            sequence: batch.u64(1, row).unwrap_or_default(),
            fingerprint: batch.u64(2, row).map(Fingerprint),
            rows: batch.u64(3, row).unwrap_or_default(),
            digest: batch.u64(4, row).unwrap_or_default(),
            names: names.into_iter().flatten().collect(),
            types: batch.u32_list(6, row).unwrap_or_default(),
            formats: batch.u32_list(7, row).unwrap_or_default(),
            digests: {
                let bytes = batch.bytes(8, row).unwrap_or_default();
                let (digests, rest) = bytes.as_chunks::<8>();
                if !rest.is_empty() {
                    return Err(format!("column checksums of {} bytes", bytes.len()));
                }
                digests.iter().copied().map(u64::from_le_bytes).collect()
            },
            kept_rows: kept.into_iter().flatten().collect(),
        };
        let counts = [&columns.types, &columns.formats].map(|list| list.len());
        let names = columns.names.len();
        if counts != [names; 2] || names > 0 && names != columns.digests.len() {
            return Err("column names, types and checksums of different numbers".to_owned());
        }
        Ok(columns)
    }
}
