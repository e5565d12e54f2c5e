//! Encodes a constant column of a row group: a dictionary of one value, and a page with the number of rows.
//!
//! [`crate::row_group`] uses it for columns that need no encoder of their own. Creating an encoder and a
//! compressor takes longer than writing these few bytes. The layout is that of a data page of version 1:
//! <https://parquet.apache.org/docs/file-format/data-pages/>. Its levels and indices are in the hybrid of
//! run-length encoding and bit packing: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::builder::ConstantColumn;
use crate::values::Values;

/// Returns the pages of the column, with their metadata.
///
/// # Errors
/// If Parquet rejects the metadata.
pub(crate) fn encode(
    descriptor: &ColumnDescPtr,
    constant: &ConstantColumn<'_>,
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
    let is_there = constant.value.len() > 0;
    let mut page = Vec::new();
    if descriptor.max_rep_level() > 0 {
        push_levels(0, constant.rows, &mut page);
    }
    if descriptor.max_def_level() > 0 {
        push_levels(u8::from(is_there), constant.rows, &mut page);
    }
    let mut dictionary_offset = None;
    let mut encoding = Encoding::PLAIN;
    match constant.value {
        Values::Bool(values) => {
            if let Some(value) = values.first() {
                push_bits(*value, constant.rows, &mut page);
            }
        }
        values if is_there => {
            encoding = Encoding::RLE_DICTIONARY;
            encodings.push(encoding);
            dictionary_offset = Some(write(Page::DictionaryPage {
                buf: encode_plain(values).into(),
                num_values: 1,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            })?);
            // Bit width of the indices, and the first index.
            page.push(1);
            push_run(0, constant.rows, &mut page);
        }
        _ => {}
    }
    let data_offset = write(Page::DataPage {
        buf: page.into(),
        num_values: constant.rows as u32,
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
        .set_num_values(constant.rows as i64)
        .set_data_page_offset(data_offset as i64)
        .set_dictionary_page_offset(dictionary_offset.map(|offset| offset as i64));
    if let Some(statistics) = statistics(constant) {
        metadata = metadata.set_statistics(statistics);
    }
    let close = ColumnCloseResult {
        bytes_written: bytes,
        rows_written: constant.rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((pages.into_inner()?.into(), close))
}

/// Appends a run of `length` equal small numbers.
fn push_run(number: u8, length: usize, page: &mut Vec<u8>) {
    let mut header = (length as u64) << 1;
    while header >= 0x80 {
        page.push(header as u8 | 0x80);
        header >>= 7;
    }
    page.push(header as u8);
    page.push(number);
}

/// Appends one level for all rows, after its length.
fn push_levels(level: u8, rows: usize, page: &mut Vec<u8>) {
    let at = page.len();
    page.extend([0; 4]);
    push_run(level, rows, page);
    let length = (page.len() - at - 4) as u32;
    page[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends one bit for each row, the lowest bit first.
fn push_bits(value: bool, rows: usize, page: &mut Vec<u8>) {
    let all = if value { u8::MAX } else { 0 };
    page.resize(page.len() + rows / 8, all);
    if !rows.is_multiple_of(8) {
        page.push(all & ((1 << (rows % 8)) - 1));
    }
}

/// Returns one value in plain encoding.
fn encode_plain(values: &Values) -> Vec<u8> {
    match values {
        Values::I64(values) => values[0].to_le_bytes().to_vec(),
        Values::I32(values) => values[0].to_le_bytes().to_vec(),
        Values::F64(values) => values[0].to_le_bytes().to_vec(),
        Values::Bool(values) => vec![u8::from(values[0])],
        Values::Bytes(..) => {
            let bytes = values.first_bytes();
            [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
        }
    }
}

/// Returns statistics of numbers and booleans. Texts get none, and neither do floating-point numbers, since
/// NaN has no order.
fn statistics(constant: &ConstantColumn<'_>) -> Option<Statistics> {
    let nulls = match constant.value.len() {
        0 => constant.rows as u64,
        _ => 0,
    };
    Some(match constant.value {
        Values::I64(values) => {
            let value = values.first().copied();
            Statistics::int64(value, value, None, Some(nulls), false)
        }
        Values::I32(values) => {
            let value = values.first().copied();
            Statistics::int32(value, value, None, Some(nulls), false)
        }
        Values::Bool(values) => {
            let value = values.first().copied();
            Statistics::boolean(value, value, None, Some(nulls), false)
        }
        Values::F64(_) | Values::Bytes(..) => return None,
    })
}
