//! A waker by `eventfd(2)`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::check_result;

/// Wakes a waiting thread from another thread.
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// Creates a waker that is not signalled.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = check_result(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Waker {
            // SAFETY: the descriptor was just made and has no other owner.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Signals the waiting thread, until the waker is reset.
    pub fn wake(&self) {
        // A full counter is signalled already.
        let count = 1u64.to_ne_bytes();
        // SAFETY: the buffer is valid for its length.
        let _ = unsafe { libc::write(self.fd.as_raw_fd(), count.as_ptr().cast(), count.len()) };
    }

    /// Resets the waker.
    pub fn reset(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer is valid for its length.
        let _ = unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Returns the descriptor to wait for.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
