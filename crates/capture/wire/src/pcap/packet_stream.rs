//! Reads standard input as a stream of packets, which ends with its writer or when the user asks to
//! stop.
//!
//! A blocked read cannot be cancelled: the standard library repeats it after a signal. Therefore
//! the stream waits with `poll`, which a signal does interrupt, and reads only available data.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Clock, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Returns true once the user has asked to stop.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Time between two checks whether to stop, if no signal comes to this thread.
const POLL_NS: i64 = 100_000_000;

/// Time that the writer gets to finish, in nanoseconds. It usually receives the same Ctrl-C,
/// flushes its buffer and exits, which ends the stream sooner.
const LAST_POLL_NS: i64 = 1_000_000_000;

/// Standard input.
pub(super) struct PacketStream {
    input: File,
    stop: Option<StopCheck>,
    clock: SystemClock,
    deadline_ns: Option<i64>,
    /// Whether the stream was left before its end, because the user asked to stop.
    is_stopped: Arc<AtomicBool>,
}

impl PacketStream {
    /// Opens standard input. Sets `is_stopped` when it returns an end that the writer has not made.
    ///
    /// # Errors
    /// If standard input is closed.
    pub(super) fn open(stop: Option<StopCheck>, is_stopped: Arc<AtomicBool>) -> io::Result<Self> {
        // Without the buffer of `io::stdin`, which `poll` cannot see.
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(PacketStream {
            input,
            stop,
            clock: SystemClock::start(),
            deadline_ns: None,
            is_stopped,
        })
    }

    /// Returns how long to wait for more input, in nanoseconds; 0 if the time to stop has come.
    fn time_left_ns(&mut self) -> i64 {
        if !self.stop.as_ref().is_some_and(|stop| stop()) {
            return POLL_NS;
        }
        let now_ns = self.clock.now_ns();
        let deadline_ns = *self.deadline_ns.get_or_insert(now_ns + LAST_POLL_NS);
        (deadline_ns - now_ns).max(0)
    }
}

impl Read for PacketStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let wait_ns = self.time_left_ns();
            if wait_ns == 0 {
                self.is_stopped.store(true, Ordering::Relaxed);
                return Ok(0);
            }
            let wait = Timespec {
                tv_sec: wait_ns / 1_000_000_000,
                tv_nsec: wait_ns % 1_000_000_000,
            };
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&wait)) {
                Ok(0) | Err(Errno::INTR) => (),
                Ok(_) => return self.input.read(into),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
