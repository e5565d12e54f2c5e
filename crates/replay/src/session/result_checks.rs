//! Computes the checksums of an answer's rows from the pieces of their messages.

use protocol::backend::tag;
use protocol::{DecodeError, Header};
use workload::RowDigest;

use crate::in_flight::InFlight;
use crate::options::ResultChecksums;
use crate::result_columns::BodyPieces;

/// Checksums of the rows of a session.
#[derive(Debug, Default)]
pub(super) struct ResultChecks {
    row: RowDigest,
    message_tag: u8,
    columns: Option<BodyPieces>,
}

impl ResultChecks {
    /// Creates the checksums; `None` if none are requested.
    pub(super) fn new(requested: ResultChecksums) -> Option<Box<Self>> {
        let columns = match requested {
            ResultChecksums::None => return None,
            ResultChecksums::Rows => None,
            ResultChecksums::Columns => Some(BodyPieces::default()),
        };
        Some(Box::new(ResultChecks {
            columns,
            ..ResultChecks::default()
        }))
    }

    /// Whether descriptions of rows are read.
    pub(super) fn reads_descriptions(&self) -> bool {
        self.columns.is_some()
    }

    /// Begins a row or its description, which arrives in pieces.
    #[inline]
    pub(super) fn begin(&mut self, header: Header) {
        self.message_tag = header.tag;
        if header.tag != tag::ROW_DESCRIPTION {
            self.row.begin_row(header.body_bytes);
        }
        if let Some(columns) = &mut self.columns {
            columns.begin(header.tag, header.body_bytes);
        }
    }

    /// Adds the next bytes of a message.
    ///
    /// # Errors
    /// If it is corrupt.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8], flight: &mut InFlight) -> Result<(), DecodeError> {
        if self.message_tag != tag::ROW_DESCRIPTION
            && let Some(checksum) = self.row.add_bytes(bytes)
        {
            flight.add_to_digest(checksum);
        }
        match self.columns.as_mut().and_then(|columns| columns.add(bytes)) {
            Some((message_tag, body)) => flight.add_to_columns(message_tag, body),
            None => Ok(()),
        }
    }

    /// Adds a complete row or its description.
    ///
    /// # Errors
    /// If it is corrupt.
    pub(super) fn add_body(
        &self,
        message_tag: u8,
        body: &[u8],
        flight: &mut InFlight,
    ) -> Result<(), DecodeError> {
        if message_tag == tag::DATA_ROW {
            flight.add_to_digest(RowDigest::of(body));
        }
        match &self.columns {
            Some(_) => flight.add_to_columns(message_tag, body),
            None => Ok(()),
        }
    }
}
