//! Separates several servers in one capture: process numbers and restarts of one mean nothing to
//! another, so each has its own sessions. The sessions of one are active, those of the others are
//! inactive.

use std::collections::{BTreeMap, VecDeque};

use super::Assembler;
use super::sessions::Sessions;

/// The sessions that may continue, and those of them to drop later.
type InactiveStream = (Sessions, VecDeque<(i64, u32, u64)>);

/// The active server, and the sessions of the others.
#[derive(Debug, Default)]
pub(super) struct ServerStreams {
    current: usize,
    inactive: BTreeMap<usize, InactiveStream>,
}

impl Assembler<'_> {
    /// Activates the sessions of this server.
    pub(in super::super) fn activate_stream(&mut self, stream: usize) {
        if stream == self.streams.current {
            return;
        }
        let sessions = self.streams.inactive.remove(&stream).unwrap_or_default();
        let (live, expiring) = sessions;
        let live = std::mem::replace(&mut self.live, live);
        let expiring = std::mem::replace(&mut self.expiring, expiring);
        let left = std::mem::replace(&mut self.streams.current, stream);
        self.streams.inactive.insert(left, (live, expiring));
    }

    /// Activates a server that still has sessions, if there is one.
    pub(super) fn activate_any_stream(&mut self) -> bool {
        let Some((stream, (live, expiring))) = self.streams.inactive.pop_first() else {
            return false;
        };
        (self.streams.current, self.live, self.expiring) = (stream, live, expiring);
        true
    }
}
