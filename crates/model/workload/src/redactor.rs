//! Interface between a workload writer and the redaction of secrets.

use crate::event::Event;
use crate::event_ref::EventRef;

/// Redacts everything that a [`crate::WorkloadWriter`] is given, before it is written. Every writer needs a
/// redactor, so that redaction cannot be forgotten.
pub trait Redactor: Send {
    /// Returns the event redacted, or `None` if it can be written unchanged.
    fn redact_event(&mut self, event: &EventRef<'_>) -> Option<Event>;

    /// Returns the text of a statement redacted, or `None` if it can be written unchanged.
    fn redact_sql(&mut self, sql: &str) -> Option<String>;
}

/// Writes everything unchanged. It is meant for events that were redacted before, and for generated events.
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
