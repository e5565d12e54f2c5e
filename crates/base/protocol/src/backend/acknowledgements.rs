//! Server messages that consist of their tag only.
//!
//! PostgreSQL documentation, 54.7 Message Formats: ParseComplete, BindComplete, CloseComplete, NoData,
//! PortalSuspended and EmptyQueryResponse (B).

use super::tag;
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::writer::Writer;

/// A message without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acknowledgement {
    /// `1`: completion of a Parse.
    ParseComplete,
    /// `2`: completion of a Bind.
    BindComplete,
    /// `3`: completion of a Close.
    CloseComplete,
    /// `n`: the described object returns no rows.
    NoData,
    /// `s`: an Execute reached its limit of rows.
    PortalSuspended,
    /// `I`: completion of an empty query, instead of CommandComplete.
    EmptyQueryResponse,
}

impl Acknowledgement {
    /// Returns the message with a tag, if it is one of these.
    #[inline]
    pub const fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            tag::PARSE_COMPLETE => Self::ParseComplete,
            tag::BIND_COMPLETE => Self::BindComplete,
            tag::CLOSE_COMPLETE => Self::CloseComplete,
            tag::NO_DATA => Self::NoData,
            tag::PORTAL_SUSPENDED => Self::PortalSuspended,
            tag::EMPTY_QUERY_RESPONSE => Self::EmptyQueryResponse,
            _ => return None,
        })
    }

    /// Returns its tag.
    pub const fn tag(self) -> u8 {
        match self {
            Self::ParseComplete => tag::PARSE_COMPLETE,
            Self::BindComplete => tag::BIND_COMPLETE,
            Self::CloseComplete => tag::CLOSE_COMPLETE,
            Self::NoData => tag::NO_DATA,
            Self::PortalSuspended => tag::PORTAL_SUSPENDED,
            Self::EmptyQueryResponse => tag::EMPTY_QUERY_RESPONSE,
        }
    }

    /// Returns its name in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ParseComplete => "ParseComplete",
            Self::BindComplete => "BindComplete",
            Self::CloseComplete => "CloseComplete",
            Self::NoData => "NoData",
            Self::PortalSuspended => "PortalSuspended",
            Self::EmptyQueryResponse => "EmptyQueryResponse",
        }
    }

    /// Checks that the body is empty, and returns the message.
    pub fn check(self, body: &[u8]) -> Result<Self, DecodeError> {
        Cursor::new(self.name(), body).end()?;
        Ok(self)
    }

    /// Appends the message.
    pub fn encode(self, out: &mut Vec<u8>) {
        Writer::tagged(self.name(), self.tag(), out).finish_small();
    }
}
