//! Columns of the result of a statement in flight.

use protocol::backend::{DataRow, RowDescription, tag};
use protocol::{DecodeError, Format};
use run::ResultColumns;
use workload::value_digest;

/// Longest row whose columns are read, in bytes. A longer one has a checksum as a whole only.
const ROW_BYTES_MAX: usize = 1 << 20;
/// Maximum number of rows that are kept of a result.
const KEPT_ROWS_MAX: usize = 8;
/// Maximum bytes of the rows that are kept of a result.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Collects a body that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct BodyPieces {
    tag: u8,
    bytes: usize,
    /// The pieces so far, unless the body is too long.
    pieces: Vec<u8>,
    received: usize,
}

impl BodyPieces {
    /// Begins a body.
    pub(crate) fn begin(&mut self, message_tag: u8, bytes: usize) {
        (self.tag, self.bytes, self.received) = (message_tag, bytes, 0);
        self.pieces.clear();
    }

    /// Adds the body's next bytes. Returns its tag and the body when it is complete; an empty one if it is too long.
    pub(crate) fn add<'b>(&'b mut self, bytes: &'b [u8]) -> Option<(u8, &'b [u8])> {
        if bytes.len() == self.bytes {
            return Some((self.tag, bytes));
        }
        self.received += bytes.len();
        if self.bytes <= ROW_BYTES_MAX {
            self.pieces.extend_from_slice(bytes);
        }
        (self.received == self.bytes).then_some((self.tag, &self.pieces[..]))
    }
}

/// Columns of the rows of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct ColumnSums {
    columns: ResultColumns,
    rows: u64,
    is_unknown: bool,
}

impl ColumnSums {
    /// Adds the body of a message with a row or its description. An empty one was too long.
    ///
    /// # Errors
    /// If it is corrupt.
    pub(crate) fn add(&mut self, message_tag: u8, body: &[u8]) -> Result<(), DecodeError> {
        match message_tag {
            tag::ROW_DESCRIPTION if !body.is_empty() => {
                self.describe(&RowDescription::decode(body)?);
            }
            tag::DATA_ROW if !body.is_empty() => self.add_row(body, &DataRow::decode(body)?),
            // COPY and function calls have no columns.
            _ => self.is_unknown = true,
        }
        Ok(())
    }

    fn describe(&mut self, description: &RowDescription<'_>) {
        // Several results of one statement have no common columns.
        self.is_unknown |= self.rows > 0;
        let columns = &mut self.columns;
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned().into_boxed_str();
        columns.names = description.iter().map(|field| name(field.name)).collect();
        columns.types = description.iter().map(|field| field.type_oid).collect();
        let is_binary = |format| u32::from(format == Format::Binary);
        let formats = description.iter().map(|field| is_binary(field.format));
        columns.formats = formats.collect();
    }

    fn add_row(&mut self, body: &[u8], row: &DataRow<'_>) {
        let columns = &mut self.columns;
        if self.rows == 0 {
            columns.digests = vec![0; row.columns.len()];
        }
        self.is_unknown |= columns.digests.len() != row.columns.len();
        for (digest, value) in columns.digests.iter_mut().zip(row.columns.iter()) {
            *digest = digest.wrapping_add(value_digest(value));
        }
        let is_next = self.rows == columns.kept_rows.len() as u64;
        let has_room = columns.kept_bytes() + body.len() <= KEPT_BYTES_MAX;
        if is_next && has_room && columns.kept_rows.len() < KEPT_ROWS_MAX {
            columns.kept_rows.push(body.into());
        }
        self.rows += 1;
    }

    /// Returns the columns of a complete answer; `None` if it has no rows, or if its columns are not known.
    pub(crate) fn finish(mut self) -> Option<ResultColumns> {
        if self.columns.names.len() != self.columns.digests.len() {
            self.is_unknown |= !self.columns.names.is_empty();
        }
        self.columns.rows = self.rows;
        (self.rows > 0 && !self.is_unknown).then_some(self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut message = Vec::new();
        protocol::backend::data_row::encode(values.iter().copied(), &mut message).unwrap();
        message.split_off(protocol::frame::HEADER_BYTES)
    }

    fn sums(rows: &[&[Option<&str>]]) -> Option<ResultColumns> {
        let mut sums = ColumnSums::default();
        for values in rows {
            sums.add(tag::DATA_ROW, &row(values)).unwrap();
        }
        sums.finish()
    }

    #[test]
    fn column_digests_do_not_depend_on_the_order_of_rows_and_tell_null_from_empty() {
        let one = sums(&[&[Some("1"), None], &[Some("2"), Some("b")]]).unwrap();
        let other = sums(&[&[Some("2"), Some("b")], &[Some("1"), Some("")]]).unwrap();
        assert_eq!(one.digests[0], other.digests[0]);
        assert_ne!(one.digests[1], other.digests[1]);
        assert_eq!((one.rows, one.kept_rows.len()), (2, 2));
    }

    #[test]
    fn columns_of_rows_with_different_numbers_of_columns_are_unknown() {
        assert_eq!(sums(&[&[Some("1")], &[Some("1"), Some("2")]]), None);
        assert_eq!(sums(&[]), None);
    }

    #[test]
    fn kept_rows_are_the_first_ones_and_bounded() {
        let long = "x".repeat(KEPT_BYTES_MAX - 10);
        let columns = sums(&[&[Some("1")], &[Some(&long)], &[Some("3")]]).unwrap();
        assert_eq!(columns.kept_rows, [row(&[Some("1")]).into_boxed_slice()]);
        assert_eq!(columns.rows, 3);
        let many = vec![&[Some("1")][..]; KEPT_ROWS_MAX + 1];
        assert_eq!(sums(&many).unwrap().kept_rows.len(), KEPT_ROWS_MAX);
    }

    #[test]
    fn body_in_pieces_is_complete_at_its_end_and_empty_if_it_is_too_long() {
        let mut pieces = BodyPieces::default();
        pieces.begin(tag::DATA_ROW, 3);
        assert_eq!(pieces.add(b"a"), None);
        assert_eq!(pieces.add(b"bc"), Some((tag::DATA_ROW, &b"abc"[..])));
        pieces.begin(tag::DATA_ROW, ROW_BYTES_MAX + 1);
        assert_eq!(pieces.add(&vec![0; ROW_BYTES_MAX]), None);
        assert_eq!(pieces.add(b"a"), Some((tag::DATA_ROW, &b""[..])));
    }
}
