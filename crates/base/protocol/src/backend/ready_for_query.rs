//! PostgreSQL documentation, 54.7 Message Formats: ReadyForQuery (B).

use super::tag::READY_FOR_QUERY;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::writer::Writer;

const NAME: &str = "ReadyForQuery";

/// Transaction status of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in a transaction block.
    InTransaction,
    /// `E`: in a failed transaction block; commands are refused until its end.
    Failed,
}

/// The server has processed all messages up to a Query, FunctionCall or Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyForQuery {
    /// Transaction status.
    pub status: TransactionStatus,
}

impl ReadyForQuery {
    /// Reads a body.
    #[inline]
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let status = match cursor.u8("status")? {
            b'I' => TransactionStatus::Idle,
            b'T' => TransactionStatus::InTransaction,
            b'E' => TransactionStatus::Failed,
            found => return Err(cursor.invalid("status", 1, found)),
        };
        cursor.end()?;
        Ok(Self { status })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::tagged(NAME, READY_FOR_QUERY, out);
        writer.u8(match self.status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        });
        writer.finish_small();
    }
}
