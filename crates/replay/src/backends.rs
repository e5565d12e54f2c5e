//! Which backend of the server each session speaks with, for who watches the server's processes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use run::SessionBackend;

/// What became known since it was asked for last. Costs nothing until somebody wants it.
#[derive(Debug, Default)]
pub struct Backends {
    wanted: AtomicBool,
    new: Mutex<Vec<SessionBackend>>,
}

impl Backends {
    /// From now on it is kept, until it is taken.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// What came since the last time, in the order of time but for a hair. Memory is bounded by how often
    /// this is called.
    pub fn take(&self) -> Vec<SessionBackend> {
        let mut new = self.new.lock().unwrap_or_else(|error| error.into_inner());
        std::mem::take(&mut *new)
    }

    /// From now on, this session speaks with this backend.
    pub(crate) fn speaks_with(&self, session: u64, pid: i32, now_ns: i64) {
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
