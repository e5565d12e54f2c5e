//! A waker by a pair of connected sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// Wakes a waiting thread from another thread.
pub struct Waker {
    near: UnixStream,
    far: UnixStream,
}

impl Waker {
    /// Creates a waker that is not signalled.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Waker { near, far })
    }

    /// Signals the waiting thread, until the waker is reset.
    pub fn wake(&self) {
        // If the buffer is full, the waker is signalled already.
        let _ = (&self.far).write(&[1]);
    }

    /// Resets the waker.
    pub fn reset(&self) {
        let mut signals = [0; 256];
        while (&self.near).read(&mut signals).is_ok_and(|read| read > 0) {}
    }

    /// Returns the descriptor to wait for.
    pub fn fd(&self) -> RawFd {
        self.near.as_raw_fd()
    }
}
