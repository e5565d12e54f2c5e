//! Messages that a server sends.
//!
//! The response to an encryption request is a single byte ([`EncryptionReply`]). All other messages have a
//! tag; [`Message`] is any of them. A stub server encodes messages with lists by the functions of their
//! modules, which take iterators.
//!
//! PostgreSQL documentation, 54.7 Message Formats: the entries marked (B) and (F & B).

pub mod acknowledgements;
pub mod authentication;
pub mod command_complete;
pub mod copy_response;
pub mod data_row;
pub mod encryption_reply;
pub mod error_notice;
pub mod function_call_response;
pub mod key_data;
pub mod negotiate_protocol_version;
pub mod notification;
pub mod parameter_description;
pub mod parameter_status;
pub mod ready_for_query;
pub mod row_description;
pub mod tag;

pub use crate::copy::{CopyData, CopyDone};
pub use acknowledgements::Acknowledgement;
pub use authentication::{Authentication, Mechanisms};
pub use command_complete::CommandComplete;
pub use copy_response::{CopyDirection, CopyResponse};
pub use data_row::DataRow;
pub use encryption_reply::EncryptionReply;
pub use error_notice::{ErrorNotice, Report};
pub use function_call_response::FunctionCallResponse;
pub use key_data::KeyData;
pub use negotiate_protocol_version::NegotiateProtocolVersion;
pub use notification::Notification;
pub use parameter_description::ParameterDescription;
pub use parameter_status::ParameterStatus;
pub use ready_for_query::{ReadyForQuery, TransactionStatus};
pub use row_description::{FieldDescription, RowDescription};

use crate::error::{DecodeError, EncodeError};

/// Any message of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `1`, `2`, `3`, `n`, `s` or `I`: messages that consist of their tag only.
    Acknowledgement(Acknowledgement),
    /// `R`
    Authentication(Authentication<'a>),
    /// `C`
    CommandComplete(CommandComplete<'a>),
    /// `d`
    CopyData(CopyData<'a>),
    /// `c`
    CopyDone(CopyDone),
    /// `G`, `H` or `W`
    CopyResponse(CopyResponse<'a>),
    /// `D`
    DataRow(DataRow<'a>),
    /// `E`
    ErrorResponse(ErrorNotice<'a>),
    /// `V`
    FunctionCallResponse(FunctionCallResponse<'a>),
    /// `K`
    KeyData(KeyData<'a>),
    /// `v`
    NegotiateProtocolVersion(NegotiateProtocolVersion<'a>),
    /// `N`
    NoticeResponse(ErrorNotice<'a>),
    /// `A`
    Notification(Notification<'a>),
    /// `t`
    ParameterDescription(ParameterDescription<'a>),
    /// `S`
    ParameterStatus(ParameterStatus<'a>),
    /// `Z`
    ReadyForQuery(ReadyForQuery),
    /// `T`
    RowDescription(RowDescription<'a>),
}

impl<'a> Message<'a> {
    /// Decodes the body of a message with this tag.
    ///
    /// Fails if no server message has the tag, or if the body is invalid.
    pub fn decode(tag: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        if let Some(acknowledgement) = Acknowledgement::from_tag(tag) {
            return acknowledgement.check(body).map(Self::Acknowledgement);
        }
        if let Some(direction) = CopyDirection::from_tag(tag) {
            return CopyResponse::decode(direction, body).map(Self::CopyResponse);
        }
        Ok(match tag {
            tag::AUTHENTICATION => Self::Authentication(Authentication::decode(body)?),
            tag::COMMAND_COMPLETE => Self::CommandComplete(CommandComplete::decode(body)?),
            tag::COPY_DATA => Self::CopyData(CopyData::decode(body)?),
            tag::COPY_DONE => Self::CopyDone(CopyDone::decode(body)?),
            tag::DATA_ROW => Self::DataRow(DataRow::decode(body)?),
            tag::ERROR_RESPONSE => Self::ErrorResponse(ErrorNotice::decode(Report::Error, body)?),
            tag::FUNCTION_CALL_RESPONSE => {
                Self::FunctionCallResponse(FunctionCallResponse::decode(body)?)
            }
            tag::KEY_DATA => Self::KeyData(KeyData::decode(body)?),
            tag::NEGOTIATE_PROTOCOL_VERSION => {
                Self::NegotiateProtocolVersion(NegotiateProtocolVersion::decode(body)?)
            }
            tag::NOTICE_RESPONSE => {
                Self::NoticeResponse(ErrorNotice::decode(Report::Notice, body)?)
            }
            tag::NOTIFICATION => Self::Notification(Notification::decode(body)?),
            tag::PARAMETER_DESCRIPTION => {
                Self::ParameterDescription(ParameterDescription::decode(body)?)
            }
            tag::PARAMETER_STATUS => Self::ParameterStatus(ParameterStatus::decode(body)?),
            tag::READY_FOR_QUERY => Self::ReadyForQuery(ReadyForQuery::decode(body)?),
            tag::ROW_DESCRIPTION => Self::RowDescription(RowDescription::decode(body)?),
            found => {
                return Err(DecodeError::UnknownTag {
                    direction: "backend",
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
            Self::Acknowledgement(message) => message.encode(out),
            Self::Authentication(message) => message.encode(out)?,
            Self::CommandComplete(message) => message.encode(out)?,
            Self::CopyData(message) => message.encode(out)?,
            Self::CopyDone(message) => message.encode(out),
            Self::CopyResponse(message) => message.encode(out)?,
            Self::DataRow(message) => message.encode(out)?,
            Self::ErrorResponse(message) => message.encode(Report::Error, out)?,
            Self::FunctionCallResponse(message) => message.encode(out)?,
            Self::KeyData(message) => message.encode(out)?,
            Self::NegotiateProtocolVersion(message) => message.encode(out)?,
            Self::NoticeResponse(message) => message.encode(Report::Notice, out)?,
            Self::Notification(message) => message.encode(out)?,
            Self::ParameterDescription(message) => message.encode(out)?,
            Self::ParameterStatus(message) => message.encode(out)?,
            Self::ReadyForQuery(message) => message.encode(out),
            Self::RowDescription(message) => message.encode(out)?,
        }
        Ok(())
    }
}
