//! System calls for event loops: readiness of many descriptors, non-blocking sockets, and io_uring.
//!
//! A thread that owns its connections (a replay's worker, the proxy's forwarder) waits for all of them at
//! once. The data, and any notion of tasks, are left to the caller.
//!
//! On Linux a [`Poller`] is an epoll instance. On other systems it is kqueue, through the crate `polling`, and
//! a [`Ring`] cannot be created, so that callers use the poller.

mod completion;
mod descriptors;
mod sockets;
mod thread_priority;

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(target_os = "linux")]
mod ring;
#[cfg(target_os = "linux")]
mod waker;

#[cfg(not(target_os = "linux"))]
mod no_ring;
// The tests of Linux run it, too.
#[cfg(any(test, not(target_os = "linux")))]
mod portable;

pub use completion::{Completion, StopReason, UnsentMessage};
pub use descriptors::{OTHER_FILES, address_space_limit, raise_fd_limit};
pub use sockets::{keep_alive, read, set_tcp_option, shutdown, shutdown_write, write};
pub use thread_priority::{lower_thread_priority, set_timer_slack};

#[cfg(target_os = "linux")]
pub use {
    epoll::Poller,
    ring::{Buffer, Ring, Socket},
    waker::Waker,
};
#[cfg(not(target_os = "linux"))]
pub use {
    no_ring::{Buffer, Ring, Socket},
    portable::{Poller, Waker},
};

use std::io;

/// Readiness to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Readable, including the end of the stream.
    Read,
    /// Writable. Readable data stays unread.
    Write,
    /// Readable or writable.
    ReadAndWrite,
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// Token of the descriptor.
    pub token: u64,
    /// It is readable, or at its end, or a read would return an error.
    pub readable: bool,
    /// It is writable.
    pub writable: bool,
    /// Both directions are closed.
    pub closed: bool,
}

fn check_result(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
