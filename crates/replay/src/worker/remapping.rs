//! `--remap-generated` in a worker: what is sent has what the server made up in this replay.

use super::Worker;
use crate::job::Messages;
use crate::remap::rewritten;

impl Worker {
    /// Gives the parameters of what is sent next what was learnt in its session.
    pub(super) fn remap(&mut self, slot: usize, messages: &mut Messages) {
        if let Some(remap) = &self.slots[slot].session.remap
            && let Some((bytes, count)) = rewritten(&messages.bytes, remap)
        {
            messages.bytes = bytes;
            self.parts.incidents.remapped(count);
        }
    }

    /// The session's answer is over: counts what it taught.
    pub(super) fn count_learnt(&mut self, slot: usize) {
        if let Some(remap) = &mut self.slots[slot].session.remap
            && remap.untold > 0
        {
            self.parts
                .incidents
                .learnt(std::mem::take(&mut remap.untold));
        }
    }
}
