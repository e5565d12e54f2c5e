//! Identity of an event of the run.

/// Session and sequence number of an event of the run.
pub(crate) type EventId = (u64, u64);
