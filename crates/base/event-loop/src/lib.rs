//! The few calls of Linux that a hot path makes: epoll with timeouts in nanoseconds, sockets read and
//! written without blocking, and a ring that does both with one call.
//!
//! Who drives: a thread that owns its connections (a replay's worker, the proxy's forwarder) and
//! waits for all of them at once. Deliberately absent: what is read and written, and any notion of
//! tasks.

mod descriptors;
mod ring;

pub use descriptors::make_room;
pub use ring::{Buffer, Happened, Ring, Socket, Stopped, Unsent};

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

const EVENTS_AT_ONCE: usize = 256;

/// What a thread waits on.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Which readiness is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read, or the end.
    Read,
    /// There is room to write; what could be read stays where it is.
    Write,
    /// Either.
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

/// One descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// As it was added.
    pub token: u64,
    /// There is something to read, or the end, or an error that a read would tell.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// Neither direction is open any more.
    pub gone: bool,
}

/// epoll_pwait2 came with Linux 5.11.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

impl Epoll {
    /// One that waits for nothing yet.
    ///
    /// # Errors
    /// Where the system has no room for another file.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Epoll {
            // SAFETY: the descriptor was just made and is owned by nobody else.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            events: Vec::with_capacity(EVENTS_AT_ONCE),
        })
    }

    /// Waits for this descriptor as well, which is told by its token.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Waits for something else of it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Waits for nothing of it, not even its end.
    ///
    /// # Errors
    /// Where the system refuses.
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
        checked(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) })?;
        Ok(())
    }

    /// Waits until something is ready, without a timer, which some machines make dear.
    ///
    /// # Errors
    /// Where the system refuses; a signal is none.
    pub fn wait_for_ever(&mut self) -> io::Result<()> {
        self.events.clear();
        let most = EVENTS_AT_ONCE as libc::c_int;
        // SAFETY: the buffer has room for `most` events.
        let found =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), most, -1) };
        self.found(checked(found))
    }

    /// Waits for at most this many nanoseconds (0: only looks).
    ///
    /// # Errors
    /// Where the system refuses; a signal is none.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.events.clear();
        let epoll = self.fd.as_raw_fd();
        let most = EVENTS_AT_ONCE as libc::c_int;
        let found = if NO_PWAIT2.load(Ordering::Relaxed) {
            // Too early by up to a millisecond: the caller looks at the clock and waits again.
            let timeout_ms = (timeout_ns / 1_000_000).min(i64::from(i32::MAX)) as libc::c_int;
            // SAFETY: the buffer has room for `most` events.
            unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), most, timeout_ms) }
        } else {
            let timeout = libc::timespec {
                tv_sec: timeout_ns / 1_000_000_000,
                tv_nsec: timeout_ns % 1_000_000_000,
            };
            // SAFETY: the buffer has room for `most` events, `timeout` lives through the call, and
            // no signal mask is given.
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
        self.found(checked(found))
    }

    fn found(&mut self, found: io::Result<libc::c_int>) -> io::Result<()> {
        match found {
            Ok(found) => {
                // SAFETY: the kernel filled in that many.
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

    /// How many descriptors the last wait found ready.
    pub fn ready_count(&self) -> usize {
        self.events.len()
    }

    /// One that the last wait found ready.
    pub fn ready(&self, place: usize) -> Ready {
        let event = self.events[place];
        Ready {
            token: event.u64,
            readable: event.events & !(libc::EPOLLOUT as u32) != 0,
            writable: event.events & libc::EPOLLOUT as u32 != 0,
            gone: event.events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
        }
    }
}

/// How much more a thread of the hot path wants the processor than others do, and how much less those
/// that only prepare and write down.
const NICE: libc::c_int = 10;

/// Asks the kernel to wake this thread when asked, not up to 50 µs later, and before others where
/// the user may ask for that.
pub fn wake_precisely() {
    // SAFETY: no pointers. A refusal only costs precision. On Linux 0 is the calling thread
    // (setpriority(2)).
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
        libc::setpriority(libc::PRIO_PROCESS, 0, -NICE);
    }
}

/// Lets the hot path, and the server where it is on the same machine, go before this thread.
pub fn let_others_go_first() {
    // SAFETY: no pointers. A refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Wakes a thread that waits from another thread.
pub struct Bell {
    fd: OwnedFd,
}

impl Bell {
    /// One that is silent.
    ///
    /// # Errors
    /// Where the system has no room for another file.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Bell {
            // SAFETY: the descriptor was just made and is owned by nobody else.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Has it ring until it is silenced.
    pub fn ring(&self) {
        // A full counter is a bell that rings already.
        let count = 1u64.to_ne_bytes();
        // SAFETY: the buffer is valid for its length.
        let _ = unsafe { libc::write(self.fd.as_raw_fd(), count.as_ptr().cast(), count.len()) };
    }

    /// Ends its ringing.
    pub fn silence(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer is valid for its length.
        let _ = unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// What is waited for.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Reads what is there; 0 at the end.
///
/// # Errors
/// `WouldBlock` where nothing is there, and what the connection ended with.
#[inline]
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let read = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes what there is room for. A peer that has gone is an error, not a signal.
///
/// # Errors
/// `WouldBlock` where there is no room, and what the connection ended with.
#[inline]
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Tells the peer that nothing more will come; what it sends can still be read.
pub fn end_writing(fd: RawFd) {
    // SAFETY: no pointers. Where it is gone already, there is nobody to tell.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Tells the peer that nothing more will come and nothing be read, whoever else holds the socket.
pub fn shut(fd: RawFd) {
    // SAFETY: no pointers. Where it is gone already, there is nobody to tell.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Sets a number of a TCP socket.
///
/// # Errors
/// Where it is none, or the system does not know the number.
pub fn set_tcp_option(fd: RawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, value)
}

/// Has the system ask whether a silent peer is still there.
///
/// # Errors
/// Where it is no socket.
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
    // SAFETY: `value` lives through the call, and is as long as is said.
    checked(unsafe { libc::setsockopt(fd, level, option, place.cast(), length) })?;
    Ok(())
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
