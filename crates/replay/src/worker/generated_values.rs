//! Generated values in a worker: replaces them in the messages to send, and takes those that the server returned.

use super::Worker;
use crate::event_id::EventId;
use crate::generated::{ReplayedValue, Value, replace_values};
use crate::job::{Job, Messages};

impl Worker {
    /// Replaces the values that the server generated in the replay in a statement's messages.
    pub(super) fn replace_generated(&self, job: &Job, messages: &mut Messages) {
        if job.used.is_empty() {
            return;
        }
        let mut unknown = 0;
        let mut values = Vec::new();
        for used in &job.used {
            match self.context.replayed_values.get(used.number) {
                Some(replayed) if replayed != used.captured => values.push((used, replayed)),
                Some(_) => {}
                None => unknown += 1,
            }
        }
        let replaced = replace_values(&messages.bytes, &values);
        // Another number may not fit the type of its parameter.
        let count = replaced.as_ref().map_or(0, |replaced| replaced.count);
        let unknown = unknown + (values.len() as u64).saturating_sub(count);
        if unknown > 0 {
            self.context.events.values_unknown(unknown);
        }
        if let Some(replaced) = replaced {
            messages.bytes = replaced.bytes;
            // Zero if the Parse is always sent.
            if messages.parse_bytes > 0 {
                messages.parse_bytes = messages
                    .parse_bytes
                    .wrapping_add_signed(replaced.parse_growth as i32);
            }
            self.context.events.remapped(replaced.count);
        }
    }

    /// Whether a statement names a snapshot that was not exported in the replay. The server would refuse it, and so
    /// break the transaction.
    pub(super) fn lacks_snapshot(&self, job: &Job) -> bool {
        let mut used = job.used.iter();
        used.any(|used| {
            matches!(used.captured, Value::Snapshot(_))
                && self.context.replayed_values.get(used.number).is_none()
        })
    }

    /// Takes the values of an execution's answer. Those that differ from the captured ones are recorded.
    pub(super) fn take_generated(&mut self, execution: EventId, values: &[ReplayedValue]) {
        let recorded_before = self.generated.len();
        for value in values {
            let replayed_values = &self.context.replayed_values;
            replayed_values.set(value.number, value.replayed);
            if value.captured != value.replayed {
                self.generated.push((execution, *value));
            }
        }
        let count = self.generated.len() - recorded_before;
        if count > 0 {
            self.context.events.learned(count as u64);
        }
    }
}
