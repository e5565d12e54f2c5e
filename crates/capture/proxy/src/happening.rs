//! What happens while a proxy runs, for whoever runs it to tell.

use crossbeam_channel::{Receiver, Sender, bounded};

use super::scribe::Finished;

/// Those that nobody asked for in time are left out; what matters is in the status as well.
const WAITING_MAX: usize = 1024;

/// Something that happened.
#[derive(Debug)]
pub enum Happening {
    /// A client was refused, since the upstream could not be reached.
    Refused {
        /// Why, as the client was told.
        reason: String,
    },
    /// No further client can be taken for a moment.
    NoRoom {
        /// What the system said.
        reason: String,
    },
    /// The offer of channel binding was taken out of what the server said; told once.
    BindingRemoved,
    /// A recording has begun.
    Recording {
        /// Where it will lie.
        name: String,
    },
    /// A recording is complete.
    Finished(Box<Finished>),
    /// Copies are dropped, since the capture cannot keep up or its disk is slow; told at the
    /// beginning of each time.
    Losing,
    /// A recording could not go on. What passes goes on.
    Failed {
        /// Where it was to lie.
        name: String,
        /// Why.
        reason: String,
    },
    /// The capture has broken down, by an error of ours. What passes goes on; nothing is recorded any
    /// more.
    BrokenDown {
        /// What the panic said.
        reason: String,
    },
}

/// Takes what happens; never waits.
#[derive(Debug, Clone)]
pub(super) struct Happenings(Sender<Happening>);

impl Happenings {
    pub(super) fn new() -> (Self, Receiver<Happening>) {
        let (sender, receiver) = bounded(WAITING_MAX);
        (Happenings(sender), receiver)
    }

    pub(super) fn tell(&self, happening: Happening) {
        let _ = self.0.try_send(happening);
    }
}
