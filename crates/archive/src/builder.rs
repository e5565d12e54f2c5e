//! What gathers the values of a column until a batch of rows is full.
//!
//! Parquet keeps the values that are there one behind the other, and beside them for each place how
//! much of its path is there (its definition level) and whether it goes on with the list before it
//! (its repetition level): <https://parquet.apache.org/docs/file-format/nestedencoding/>.

use bytes::Bytes;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;

use crate::column::{Column, ColumnType};

/// Where empty values lie. An empty slice of nothing lies nowhere, and comparing it, as for a dictionary, takes a
/// hundred cycles where that is done by masked loads (glibc with AVX-512).
static SOMEWHERE: [u8; 1] = [0];

/// The values that are there. Unsigned numbers are kept in the bits of signed ones.
enum Values {
    Wide(Vec<i64>),
    Narrow(Vec<i32>),
    Fractions(Vec<f64>),
    Flags(Vec<bool>),
    /// One behind the other, and where each is.
    Bytes(Vec<u8>, Vec<Place>),
}

/// Where bytes are.
#[derive(Clone, Copy)]
enum Place {
    /// In the program. Parquet counts who holds a value, and of these nobody need be counted.
    Program(&'static str),
    /// From the end of the one before, to here.
    Until(usize),
}

impl Values {
    #[inline]
    fn push_bytes(&mut self, value: &[u8]) {
        if let Values::Bytes(bytes, places) = self {
            bytes.extend_from_slice(value);
            places.push(Place::Until(bytes.len()));
        }
    }

    /// The last `count` of them, so many times more.
    fn repeat_last(&mut self, count: usize, times: usize) {
        fn repeat<T: Copy>(values: &mut Vec<T>, count: usize, times: usize) {
            let last = values.len() - count..values.len();
            for _ in 0..times {
                values.extend_from_within(last.clone());
            }
        }
        match self {
            Values::Wide(values) => repeat(values, count, times),
            Values::Narrow(values) => repeat(values, count, times),
            Values::Fractions(values) => repeat(values, count, times),
            Values::Flags(values) => repeat(values, count, times),
            Values::Bytes(bytes, places) => {
                let last = places.len() - count..places.len();
                let until = |place: &Place| match place {
                    Place::Until(end) => Some(*end),
                    Place::Program(_) => None,
                };
                let begin = places[..last.start].iter().rev().find_map(until);
                let value = begin.unwrap_or(0)..bytes.len();
                for _ in 0..times {
                    let moved = bytes.len() - value.start;
                    bytes.extend_from_within(value.clone());
                    for place in last.clone() {
                        places.push(match places[place] {
                            Place::Until(end) => Place::Until(end + moved),
                            program @ Place::Program(_) => program,
                        });
                    }
                }
            }
        }
    }
}

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
}

impl Builder {
    /// Of one column.
    pub(crate) fn new(column: &'static Column) -> Self {
        let values = match column.kind {
            ColumnType::U64 | ColumnType::I64 => Values::Wide(Vec::new()),
            ColumnType::U32 | ColumnType::U32List => Values::Narrow(Vec::new()),
            ColumnType::F64 => Values::Fractions(Vec::new()),
            ColumnType::Bool => Values::Flags(Vec::new()),
            ColumnType::Text | ColumnType::TextList | ColumnType::Bytes | ColumnType::BytesList => {
                Values::Bytes(Vec::new(), Vec::new())
            }
        };
        Builder {
            column,
            values,
            definition: Vec::new(),
            repetition: Vec::new(),
            nulls: 0,
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
        self.nulls += 1;
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

    /// The row's value, or null.
    #[inline]
    fn value<T>(&mut self, kind: ColumnType, value: Option<T>, push: impl FnOnce(&mut Values, T)) {
        self.expect(kind);
        match value {
            None => self.null(),
            Some(value) => {
                self.present();
                push(&mut self.values, value);
            }
        }
    }

    #[inline]
    pub(crate) fn wide(&mut self, kind: ColumnType, value: Option<i64>) {
        self.value(kind, value, |values, value| {
            if let Values::Wide(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn narrow(&mut self, value: Option<u32>) {
        self.value(ColumnType::U32, value, |values, value| {
            if let Values::Narrow(values) = values {
                values.push(value.cast_signed());
            }
        });
    }

    #[inline]
    pub(crate) fn fraction(&mut self, value: Option<f64>) {
        self.value(ColumnType::F64, value, |values, value| {
            if let Values::Fractions(values) = values {
                values.push(value);
            }
        });
    }

    #[inline]
    pub(crate) fn flag(&mut self, value: Option<bool>) {
        self.value(ColumnType::Bool, value, |values, value| {
            if let Values::Flags(values) = values {
                values.push(value);
            }
        });
    }

    /// Text or bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, kind: ColumnType, value: Option<&[u8]>) {
        self.value(kind, value, Values::push_bytes);
    }

    /// A text of the program's own.
    #[inline]
    pub(crate) fn name(&mut self, value: Option<&'static str>) {
        self.value(ColumnType::Text, value, |values, value| {
            if let Values::Bytes(_, places) = values {
                places.push(Place::Program(value));
            }
        });
    }

    /// Whether what the last row of this batch had can be had again.
    pub(crate) fn can_repeat(&self) -> bool {
        use ColumnType::{Bytes, BytesList, TextList};
        self.nulls > 0 || !matches!(self.column.kind, Bytes | BytesList | TextList)
    }

    /// What the last row of this batch had, for so many rows more.
    pub(crate) fn repeat_last(&mut self, times: usize) {
        if self.nulls > 0 {
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
        self.values.repeat_last(values, times);
    }

    /// So many nulls, where there is nothing else.
    pub(crate) fn only_nulls(&self) -> Option<usize> {
        (self.nulls > 0 && self.definition.is_empty()).then_some(self.nulls)
    }

    /// What was gathered is forgotten.
    pub(crate) fn forget_nulls(&mut self) {
        self.nulls = 0;
    }

    /// So many nulls stand before what was gathered.
    pub(crate) fn put_nulls_before(&mut self, nulls: usize) {
        if self.only_nulls().is_some() {
            self.nulls += nulls;
        } else if nulls > 0 {
            self.definition.splice(0..0, std::iter::repeat_n(0, nulls));
            if self.column.kind.is_list() {
                self.repetition.splice(0..0, std::iter::repeat_n(0, nulls));
            }
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
                let room = bytes.len();
                let all = Bytes::from(std::mem::replace(bytes, Vec::with_capacity(room)));
                let mut begin = 0;
                let values: Vec<ByteArray> = places
                    .drain(..)
                    .map(|place| match place {
                        Place::Program(text) => Bytes::from_static(text.as_bytes()),
                        Place::Until(end) => match std::mem::replace(&mut begin, end) {
                            begin if begin == end => Bytes::from_static(&SOMEWHERE[..0]),
                            begin => all.slice(begin..end),
                        },
                    })
                    .map(ByteArray::from)
                    .collect();
                writer.write_batch(&values, definition, repetition)?;
            }
            _ => unreachable!("a column's writer is made from its type"),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }
}
