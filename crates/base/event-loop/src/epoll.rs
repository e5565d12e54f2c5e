//! Readiness by epoll, with timeouts in nanoseconds.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Interest, Ready, check_result};

const EVENTS_AT_ONCE: usize = 256;

/// An epoll instance with the events of its last wait.
pub struct Poller {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Write => libc::EPOLLOUT,
            Interest::ReadAndWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        bits as u32
    }
}

/// Set if the kernel has no `epoll_pwait2`, which was added in Linux 5.11.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

impl Poller {
    /// Creates an instance without descriptors.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = check_result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Poller {
            // SAFETY: the descriptor was just made and has no other owner.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            events: Vec::with_capacity(EVENTS_AT_ONCE),
        })
    }

    /// Adds a descriptor, which is reported by its token.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the interest in a descriptor.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Read)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: RawFd,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.bits(),
            u64: token,
        };
        // SAFETY: `event` lives through the call.
        check_result(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) })?;
        Ok(())
    }

    /// Waits until a descriptor is ready, without a timer, which is expensive on some machines.
    ///
    /// # Errors
    /// If the system call fails, except by a signal.
    pub fn wait_without_timeout(&mut self) -> io::Result<()> {
        self.events.clear();
        let most = EVENTS_AT_ONCE as libc::c_int;
        // SAFETY: the buffer has space for `most` events.
        let found =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), most, -1) };
        self.set_ready_count(check_result(found))
    }

    /// Waits for at most this many nanoseconds; 0 only polls.
    ///
    /// # Errors
    /// If the system call fails, except by a signal.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.events.clear();
        let epoll = self.fd.as_raw_fd();
        let most = EVENTS_AT_ONCE as libc::c_int;
        let found = if NO_PWAIT2.load(Ordering::Relaxed) {
            // It may return up to a millisecond early. The caller checks the clock and waits again.
            let timeout_ms = (timeout_ns / 1_000_000).min(i64::from(i32::MAX)) as libc::c_int;
            // SAFETY: the buffer has space for `most` events.
            unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), most, timeout_ms) }
        } else {
            let timeout = libc::timespec {
                tv_sec: timeout_ns / 1_000_000_000,
                tv_nsec: timeout_ns % 1_000_000_000,
            };
            // SAFETY: the buffer has space for `most` events, `timeout` lives through the call, and no signal
            // mask is given.
            let found = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    self.events.as_mut_ptr(),
                    most,
                    &timeout as *const libc::timespec,
                    std::ptr::null::<libc::sigset_t>(),
                    0usize,
                )
            };
            found as libc::c_int
        };
        self.set_ready_count(check_result(found))
    }

    fn set_ready_count(&mut self, found: io::Result<libc::c_int>) -> io::Result<()> {
        match found {
            Ok(found) => {
                // SAFETY: the kernel initialised this number of events.
                unsafe { self.events.set_len(found as usize) };
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                NO_PWAIT2.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the number of descriptors that the last wait found ready.
    pub fn ready_count(&self) -> usize {
        self.events.len()
    }

    /// Returns a descriptor that the last wait found ready.
    pub fn ready(&self, place: usize) -> Ready {
        let event = self.events[place];
        Ready {
            token: event.u64,
            readable: event.events & !(libc::EPOLLOUT as u32) != 0,
            writable: event.events & libc::EPOLLOUT as u32 != 0,
            closed: event.events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
        }
    }
}
