//! Interface between a workload writer and what it must not write.

use crate::event::Event;
use crate::event_ref::EventRef;

/// Redacts everything that a [`crate::WorkloadWriter`] is given, before it reaches the disk. Every writer needs one, so
/// that redaction cannot be forgotten.
pub trait Redactor: Send {
    /// Returns the event without what must not be written, or `None` if it can be written as it is.
    fn redact_event(&mut self, event: &EventRef<'_>) -> Option<Event>;

    /// Returns the text of a statement without what must not be written, or `None` if it can be written as it is.
    fn redact_sql(&mut self, sql: &str) -> Option<String>;
}

/// Writes everything as it is. It is meant for events that were redacted before, and for events that were generated.
#[derive(Debug, Clone, Copy)]
pub struct NoRedaction;

impl Redactor for NoRedaction {
    fn redact_event(&mut self, _: &EventRef<'_>) -> Option<Event> {
        None
    }

    fn redact_sql(&mut self, _: &str) -> Option<String> {
        None
    }
}
