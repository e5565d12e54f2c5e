//! What a session hears of the values that the server made up: the description and the first row of an
//! answer from which there is something to learn. All other rows pass unread.

use protocol::backend::{DataRow, RowDescription, tag};
use protocol::{DecodeError, Header, Scanner, TagSet};

use super::{InFlight, Session, WANTED};
use crate::remap::{READ_BYTES_MAX, Remap};

/// Bodies that are looked into besides, up to the first row.
const WANTED_TO_LEARN: TagSet = TagSet::of(&[
    tag::COMMAND_COMPLETE,
    tag::ERROR_RESPONSE,
    tag::READY_FOR_QUERY,
    tag::PARAMETER_STATUS,
    tag::ROW_DESCRIPTION,
    tag::DATA_ROW,
]);

impl Session {
    /// Another statement is the one that is answered next.
    pub(crate) fn listen(&mut self) {
        let flight = self.in_flight.as_deref();
        let learns = flight.is_some_and(|flight| flight.job.expected.is_some());
        self.scanner.want(match learns {
            true => WANTED_TO_LEARN,
            false => WANTED,
        });
    }
}

/// A message of an answer that something is to be learnt from: of its rows only the first is read, and
/// nothing that is long.
pub(super) fn bound(scanner: &mut Scanner, flight: &mut InFlight, header: Header) {
    let is_row = header.tag == tag::DATA_ROW;
    if !is_row && header.tag != tag::ROW_DESCRIPTION {
        return;
    }
    let is_long = header.body_bytes > READ_BYTES_MAX;
    if is_row || is_long {
        scanner.want(WANTED);
    }
    if is_long {
        scanner.pass_body();
        flight.job.expected = None;
    }
}

/// Takes in a description or a first row.
pub(super) fn learn(
    remap: &mut Option<Box<Remap>>,
    flight: &mut InFlight,
    message_tag: u8,
    body: &[u8],
) -> Result<(), DecodeError> {
    if message_tag == tag::ROW_DESCRIPTION {
        if let Some(expected) = &mut flight.job.expected {
            expected.described(&RowDescription::decode(body)?);
        }
        return Ok(());
    }
    let Some(expected) = flight.job.expected.take() else {
        return Ok(());
    };
    for (captured, replayed) in expected.pairs(&DataRow::decode(body)?) {
        if remap.is_some() || captured != replayed {
            let remap = remap.get_or_insert_default();
            remap.learn(captured, replayed);
        }
    }
    Ok(())
}
