//! Collects the values of a column until a batch of rows is full.
//!
//! Parquet stores the non-null values consecutively. For each entry it also stores the length of its path
//! that is defined (the definition level) and whether it continues the list before it (the repetition level):
//! <https://parquet.apache.org/docs/file-format/nestedencoding/>.
//!
//! While all rows of a row group have one value, it is stored once, over any number of batches. Many columns
//! hold only nulls, or one kind of statement.

use parquet::column::writer::ColumnWriter;
use parquet::errors::Result;

use crate::column::{Column, ColumnType};
use crate::values::{Values, byte_arrays, move_all};

/// Maximum length of a text that is compared with the constant value. Longer texts are compressed instead.
const CONSTANT_BYTES_MAX: usize = 256;

/// Collects a column of a batch.
pub(crate) struct Builder {
    column: &'static Column,
    values: Values,
    /// Definition level of each entry; empty if every value is present.
    definition: Vec<i16>,
    /// Repetition levels of lists: 1 for an entry that continues the list before it.
    repetition: Vec<i16>,
    /// Trailing nulls without levels yet. Many columns hold little else, and a run of nulls costs no more
    /// than one.
    nulls: usize,
    /// Number of rows of the row group with the same value, which alone is in `values`, or null.
    constant_rows: usize,
    /// A row had another value, so values are stored for each row until the row group ends.
    has_different_values: bool,
}

/// One value in all rows of a row group.
pub(crate) struct ConstantColumn<'a> {
    pub(crate) rows: usize,
    /// The value; empty for null.
    pub(crate) value: &'a Values,
}

impl Builder {
    /// Creates a builder for a column.
    pub(crate) fn new(column: &'static Column) -> Self {
        Builder {
            column,
            values: Values::new(column.kind),
            definition: Vec::new(),
            repetition: Vec::new(),
            nulls: 0,
            constant_rows: 0,
            has_different_values: false,
        }
    }

    /// Whether the rows of the group have different values.
    pub(crate) fn has_different_values(&self) -> bool {
        self.has_different_values
    }

    /// Returns the constant value of the group; `None` if the rows differ.
    pub(crate) fn constant(&self) -> Option<ConstantColumn<'_>> {
        (!self.has_different_values).then_some(ConstantColumn {
            rows: self.constant_rows,
            value: &self.values,
        })
    }

    /// Whether most of the collected texts are distinct, so that a dictionary is useless.
    pub(crate) fn is_mostly_distinct(&self) -> bool {
        self.column.kind == ColumnType::Text && self.values.are_mostly_distinct()
    }

    /// Begins the next row group.
    pub(crate) fn begin_group(&mut self) {
        self.values.clear();
        self.constant_rows = 0;
        self.has_different_values = false;
    }

    /// Moves the rows of a batch after those of this builder. Leaves the batch empty. The result is that of adding each
    /// row here.
    pub(crate) fn absorb(&mut self, batch: &mut Builder) {
        if !self.has_different_values && !batch.has_different_values {
            let is_same = self.values.are_same_constant(&batch.values);
            if self.constant_rows == 0 || batch.constant_rows == 0 || is_same {
                if self.constant_rows == 0 {
                    std::mem::swap(&mut self.values, &mut batch.values);
                }
                self.constant_rows += batch.constant_rows;
                return batch.begin_group();
            }
        }
        for builder in [&mut *self, batch] {
            if !builder.has_different_values {
                builder.store_each_row();
            }
        }
        self.append(batch);
        batch.begin_group();
    }

    /// Moves the levels and values of a batch to the end, each of which has its own.
    fn append(&mut self, batch: &mut Builder) {
        if self.column.is_nullable() || self.column.kind.is_list() {
            self.add_null_levels();
        }
        if self.column.kind.is_list() {
            self.repetition.resize(self.definition.len(), 0);
        }
        move_all(&mut self.definition, &mut batch.definition);
        move_all(&mut self.repetition, &mut batch.repetition);
        self.nulls = std::mem::take(&mut batch.nulls);
        self.values.append(&mut batch.values);
    }

    /// Stores the constant value for each row, since the rows are no longer equal.
    #[cold]
    fn store_each_row(&mut self) {
        self.has_different_values = true;
        let rows = std::mem::take(&mut self.constant_rows);
        if self.values.len() == 0 {
            self.nulls = rows;
        } else {
            if self.column.is_nullable() {
                self.definition.resize(rows, 1);
            }
            self.values.repeat_last(1, rows - 1);
        }
    }

    /// Checks that the next value is of this type.
    #[inline]
    fn check_type(&self, given: ColumnType) {
        assert!(
            self.column.kind == given,
            "column {} of {:?} was given {given:?}: the row is given in another order than that of its columns",
            self.column.name,
            self.column.kind
        );
    }

    #[inline]
    fn push_null(&mut self) {
        assert!(
            self.column.is_nullable(),
            "column {} is never null",
            self.column.name
        );
        if self.has_different_values {
            self.nulls += 1;
        } else if self.values.len() == 0 {
            self.constant_rows += 1;
        } else {
            self.store_each_row();
            self.nulls += 1;
        }
    }

    fn add_null_levels(&mut self) {
        let noted = self.definition.len() + std::mem::take(&mut self.nulls);
        self.definition.resize(noted, 0);
    }

    /// Adds the level of a value that is present.
    #[inline]
    fn add_present_level(&mut self) {
        if self.column.is_nullable() {
            if self.nulls > 0 {
                self.add_null_levels();
            }
            self.definition.push(1);
        }
    }

    /// Adds the row's value, or null. `begins` compares it with the first collected value.
    #[inline]
    fn push_value<T: Copy>(
        &mut self,
        kind: ColumnType,
        value: Option<T>,
        begins: impl FnOnce(&Values, T) -> bool,
        push: impl FnOnce(&mut Values, T),
    ) {
        self.check_type(kind);
        let Some(value) = value else {
            return self.push_null();
        };
        if !self.has_different_values {
            if self.constant_rows == 0 {
                self.constant_rows = 1;
                return push(&mut self.values, value);
            }
            if begins(&self.values, value) {
                self.constant_rows += 1;
                return;
            }
            self.store_each_row();
        }
        self.add_present_level();
        push(&mut self.values, value);
    }

    #[inline]
    pub(crate) fn push_i64(&mut self, kind: ColumnType, value: Option<i64>) {
        let begins = |values: &Values, value| match values {
            Values::I64(values) => values.first() == Some(&value),
            _ => false,
        };
        self.push_value(kind, value, begins, |values, value| {
            if let Values::I64(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn push_u32(&mut self, value: Option<u32>) {
        let begins = |values: &Values, value: u32| match values {
            Values::I32(values) => values.first() == Some(&value.cast_signed()),
            _ => false,
        };
        self.push_value(ColumnType::U32, value, begins, |values, value| {
            if let Values::I32(values) = values {
                values.push(value.cast_signed());
            }
        });
    }

    #[inline]
    pub(crate) fn push_f64(&mut self, value: Option<f64>) {
        let begins = |values: &Values, value: f64| match values {
            Values::F64(values) => {
                values.first().map(|first| first.to_bits()) == Some(value.to_bits())
            }
            _ => false,
        };
        self.push_value(ColumnType::F64, value, begins, |values, value| {
            if let Values::F64(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn push_bool(&mut self, value: Option<bool>) {
        let begins = |values: &Values, value| match values {
            Values::Bool(values) => values.first() == Some(&value),
            _ => false,
        };
        self.push_value(ColumnType::Bool, value, begins, |values, value| {
            if let Values::Bool(values) = values {
                values.push(value);
            }
        });
    }

    /// Adds a text or bytes.
    #[inline]
    pub(crate) fn push_bytes(&mut self, kind: ColumnType, value: Option<&[u8]>) {
        if !self.has_different_values && value.is_some_and(|value| value.len() > CONSTANT_BYTES_MAX)
        {
            self.store_each_row();
        }
        self.push_value(kind, value, Values::starts_with, Values::push_bytes);
    }

    /// Adds a static string.
    #[inline]
    pub(crate) fn push_static(&mut self, value: Option<&'static str>) {
        let begins = |values: &Values, value: &'static str| values.starts_with(value.as_bytes());
        self.push_value(ColumnType::Text, value, begins, |values, value| {
            if let Values::Bytes(_, locations) = values {
                locations.push(crate::values::ValueLocation::Static(value));
            }
        });
    }

    /// Repeats the last row of this batch `times` times.
    pub(crate) fn repeat_last(&mut self, times: usize) {
        if !self.has_different_values {
            self.constant_rows += times;
        } else if self.nulls > 0 {
            self.nulls += times;
        } else if self.column.kind.is_list() {
            self.repeat_list(times);
        } else {
            if self.column.is_nullable() {
                self.definition.resize(self.definition.len() + times, 1);
            }
            self.values.repeat_last(1, times);
        }
    }

    fn repeat_list(&mut self, times: usize) {
        self.repetition.resize(self.definition.len(), 0);
        let entries = self.repetition.iter().rev();
        let entries = 1 + entries.take_while(|level| **level == 1).count();
        let begin = self.definition.len() - entries;
        let there = i16::from(self.column.is_nullable()) + 2;
        let values = self.definition[begin..].iter();
        let values = values.filter(|definition| **definition == there).count();
        for _ in 0..times {
            self.definition.extend_from_within(begin..begin + entries);
            self.repetition.extend_from_within(begin..begin + entries);
        }
        if values > 0 {
            self.values.repeat_last(values, times);
        }
    }

    /// Adds a list of texts or bytes. Returns its number of bytes.
    pub(crate) fn push_bytes_list<'a>(
        &mut self,
        kind: ColumnType,
        elements: Option<impl Iterator<Item = Option<&'a [u8]>>>,
    ) -> usize {
        let mut bytes = 0;
        self.push_list(kind, elements, |builder, element| {
            bytes += element.len();
            builder.values.push_bytes(element);
        });
        bytes
    }

    pub(crate) fn push_u32_list(&mut self, elements: Option<impl Iterator<Item = u32>>) {
        let elements = elements.map(|elements| elements.map(Some));
        self.push_list(ColumnType::U32List, elements, |builder, element| {
            if let Values::I32(values) = &mut builder.values {
                values.push(element.cast_signed());
            }
        });
    }

    fn push_list<T>(
        &mut self,
        kind: ColumnType,
        elements: Option<impl Iterator<Item = Option<T>>>,
        mut push: impl FnMut(&mut Self, T),
    ) {
        self.check_type(kind);
        let Some(elements) = elements else {
            return self.push_null();
        };
        if !self.has_different_values {
            self.store_each_row();
        }
        self.add_null_levels();
        let empty = i16::from(self.column.is_nullable());
        let mut is_first = true;
        for element in elements {
            self.repetition.resize(self.definition.len(), 0);
            self.repetition.push(i16::from(!is_first));
            self.definition
                .push(empty + 1 + i16::from(element.is_some()));
            if let Some(element) = element {
                push(self, element);
            }
            is_first = false;
        }
        if is_first {
            self.definition.push(empty);
        }
    }

    /// Writes the batch's values to the column's encoder, and begins the next batch.
    ///
    /// # Errors
    /// If the encoder fails.
    pub(crate) fn write_to(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        self.add_null_levels();
        let is_list = self.column.kind.is_list();
        if is_list {
            self.repetition.resize(self.definition.len(), 0);
        }
        let definition =
            (self.column.is_nullable() || is_list).then_some(self.definition.as_slice());
        let repetition = is_list.then_some(self.repetition.as_slice());
        match (&mut self.values, writer) {
            (Values::I64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::I32(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::F64(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Bool(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Bytes(bytes, locations), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values = byte_arrays(bytes, locations);
                writer.write_batch(&values, definition, repetition)?;
            }
            _ => unreachable!("a column's writer is made from its type"),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    static TEXT: Column = Column::nullable("text", ColumnType::Text);
    static NUMBER: Column = Column::required("number", ColumnType::I64);
    static LIST: Column = Column::nullable("list", ColumnType::TextList);

    fn push(builders: &mut [Builder; 3], row: u8) {
        let texts: [&[u8]; 3] = [b"", b"text", &[b'x'; CONSTANT_BYTES_MAX + 1]];
        let text = texts.get(usize::from(row % 4)).copied();
        builders[0].push_bytes(ColumnType::Text, text);
        builders[1].push_i64(ColumnType::I64, Some(i64::from(row / 2)));
        let count = usize::from(row / 4);
        let list = text.map(|text| std::iter::repeat_n(Some(text).filter(|_| row > 3), count));
        builders[2].push_bytes_list(ColumnType::TextList, list);
    }

    fn contents(builder: &mut Builder) -> String {
        builder.add_null_levels();
        if builder.column.kind.is_list() {
            builder.repetition.resize(builder.definition.len(), 0);
        }
        let values: Vec<Vec<u8>> = match &builder.values {
            Values::Bytes(bytes, locations) => {
                let all = locations.iter().map(|location| location.bytes(bytes));
                all.map(<[u8]>::to_vec).collect()
            }
            Values::I64(values) => values
                .iter()
                .map(|value| value.to_le_bytes().to_vec())
                .collect(),
            _ => unreachable!("no such column"),
        };
        format!(
            "{} {} {values:?} {:?} {:?}",
            builder.has_different_values,
            builder.constant_rows,
            builder.definition,
            builder.repetition
        )
    }

    proptest! {
        #[test]
        fn batches_that_are_absorbed_give_the_builder_of_all_rows(
            rows in prop::collection::vec((prop_oneof![3 => Just(7), 1 => 0..12_u8], any::<bool>()), 0..40),
            constant in prop::option::of(0..12_u8),
        ) {
            let new = || [&TEXT, &NUMBER, &LIST].map(Builder::new);
            let (mut all, mut collected, mut batch) = (new(), new(), new());
            for (row, is_last_of_batch) in rows {
                let row = constant.unwrap_or(row);
                push(&mut all, row);
                push(&mut batch, row);
                if is_last_of_batch {
                    for (one, other) in collected.iter_mut().zip(&mut batch) {
                        one.absorb(other);
                    }
                }
            }
            for (one, other) in collected.iter_mut().zip(&mut batch) {
                one.absorb(other);
            }
            let text = |builders: &mut [Builder; 3]| builders.each_mut().map(contents);
            prop_assert_eq!(text(&mut collected), text(&mut all));
        }
    }
}
