//! A column of a row group whose rows all have the same: one value in a dictionary, and a page that says how often.
//!
//! Who drives: [`crate::row_group`], for columns that need no writer of their own. Making one, and what compresses,
//! takes longer than these few bytes. The layout is that of a data page of the first version:
//! <https://parquet.apache.org/docs/file-format/data-pages/>, its levels and its numbers in the hybrid of runs and
//! packed bits: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::builder::Alike;
use crate::values::Values;

/// The column's pages, and what is to be said of them.
///
/// # Errors
/// Where Parquet refuses.
pub(crate) fn chunk(
    descriptor: &ColumnDescPtr,
    alike: &Alike<'_>,
) -> Result<(Bytes, ColumnCloseResult)> {
    let mut pages = TrackedWrite::new(Vec::new());
    let (mut bytes, mut encodings) = (0, vec![Encoding::PLAIN, Encoding::RLE]);
    let mut write = |page: Page| {
        let length = page.buffer().len();
        let page = CompressedPage::new(page, length);
        let spec = SerializedPageWriter::new(&mut pages).write_page(page)?;
        bytes += spec.bytes_written;
        Ok::<u64, parquet::errors::ParquetError>(spec.offset)
    };
    let is_there = alike.value.len() > 0;
    let mut page = Vec::new();
    if descriptor.max_rep_level() > 0 {
        levels(0, alike.rows, &mut page);
    }
    if descriptor.max_def_level() > 0 {
        levels(u8::from(is_there), alike.rows, &mut page);
    }
    let mut dictionary_offset = None;
    let mut encoding = Encoding::PLAIN;
    match alike.value {
        Values::Flags(values) => {
            if let Some(value) = values.first() {
                flags(*value, alike.rows, &mut page);
            }
        }
        values if is_there => {
            encoding = Encoding::RLE_DICTIONARY;
            encodings.push(encoding);
            dictionary_offset = Some(write(Page::DictionaryPage {
                buf: plain(values).into(),
                num_values: 1,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            })?);
            // The numbers' width in bits, and the first number.
            page.push(1);
            run(0, alike.rows, &mut page);
        }
        _ => {}
    }
    let data_offset = write(Page::DataPage {
        buf: page.into(),
        num_values: alike.rows as u32,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })?;
    let mut metadata = ColumnChunkMetaData::builder(descriptor.clone())
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(encodings)
        .set_total_compressed_size(bytes as i64)
        .set_total_uncompressed_size(bytes as i64)
        .set_num_values(alike.rows as i64)
        .set_data_page_offset(data_offset as i64)
        .set_dictionary_page_offset(dictionary_offset.map(|offset| offset as i64));
    if let Some(statistics) = statistics(alike) {
        metadata = metadata.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: bytes,
        rows_written: alike.rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((pages.into_inner()?.into(), close))
}

/// A run of one small number, as long as that.
fn run(number: u8, length: usize, page: &mut Vec<u8>) {
    let mut header = (length as u64) << 1;
    while header >= 0x80 {
        page.push(header as u8 | 0x80);
        header >>= 7;
    }
    page.push(header as u8);
    page.push(number);
}

/// One level for all rows, with its length before it.
fn levels(level: u8, rows: usize, page: &mut Vec<u8>) {
    let at = page.len();
    page.extend([0; 4]);
    run(level, rows, page);
    let length = (page.len() - at - 4) as u32;
    page[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// A bit for each row, the first lowest.
fn flags(value: bool, rows: usize, page: &mut Vec<u8>) {
    let all = if value { u8::MAX } else { 0 };
    page.resize(page.len() + rows / 8, all);
    if !rows.is_multiple_of(8) {
        page.push(all & ((1 << (rows % 8)) - 1));
    }
}

/// One value as it is.
fn plain(values: &Values) -> Vec<u8> {
    match values {
        Values::Wide(values) => values[0].to_le_bytes().to_vec(),
        Values::Narrow(values) => values[0].to_le_bytes().to_vec(),
        Values::Fractions(values) => values[0].to_le_bytes().to_vec(),
        Values::Flags(values) => vec![u8::from(values[0])],
        Values::Bytes(..) => {
            let bytes = values.first_bytes();
            [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
        }
    }
}

/// Of numbers and flags; texts have none, and of fractions not all are in an order.
fn statistics(alike: &Alike<'_>) -> Option<Statistics> {
    let nulls = match alike.value.len() {
        0 => alike.rows as u64,
        _ => 0,
    };
    Some(match alike.value {
        Values::Wide(values) => {
            let value = values.first().copied();
            Statistics::int64(value, value, None, Some(nulls), false)
        }
        Values::Narrow(values) => {
            let value = values.first().copied();
            Statistics::int32(value, value, None, Some(nulls), false)
        }
        Values::Flags(values) => {
            let value = values.first().copied();
            Statistics::boolean(value, value, None, Some(nulls), false)
        }
        Values::Fractions(_) | Values::Bytes(..) => return None,
    })
}
