//! Several servers in one capture: process numbers and restarts of one mean nothing to another, so
//! each has sessions of its own. Those of one are at work, the others rest.

use std::collections::{BTreeMap, VecDeque};

use super::Assembler;
use super::sessions::Sessions;

/// The sessions that may go on, and what fades of them.
type Resting = (Sessions, VecDeque<(i64, u32, u64)>);

/// The lane at work, and the sessions of the others.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    current: usize,
    resting: BTreeMap<usize, Resting>,
}

impl Assembler<'_> {
    /// What comes next is of this lane.
    pub(in super::super) fn turn_to(&mut self, lane: usize) {
        if lane == self.lanes.current {
            return;
        }
        let sessions = self.lanes.resting.remove(&lane).unwrap_or_default();
        let (live, fading) = sessions;
        let live = std::mem::replace(&mut self.live, live);
        let fading = std::mem::replace(&mut self.fading, fading);
        let left = std::mem::replace(&mut self.lanes.current, lane);
        self.lanes.resting.insert(left, (live, fading));
    }

    /// Turns to a lane that still has sessions, where there is one.
    pub(super) fn turn_to_any(&mut self) -> bool {
        let Some((lane, (live, fading))) = self.lanes.resting.pop_first() else {
            return false;
        };
        (self.lanes.current, self.live, self.fading) = (lane, live, fading);
        true
    }
}
