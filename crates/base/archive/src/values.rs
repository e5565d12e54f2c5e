//! Values of a column that are collected and not yet encoded.

use std::collections::HashSet;

use bytes::Bytes;
use parquet::data_type::ByteArray;

use crate::column::ColumnType;

/// Address of empty values. An empty slice has a dangling address. Comparing it, as for a dictionary, takes a
/// hundred cycles if that is done by masked loads (glibc with AVX-512).
static EMPTY: [u8; 1] = [0];

/// Non-null values. Unsigned numbers are stored in the bits of signed ones.
pub(crate) enum Values {
    I64(Vec<i64>),
    I32(Vec<i32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    /// Buffer of all bytes, and the location of each value.
    Bytes(Vec<u8>, Vec<ValueLocation>),
}

/// Location of a value's bytes.
#[derive(Clone, Copy)]
pub(crate) enum ValueLocation {
    /// A static string. Parquet counts references to values; a static string needs no count.
    Static(&'static str),
    /// A range of the buffer.
    Buffered { begin: usize, end: usize },
}

impl ValueLocation {
    /// Adds to the position in the buffer.
    fn shift(&mut self, offset: usize) {
        if let ValueLocation::Buffered { begin, end } = self {
            *begin += offset;
            *end += offset;
        }
    }

    pub(crate) fn bytes<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            ValueLocation::Static(text) => text.as_bytes(),
            ValueLocation::Buffered { begin, end } => &bytes[*begin..*end],
        }
    }
}

/// Moves all elements to the end of another vector, without a copy if that is empty.
pub(crate) fn move_all<T: Copy>(to: &mut Vec<T>, from: &mut Vec<T>) {
    match to.is_empty() {
        true => {
            std::mem::swap(to, from);
            from.clear();
        }
        false => to.append(from),
    }
}

/// Number of texts, sampled over the whole batch, that decide whether texts are mostly distinct.
const SAMPLE_SIZE: usize = 64;
/// Maximum number of duplicates among distinct texts. If three hundred texts alternate, the sample has seven
/// duplicates.
const SAMPLE_DUPLICATES_MAX: usize = 3;

impl Values {
    pub(crate) fn new(kind: ColumnType) -> Self {
        use ColumnType::{Bool, Bytes, BytesList, F64, I64, Text, TextList, U32, U32List, U64};
        match kind {
            U64 | I64 => Values::I64(Vec::new()),
            U32 | U32List => Values::I32(Vec::new()),
            F64 => Values::F64(Vec::new()),
            Bool => Values::Bool(Vec::new()),
            Text | TextList | Bytes | BytesList => Values::Bytes(Vec::new(), Vec::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Values::I64(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Bytes(_, locations) => locations.len(),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Values::I64(values) => values.clear(),
            Values::I32(values) => values.clear(),
            Values::F64(values) => values.clear(),
            Values::Bool(values) => values.clear(),
            Values::Bytes(bytes, locations) => {
                bytes.clear();
                locations.clear();
            }
        }
    }

    #[inline]
    pub(crate) fn push_bytes(&mut self, value: &[u8]) {
        if let Values::Bytes(bytes, locations) = self {
            let begin = bytes.len();
            bytes.extend_from_slice(value);
            let end = bytes.len();
            locations.push(ValueLocation::Buffered { begin, end });
        }
    }

    /// Whether the first value equals this one.
    #[inline]
    pub(crate) fn starts_with(&self, value: &[u8]) -> bool {
        let first = self.first_bytes();
        self.len() > 0 && first.len() == value.len() && (value.is_empty() || first == value)
    }

    /// Returns the bytes of the first value.
    #[inline]
    pub(crate) fn first_bytes(&self) -> &[u8] {
        match self {
            Values::Bytes(bytes, locations) => locations
                .first()
                .map_or(&[], |location| location.bytes(bytes)),
            _ => &[],
        }
    }

    /// Whether nearly all byte values are distinct, judged by a sample.
    pub(crate) fn are_mostly_distinct(&self) -> bool {
        let Values::Bytes(bytes, locations) = self else {
            return false;
        };
        let some = locations
            .iter()
            .step_by((locations.len() / SAMPLE_SIZE).max(1));
        let some = some.take(SAMPLE_SIZE);
        let differing: HashSet<&[u8]> = some.map(|location| location.bytes(bytes)).collect();
        locations.len() >= SAMPLE_SIZE && differing.len() + SAMPLE_DUPLICATES_MAX >= SAMPLE_SIZE
    }

    /// Whether two constants are equal. A constant is one value, or none for null.
    pub(crate) fn are_same_constant(&self, other: &Values) -> bool {
        match (self, other) {
            (Values::I64(one), Values::I64(other)) => one == other,
            (Values::I32(one), Values::I32(other)) => one == other,
            (Values::F64(one), Values::F64(other)) => {
                let bits = |values: &[f64]| values.first().map(|value| value.to_bits());
                bits(one) == bits(other)
            }
            (Values::Bool(one), Values::Bool(other)) => one == other,
            _ => self.len() == other.len() && self.first_bytes() == other.first_bytes(),
        }
    }

    /// Moves the values of another column of this type to the end.
    pub(crate) fn append(&mut self, other: &mut Values) {
        match (self, other) {
            (Values::I64(values), Values::I64(more)) => move_all(values, more),
            (Values::I32(values), Values::I32(more)) => move_all(values, more),
            (Values::F64(values), Values::F64(more)) => move_all(values, more),
            (Values::Bool(values), Values::Bool(more)) => move_all(values, more),
            (Values::Bytes(bytes, locations), Values::Bytes(more, more_locations)) => {
                let offset = bytes.len();
                move_all(bytes, more);
                if offset > 0 {
                    for location in more_locations.iter_mut() {
                        location.shift(offset);
                    }
                }
                move_all(locations, more_locations);
            }
            _ => unreachable!("a column has one type"),
        }
    }

    /// Repeats the last `count` values `times` times.
    pub(crate) fn repeat_last(&mut self, count: usize, times: usize) {
        fn repeat<T: Copy>(values: &mut Vec<T>, count: usize, times: usize) {
            match values.last().copied() {
                Some(last) if count == 1 => values.resize(values.len() + times, last),
                _ => {
                    let last = values.len() - count..values.len();
                    for _ in 0..times {
                        values.extend_from_within(last.clone());
                    }
                }
            }
        }
        match self {
            Values::I64(values) => repeat(values, count, times),
            Values::I32(values) => repeat(values, count, times),
            Values::F64(values) => repeat(values, count, times),
            Values::Bool(values) => repeat(values, count, times),
            Values::Bytes(_, locations) => repeat(locations, count, times),
        }
    }
}

/// Takes the values in the form that Parquet's writer needs. The new buffer has the same capacity.
pub(crate) fn byte_arrays(
    bytes: &mut Vec<u8>,
    locations: &mut Vec<ValueLocation>,
) -> Vec<ByteArray> {
    let room = bytes.len();
    let all = Bytes::from(std::mem::replace(bytes, Vec::with_capacity(room)));
    let location = |location| match location {
        ValueLocation::Static(text) => Bytes::from_static(text.as_bytes()),
        ValueLocation::Buffered { begin, end } if begin == end => Bytes::from_static(&EMPTY[..0]),
        ValueLocation::Buffered { begin, end } => all.slice(begin..end),
    };
    locations
        .drain(..)
        .map(location)
        .map(ByteArray::from)
        .collect()
}
