//! Results of the operations of a ring.

use std::io;

use crate::Buffer;

/// Completion of an operation.
#[derive(Debug)]
pub enum Completion {
    /// Bytes were received.
    Received {
        /// Token of the receive operation.
        token: u64,
        /// Received bytes.
        buffer: Buffer,
        /// Whether the receive operation continues.
        armed: bool,
    },
    /// The receive operation has ended and must be started again.
    Stopped {
        /// Token of the receive operation.
        token: u64,
        /// Reason.
        why: StopReason,
    },
    /// A buffer was sent, as far as it fits.
    Sent {
        /// Token of the send operation.
        token: u64,
        /// Buffer that was sent.
        buffer: Buffer,
        /// Number of bytes sent; `WouldBlock` if none fit.
        sent: io::Result<usize>,
    },
    /// A watched descriptor is readable.
    Readable {
        /// Token of the watch.
        token: u64,
        /// Whether the watch continues.
        armed: bool,
    },
}

/// Reason why a receive operation has ended.
#[derive(Debug)]
pub enum StopReason {
    /// The peer has ended its stream.
    End,
    /// No buffer of the pool is free, or the operation was cancelled.
    Paused,
    /// The connection is broken.
    Broken(io::Error),
}

/// A message that was not sent completely.
#[derive(Debug)]
pub struct UnsentMessage {
    /// Token of the message.
    pub token: u64,
    /// Bytes that were not sent.
    pub rest: Vec<u8>,
    /// Error of the connection; `None` if the bytes did not fit.
    pub broken: Option<io::Error>,
}
