//! Counts of the work of all programs of the system.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Counts of a run of the system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Claims that were sent.
    pub claims: u64,
    /// Links that they returned.
    pub claimed: u64,
    /// Links of these that the limiter postponed.
    pub postponed: u64,
    /// Images that were fetched. They are fetched again a day later.
    pub downloaded: u64,
    /// Attempts that failed and are retried.
    pub retried: u64,
    /// Links that were given up: missing, or failed too often.
    pub given_up: u64,
    /// Links that came in.
    pub arrived: u64,
    /// Claims of killed instances that were released.
    pub reaped: u64,
    /// Links that were not referenced for a week and were deleted.
    pub expired: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.claims += more.claims;
        self.claimed += more.claimed;
        self.postponed += more.postponed;
        self.downloaded += more.downloaded;
        self.retried += more.retried;
        self.given_up += more.given_up;
        self.arrived += more.arrived;
        self.reaped += more.reaped;
        self.expired += more.expired;
    }
}

/// The counters of one process while it runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) claims: AtomicU64,
    pub(super) claimed: AtomicU64,
    pub(super) put_off: AtomicU64,
    pub(super) downloaded: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) given_up: AtomicU64,
    pub(super) arrived: AtomicU64,
    pub(super) reaped: AtomicU64,
    pub(super) expired: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

impl Tally {
    pub(super) fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            claims: of(&self.claims),
            claimed: of(&self.claimed),
            postponed: of(&self.put_off),
            downloaded: of(&self.downloaded),
            retried: of(&self.retried),
            given_up: of(&self.given_up),
            arrived: of(&self.arrived),
            reaped: of(&self.reaped),
            expired: of(&self.expired),
        }
    }
}
