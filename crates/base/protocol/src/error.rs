//! What can be wrong with bytes that were read, and with values that were to be written.
//!
//! Both errors are small, `Copy`, and hold no text of the message: SQL and values may be secret,
//! and an error is printed in logs.

use std::fmt;

/// Where in a message a decoder stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The message's name in the documentation, such as `Bind`.
    pub message: &'static str,
    /// The field of the message, such as `parameter length`.
    pub field: &'static str,
    /// Bytes from the start of the message's body, which follows its length.
    pub offset: usize,
}

/// Why bytes are not the message that their tag claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The body ends before the field does.
    Truncated {
        /// Where the field starts.
        place: Place,
        /// How many bytes the field takes.
        needed: usize,
        /// How many the body still has.
        remaining: usize,
    },
    /// A string has no NUL before the body ends.
    Unterminated {
        /// Where the string starts.
        place: Place,
        /// How many bytes the body has from there.
        remaining: usize,
    },
    /// A length is negative where that does not mean NULL.
    InvalidLength {
        /// Where the length stands.
        place: Place,
        /// The length.
        found: i32,
    },
    /// A field has a value that the protocol does not define.
    InvalidValue {
        /// Where the field starts.
        place: Place,
        /// The value.
        found: i64,
    },
    /// The message is complete but its body goes on.
    TrailingBytes {
        /// Where the message should have ended.
        place: Place,
        /// How many bytes follow.
        remaining: usize,
    },
    /// No message of this direction has the tag.
    UnknownTag {
        /// Whose messages were read: `frontend` or `backend`.
        direction: &'static str,
        /// The tag.
        found: u8,
    },
    /// The length in a header is smaller than the protocol allows or larger than the caller does.
    /// The stream cannot be followed past it.
    FrameLength {
        /// The message's tag; `None` in the start-up phase, which has none.
        tag: Option<u8>,
        /// The length as it stands in the header, which counts its own 4 bytes.
        found: i32,
        /// The smallest one allowed.
        min: i32,
        /// The largest one allowed.
        max: i32,
    },
}

/// A byte as a reader would like to see it.
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

impl fmt::Display for Place {
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

/// Why values cannot be written as a message. Nothing was appended to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// A string contains a NUL, which would end it early.
    NulInString {
        /// The message's name in the documentation.
        message: &'static str,
        /// The string's field.
        field: &'static str,
        /// Bytes from the start of the string to the NUL.
        offset: usize,
    },
    /// A list is longer than its 16-bit count can say.
    TooMany {
        /// The message's name in the documentation.
        message: &'static str,
        /// The list.
        field: &'static str,
    },
    /// A value or the message is longer than its 32-bit length can say.
    TooLong {
        /// The message's name in the documentation.
        message: &'static str,
        /// The value, or `message`.
        field: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A field has a value that the decoder would not take, or would take for something else.
    InvalidValue {
        /// The message's name in the documentation.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// The value.
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
