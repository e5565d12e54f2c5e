//! Errors of decoding and of encoding.
//!
//! Both errors are small, `Copy`, and hold no text of the message: SQL and values may be secret, and errors
//! are printed in logs.

use std::fmt;

/// Location in a message at which decoding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the message in the documentation, such as `Bind`.
    pub message: &'static str,
    /// Field of the message, such as `parameter length`.
    pub field: &'static str,
    /// Offset in bytes from the start of the message's body, which follows its length.
    pub offset: usize,
}

/// Reason why bytes are not a valid message of their tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The body ends before the field does.
    Truncated {
        /// Start of the field.
        place: Location,
        /// Number of bytes that the field needs.
        needed: usize,
        /// Number of bytes left in the body.
        remaining: usize,
    },
    /// A string has no NUL before the body ends.
    Unterminated {
        /// Start of the string.
        place: Location,
        /// Number of bytes from there to the end of the body.
        remaining: usize,
    },
    /// A length is negative and not that of NULL.
    InvalidLength {
        /// Start of the length.
        place: Location,
        /// Length.
        found: i32,
    },
    /// A field has a value that the protocol does not define.
    InvalidValue {
        /// Start of the field.
        place: Location,
        /// Value.
        found: i64,
    },
    /// The message is complete but its body has more bytes.
    TrailingBytes {
        /// Expected end of the message.
        place: Location,
        /// Number of bytes that follow.
        remaining: usize,
    },
    /// No message of this direction has the tag.
    UnknownTag {
        /// Sender of the messages: `frontend` or `backend`.
        direction: &'static str,
        /// Tag.
        found: u8,
    },
    /// The length in a header is less than the protocol allows or more than the caller allows. The stream
    /// cannot be followed further.
    FrameLength {
        /// Tag of the message; `None` in the start-up phase, which has none.
        tag: Option<u8>,
        /// Length in the header, which includes its own 4 bytes.
        found: i32,
        /// Minimum length.
        min: i32,
        /// Maximum length.
        max: i32,
    },
}

/// A byte, printed as a character if possible.
struct Tag(u8);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "0x{:02x}", self.0)
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} at byte {}",
            self.message, self.field, self.offset
        )
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated {
                place,
                needed,
                remaining,
            } => write!(f, "{place} takes {needed} bytes, {remaining} are left"),
            Self::Unterminated { place, remaining } => {
                write!(f, "{place} has no NUL in the {remaining} bytes left")
            }
            Self::InvalidLength { place, found } => write!(f, "{place} is {found}"),
            Self::InvalidValue { place, found } => {
                write!(f, "{place} is {found}, which the protocol does not define")
            }
            Self::TrailingBytes { place, remaining } => {
                write!(f, "{place} is followed by {remaining} more bytes")
            }
            Self::UnknownTag { direction, found } => {
                write!(f, "no {direction} message has the tag {}", Tag(*found))
            }
            Self::FrameLength {
                tag: Some(tag),
                found,
                min,
                max,
            } => write!(
                f,
                "the message {} says it is {found} bytes long; {min} to {max} are allowed",
                Tag(*tag)
            ),
            Self::FrameLength {
                tag: None,
                found,
                min,
                max,
            } => write!(
                f,
                "the start-up packet says it is {found} bytes long; {min} to {max} are allowed"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reason why values cannot be encoded as a message. Nothing was appended to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// A string contains a NUL, which would end it early.
    NulInString {
        /// Name of the message in the documentation.
        message: &'static str,
        /// Field of the string.
        field: &'static str,
        /// Offset in bytes from the start of the string to the NUL.
        offset: usize,
    },
    /// A list is too long for its 16-bit count.
    TooMany {
        /// Name of the message in the documentation.
        message: &'static str,
        /// Field of the list.
        field: &'static str,
    },
    /// A value or the message is too long for its 32-bit length.
    TooLong {
        /// Name of the message in the documentation.
        message: &'static str,
        /// Field of the value, or `message`.
        field: &'static str,
        /// Length in bytes.
        bytes: usize,
    },
    /// A field has a value that the decoder would reject or decode differently.
    InvalidValue {
        /// Name of the message in the documentation.
        message: &'static str,
        /// Field.
        field: &'static str,
        /// Value.
        found: i64,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NulInString {
                message,
                field,
                offset,
            } => write!(f, "{message}: {field} has a NUL at byte {offset}"),
            Self::TooMany { message, field } => {
                write!(f, "{message}: more than {} of {field}", u16::MAX)
            }
            Self::TooLong {
                message,
                field,
                bytes,
            } => write!(
                f,
                "{message}: {field} has {bytes} bytes, a length holds at most {}",
                i32::MAX
            ),
            Self::InvalidValue {
                message,
                field,
                found,
            } => write!(f, "{message}: {field} cannot be {found}"),
        }
    }
}

impl std::error::Error for EncodeError {}
