//! Learns generated values from answers: decodes the row description and the first rows of an answer whose
//! captured result had such values. All other rows are only counted.

use protocol::backend::{DataRow, RowDescription, tag};
use protocol::{DecodeError, Header, Scanner, TagSet};

use super::{DECODED_BODIES, InFlight, Session};
use crate::generated::READ_BYTES_MAX;

/// Bodies that are decoded up to the last expected row, if there are values to learn.
const DECODED_BODIES_TO_LEARN: TagSet = TagSet::of(&[
    tag::COMMAND_COMPLETE,
    tag::ERROR_RESPONSE,
    tag::READY_FOR_QUERY,
    tag::PARAMETER_STATUS,
    tag::ROW_DESCRIPTION,
    tag::DATA_ROW,
]);

impl Session {
    /// Selects the bodies to decode for the statement that is answered next.
    pub(crate) fn select_bodies(&mut self) {
        let flight = self.in_flight.as_deref();
        let learns = flight.is_some_and(|flight| flight.job.expected.is_some());
        self.scanner.want(match learns {
            true => DECODED_BODIES_TO_LEARN,
            false => DECODED_BODIES,
        });
    }
}

/// Restricts decoding to the expected rows, and skips long bodies.
pub(super) fn limit_to_expected_rows(scanner: &mut Scanner, flight: &mut InFlight, header: Header) {
    let is_row = header.tag == tag::DATA_ROW;
    if !is_row && header.tag != tag::ROW_DESCRIPTION {
        return;
    }
    let is_long = header.body_bytes > READ_BYTES_MAX;
    let expected = flight.job.expected.as_ref();
    let is_last = is_row && expected.is_none_or(|expected| expected.expects_one_row());
    if is_last || is_long {
        scanner.want(DECODED_BODIES);
    }
    if is_long {
        scanner.skip_body();
        flight.job.expected = None;
    }
}

/// Takes a row description or an expected row.
pub(super) fn learn_from_body(
    flight: &mut InFlight,
    message_tag: u8,
    body: &[u8],
) -> Result<(), DecodeError> {
    if message_tag == tag::ROW_DESCRIPTION {
        if let Some(expected) = &mut flight.job.expected {
            expected.set_formats(&RowDescription::decode(body)?);
        }
        return Ok(());
    }
    let Some(expected) = &mut flight.job.expected else {
        return Ok(());
    };
    expected.pair_row(&DataRow::decode(body)?, &mut flight.replayed);
    if expected.is_over() {
        flight.job.expected = None;
    }
    Ok(())
}
