//! Attaches eBPF programs to a server, and writes what they copy as records: the part that holds privileges.

use crate::server_process::ServerSelection;
use std::io;
use std::os::fd::BorrowedFd;

/// Settings of a prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberOptions {
    /// Server to record.
    pub server: ServerSelection,
    /// Size of the kernel's ring buffer in bytes: a power of two, and a multiple of the page size.
    pub ring_bytes: u32,
}

/// Size of the ring buffer in bytes, unless the user chooses another.
pub const RING_BYTES_DEFAULT: u32 = 16 << 20;

/// Records the server to `output` until `input` is readable or at its end, or `output` is closed.
///
/// A failure is also written to `output`, as a record of the kind `Failed`.
///
/// # Errors
/// If the server is not found, or the kernel refuses the probes.
pub fn run(
    options: &ProberOptions,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
) -> io::Result<()> {
    let _ = (options, input, output);
    Err(io::ErrorKind::Unsupported.into())
}
