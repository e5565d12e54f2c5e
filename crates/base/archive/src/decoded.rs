//! A decoded column of several rows.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};

use crate::column::{Column, ColumnType};

/// Index of a null.
const NULL_INDEX: u32 = u32::MAX;

/// Non-null values.
pub(crate) enum Values {
    I64(Vec<i64>),
    I32(Vec<i32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Bytes(Spans<Vec<u8>>),
    Text(Spans<String>),
}

/// Values of different lengths.
pub(crate) struct Spans<T> {
    all: T,
    /// End offset of each value.
    ends: Vec<usize>,
}

impl<T> Spans<T> {
    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin..self.ends[index]
    }
}

impl Spans<String> {
    pub(crate) fn get(&self, index: usize) -> &str {
        &self.all[self.range(index)]
    }
}

impl Spans<Vec<u8>> {
    fn new(values: &[ByteArray]) -> Self {
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

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        &self.all[self.range(index)]
    }

    /// Converts to text, if all of it is UTF-8 and no value ends within a character.
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

/// A decoded column of several rows.
pub(crate) struct Decoded {
    pub(crate) values: Values,
    /// Index of the value of each row, or of each element; empty if none is null.
    indices: Vec<u32>,
    /// Lists: range of each row's elements. A null list has both ends at [`NULL_INDEX`].
    lists: Vec<(u32, u32)>,
}

impl Decoded {
    /// Creates a column of nulls, for one that the file does not have.
    pub(crate) fn absent(column: &Column, rows: usize) -> Self {
        let is_list = column.kind.is_list();
        Decoded {
            values: Values::Bool(Vec::new()),
            indices: vec![NULL_INDEX; if is_list { 0 } else { rows }],
            lists: vec![(NULL_INDEX, NULL_INDEX); if is_list { rows } else { 0 }],
        }
    }

    /// Decodes the next `rows` rows of a row group's column; `highest` is its highest definition level.
    ///
    /// # Errors
    /// If the column is damaged or has fewer rows.
    pub(crate) fn read(
        column: &Column,
        reader: &mut ColumnReader,
        highest: i16,
        rows: usize,
    ) -> Result<Self> {
        let (levels, values) = match reader {
            ColumnReader::Int64ColumnReader(reader) => {
                let (levels, values) = read_levels(reader, rows)?;
                (levels, Values::I64(values))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let (levels, values) = read_levels(reader, rows)?;
                (levels, Values::I32(values))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                let (levels, values) = read_levels(reader, rows)?;
                (levels, Values::F64(values))
            }
            ColumnReader::BoolColumnReader(reader) => {
                let (levels, values) = read_levels(reader, rows)?;
                (levels, Values::Bool(values))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                let (levels, values) = read_levels(reader, rows)?;
                let bytes = Spans::new(&values);
                let values = match column.kind {
                    ColumnType::Text | ColumnType::TextList => Values::Text(bytes.into_text()?),
                    _ => Values::Bytes(bytes),
                };
                (levels, values)
            }
            _ => unreachable!("the column's type was compared when the file was opened"),
        };
        Ok(levels.assign_to_rows(values, column.kind.is_list(), highest))
    }

    /// Returns the index of a row's value; `None` for null.
    #[inline]
    pub(crate) fn index(&self, row: usize) -> Option<usize> {
        match self.indices.get(row) {
            None => Some(row),
            Some(&NULL_INDEX) => None,
            Some(index) => Some(*index as usize),
        }
    }

    /// Returns the indices of a row's elements, each `None` for null; `None` for a null list.
    pub(crate) fn elements(&self, row: usize) -> Option<impl Iterator<Item = Option<usize>>> {
        let (begin, end) = self.lists[row];
        (begin != NULL_INDEX).then(|| (begin..end).map(|element| self.index(element as usize)))
    }
}

/// Levels of a column's entries.
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// Reads the levels and the non-null values of the next `rows` rows.
fn read_levels<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
) -> Result<(Levels, Vec<T::T>)> {
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
    /// Assigns the values to rows. `highest` is the definition level of a value that is present. In lists,
    /// one less is a null element, two less is an empty list, and any lower level is a null list.
    fn assign_to_rows(&self, values: Values, is_list: bool, highest: i16) -> Decoded {
        let mut decoded = Decoded {
            values,
            indices: Vec::new(),
            lists: Vec::new(),
        };
        let mut next = 0;
        let mut index = |level: i16| match level == highest {
            false => NULL_INDEX,
            true => {
                next += 1;
                next - 1
            }
        };
        if !is_list {
            decoded.indices = self.definition.iter().map(|level| index(*level)).collect();
            return decoded;
        }
        for (&level, &repetition) in self.definition.iter().zip(&self.repetition) {
            let end = decoded.indices.len() as u32;
            match repetition > 0 {
                true => {}
                false if level < highest - 2 => decoded.lists.push((NULL_INDEX, NULL_INDEX)),
                false => decoded.lists.push((end, end)),
            }
            if level >= highest - 1 {
                decoded.indices.push(index(level));
                // In damaged data an element may follow a null list.
                if let Some((_, end)) = decoded.lists.last_mut()
                    && *end != NULL_INDEX
                {
                    *end += 1;
                }
            }
        }
        decoded
    }
}
