//! PostgreSQL's frontend/backend protocol, version 3: encodes and decodes its messages in both directions,
//! without I/O.
//!
//! The source is the PostgreSQL documentation, chapter 54, above all [54.7 Message
//! Formats](https://www.postgresql.org/docs/current/protocol-message-formats.html). The module of every
//! message names its entry.
//!
//! # Use
//! The caller owns all sockets, files and buffers. To write, it passes a `Vec<u8>` to an `encode` function,
//! which appends one complete message or, on an error, nothing. To read, it passes its bytes to
//! - [`frame::next_frame`], to take complete messages out of a buffer,
//! - [`scanner::Scanner`], to follow the headers and the bodies of a few kinds of message, and skip gigabytes
//!   of rows without buffering them,
//! - [`frontend::startup::next_packet`], for the packets of a client before messages have tags,
//!
//! and then to [`frontend::Message::decode`] or [`backend::Message::decode`] with a tag and a body.
//!
//! # Guarantees
//! - A decoder never panics on any bytes. It checks a length before it slices.
//! - A decoder borrows and does not allocate. Lists (columns, parameters, fields) are checked once when
//!   decoded, so that iterating over them cannot fail.
//! - A decoded message is encoded to the same bytes. Ambiguous input (trailing bytes, a missing NUL, a
//!   negative length other than that of NULL) is an error.
//! - An encoder writes what its decoder reads, or fails. A NUL inside a name would shift all later fields, so
//!   it is refused.
//!
//! # Scope
//! Sockets, TLS, authentication mechanisms, the state machine of a session, the meaning of values, and
//! character sets are left to the caller: names and SQL are bytes in the client's encoding. Protocol version
//! 2 and the contents of CopyData in streaming replication are not supported.

#![forbid(unsafe_code)]

pub mod backend;
pub mod copy;
mod cursor;
pub mod error;
pub mod format;
pub mod frame;
pub mod frontend;
pub mod oids;
pub mod scanner;
pub mod values;
mod writer;

pub use error::{DecodeError, EncodeError};
pub use format::{Format, Formats};
pub use frame::{Frame, Header, next_frame};
pub use oids::Oids;
pub use scanner::{ScanEvent, Scanner, TagSet};
pub use values::Values;

/// Version 3.0 of the protocol as in a StartupMessage: the major version in the upper 16 bits, the minor one
/// in the lower.
pub const PROTOCOL_3_0: u32 = 196_608;

/// Version 3.2 of the protocol (PostgreSQL 18), whose cancel keys may be longer than 4 bytes.
pub const PROTOCOL_3_2: u32 = 196_610;

/// Minimum bytes of a cancel key, and the only length in version 3.0.
pub const CANCEL_KEY_BYTES_MIN: usize = 4;

/// Maximum bytes of a cancel key in version 3.2.
pub const CANCEL_KEY_BYTES_MAX: usize = 256;
