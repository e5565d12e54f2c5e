//! Errors of the prober.

use crate::server_process::FindError;
#[cfg(target_os = "linux")]
use crate::server_process::functions::FunctionError;
use std::io;

/// Reason for which the prober ends.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The server is not found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The server ended while it was searched.
    #[error("the server has stopped or restarted at this moment; run the command again")]
    Restarted,
    /// The server's functions are not found.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The operating system or the processor has no such probes.
    #[error(
        "capture attach needs Linux on x86-64 or aarch64, whose kernel can run probes; capture with a proxy or a log"
    )]
    Unsupported,
    /// The process lacks capabilities.
    #[error(
        "attaching to a server needs {missing}: run the command as root, or with these capabilities"
    )]
    NoCapabilities {
        /// Names of the missing capabilities.
        missing: String,
    },
    /// The process is in a container with its own process numbers.
    #[error(
        "process numbers of this container are not those of the kernel, so the server's processes cannot be \
         recognised: run the command on the host, or in a container that shares the host's (--pid=host)"
    )]
    OwnProcessNumbers,
    /// The process is in a namespace of users.
    #[error(
        "this process is in a user namespace, and the kernel does not accept its capabilities for eBPF: run the command on \
         the host as root, or in a container without user namespaces"
    )]
    UserNamespace,
    /// The kernel is too old.
    #[error(
        "this kernel ({release}) is too old to attach to a server: Linux 5.8 or later is needed; capture with a proxy or a log"
    )]
    OldKernel {
        /// Release of the kernel.
        release: String,
    },
    /// The kernel does not publish its types.
    #[error(
        "the kernel does not publish its types (/sys/kernel/btf/vmlinux: {0}), so processes of the server cannot be recognised; capture with a proxy or a log"
    )]
    NoTypes(String),
    /// The host forbids probes.
    #[error("this host forbids to {action}: {reason} ({source}); capture with a proxy or a log")]
    Forbidden {
        /// Forbidden action.
        action: &'static str,
        /// Setting that may be the cause.
        reason: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The kernel refuses an action.
    #[error("cannot {action}: {source}")]
    Refused {
        /// Refused action.
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// Records of the last calls were not complete in time.
    #[error(
        "up to {bytes} bytes of the last records were not complete when the capture ended, and are not recorded"
    )]
    Incomplete {
        /// Size of what was not read in the kernel's buffer.
        bytes: u64,
    },
    /// The records cannot be written.
    #[error("cannot write records to the process that decodes them: {0}")]
    Output(io::Error),
}
