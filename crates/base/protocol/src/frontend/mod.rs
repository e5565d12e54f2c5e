//! Messages that a client sends.
//!
//! A connection begins with packets without a tag ([`startup`]). Later messages have a tag; [`Message`] is
//! any of them. To write on a hot path, call `encode` of the message or of its module, which takes iterators
//! instead of a decoded list.
//!
//! PostgreSQL documentation, 54.7 Message Formats: the entries marked (F) and (F & B).

pub mod authentication_reply;
pub mod bind;
pub mod close;
pub mod copy_fail;
pub mod describe;
pub mod execute;
pub mod function_call;
pub mod gss;
pub mod parse;
pub mod password;
pub mod query;
pub mod sasl;
pub mod startup;
pub mod sync_flush_terminate;
pub mod tag;
pub mod target;

pub use crate::copy::{CopyData, CopyDone};
pub use authentication_reply::AuthenticationReply;
pub use bind::Bind;
pub use close::Close;
pub use copy_fail::CopyFail;
pub use describe::Describe;
pub use execute::Execute;
pub use function_call::FunctionCall;
pub use gss::GssResponse;
pub use parse::Parse;
pub use password::PasswordMessage;
pub use query::Query;
pub use sasl::{SaslInitialResponse, SaslResponse};
pub use startup::StartupPacket;
pub use sync_flush_terminate::{Flush, Sync, Terminate};
pub use target::Target;

use crate::error::{DecodeError, EncodeError};

/// Any message of a client after the start-up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `p`: a password or the like. The server's request determines which of four messages it is.
    AuthenticationReply(AuthenticationReply<'a>),
    /// `B`
    Bind(Bind<'a>),
    /// `C`
    Close(Close<'a>),
    /// `d`
    CopyData(CopyData<'a>),
    /// `c`
    CopyDone(CopyDone),
    /// `f`
    CopyFail(CopyFail<'a>),
    /// `D`
    Describe(Describe<'a>),
    /// `E`
    Execute(Execute<'a>),
    /// `H`
    Flush(Flush),
    /// `F`
    FunctionCall(FunctionCall<'a>),
    /// `P`
    Parse(Parse<'a>),
    /// `Q`
    Query(Query<'a>),
    /// `S`
    Sync(Sync),
    /// `X`
    Terminate(Terminate),
}

impl<'a> Message<'a> {
    /// Decodes the body of a message with this tag.
    ///
    /// Fails if no client message has the tag, or if the body is invalid.
    pub fn decode(tag: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(match tag {
            tag::AUTHENTICATION_REPLY => {
                Self::AuthenticationReply(AuthenticationReply::decode(body)?)
            }
            tag::BIND => Self::Bind(Bind::decode(body)?),
            tag::CLOSE => Self::Close(Close::decode(body)?),
            tag::COPY_DATA => Self::CopyData(CopyData::decode(body)?),
            tag::COPY_DONE => Self::CopyDone(CopyDone::decode(body)?),
            tag::COPY_FAIL => Self::CopyFail(CopyFail::decode(body)?),
            tag::DESCRIBE => Self::Describe(Describe::decode(body)?),
            tag::EXECUTE => Self::Execute(Execute::decode(body)?),
            tag::FLUSH => Self::Flush(Flush::decode(body)?),
            tag::FUNCTION_CALL => Self::FunctionCall(FunctionCall::decode(body)?),
            tag::PARSE => Self::Parse(Parse::decode(body)?),
            tag::QUERY => Self::Query(Query::decode(body)?),
            tag::SYNC => Self::Sync(Sync::decode(body)?),
            tag::TERMINATE => Self::Terminate(Terminate::decode(body)?),
            found => {
                return Err(DecodeError::UnknownTag {
                    direction: "frontend",
                    found,
                });
            }
        })
    }

    /// Appends the message, header and body. A decoded message is encoded to the same bytes.
    ///
    /// Fails, and appends nothing, if a field that the caller set cannot be encoded.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::AuthenticationReply(message) => message.encode(out)?,
            Self::Bind(message) => message.encode(out)?,
            Self::Close(message) => message.encode(out)?,
            Self::CopyData(message) => message.encode(out)?,
            Self::CopyDone(message) => message.encode(out),
            Self::CopyFail(message) => message.encode(out)?,
            Self::Describe(message) => message.encode(out)?,
            Self::Execute(message) => message.encode(out)?,
            Self::Flush(message) => message.encode(out),
            Self::FunctionCall(message) => message.encode(out)?,
            Self::Parse(message) => message.encode(out)?,
            Self::Query(message) => message.encode(out)?,
            Self::Sync(message) => message.encode(out),
            Self::Terminate(message) => message.encode(out),
        }
        Ok(())
    }
}
