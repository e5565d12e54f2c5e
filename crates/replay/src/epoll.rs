//! The few calls of Linux that the hot path makes: epoll with timeouts in nanoseconds, and sockets
//! read and written without blocking.
//!
//! All unsafe code of the crate is here.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

const EVENTS_AT_ONCE: usize = 256;

/// What a worker waits on.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// Which readiness is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::ReadAndWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        bits as u32
    }
}

/// One socket that is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) writable: bool,
}

/// epoll_pwait2 came with Linux 5.11.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Epoll {
            // SAFETY: the descriptor was just made and is owned by nobody else.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            events: Vec::with_capacity(EVENTS_AT_ONCE),
        })
    }

    pub(crate) fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub(crate) fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
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

    /// Waits for at most this many nanoseconds (0: only looks).
    pub(crate) fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
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
        match checked(found) {
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

    /// How many sockets the last wait found ready.
    pub(crate) fn ready_count(&self) -> usize {
        self.events.len()
    }

    /// One that the last wait found ready.
    pub(crate) fn ready(&self, place: usize) -> Ready {
        let event = self.events[place];
        Ready {
            token: event.u64,
            writable: event.events & libc::EPOLLOUT as u32 != 0,
        }
    }
}

/// How much more a worker wants the processor than others do, and how much less the threads that only
/// prepare and write down.
const NICE: libc::c_int = 10;

/// Asks the kernel to wake this thread when asked, not up to 50 µs later, and before others where
/// the user may ask for that.
pub(crate) fn wake_precisely() {
    // SAFETY: no pointers. A refusal only costs precision. On Linux 0 is the calling thread
    // (setpriority(2)).
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
        libc::setpriority(libc::PRIO_PROCESS, 0, -NICE);
    }
}

/// Lets the workers, and the server where it is on the same machine, go before this thread.
pub(crate) fn let_others_go_first() {
    // SAFETY: no pointers. A refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Wakes a worker from another thread.
pub(crate) struct Bell {
    fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Bell {
            // SAFETY: the descriptor was just made and is owned by nobody else.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    pub(crate) fn ring(&self) {
        // A full counter is a bell that rings already.
        let _ = write(self.fd.as_raw_fd(), &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let mut count = [0; 8];
        let _ = read(self.fd.as_raw_fd(), &mut count);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Reads what is there; 0 at the end.
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let read = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Writes what there is room for. A peer that has gone is an error, not a signal.
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Sets a number of a TCP socket.
pub(crate) fn set_tcp_option(fd: RawFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, value)
}

/// Has the system ask whether a silent peer is still there.
pub(crate) fn keep_alive(fd: RawFd) -> io::Result<()> {
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
