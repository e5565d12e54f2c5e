//! The few column types that the artefacts need.

use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 32 bits.
    U32,
    /// A number with a fraction, 64 bits.
    F64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
    /// A list of UTF-8, its elements nullable.
    TextList,
    /// Bytes as they are.
    Bytes,
    /// A list of bytes, its elements nullable.
    BytesList,
    /// A list of unsigned numbers of 32 bits, none of them null.
    U32List,
}

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, with its unit last where it has one.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnType,
    /// Whether it may be null.
    pub nullable: bool,
    /// Its numbers are few and random, so they are numbered; others are kept as differences.
    pub repeating: bool,
    /// It came with a later version of the format: a file may lack it, and it reads as null.
    pub later: bool,
}

impl Column {
    /// A column that is never null.
    pub const fn required(name: &'static str, kind: ColumnType) -> Self {
        Column {
            name,
            kind,
            nullable: false,
            repeating: false,
            later: false,
        }
    }

    /// A column that may be null.
    pub const fn nullable(name: &'static str, kind: ColumnType) -> Self {
        Column {
            name,
            kind,
            nullable: true,
            repeating: false,
            later: false,
        }
    }

    /// A column that came with a later version of the format, and is null in files before it.
    pub const fn later(name: &'static str, kind: ColumnType) -> Self {
        Column {
            later: true,
            ..Column::nullable(name, kind)
        }
    }

    /// A column of numbers that are few and random, such as fingerprints.
    pub const fn repeating(self) -> Self {
        Column {
            repeating: true,
            ..self
        }
    }
}

/// The name that arrow gives the elements of a list.
pub(crate) const LIST_ELEMENT: &str = "item";

pub(crate) fn arrow_schema(columns: &[Column]) -> Arc<Schema> {
    let list =
        |element: DataType| DataType::List(Arc::new(Field::new(LIST_ELEMENT, element, true)));
    let fields: Vec<Field> = columns
        .iter()
        .map(|column| {
            let data_type = match column.kind {
                ColumnType::U64 => DataType::UInt64,
                ColumnType::I64 => DataType::Int64,
                ColumnType::U32 => DataType::UInt32,
                ColumnType::F64 => DataType::Float64,
                ColumnType::Bool => DataType::Boolean,
                ColumnType::Text => DataType::Utf8,
                ColumnType::TextList => list(DataType::Utf8),
                ColumnType::Bytes => DataType::Binary,
                ColumnType::BytesList => list(DataType::Binary),
                ColumnType::U32List => list(DataType::UInt32),
            };
            Field::new(column.name, data_type, column.nullable)
        })
        .collect();
    Arc::new(Schema::new(fields))
}
