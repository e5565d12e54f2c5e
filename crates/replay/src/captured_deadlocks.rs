//! Victims of deadlocks in the capture. Which transaction of a deadlock the server cancels depends on which one waited
//! first, by microseconds. So with `--order dependencies`, a statement that was cancelled in the capture is replaced by
//! one that fails with the same error, and the others of its deadlock continue as they did.

use workload::{Boundary, Event, EventKind, Sqlstate};

/// `deadlock_detected`
const DEADLOCK: Sqlstate = Sqlstate(*b"40P01");

/// Statement that fails as the victim of a deadlock does.
const FAILING_SQL: &str = "DO $rehearse$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01', \
    MESSAGE = 'rehearse: it was the victim of a deadlock in the captured run'; END $rehearse$";

/// Returns the statement that is sent in place of one that was the victim of a deadlock; `None` if it was none. Statements
/// of a pipeline are kept, since their group has one answer.
pub(crate) fn replacement_of_victim(event: &Event) -> Option<Event> {
    let is_alone = event
        .wire_details
        .as_ref()
        .is_none_or(|details| details.awaited && details.boundary == Boundary::Sync);
    let is_statement = matches!(
        event.kind,
        EventKind::Simple { .. } | EventKind::Execute { .. }
    );
    let is_victim = event.outcome.sqlstate == Some(DEADLOCK) && is_alone && is_statement;
    is_victim.then(|| Event {
        kind: EventKind::Simple {
            sql: FAILING_SQL.into(),
        },
        ..event.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_events::simple;

    #[test]
    fn only_victims_are_replaced() {
        for (sqlstate, expected) in [
            (None, false),
            (Some(*b"40001"), false),
            (Some(*b"40P01"), true),
        ] {
            let mut event = simple(1, 0, 0, 1, "UPDATE t SET n = 1");
            event.outcome.sqlstate = sqlstate.map(Sqlstate);
            let replacement = replacement_of_victim(&event);
            assert_eq!(replacement.is_some(), expected);
            if let Some(replacement) = replacement {
                assert_eq!(&**replacement.kind.sql().unwrap(), FAILING_SQL);
            }
        }
    }
}
