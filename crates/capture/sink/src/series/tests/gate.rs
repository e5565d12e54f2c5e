//! Stops the finisher within the completion of a part, for a test that copies what a kill leaves there.

use std::sync::{Condvar, Mutex};

/// Step of a completion before which the finisher stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::series) enum Stage {
    /// All events of the part are on disk.
    Closed,
    /// The part is complete, and the description of the series does not have it.
    Complete,
    /// The description has it.
    Noted,
}

/// A gate at the steps of the completions of a capture.
#[derive(Debug)]
pub(in crate::series) struct Gate {
    stage: Stage,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateState {
    /// Number of parts that pass before it closes.
    passing: u64,
    is_reached: bool,
}

impl Gate {
    /// Creates a gate before a step, which `passing` parts pass.
    pub(super) fn new(stage: Stage, passing: u64) -> Self {
        let is_reached = false;
        Gate {
            stage,
            state: Mutex::new(GateState {
                passing,
                is_reached,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits while it is closed.
    pub(in crate::series) fn pass(&self, stage: Stage) {
        if stage != self.stage {
            return;
        }
        let mut state = self.state.lock().unwrap();
        while state.passing == 0 {
            state.is_reached = true;
            state = self.changed.wait(state).unwrap();
        }
        state.passing -= 1;
    }

    /// Whether the finisher waits.
    pub(super) fn is_reached(&self) -> bool {
        self.state.lock().unwrap().is_reached
    }

    /// Lets all parts pass.
    pub(super) fn open(&self) {
        self.state.lock().unwrap().passing = u64::MAX;
        self.changed.notify_all();
    }
}
