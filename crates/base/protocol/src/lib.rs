//! PostgreSQL's frontend/backend protocol, version 3: its messages in both directions, encode and
//! decode, without I/O.
//!
//! The facts are those of the PostgreSQL documentation, chapter 54, above all
//! [54.7 Message Formats](https://www.postgresql.org/docs/current/protocol-message-formats.html);
//! every message's module names its entry there.
//!
//! # Who drives
//! The caller owns every socket, file and buffer. To write, it hands a `Vec<u8>` to an `encode`
//! function, which appends one whole message or, on an error, nothing. To read, it hands in the
//! bytes it has:
//! - [`frame::next_frame`] when it holds a buffer and wants whole messages,
//! - [`scanner::Scanner`] when it wants headers, the bodies of a few kinds of message, and to let
//!   gigabytes of rows pass without holding them,
//! - [`frontend::startup::next_packet`] for what a client sends before messages have tags,
//!
//! and then [`frontend::Message::decode`] or [`backend::Message::decode`] for a tag and a body.
//!
//! # Promises
//! - A decoder never panics, whatever the bytes; it looks at a length before it slices.
//! - A decoder borrows and does not allocate. Lists (columns, parameters, fields) are checked once
//!   when decoded, so that iterating over them cannot fail.
//! - What was decoded encodes to the same bytes; what a decoder would have to guess at (trailing
//!   bytes, a NUL missing, a negative length other than NULL's) is an error.
//! - An encoder writes what its decoder reads, or fails: a NUL inside a name would shift every
//!   field after it, so it is refused.
//!
//! # Deliberately absent
//! Sockets, TLS, authentication mechanisms, the state machine of a session, the meaning of values
//! in text or binary format, character sets: names and SQL are bytes in the client's encoding.
//! Protocol version 2 and the contents of the streaming replication protocol's CopyData.

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
pub use scanner::{Scanned, Scanner, TagSet};
pub use values::Values;

/// Version 3.0 of the protocol, as a StartupMessage carries it: the major version in the upper 16
/// bits, the minor one in the lower.
pub const PROTOCOL_3_0: u32 = 196_608;

/// Version 3.2 of the protocol (PostgreSQL 18), whose cancel keys may be longer than 4 bytes.
pub const PROTOCOL_3_2: u32 = 196_610;

/// The shortest cancel key, in bytes; version 3.0 knows no other length.
pub const CANCEL_KEY_BYTES_MIN: usize = 4;

/// The longest cancel key that version 3.2 allows, in bytes.
pub const CANCEL_KEY_BYTES_MAX: usize = 256;
