//! The values of a column that are gathered and not yet encoded.

use std::collections::HashSet;

use bytes::Bytes;
use parquet::data_type::ByteArray;

use crate::column::ColumnType;

/// Where empty values lie. An empty slice of nothing lies nowhere, and comparing it, as for a dictionary, takes a
/// hundred cycles where that is done by masked loads (glibc with AVX-512).
static SOMEWHERE: [u8; 1] = [0];

/// The values that are there. Unsigned numbers are kept in the bits of signed ones.
pub(crate) enum Values {
    Wide(Vec<i64>),
    Narrow(Vec<i32>),
    Fractions(Vec<f64>),
    Flags(Vec<bool>),
    /// One behind the other, and where each is.
    Bytes(Vec<u8>, Vec<Place>),
}

/// Where bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In the program. Parquet counts who holds a value, and of these nobody need be counted.
    Program(&'static str),
    /// Among those that were gathered.
    Gathered { begin: usize, end: usize },
}

impl Place {
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            Place::Program(text) => text.as_bytes(),
            Place::Gathered { begin, end } => &bytes[*begin..*end],
        }
    }
}

/// So many, from all over a batch, tell whether texts differ …
const LOOKED_AT: usize = 64;
/// … if no more of them are like another. Of three hundred texts that come by turns, seven are.
const ALIKE_MAX: usize = 3;

impl Values {
    pub(crate) fn of(kind: ColumnType) -> Self {
        use ColumnType::{Bool, Bytes, BytesList, F64, I64, Text, TextList, U32, U32List, U64};
        match kind {
            U64 | I64 => Values::Wide(Vec::new()),
            U32 | U32List => Values::Narrow(Vec::new()),
            F64 => Values::Fractions(Vec::new()),
            Bool => Values::Flags(Vec::new()),
            Text | TextList | Bytes | BytesList => Values::Bytes(Vec::new(), Vec::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Values::Wide(values) => values.len(),
            Values::Narrow(values) => values.len(),
            Values::Fractions(values) => values.len(),
            Values::Flags(values) => values.len(),
            Values::Bytes(_, places) => places.len(),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Values::Wide(values) => values.clear(),
            Values::Narrow(values) => values.clear(),
            Values::Fractions(values) => values.clear(),
            Values::Flags(values) => values.clear(),
            Values::Bytes(bytes, places) => {
                bytes.clear();
                places.clear();
            }
        }
    }

    #[inline]
    pub(crate) fn push_bytes(&mut self, value: &[u8]) {
        if let Values::Bytes(bytes, places) = self {
            let begin = bytes.len();
            bytes.extend_from_slice(value);
            let end = bytes.len();
            places.push(Place::Gathered { begin, end });
        }
    }

    /// Whether the first one is this.
    #[inline]
    pub(crate) fn begin_with(&self, value: &[u8]) -> bool {
        let first = self.first_bytes();
        self.len() > 0 && first.len() == value.len() && (value.is_empty() || first == value)
    }

    /// The first one's bytes.
    #[inline]
    pub(crate) fn first_bytes(&self) -> &[u8] {
        match self {
            Values::Bytes(bytes, places) => places.first().map_or(&[], |place| place.of(bytes)),
            _ => &[],
        }
    }

    /// Whether nearly all of them are met once, as far as some of them tell. Only bytes are looked at.
    pub(crate) fn differ(&self) -> bool {
        let Values::Bytes(bytes, places) = self else {
            return false;
        };
        let some = places.iter().step_by((places.len() / LOOKED_AT).max(1));
        let some = some.take(LOOKED_AT);
        let differing: HashSet<&[u8]> = some.map(|place| place.of(bytes)).collect();
        places.len() >= LOOKED_AT && differing.len() + ALIKE_MAX >= LOOKED_AT
    }

    /// The last `count` of them, so many times more.
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
            Values::Wide(values) => repeat(values, count, times),
            Values::Narrow(values) => repeat(values, count, times),
            Values::Fractions(values) => repeat(values, count, times),
            Values::Flags(values) => repeat(values, count, times),
            Values::Bytes(_, places) => repeat(places, count, times),
        }
    }
}

/// Takes what was gathered, in the form that Parquet's writer wants; what comes next will have as much space.
pub(crate) fn byte_arrays(bytes: &mut Vec<u8>, places: &mut Vec<Place>) -> Vec<ByteArray> {
    let room = bytes.len();
    let all = Bytes::from(std::mem::replace(bytes, Vec::with_capacity(room)));
    let place = |place| match place {
        Place::Program(text) => Bytes::from_static(text.as_bytes()),
        Place::Gathered { begin, end } if begin == end => Bytes::from_static(&SOMEWHERE[..0]),
        Place::Gathered { begin, end } => all.slice(begin..end),
    };
    places.drain(..).map(place).map(ByteArray::from).collect()
}
