//! Writes any table of a run as comma-separated values (RFC 4180), for programs that cannot read Parquet.

use std::io::{self, Write};

use archive::{Batch, Column, ColumnType};
use workload::{ContextText, StatementText};

use crate::evidence::{Artefact, TABLES as EVIDENCE};
use crate::facts_table::Row;
use crate::generated_value::{GeneratedValue, TABLE as GENERATED_VALUES};
use crate::lost_connection::{LostConnection, TABLE as LOST_CONNECTIONS};
use crate::result_columns::{ResultColumns, TABLE as RESULT_COLUMNS};
use crate::table::EXECUTION;
use crate::{facts_table, observed_table, profiled_table};

/// Returns the columns of a table; `None` for a table that no run has.
pub(crate) fn columns_of(table: &str) -> Option<&'static [Column]> {
    match table {
        "executions" => Some(EXECUTION),
        RESULT_COLUMNS => Some(ResultColumns::COLUMNS),
        LOST_CONNECTIONS => Some(LostConnection::COLUMNS),
        GENERATED_VALUES => Some(GeneratedValue::COLUMNS),
        "statements" => Some(StatementText::COLUMNS),
        ContextText::TABLE => Some(ContextText::COLUMNS),
        _ if EVIDENCE.contains(&table) => Some(Artefact::COLUMNS),
        _ => facts_table::columns_of(table)
            .or_else(|| observed_table::columns_of(table))
            .or_else(|| profiled_table::columns_of(table)),
    }
}

/// Writes the names of the columns, except those left out.
pub(crate) fn write_head(
    columns: &[Column],
    left_out: &[&str],
    out: &mut impl Write,
) -> io::Result<()> {
    let names = columns.iter().map(|column| column.name);
    let names: Vec<&str> = names.filter(|name| !left_out.contains(name)).collect();
    write!(out, "{}\r\n", names.join(","))
}

/// Writes the rows of a batch. NULL is empty; lists are in braces, as PostgreSQL writes them.
pub(crate) fn write_rows(
    batch: &Batch,
    columns: &[Column],
    left_out: &[&str],
    out: &mut impl Write,
) -> io::Result<()> {
    let kept: Vec<(usize, ColumnType)> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !left_out.contains(&column.name))
        .map(|(place, column)| (place, column.kind))
        .collect();
    for row in 0..batch.rows() {
        for (at, (column, kind)) in kept.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            let value = value(batch, *column, *kind, row).unwrap_or_default();
            out.write_all(quoted(&value).as_bytes())?;
        }
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

fn value(batch: &Batch, column: usize, kind: ColumnType, row: usize) -> Option<String> {
    match kind {
        ColumnType::U64 => batch.u64(column, row).map(|value| value.to_string()),
        ColumnType::I64 => batch.i64(column, row).map(|value| value.to_string()),
        ColumnType::U32 => batch.u32(column, row).map(|value| value.to_string()),
        ColumnType::F64 => batch.f64(column, row).map(|value| value.to_string()),
        ColumnType::Bool => batch.bool(column, row).map(|value| value.to_string()),
        ColumnType::Text => batch.text(column, row).map(str::to_owned),
        ColumnType::TextList => batch.text_list::<String>(column, row).map(|list| {
            let elements = list.into_iter().map(|element| match element {
                Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
                None => "NULL".to_owned(),
            });
            braces(elements)
        }),
        ColumnType::Bytes => batch.bytes(column, row).map(hex),
        ColumnType::BytesList => batch.bytes_list(column, row).map(|list| {
            let element = |bytes: Option<Box<[u8]>>| bytes.map_or("NULL".to_owned(), |b| hex(&b));
            braces(list.into_iter().map(element))
        }),
        ColumnType::U32List => batch
            .u32_list(column, row)
            .map(|list| braces(list.into_iter().map(|value| value.to_string()))),
    }
}

fn braces(elements: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", elements.collect::<Vec<_>>().join(","))
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\\x{digits}")
}

fn quoted(value: &str) -> String {
    match value.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value.to_owned(),
    }
}
