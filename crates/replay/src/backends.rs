//! Backend process of each session, for a sampler of the server's processes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use run::SessionBackend;

/// Session-to-backend assignments since the last call of [`Backends::take`]. Nothing is stored until
/// [`Backends::enable`] is called.
#[derive(Debug, Default)]
pub struct Backends {
    wanted: AtomicBool,
    new: Mutex<Vec<SessionBackend>>,
}

impl Backends {
    /// Starts storing assignments.
    pub fn enable(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Takes the assignments since the last call, almost in time order. Memory grows until the next call.
    pub fn take(&self) -> Vec<SessionBackend> {
        let mut new = self.new.lock().unwrap_or_else(|error| error.into_inner());
        std::mem::take(&mut *new)
    }

    /// Records that a session uses this backend from `now_ns` on.
    pub(crate) fn add(&self, session: u64, pid: i32, now_ns: i64) {
        if !self.wanted.load(Ordering::Acquire) {
            return;
        }
        // Some poolers have no numbers for processes.
        let Ok(pid @ 1..) = u64::try_from(pid) else {
            return;
        };
        let mut new = self.new.lock().unwrap_or_else(|error| error.into_inner());
        new.push(SessionBackend {
            from_ns: now_ns,
            session,
            pid,
        });
    }
}
