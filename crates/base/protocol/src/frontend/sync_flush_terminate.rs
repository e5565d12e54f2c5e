//! Client messages that consist of their tag only.
//!
//! PostgreSQL documentation, 54.7 Message Formats: Sync, Flush and Terminate (F).

use super::tag;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::writer::Writer;

/// Ends a series of extended query messages. Outside of a transaction block the server commits or rolls back.
/// It responds with one ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync;

/// Requests the server to send its buffered responses, without ending the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush;

/// Ends the connection. There is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate;

impl Sync {
    /// Reads a body, which must be empty.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        Cursor::new("Sync", body).end()?;
        Ok(Self)
    }

    /// Appends the message.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        Writer::tagged("Sync", tag::SYNC, out).finish_small();
    }
}

impl Flush {
    /// Reads a body, which must be empty.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        Cursor::new("Flush", body).end()?;
        Ok(Self)
    }

    /// Appends the message.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        Writer::tagged("Flush", tag::FLUSH, out).finish_small();
    }
}

impl Terminate {
    /// Reads a body, which must be empty.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        Cursor::new("Terminate", body).end()?;
        Ok(Self)
    }

    /// Appends the message.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        Writer::tagged("Terminate", tag::TERMINATE, out).finish_small();
    }
}
