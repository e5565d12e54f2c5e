//! System calls of Linux for event loops: epoll with timeouts in nanoseconds, non-blocking sockets, and
//! io_uring.
//!
//! A thread that owns its connections (a replay's worker, the proxy's forwarder) waits for all of them at
//! once. The data, and any notion of tasks, are left to the caller.

mod descriptors;
mod ring;

pub use descriptors::{OTHER_FILES, address_space_limit, raise_fd_limit};
pub use ring::{Buffer, Completion, Ring, Socket, StopReason, UnsentMessage};

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

const EVENTS_AT_ONCE: usize = 256;

/// An epoll instance with the events of its last wait.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

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

/// Set if the kernel has no `epoll_pwait2`, which was added in Linux 5.11.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

impl Epoll {
    /// Creates an instance without descriptors.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = check_result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Epoll {
            // SAFETY: the descriptor was just made and is owned by nobody else.
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

/// Nice value: subtracted for threads of the hot path, added for threads that prepare and record.
const NICE: libc::c_int = 10;

/// Sets the timer slack of this thread to the minimum, instead of 50 µs, and raises its priority if the user
/// may.
pub fn set_timer_slack() {
    // SAFETY: no pointers. A failure only reduces precision. On Linux 0 is the calling thread
    // (setpriority(2)).
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
        libc::setpriority(libc::PRIO_PROCESS, 0, -NICE);
    }
}

/// Lowers the priority of this thread, in favour of the hot path, and of a server on the same machine.
pub fn lower_thread_priority() {
    // SAFETY: no pointers. A failure changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

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
            // SAFETY: the descriptor was just made and is owned by nobody else.
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

/// Reads the available bytes; 0 at the end of the stream.
///
/// # Errors
/// `WouldBlock` if none are available, or the error of the connection.
#[inline]
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let read = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes as many bytes as fit. A peer that has closed is an error, not a signal.
///
/// # Errors
/// `WouldBlock` if none fit, or the error of the connection.
#[inline]
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Ends the outgoing stream. Data of the peer can still be read.
pub fn shutdown_write(fd: RawFd) {
    // SAFETY: no pointers. If the connection is closed already, nothing happens.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Ends both directions of a socket, even if other descriptors refer to it.
pub fn shutdown(fd: RawFd) {
    // SAFETY: no pointers. If the connection is closed already, nothing happens.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Sets an integer option of a TCP socket.
///
/// # Errors
/// If it is not a TCP socket, or the system does not know the option.
pub fn set_tcp_option(fd: RawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, value)
}

/// Enables TCP keepalive.
///
/// # Errors
/// If it is not a socket.
pub fn keep_alive(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
}

fn set_option(
    fd: RawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let place: *const libc::c_int = &value;
    // SAFETY: `value` lives through the call and has the given length.
    check_result(unsafe { libc::setsockopt(fd, level, option, place.cast(), length) })?;
    Ok(())
}

fn check_result(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
