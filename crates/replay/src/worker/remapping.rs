//! `--remap-generated` in a worker: replaces generated values in the messages to send.

use super::Worker;
use crate::job::Messages;
use crate::remap::rewrite_bind;

impl Worker {
    /// Replaces the values that the session has learned in the parameters of a statement.
    pub(super) fn remap_parameters(&mut self, slot: usize, messages: &mut Messages) {
        if let Some(remap) = &self.slots[slot].session.remap
            && let Some((bytes, count)) = rewrite_bind(&messages.bytes, remap)
        {
            messages.bytes = bytes;
            self.context.events.remapped(count);
        }
    }

    /// Counts the pairs that a finished answer taught the session.
    pub(super) fn count_learned(&mut self, slot: usize) {
        if let Some(remap) = &mut self.slots[slot].session.remap
            && remap.unreported > 0
        {
            self.context
                .events
                .learned(std::mem::take(&mut remap.unreported));
        }
    }
}
