//! Column types of the tables.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type, TypePtr};

/// Type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 32 bits.
    U32,
    /// Floating-point number, 64 bits.
    F64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
    /// A list of UTF-8, its elements nullable.
    TextList,
    /// Bytes.
    Bytes,
    /// A list of bytes, its elements nullable.
    BytesList,
    /// A list of unsigned numbers of 32 bits, none of them null.
    U32List,
}

/// Presence of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No value is null.
    Required,
    /// Values may be null.
    Nullable,
    /// A later version of the format added the column. In files without it all values are null.
    Added,
}

/// Number of distinct values of a column, which decides its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// Many distinct values. Numbers are delta-encoded.
    High,
    /// Few distinct values, in no order, such as fingerprints and names of kinds. They get a dictionary.
    Low,
}

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name, with the unit as its suffix if there is one.
    pub name: &'static str,
    /// Type of the values.
    pub kind: ColumnType,
    /// Presence of the values.
    pub presence: Presence,
    /// Number of distinct values.
    pub cardinality: Cardinality,
}

impl Column {
    /// Creates a column without nulls.
    pub const fn required(name: &'static str, kind: ColumnType) -> Self {
        Column::new(name, kind, Presence::Required)
    }

    /// Creates a column with nulls.
    pub const fn nullable(name: &'static str, kind: ColumnType) -> Self {
        Column::new(name, kind, Presence::Nullable)
    }

    /// Creates a column that a later version of the format added.
    pub const fn later(name: &'static str, kind: ColumnType) -> Self {
        Column::new(name, kind, Presence::Added)
    }

    const fn new(name: &'static str, kind: ColumnType, presence: Presence) -> Self {
        Column {
            name,
            kind,
            presence,
            cardinality: Cardinality::High,
        }
    }

    /// Marks a column of few distinct values.
    pub const fn low_cardinality(self) -> Self {
        Column {
            cardinality: Cardinality::Low,
            ..self
        }
    }

    /// Whether values may be null.
    #[inline]
    pub(crate) fn is_nullable(&self) -> bool {
        self.presence != Presence::Required
    }

    /// Whether a file may lack the column.
    pub(crate) fn is_optional(&self) -> bool {
        self.presence == Presence::Added
    }

    pub(crate) fn is_low_cardinality(&self) -> bool {
        self.cardinality == Cardinality::Low
    }
}

/// Names of the groups around the elements of a list. The first is from Parquet's specification, the second
/// from Arrow: <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>.
pub(crate) const LIST_GROUP: &str = "list";
pub(crate) const LIST_ELEMENT: &str = "item";

impl ColumnType {
    /// Whether the values are lists.
    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            ColumnType::TextList | ColumnType::BytesList | ColumnType::U32List
        )
    }

    /// Returns the physical and the logical type of a value, or of a list's element.
    fn stored_type(self) -> (PhysicalType, Option<LogicalType>) {
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
    /// Returns the path of the values in a file.
    pub(crate) fn path(&self) -> ColumnPath {
        let mut path = vec![self.name.to_owned()];
        if self.kind.is_list() {
            path.extend([LIST_GROUP, LIST_ELEMENT].map(str::to_owned));
        }
        ColumnPath::from(path)
    }

    /// Whether a file's column has values of this column's type.
    pub(crate) fn matches(&self, found: &ColumnDescriptor) -> bool {
        let (physical, logical) = self.kind.stored_type();
        found.physical_type() == physical
            && found.logical_type_ref() == logical.as_ref()
            && (found.max_rep_level() == 1) == self.kind.is_list()
            && found.max_rep_level() <= 1
    }

    fn schema_type(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = self.kind.stored_type();
        let own = match self.is_nullable() {
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

/// Returns the schema of a file with these columns.
pub(crate) fn schema(columns: &[Column]) -> TypePtr {
    let fields: Result<Vec<TypePtr>, ParquetError> =
        columns.iter().map(Column::schema_type).collect();
    let root = fields.and_then(|fields| {
        Type::group_type_builder("schema")
            .with_fields(fields)
            .build()
    });
    Arc::new(root.expect("each type may have the meaning that it is given"))
}
