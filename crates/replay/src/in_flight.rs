//! Statement in flight: sent, and not completely answered.

use protocol::DecodeError;
use protocol::backend::tag;
use run::StatementKind;
use workload::{Boundary, Sqlstate};

use crate::generated::ReplayedValue;
use crate::job::{Job, NamedStatement};
use crate::result_columns::ColumnSums;

/// Protocol of a statement's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Simple,
    Extended,
    /// Extended, and its Sync is sent after the COPY data. If the server does not ask for the data, the Sync is
    /// sent alone.
    ExtendedSyncPending,
}

/// Statement in flight, with the part of its answer that was received.
pub(crate) struct InFlight {
    /// The job, without its bytes.
    pub(crate) job: Job,
    pub(crate) due_ns: i64,
    pub(crate) sent_ns: i64,
    pub(crate) session_lag_ns: u64,
    pub(crate) first_byte_ns: Option<i64>,
    pub(crate) rows: u64,
    /// Rows received that no CommandComplete has counted yet.
    pub(crate) uncounted_rows: u64,
    pub(crate) bytes: u64,
    /// Checksum of the rows so far, if requested.
    pub(crate) digest: Option<u64>,
    /// Columns of the rows so far, if requested.
    pub(crate) columns: Option<Box<ColumnSums>>,
    pub(crate) error: Option<(Sqlstate, String)>,
    pub(crate) named: Option<NamedStatement>,
    pub(crate) protocol: Protocol,
    /// Generated values of its first row.
    pub(crate) replayed: Vec<ReplayedValue>,
    /// COPY data for when the server asks for them.
    pub(crate) copy: Option<Vec<u8>>,
    /// Whether the server skips it, since another statement of its group has failed.
    pub(crate) aborted: bool,
    /// Whether a transaction was open when it was sent.
    pub(crate) in_transaction: bool,
    /// Its messages, if they change the state of the session.
    pub(crate) state_changing_bytes: Option<Box<[u8]>>,
}

impl InFlight {
    /// Creates the record of a job that was just sent.
    pub(crate) fn new(job: Job, sent_ns: i64, session_lag_ns: u64, protocol: Protocol) -> Self {
        InFlight {
            due_ns: job.due_ns,
            job,
            sent_ns,
            session_lag_ns,
            first_byte_ns: None,
            rows: 0,
            uncounted_rows: 0,
            bytes: 0,
            digest: None,
            columns: None,
            error: None,
            named: None,
            protocol,
            replayed: Vec::new(),
            copy: None,
            aborted: false,
            in_transaction: false,
            state_changing_bytes: None,
        }
    }

    pub(crate) fn add_to_digest(&mut self, checksum: u64) {
        self.digest = Some(self.digest.unwrap_or(0).wrapping_add(checksum));
    }

    /// Adds the body of a row or a row description to the checksums of columns.
    pub(crate) fn add_to_columns(
        &mut self,
        message_tag: u8,
        body: &[u8],
    ) -> Result<(), DecodeError> {
        self.columns.get_or_insert_default().add(message_tag, body)
    }

    /// Returns its sequence number within its session.
    pub(crate) fn sequence(&self) -> u64 {
        self.job.sequence
    }

    /// Returns the time to cancel it: as long after it was sent as in the capture.
    pub(crate) fn cancel_ns(&self, captured_us: i64) -> i64 {
        let after_us = (captured_us - self.job.captured_us).max(0);
        self.sent_ns.saturating_add(after_us.saturating_mul(1_000))
    }

    /// Whether its Sync must be sent now. The call marks it as sent.
    #[inline]
    pub(crate) fn take_pending_sync(&mut self) -> bool {
        let is_pending = self.protocol == Protocol::ExtendedSyncPending;
        if is_pending {
            self.protocol = Protocol::Extended;
        }
        is_pending
    }

    /// Forgets the part of the answer that was received, since it answered a preceding message.
    pub(crate) fn reset_answer(&mut self) {
        self.first_byte_ns = None;
        (self.rows, self.uncounted_rows, self.bytes) = (0, 0, 0);
        self.digest = None;
        self.columns = None;
        self.error = None;
    }

    /// Whether a message ends the answer, if the statement does not end its group.
    pub(crate) fn is_answered_by(&self, message_tag: u8) -> bool {
        if self.job.boundary == Boundary::Sync {
            return false;
        }
        match self.job.kind {
            StatementKind::Prepare => matches!(message_tag, tag::ROW_DESCRIPTION | tag::NO_DATA),
            _ => matches!(
                message_tag,
                tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED
            ),
        }
    }
}
