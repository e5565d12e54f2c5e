//! Order of two statements on the same row that ran at the same time, as their outcomes show it.

use sql::StatementClass;
use workload::{Event, Sqlstate};

/// A row with this key exists already (PostgreSQL documentation, appendix A).
const UNIQUE_VIOLATION: Sqlstate = Sqlstate(*b"23505");

/// Effect of a statement on a row, which tells whether the row was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowEffect {
    /// It added the row, so the row was not there.
    Added,
    /// It did not add the row, since it was there.
    WasThere,
    /// It changed the row.
    Changed,
    /// It removed the row.
    Removed,
    /// It found no row to change or to remove.
    NotFound,
    /// The outcome does not tell.
    Unknown,
}

impl RowEffect {
    pub(super) fn of(event: &Event, class: StatementClass) -> Self {
        let outcome = &event.outcome;
        match (class, outcome.sqlstate, outcome.rows) {
            (StatementClass::Insert, Some(UNIQUE_VIOLATION), _) => RowEffect::WasThere,
            (_, Some(_), _) | (_, None, None) => RowEffect::Unknown,
            // ON CONFLICT DO NOTHING.
            (StatementClass::Insert, None, Some(0)) => RowEffect::WasThere,
            (StatementClass::Insert, None, Some(_)) => RowEffect::Added,
            (StatementClass::Update | StatementClass::Delete, None, Some(0)) => RowEffect::NotFound,
            (StatementClass::Update, None, Some(_)) => RowEffect::Changed,
            (StatementClass::Delete, None, Some(_)) => RowEffect::Removed,
            _ => RowEffect::Unknown,
        }
    }

    /// Whether this statement came before another one on the same row. `None` if their outcomes do not tell.
    pub(super) fn precedes(self, other: RowEffect) -> Option<bool> {
        use RowEffect::{Added, Changed, NotFound, Removed, WasThere};
        match (self, other) {
            (Added, WasThere | Changed) | (Removed, NotFound) => Some(true),
            (WasThere | Changed, Added) | (NotFound, Removed) => Some(false),
            (WasThere | Changed, Removed) | (NotFound, Added) => Some(true),
            (Removed, WasThere | Changed) | (Added, NotFound) => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RowEffect::{self, Added, Changed, NotFound, Removed, Unknown, WasThere};
    use super::*;
    use crate::test_events::simple;

    const ALL: [RowEffect; 6] = [Added, WasThere, Changed, Removed, NotFound, Unknown];

    #[test]
    fn outcome_tells_what_a_statement_did() {
        let effect = |sql: &str, sqlstate: Option<&[u8; 5]>, rows| {
            let mut event = simple(1, 0, 0, 1, sql);
            event.outcome.sqlstate = sqlstate.map(|code| Sqlstate(*code));
            event.outcome.rows = rows;
            RowEffect::of(&event, sql::classify(sql))
        };
        let insert = "INSERT INTO a VALUES (7)";
        assert_eq!(effect(insert, None, Some(1)), Added);
        assert_eq!(effect(insert, None, Some(0)), WasThere);
        assert_eq!(effect(insert, Some(b"23505"), None), WasThere);
        assert_eq!(effect(insert, Some(b"40P01"), None), Unknown);
        assert_eq!(effect(insert, None, None), Unknown);
        assert_eq!(effect("UPDATE a SET n = 1", None, Some(1)), Changed);
        assert_eq!(effect("UPDATE a SET n = 1", None, Some(0)), NotFound);
        let duplicate = effect("UPDATE a SET n = 1", Some(b"23505"), None);
        assert_eq!(duplicate, Unknown);
        assert_eq!(effect("DELETE FROM a", None, Some(1)), Removed);
    }

    #[test]
    fn order_of_two_is_the_reverse_of_that_of_the_others() {
        for (one, other) in ALL
            .into_iter()
            .flat_map(|one| ALL.map(|other| (one, other)))
        {
            let reverse = other.precedes(one).map(|precedes| !precedes);
            assert_eq!(one.precedes(other), reverse, "{one:?} {other:?}");
        }
        assert_eq!(Added.precedes(WasThere), Some(true));
        assert_eq!(WasThere.precedes(Removed), Some(true));
        assert_eq!(Added.precedes(Removed), None);
    }
}
