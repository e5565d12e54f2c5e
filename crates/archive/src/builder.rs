//! What gathers the values of a column until a batch of rows is full.

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder,
    PrimitiveBuilder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType};

use crate::column::{Column, ColumnType};

/// Nulls that were given and not yet appended: many columns hold little else, and a run of them
/// costs no more than one.
pub(crate) type Nulls = usize;

#[inline]
pub(crate) fn append<T: ArrowPrimitiveType>(
    builder: &mut PrimitiveBuilder<T>,
    nulls: &mut Nulls,
    value: Option<T::Native>,
) {
    match value {
        None => *nulls += 1,
        Some(value) => {
            if *nulls > 0 {
                builder.append_nulls(std::mem::take(nulls));
            }
            builder.append_value(value);
        }
    }
}

fn settled<T: ArrowPrimitiveType>(
    builder: &mut PrimitiveBuilder<T>,
    nulls: &mut Nulls,
) -> ArrayRef {
    builder.append_nulls(std::mem::take(nulls));
    ArrayBuilder::finish(builder)
}

#[inline]
pub(crate) fn settle_texts(builder: &mut StringBuilder, nulls: &mut Nulls) {
    for _ in 0..std::mem::take(nulls) {
        builder.append_null();
    }
}

/// What gathers a column of a batch.
pub(crate) enum Builder {
    U64(UInt64Builder, Nulls),
    I64(Int64Builder, Nulls),
    U32(UInt32Builder, Nulls),
    F64(Float64Builder, Nulls),
    Bool(BooleanBuilder),
    Text(StringBuilder, Nulls),
    TextList(ListBuilder<StringBuilder>),
    Bytes(BinaryBuilder),
    BytesList(ListBuilder<BinaryBuilder>),
    U32List(ListBuilder<UInt32Builder>),
}

impl Builder {
    /// Of one column.
    pub(crate) fn new(column: &Column) -> Self {
        match column.kind {
            ColumnType::U64 => Builder::U64(UInt64Builder::new(), 0),
            ColumnType::I64 => Builder::I64(Int64Builder::new(), 0),
            ColumnType::U32 => Builder::U32(UInt32Builder::new(), 0),
            ColumnType::F64 => Builder::F64(Float64Builder::new(), 0),
            ColumnType::Bool => Builder::Bool(BooleanBuilder::new()),
            ColumnType::Text => Builder::Text(StringBuilder::new(), 0),
            ColumnType::TextList => Builder::TextList(ListBuilder::new(StringBuilder::new())),
            ColumnType::Bytes => Builder::Bytes(BinaryBuilder::new()),
            ColumnType::BytesList => Builder::BytesList(ListBuilder::new(BinaryBuilder::new())),
            ColumnType::U32List => Builder::U32List(ListBuilder::new(UInt32Builder::new())),
        }
    }

    /// The batch's column; what follows is of the next batch.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::U64(builder, nulls) => settled(builder, nulls),
            Builder::I64(builder, nulls) => settled(builder, nulls),
            Builder::U32(builder, nulls) => settled(builder, nulls),
            Builder::F64(builder, nulls) => settled(builder, nulls),
            Builder::Bool(builder) => ArrayBuilder::finish(builder),
            Builder::Text(builder, nulls) => {
                settle_texts(builder, nulls);
                ArrayBuilder::finish(builder)
            }
            Builder::TextList(builder) => ArrayBuilder::finish(builder),
            Builder::Bytes(builder) => ArrayBuilder::finish(builder),
            Builder::BytesList(builder) => ArrayBuilder::finish(builder),
            Builder::U32List(builder) => ArrayBuilder::finish(builder),
        }
    }

    /// A bug: the row is given in another order than that of its columns.
    pub(crate) fn mismatch(&self, given: &str) -> ! {
        let wanted = match self {
            Builder::U64(..) => "u64",
            Builder::I64(..) => "i64",
            Builder::U32(..) => "u32",
            Builder::F64(..) => "f64",
            Builder::Bool(_) => "bool",
            Builder::Text(..) => "text",
            Builder::TextList(_) => "text list",
            Builder::Bytes(_) => "bytes",
            Builder::BytesList(_) => "bytes list",
            Builder::U32List(_) => "u32 list",
        };
        panic!("a column of {wanted} was given {given}")
    }
}
