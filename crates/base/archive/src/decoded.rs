//! A column of some rows, read from a file.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};

use crate::column::{Column, ColumnType};

/// Where a row, or an element of a list, has no value.
const ABSENT: u32 = u32::MAX;

/// The values that are there, one behind the other.
pub(crate) enum Values {
    Wide(Vec<i64>),
    Narrow(Vec<i32>),
    Fractions(Vec<f64>),
    Flags(Vec<bool>),
    Bytes(Spans<Vec<u8>>),
    Text(Spans<String>),
}

/// Values of different lengths.
pub(crate) struct Spans<T> {
    all: T,
    /// Where each ends.
    ends: Vec<usize>,
}

impl<T> Spans<T> {
    fn range(&self, place: usize) -> std::ops::Range<usize> {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin..self.ends[place]
    }
}

impl Spans<String> {
    pub(crate) fn get(&self, place: usize) -> &str {
        &self.all[self.range(place)]
    }
}

impl Spans<Vec<u8>> {
    fn of(values: &[ByteArray]) -> Self {
        let mut spans = Spans {
            all: Vec::with_capacity(values.iter().map(ByteArray::len).sum()),
            ends: Vec::with_capacity(values.len()),
        };
        for value in values {
            spans.all.extend_from_slice(value.data());
            spans.ends.push(spans.all.len());
        }
        spans
    }

    pub(crate) fn get(&self, place: usize) -> &[u8] {
        &self.all[self.range(place)]
    }

    /// As text: all of it is UTF-8, and no value ends within a character.
    fn into_text(self) -> Result<Spans<String>> {
        let all = String::from_utf8(self.all)
            .map_err(|error| ParquetError::General(format!("a text is not UTF-8: {error}")))?;
        if !self.ends.iter().all(|end| all.is_char_boundary(*end)) {
            let reason = "a text ends within a character".to_owned();
            return Err(ParquetError::General(reason));
        }
        Ok(Spans {
            all,
            ends: self.ends,
        })
    }
}

/// A column of some rows.
pub(crate) struct Decoded {
    pub(crate) values: Values,
    /// The place of each row's value, or of each element's, among the values; empty where each has one.
    places: Vec<u32>,
    /// For lists: where each row's elements begin and end; the same, and beyond them all, for none.
    lists: Vec<(u32, u32)>,
}

impl Decoded {
    /// Of a column that the file does not have.
    pub(crate) fn absent(column: &Column, rows: usize) -> Self {
        let is_list = column.kind.is_list();
        Decoded {
            values: Values::Flags(Vec::new()),
            places: vec![ABSENT; if is_list { 0 } else { rows }],
            lists: vec![(ABSENT, ABSENT); if is_list { rows } else { 0 }],
        }
    }

    /// The next `rows` rows of a row group's column; `highest` is its highest definition level.
    ///
    /// # Errors
    /// Where it is damaged, or has fewer.
    pub(crate) fn read(
        column: &Column,
        reader: &mut ColumnReader,
        highest: i16,
        rows: usize,
    ) -> Result<Self> {
        let (levels, values) = match reader {
            ColumnReader::Int64ColumnReader(reader) => {
                let (levels, values) = read(reader, rows)?;
                (levels, Values::Wide(values))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let (levels, values) = read(reader, rows)?;
                (levels, Values::Narrow(values))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                let (levels, values) = read(reader, rows)?;
                (levels, Values::Fractions(values))
            }
            ColumnReader::BoolColumnReader(reader) => {
                let (levels, values) = read(reader, rows)?;
                (levels, Values::Flags(values))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                let (levels, values) = read(reader, rows)?;
                let bytes = Spans::of(&values);
                let values = match column.kind {
                    ColumnType::Text | ColumnType::TextList => Values::Text(bytes.into_text()?),
                    _ => Values::Bytes(bytes),
                };
                (levels, values)
            }
            _ => unreachable!("the column's type was compared when the file was opened"),
        };
        Ok(levels.place(values, column.kind.is_list(), highest))
    }

    /// The place of a row's value; `None` for null.
    #[inline]
    pub(crate) fn place(&self, row: usize) -> Option<usize> {
        match self.places.get(row) {
            None => Some(row),
            Some(&ABSENT) => None,
            Some(place) => Some(*place as usize),
        }
    }

    /// The places of a row's elements, each `None` for null; `None` where there is no list.
    pub(crate) fn elements(&self, row: usize) -> Option<impl Iterator<Item = Option<usize>>> {
        let (begin, end) = self.lists[row];
        (begin != ABSENT).then(|| (begin..end).map(|element| self.place(element as usize)))
    }
}

/// What says where the values of a column belong.
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// The next `rows` rows: where their values belong, and those that are there.
fn read<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> Result<(Levels, Vec<T::T>)> {
    let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let (found, _, _) = reader.read_records(
        rows,
        Some(&mut definition),
        Some(&mut repetition),
        &mut values,
    )?;
    if found < rows {
        return Err(ParquetError::General(format!(
            "a column ends {} rows before the others",
            rows - found
        )));
    }
    let levels = Levels {
        definition,
        repetition,
    };
    Ok((levels, values))
}

impl Levels {
    /// `highest` is the definition level of a value that is there. Of lists, one less is a null among
    /// the elements, two less an empty list, and anything below no list.
    fn place(&self, values: Values, is_list: bool, highest: i16) -> Decoded {
        let mut decoded = Decoded {
            values,
            places: Vec::new(),
            lists: Vec::new(),
        };
        let mut next = 0;
        let mut place = |level: i16| match level == highest {
            false => ABSENT,
            true => {
                next += 1;
                next - 1
            }
        };
        if !is_list {
            decoded.places = self.definition.iter().map(|level| place(*level)).collect();
            return decoded;
        }
        for (&level, &repetition) in self.definition.iter().zip(&self.repetition) {
            let end = decoded.places.len() as u32;
            match repetition > 0 {
                true => {}
                false if level < highest - 2 => decoded.lists.push((ABSENT, ABSENT)),
                false => decoded.lists.push((end, end)),
            }
            if level >= highest - 1 {
                decoded.places.push(place(level));
                if let Some((_, end)) = decoded.lists.last_mut() {
                    *end += 1;
                }
            }
        }
        decoded
    }
}
