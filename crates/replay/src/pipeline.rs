//! What of a session was sent before the answers to what stands before it were there.
//!
//! A group of messages ends in a Sync, and ReadyForQuery answers the whole of it. A statement that ends
//! its group is answered then; one within it is answered with the last message of its own answer.
//! Where one fails, the server passes over everything up to the Sync (PostgreSQL documentation,
//! 54.2.3 and 54.2.4).

use std::collections::VecDeque;

use protocol::backend::tag;
use run::StatementKind;
use workload::Boundary;

use crate::job::NamedStatement;
use crate::session::InFlight;

/// What of one session is under way behind the statement that is answered next.
#[derive(Default)]
pub(crate) struct Pipeline {
    behind: VecDeque<Box<InFlight>>,
    /// Something failed, and the server passes over all up to the next Sync.
    pub(crate) aborting: bool,
    /// What was sent last did not end its group.
    pub(crate) group_is_open: bool,
    /// The server was asked for the answers so far, since something was sent.
    pub(crate) asked: bool,
}

impl Pipeline {
    pub(crate) fn push(&mut self, flight: Box<InFlight>) {
        self.behind.push_back(flight);
    }

    pub(crate) fn pop(&mut self) -> Option<Box<InFlight>> {
        self.behind.pop_front()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &InFlight> {
        self.behind.iter().map(|flight| &**flight)
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut InFlight> {
        self.behind.iter_mut().map(|flight| &mut **flight)
    }

    /// Whether the server passes over what is sent next: what has failed is of the same group.
    pub(crate) fn passes_over_next(&self) -> bool {
        self.aborting && self.group_is_open
    }

    /// The SQL that a name will stand for when what is under way is done, as far as that prepares it.
    pub(crate) fn prepares(&self, first: Option<&InFlight>, name: u64) -> Option<NamedStatement> {
        let behind = self.behind.iter().map(|flight| &**flight);
        let named = first.into_iter().chain(behind);
        named
            .filter_map(|flight| flight.named)
            .rfind(|named| named.name == name)
    }
}

/// Whether a message of the server's ends the answer to a statement that does not end its group.
pub(crate) fn ends_answer(flight: &InFlight, message_tag: u8) -> bool {
    if flight.job.boundary == Boundary::Sync {
        return false;
    }
    match flight.job.kind {
        StatementKind::Prepare => matches!(message_tag, tag::ROW_DESCRIPTION | tag::NO_DATA),
        _ => matches!(
            message_tag,
            tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED
        ),
    }
}
