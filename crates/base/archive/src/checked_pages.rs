//! Pages of a column, refused if their encoding is none of those of our files.
//!
//! The decoder of `BYTE_STREAM_SPLIT` panics at damaged pages.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};

/// Encodings that the writer may choose.
const WRITTEN: [Encoding; 7] = [
    Encoding::PLAIN,
    Encoding::PLAIN_DICTIONARY,
    Encoding::RLE,
    Encoding::RLE_DICTIONARY,
    Encoding::DELTA_BINARY_PACKED,
    Encoding::DELTA_LENGTH_BYTE_ARRAY,
    Encoding::DELTA_BYTE_ARRAY,
];

/// A page reader that refuses other encodings.
pub(crate) struct CheckedPages(pub(crate) Box<dyn PageReader>);

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.0.get_next_page()?;
        match page.as_ref().map(Page::encoding) {
            Some(encoding) if !WRITTEN.contains(&encoding) => Err(ParquetError::General(format!(
                "a page has the encoding {encoding}, which is never written"
            ))),
            _ => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.0.at_record_boundary()
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
