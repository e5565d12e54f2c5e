//! Events for tests.

use workload::{Event, EventKind, Outcome};

/// Creates a simple query of a session. `due_us` and `duration_us` are in microseconds of captured time.
pub(crate) fn simple(
    session: u64,
    sequence: u64,
    due_us: i64,
    duration_us: u64,
    sql: &str,
) -> Event {
    Event {
        session,
        sequence,
        due_us,
        kind: EventKind::Simple { sql: sql.into() },
        outcome: Outcome {
            duration_us: Some(duration_us),
            ..Outcome::default()
        },
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}
