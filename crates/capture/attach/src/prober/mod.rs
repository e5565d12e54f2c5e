//! Attaches eBPF programs to a server, and writes what they copy as records: the part that holds privileges.
//!
//! The programs are a few hundred instructions, which [`assembler`] encodes at run time. A library would be more code:
//! `aya` loads object files, and its Rust programs need a nightly compiler and a linker of LLVM for eBPF. What is left
//! (seven commands of `bpf`, one of `perf_event_open`, a ring buffer) is less than its types.

mod error;

#[cfg(target_os = "linux")]
mod assembler;
#[cfg(target_os = "linux")]
mod attachment;
#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod recording;
#[cfg(target_os = "linux")]
mod ring_buffer;
#[cfg(target_os = "linux")]
mod type_information;
#[cfg(target_os = "linux")]
mod user_probe;

/// Returns whether the kernel refuses probes in programs to this process, with its effective capabilities.
#[cfg(target_os = "linux")]
pub(crate) fn are_probes_refused() -> bool {
    user_probe::ProbeSource::find().is_ok_and(user_probe::ProbeSource::is_refused)
}

pub use error::ProbeError;

use crate::server_process::ServerSelection;
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
/// A failure is also written to `output`, as a record of the kind `Failed`. Start this process in a process group of
/// its own: a Ctrl-C must reach the decoding process only, which then closes `input` and reads `output` to its end.
///
/// # Errors
/// If the server is not found, or the host does not allow the probes.
pub fn run(
    options: &ProberOptions,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
) -> Result<(), ProbeError> {
    #[cfg(target_os = "linux")]
    return recording::run(options, input, output);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (options, input, output);
        Err(ProbeError::Unsupported)
    }
}
