//! Readiness on systems without epoll, through the crate `polling`: kqueue on macOS and the BSDs.
//!
//! It has the interface of the poller of Linux. There are three differences to the crate, which the tests below
//! show:
//!
//! - The crate keeps a list of descriptors. The kernel forgets a closed descriptor, but the list does not. If
//!   the number is used again, the old entry is deleted first.
//! - The crate reserves a key that callers use as a token. Its key is the descriptor here, and the tokens are
//!   in a table.
//! - kqueue reports reading and writing as two events. They are one here, so that a caller that closes a
//!   descriptor does not see its second event.

mod waker;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use polling::{Event, Events, PollMode};

use crate::{Interest, Ready};

pub use waker::Waker;

const EVENTS_AT_ONCE: NonZeroUsize = NonZeroUsize::new(256).expect("it is not zero");

/// A set of descriptors, with those that the last wait found ready.
pub struct Poller {
    poller: polling::Poller,
    events: Events,
    ready: Vec<Ready>,
    registered: RefCell<HashMap<RawFd, Registration>>,
}

#[derive(Clone, Copy)]
struct Registration {
    token: u64,
    interest: Interest,
}

impl Interest {
    fn reads(self) -> bool {
        self != Interest::Write
    }

    fn writes(self) -> bool {
        self != Interest::Read
    }

    fn event(self, fd: RawFd) -> Event {
        Event::new(fd as usize, self.reads(), self.writes())
    }
}

// On Linux, where only tests use it, the crate may be built to wait by poll(2), which has no descriptor.
#[cfg(not(target_os = "linux"))]
impl std::os::fd::AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.poller.as_raw_fd()
    }
}

impl Poller {
    /// Creates an instance without descriptors.
    ///
    /// # Errors
    /// If the system has no free descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Poller {
            poller: polling::Poller::new()?,
            events: Events::with_capacity(EVENTS_AT_ONCE),
            ready: Vec::new(),
            registered: RefCell::new(HashMap::new()),
        })
    }

    /// Adds a descriptor, which is reported by its token. An earlier descriptor of that number must be closed
    /// or removed.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn add(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        if let Err(error) = self.try_add(fd, interest) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            // The kernel forgot the earlier descriptor when it was closed, so that only the list of the crate
            // has it.
            let _ = self.poller.delete(borrow(fd));
            self.try_add(fd, interest)?;
        }
        let known = Registration { token, interest };
        self.registered.borrow_mut().insert(fd, known);
        Ok(())
    }

    fn try_add(&self, fd: RawFd, interest: Interest) -> io::Result<()> {
        let event = interest.event(fd);
        // SAFETY: the caller has the descriptor open. The system reports nothing of a closed one, and `add`
        // deletes it when its number is used again.
        unsafe { self.poller.add_with_mode(fd, event, PollMode::Level) }
    }

    /// Changes the interest in a descriptor, and its token.
    ///
    /// # Errors
    /// If it was not added, or the system call fails.
    pub fn change(&self, fd: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut registered = self.registered.borrow_mut();
        let known = registered.get_mut(&fd).ok_or(io::ErrorKind::NotFound)?;
        let event = interest.event(fd);
        let poller = &self.poller;
        poller.modify_with_mode(borrow(fd), event, PollMode::Level)?;
        *known = Registration { token, interest };
        Ok(())
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// If it was not added, or the system call fails.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        let known = self.registered.borrow_mut().remove(&fd);
        known.ok_or(io::ErrorKind::NotFound)?;
        self.poller.delete(borrow(fd))
    }

    /// Waits until a descriptor is ready.
    ///
    /// # Errors
    /// If the system call fails, except by a signal.
    pub fn wait_without_timeout(&mut self) -> io::Result<()> {
        self.wait_at_most(None)
    }

    /// Waits for at most this many nanoseconds; 0 only polls.
    ///
    /// # Errors
    /// If the system call fails, except by a signal.
    pub fn wait(&mut self, timeout_ns: i64) -> io::Result<()> {
        let timeout_ns = u64::try_from(timeout_ns).unwrap_or(0);
        self.wait_at_most(Some(Duration::from_nanos(timeout_ns)))
    }

    fn wait_at_most(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        self.ready.clear();
        self.poller.wait(&mut self.events, timeout)?;
        let mut found: Vec<Event> = self.events.iter().collect();
        found.sort_by_key(|event| event.key);
        let registered = self.registered.borrow();
        for of_one in found.chunk_by(|one, other| one.key == other.key) {
            let Some(known) = registered.get(&(of_one[0].key as RawFd)) else {
                continue;
            };
            let closed = of_one
                .iter()
                .any(|event| event.is_interrupt() || event.is_err() == Some(true));
            // kqueue reports the end of the stream of the peer as writable, too.
            let writable = of_one.iter().any(|event| event.writable);
            self.ready.push(Ready {
                token: known.token,
                readable: closed || of_one.iter().any(|event| event.readable),
                writable: writable && known.interest.writes(),
                closed,
            });
        }
        Ok(())
    }

    /// Returns the number of descriptors that the last wait found ready.
    pub fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Returns a descriptor that the last wait found ready.
    pub fn ready(&self, place: usize) -> Ready {
        self.ready[place]
    }
}

fn borrow<'fd>(fd: RawFd) -> BorrowedFd<'fd> {
    // SAFETY: the caller has the descriptor open while it changes or removes it. If it is closed, the system
    // call fails and nothing else happens.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

#[cfg(test)]
mod tests;
