//! Tags of a client's messages.

pub use crate::copy::{COPY_DATA, COPY_DONE};

/// PasswordMessage, SASLInitialResponse, SASLResponse or GSSResponse.
pub const AUTHENTICATION_REPLY: u8 = b'p';
/// Bind.
pub const BIND: u8 = b'B';
/// Close.
pub const CLOSE: u8 = b'C';
/// CopyFail.
pub const COPY_FAIL: u8 = b'f';
/// Describe.
pub const DESCRIBE: u8 = b'D';
/// Execute.
pub const EXECUTE: u8 = b'E';
/// Flush.
pub const FLUSH: u8 = b'H';
/// FunctionCall.
pub const FUNCTION_CALL: u8 = b'F';
/// Parse.
pub const PARSE: u8 = b'P';
/// Query.
pub const QUERY: u8 = b'Q';
/// Sync.
pub const SYNC: u8 = b'S';
/// Terminate.
pub const TERMINATE: u8 = b'X';
