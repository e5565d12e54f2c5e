//! The client's messages that are nothing but their tag.
//!
//! PostgreSQL documentation, 54.7 Message Formats: Sync, Flush and Terminate (F).

use super::tag;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::writer::Writer;

/// Ends a run of extended query messages: outside a transaction block the server commits or rolls
/// back, and answers with one ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync;

/// Asks the server to send what it holds back, without ending the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush;

/// Ends the connection. There is no answer.
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
