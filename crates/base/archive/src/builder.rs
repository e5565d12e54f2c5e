//! What gathers the values of a column until a batch of rows is full.
//!
//! Parquet keeps the values that are there one behind the other, and beside them for each place how
//! much of its path is there (its definition level) and whether it goes on with the list before it
//! (its repetition level): <https://parquet.apache.org/docs/file-format/nestedencoding/>.
//!
//! As long as all rows of a row group have the same, that is noted once, however many batches they are:
//! many columns hold nothing at all, or one kind of statement.

use parquet::column::writer::ColumnWriter;
use parquet::errors::Result;

use crate::column::{Column, ColumnType};
use crate::values::{Values, byte_arrays};

/// Longer texts are compared with none before them: they are compressed, as they should be, with all others.
const ALIKE_BYTES_MAX: usize = 256;

/// What gathers a column of a batch.
pub(crate) struct Builder {
    column: &'static Column,
    values: Values,
    /// How much of each place's path is there; empty where every value is.
    definition: Vec<i16>,
    /// For lists: 1 where a place goes on with the list before it.
    repetition: Vec<i16>,
    /// Nulls that were given and not yet noted: many columns hold little else, and a run of them
    /// costs no more than one.
    nulls: usize,
    /// So many rows of the row group have had the same, which alone is in `values`, or null.
    alike: usize,
    /// A row has had something else: nothing is alike until the row group ends.
    is_parted: bool,
}

/// What all rows of a row group have.
pub(crate) struct Alike<'a> {
    pub(crate) rows: usize,
    /// One value; none, where they are null.
    pub(crate) value: &'a Values,
}

impl Builder {
    /// Of one column.
    pub(crate) fn new(column: &'static Column) -> Self {
        Builder {
            column,
            values: Values::of(column.kind),
            definition: Vec::new(),
            repetition: Vec::new(),
            nulls: 0,
            alike: 0,
            is_parted: false,
        }
    }

    /// Whether there is more to it than what all rows of the group have.
    pub(crate) fn is_parted(&self) -> bool {
        self.is_parted
    }

    /// What all rows of the group have; `None` where they have this and that.
    pub(crate) fn alike(&self) -> Option<Alike<'_>> {
        (!self.is_parted).then_some(Alike {
            rows: self.alike,
            value: &self.values,
        })
    }

    /// Whether most of the texts that were gathered differ: numbering them would be in vain.
    pub(crate) fn differs(&self) -> bool {
        self.column.kind == ColumnType::Text && self.values.differ()
    }

    /// What comes next is of another row group.
    pub(crate) fn begin_group(&mut self) {
        self.values.clear();
        self.alike = 0;
        self.is_parted = false;
    }

    /// Rows are no longer alike: what they had is noted for each.
    #[cold]
    fn part(&mut self) {
        self.is_parted = true;
        let rows = std::mem::take(&mut self.alike);
        if self.values.len() == 0 {
            self.nulls = rows;
        } else {
            if self.column.nullable {
                self.definition.resize(rows, 1);
            }
            self.values.repeat_last(1, rows - 1);
        }
    }

    /// A value of this type follows.
    #[inline]
    fn expect(&self, given: ColumnType) {
        assert!(
            self.column.kind == given,
            "column {} of {:?} was given {given:?}: the row is given in another order than that of its columns",
            self.column.name,
            self.column.kind
        );
    }

    #[inline]
    fn null(&mut self) {
        assert!(
            self.column.nullable,
            "column {} is never null",
            self.column.name
        );
        if self.is_parted {
            self.nulls += 1;
        } else if self.values.len() == 0 {
            self.alike += 1;
        } else {
            self.part();
            self.nulls += 1;
        }
    }

    fn settle_nulls(&mut self) {
        let noted = self.definition.len() + std::mem::take(&mut self.nulls);
        self.definition.resize(noted, 0);
    }

    /// Notes that the next value is there.
    #[inline]
    fn present(&mut self) {
        if self.column.nullable {
            if self.nulls > 0 {
                self.settle_nulls();
            }
            self.definition.push(1);
        }
    }

    /// The row's value, or null. `begins` says whether the first that was gathered is this one.
    #[inline]
    fn value<T: Copy>(
        &mut self,
        kind: ColumnType,
        value: Option<T>,
        begins: impl FnOnce(&Values, T) -> bool,
        push: impl FnOnce(&mut Values, T),
    ) {
        self.expect(kind);
        let Some(value) = value else {
            return self.null();
        };
        if !self.is_parted {
            if self.alike == 0 {
                self.alike = 1;
                return push(&mut self.values, value);
            }
            if begins(&self.values, value) {
                self.alike += 1;
                return;
            }
            self.part();
        }
        self.present();
        push(&mut self.values, value);
    }

    #[inline]
    pub(crate) fn wide(&mut self, kind: ColumnType, value: Option<i64>) {
        let begins = |values: &Values, value| match values {
            Values::Wide(values) => values.first() == Some(&value),
            _ => false,
        };
        self.value(kind, value, begins, |values, value| {
            if let Values::Wide(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn narrow(&mut self, value: Option<u32>) {
        let begins = |values: &Values, value: u32| match values {
            Values::Narrow(values) => values.first() == Some(&value.cast_signed()),
            _ => false,
        };
        self.value(ColumnType::U32, value, begins, |values, value| {
            if let Values::Narrow(values) = values {
                values.push(value.cast_signed());
            }
        });
    }

    #[inline]
    pub(crate) fn fraction(&mut self, value: Option<f64>) {
        let begins = |values: &Values, value: f64| match values {
            Values::Fractions(values) => {
                values.first().map(|first| first.to_bits()) == Some(value.to_bits())
            }
            _ => false,
        };
        self.value(ColumnType::F64, value, begins, |values, value| {
            if let Values::Fractions(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn flag(&mut self, value: Option<bool>) {
        let begins = |values: &Values, value| match values {
            Values::Flags(values) => values.first() == Some(&value),
            _ => false,
        };
        self.value(ColumnType::Bool, value, begins, |values, value| {
            if let Values::Flags(values) = values {
                values.push(value);
            }
        });
    }

    /// Text or bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, kind: ColumnType, value: Option<&[u8]>) {
        if !self.is_parted && value.is_some_and(|value| value.len() > ALIKE_BYTES_MAX) {
            self.part();
        }
        self.value(kind, value, Values::begin_with, Values::push_bytes);
    }

    /// A text of the program's own.
    #[inline]
    pub(crate) fn name(&mut self, value: Option<&'static str>) {
        let begins = |values: &Values, value: &'static str| values.begin_with(value.as_bytes());
        self.value(ColumnType::Text, value, begins, |values, value| {
            if let Values::Bytes(_, places) = values {
                places.push(crate::values::Place::Program(value));
            }
        });
    }

    /// What the last row of this batch had, for so many rows more.
    pub(crate) fn repeat_last(&mut self, times: usize) {
        if !self.is_parted {
            self.alike += times;
        } else if self.nulls > 0 {
            self.nulls += times;
        } else if self.column.kind.is_list() {
            self.repeat_list(times);
        } else {
            if self.column.nullable {
                self.definition.resize(self.definition.len() + times, 1);
            }
            self.values.repeat_last(1, times);
        }
    }

    fn repeat_list(&mut self, times: usize) {
        self.repetition.resize(self.definition.len(), 0);
        let places = self.repetition.iter().rev();
        let places = 1 + places.take_while(|goes_on| **goes_on == 1).count();
        let begin = self.definition.len() - places;
        let there = i16::from(self.column.nullable) + 2;
        let values = self.definition[begin..].iter();
        let values = values.filter(|definition| **definition == there).count();
        for _ in 0..times {
            self.definition.extend_from_within(begin..begin + places);
            self.repetition.extend_from_within(begin..begin + places);
        }
        if values > 0 {
            self.values.repeat_last(values, times);
        }
    }

    /// A list of texts or bytes: how many bytes it has.
    pub(crate) fn bytes_list<'a>(
        &mut self,
        kind: ColumnType,
        elements: Option<impl Iterator<Item = Option<&'a [u8]>>>,
    ) -> usize {
        let mut bytes = 0;
        self.list(kind, elements, |builder, element| {
            bytes += element.len();
            builder.values.push_bytes(element);
        });
        bytes
    }

    pub(crate) fn narrow_list(&mut self, elements: Option<impl Iterator<Item = u32>>) {
        let elements = elements.map(|elements| elements.map(Some));
        self.list(ColumnType::U32List, elements, |builder, element| {
            if let Values::Narrow(values) = &mut builder.values {
                values.push(element.cast_signed());
            }
        });
    }

    fn list<T>(
        &mut self,
        kind: ColumnType,
        elements: Option<impl Iterator<Item = Option<T>>>,
        mut push: impl FnMut(&mut Self, T),
    ) {
        self.expect(kind);
        let Some(elements) = elements else {
            return self.null();
        };
        if !self.is_parted {
            self.part();
        }
        self.settle_nulls();
        let empty = i16::from(self.column.nullable);
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

    /// Hands the batch's values to the column's writer; what follows is of the next batch.
    ///
    /// # Errors
    /// Where it refuses.
    pub(crate) fn write_to(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        self.settle_nulls();
        let is_list = self.column.kind.is_list();
        if is_list {
            self.repetition.resize(self.definition.len(), 0);
        }
        let definition = (self.column.nullable || is_list).then_some(self.definition.as_slice());
        let repetition = is_list.then_some(self.repetition.as_slice());
        match (&mut self.values, writer) {
            (Values::Wide(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Narrow(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Fractions(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Flags(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(values, definition, repetition)?;
                values.clear();
            }
            (Values::Bytes(bytes, places), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values = byte_arrays(bytes, places);
                writer.write_batch(&values, definition, repetition)?;
            }
            _ => unreachable!("a column's writer is made from its type"),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }
}
