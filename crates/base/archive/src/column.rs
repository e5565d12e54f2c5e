//! The few column types that the artefacts need.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type, TypePtr};

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
    /// Its texts are of a few, such as the names of kinds: numbered, they are small as they are.
    pub few: bool,
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
            few: false,
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
            few: false,
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

    /// A column of texts of which there are a few, such as the names of kinds.
    pub const fn few(self) -> Self {
        Column { few: true, ..self }
    }

    /// A column of numbers that are few and random, such as fingerprints.
    pub const fn repeating(self) -> Self {
        Column {
            repeating: true,
            ..self
        }
    }
}

/// The names of the groups around the elements of a list, as Parquet's specification has the first
/// and Arrow the second: <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>.
pub(crate) const LIST_GROUP: &str = "list";
pub(crate) const LIST_ELEMENT: &str = "item";

impl ColumnType {
    /// Its values are lists.
    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            ColumnType::TextList | ColumnType::BytesList | ColumnType::U32List
        )
    }

    /// How Parquet keeps a value, or a list's element, and what it is to mean.
    fn kept_as(self) -> (PhysicalType, Option<LogicalType>) {
        match self {
            ColumnType::U64 => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            ColumnType::I64 => (PhysicalType::INT64, None),
            ColumnType::U32 | ColumnType::U32List => {
                (PhysicalType::INT32, Some(LogicalType::integer(32, false)))
            }
            ColumnType::F64 => (PhysicalType::DOUBLE, None),
            ColumnType::Bool => (PhysicalType::BOOLEAN, None),
            ColumnType::Text | ColumnType::TextList => {
                (PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
            }
            ColumnType::Bytes | ColumnType::BytesList => (PhysicalType::BYTE_ARRAY, None),
        }
    }
}

impl Column {
    /// The path of its values in a file.
    pub(crate) fn path(&self) -> ColumnPath {
        let mut path = vec![self.name.to_owned()];
        if self.kind.is_list() {
            path.extend([LIST_GROUP, LIST_ELEMENT].map(str::to_owned));
        }
        ColumnPath::from(path)
    }

    /// The column of a file has values of this column's type.
    pub(crate) fn is_kept_in(&self, found: &ColumnDescriptor) -> bool {
        let (physical, logical) = self.kind.kept_as();
        found.physical_type() == physical
            && found.logical_type_ref() == logical.as_ref()
            && (found.max_rep_level() == 1) == self.kind.is_list()
            && found.max_rep_level() <= 1
    }

    fn in_schema(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = self.kind.kept_as();
        let own = match self.nullable {
            true => Repetition::OPTIONAL,
            false => Repetition::REQUIRED,
        };
        let primitive = |name: &str, repetition| {
            Type::primitive_type_builder(name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical.clone())
                .build()
                .map(Arc::new)
        };
        if !self.kind.is_list() {
            return primitive(self.name, own);
        }
        let elements = Type::group_type_builder(LIST_GROUP)
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![primitive(LIST_ELEMENT, Repetition::OPTIONAL)?])
            .build()?;
        Type::group_type_builder(self.name)
            .with_repetition(own)
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(elements)])
            .build()
            .map(Arc::new)
    }
}

/// The schema of a file with these columns.
pub(crate) fn schema(columns: &[Column]) -> TypePtr {
    let fields: Result<Vec<TypePtr>, ParquetError> =
        columns.iter().map(Column::in_schema).collect();
    let root = fields.and_then(|fields| {
        Type::group_type_builder("schema")
            .with_fields(fields)
            .build()
    });
    Arc::new(root.expect("each type may have the meaning that it is given"))
}
