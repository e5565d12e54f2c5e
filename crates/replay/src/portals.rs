//! Row limits of Execute messages, and the portals that can be fetched from again.
//!
//! A portal that was executed with a row limit may have more rows. A log does not have the client's row limit.
//! So without a size to assume, the first Execute asks for all rows, and further fetches are skipped.

use std::collections::HashMap;
use std::sync::Arc;

use workload::{Event, EventKind, MessageSet, Sqlstate, Unreplayable};

/// `invalid_sql_statement_name`
pub(crate) const NAME_UNKNOWN: Sqlstate = Sqlstate(*b"26000");
/// `invalid_cursor_name`
const NO_PORTAL: Sqlstate = Sqlstate(*b"34000");

/// Most portals kept for one session. Portals end with their transaction, which is not tracked here.
const PORTALS_MAX: usize = 64;

/// Portals that may have more rows.
#[derive(Debug, Default)]
pub(crate) struct Portals {
    /// Row limit of named portals that the capture does not have.
    fetch_size: Option<u32>,
    /// Names of open portals by session.
    open: HashMap<u64, Vec<Arc<str>>>,
}

impl Portals {
    pub(crate) fn new(fetch_size: Option<u32>) -> Self {
        Portals {
            fetch_size,
            open: HashMap::new(),
        }
    }

    /// Takes the next event and returns the row limit of its Execute: 0 for all rows, and for events without an
    /// Execute.
    ///
    /// # Errors
    /// If the event is not sent; the reason.
    pub(crate) fn rows_max(&mut self, event: &Event) -> Result<u32, Unreplayable> {
        let known = event
            .wire_details
            .as_ref()
            .and_then(|particulars| particulars.rows_max);
        let describes = event.wire_details.as_ref();
        if describes.is_some_and(|known| known.messages == MessageSet::Describe)
            && event.outcome.sqlstate.is_some()
        {
            // The server refused it, and its names are all that it has.
            return Ok(0);
        }
        match &event.kind {
            EventKind::Execute { portal, .. } => {
                let assumed = self.fetch_size.filter(|_| !portal.is_empty());
                let rows_max = known.or(assumed).unwrap_or(0);
                self.note(
                    event.session,
                    portal,
                    rows_max > 0 && event.unreplayable.is_none(),
                );
                match event.unreplayable {
                    // It failed in the capture, since it was not prepared. It fails here as well.
                    Some(Unreplayable::StatementUnknown)
                        if event.outcome.sqlstate == Some(NAME_UNKNOWN) =>
                    {
                        Ok(rows_max)
                    }
                    reason => reason.map_or(Ok(rows_max), Err),
                }
            }
            // It failed in the capture, since there was no such portal.
            EventKind::Fetch { .. } if event.outcome.sqlstate == Some(NO_PORTAL) => {
                Ok(known.unwrap_or(0))
            }
            EventKind::Fetch { portal, .. } => match event.unreplayable {
                // In a log, all fetches are marked so.
                None | Some(Unreplayable::PortalFetch) if self.is_open(event.session, portal) => {
                    known.or(self.fetch_size).ok_or(Unreplayable::PortalFetch)
                }
                reason => Err(reason.unwrap_or(Unreplayable::PortalFetch)),
            },
            EventKind::Connect { .. } | EventKind::Disconnect => {
                self.open.remove(&event.session);
                event.unreplayable.map_or(Ok(0), Err)
            }
            EventKind::Simple { .. }
            | EventKind::Prepare { .. }
            | EventKind::FunctionCall { .. }
            | EventKind::Cancel => event.unreplayable.map_or(Ok(0), Err),
        }
    }

    fn is_open(&self, session: u64, portal: &str) -> bool {
        let portals = self.open.get(&session);
        portals.is_some_and(|portals| portals.iter().any(|open| **open == *portal))
    }

    fn note(&mut self, session: u64, portal: &Arc<str>, open: bool) {
        if !open && self.open.is_empty() {
            return;
        }
        let portals = self.open.entry(session).or_default();
        portals.retain(|known| known != portal);
        if open {
            if portals.len() == PORTALS_MAX {
                portals.remove(0);
            }
            portals.push(portal.clone());
        } else if portals.is_empty() {
            self.open.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::WireDetails;

    fn event(kind: EventKind, rows_max: Option<u32>) -> Event {
        Event {
            session: 1,
            sequence: 0,
            due_us: 0,
            kind,
            outcome: workload::Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: rows_max.map(|_| {
                Arc::new(WireDetails {
                    rows_max,
                    ..WireDetails::default()
                })
            }),
        }
    }

    fn execute(portal: &str, rows_max: Option<u32>) -> Event {
        let kind = EventKind::Execute {
            statement: "s".into(),
            portal: portal.into(),
            sql: "select".into(),
            parameters: Vec::new(),
        };
        event(kind, rows_max)
    }

    fn fetch(portal: &str, rows_max: Option<u32>) -> Event {
        let kind = EventKind::Fetch {
            statement: "s".into(),
            portal: portal.into(),
            sql: "select".into(),
        };
        event(kind, rows_max)
    }

    const SKIPPED: Result<u32, Unreplayable> = Err(Unreplayable::PortalFetch);

    #[test]
    fn portal_without_more_rows_is_not_fetched_from() {
        let mut portals = Portals::new(None);
        assert_eq!(portals.rows_max(&execute("c", None)), Ok(0));
        assert_eq!(portals.rows_max(&fetch("c", None)), SKIPPED);
        assert_eq!(portals.rows_max(&fetch("c", Some(5))), SKIPPED);
        assert_eq!(portals.rows_max(&execute("c", Some(5))), Ok(5));
        assert_eq!(portals.rows_max(&fetch("c", Some(7))), Ok(7));
        assert_eq!(portals.rows_max(&fetch("c", Some(0))), Ok(0));
        assert_eq!(portals.rows_max(&fetch("d", Some(7))), SKIPPED);
        assert_eq!(portals.rows_max(&execute("c", Some(0))), Ok(0));
        assert_eq!(portals.rows_max(&fetch("c", Some(7))), SKIPPED);
        assert!(portals.open.is_empty());
    }

    #[test]
    fn fetch_size_is_assumed_for_named_portals_only() {
        let mut portals = Portals::new(Some(10));
        assert_eq!(portals.rows_max(&execute("", None)), Ok(0));
        assert_eq!(portals.rows_max(&fetch("", None)), SKIPPED);
        assert_eq!(portals.rows_max(&execute("c", None)), Ok(10));
        let of_a_log = Event {
            unreplayable: Some(Unreplayable::PortalFetch),
            ..fetch("c", None)
        };
        assert_eq!(portals.rows_max(&of_a_log), Ok(10));
        // A portal that was not opened has no rows to fetch.
        let cut = Event {
            unreplayable: Some(Unreplayable::ParametersCut),
            ..execute("c", None)
        };
        assert_eq!(portals.rows_max(&cut), Err(Unreplayable::ParametersCut));
        assert_eq!(portals.rows_max(&of_a_log), SKIPPED);
        portals.rows_max(&execute("c", None)).unwrap();
        portals
            .rows_max(&event(EventKind::Disconnect, None))
            .unwrap();
        assert_eq!(portals.rows_max(&of_a_log), SKIPPED);
    }
}
