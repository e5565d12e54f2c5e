//! Databases and roles of the sessions of a workload. A replay tries each pair before it begins. The manifest lists them,
//! since a workload may have millions of sessions.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::session::Session;

/// Most pairs that a manifest lists. A workload with more lists none, and its sessions are read instead.
const LISTED_MAX: usize = 1_000;

/// A database and a role of sessions, with their number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLogin {
    /// The database; empty if the source does not know it.
    pub database: String,
    /// The role; empty if the source does not know it.
    pub user: String,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of their statements.
    pub statements: u64,
}

/// Counts sessions and their statements by database and role.
#[derive(Debug, Default)]
pub(crate) struct LoginCounter {
    /// In the order of first appearance.
    logins: Vec<SessionLogin>,
    /// Index by database and role.
    indexes: HashMap<(Arc<str>, Arc<str>), usize>,
}

impl LoginCounter {
    /// Counts a session.
    pub(crate) fn add(&mut self, session: &Session) {
        let next = self.logins.len();
        let key = (session.database.clone(), session.user.clone());
        let index = *self.indexes.entry(key).or_insert(next);
        if index == next {
            self.logins.push(SessionLogin {
                database: session.database.to_string(),
                user: session.user.to_string(),
                ..SessionLogin::default()
            });
        }
        let login = &mut self.logins[index];
        login.sessions += 1;
        login.statements += session.statements;
    }

    /// Returns all pairs, in the order in which the first session of each ended.
    pub(crate) fn into_logins(self) -> Vec<SessionLogin> {
        self.logins
    }

    /// Returns the pairs for the manifest; `None` if there are too many.
    pub(crate) fn into_listed(self) -> Option<Vec<SessionLogin>> {
        (self.logins.len() <= LISTED_MAX).then_some(self.logins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, database: &str, user: &str) -> Session {
        Session {
            id,
            database: database.into(),
            user: user.into(),
            application: "".into(),
            client: "".into(),
            start_us: 0,
            end_us: 0,
            start_seen: true,
            end_seen: true,
            statements: id,
        }
    }

    #[test]
    fn sessions_are_counted_by_database_and_role_in_the_order_of_appearance() {
        let mut counter = LoginCounter::default();
        let pairs = [("shop", "b"), ("shop", "a"), ("a", "b"), ("shop", "b")];
        for (id, (database, user)) in (1..).zip(pairs) {
            counter.add(&session(id, database, user));
        }
        let found: Vec<_> = counter
            .into_listed()
            .unwrap()
            .into_iter()
            .map(|one| (one.database, one.user, one.sessions, one.statements))
            .collect();
        let expected = [("shop", "b", 2, 5), ("shop", "a", 1, 2), ("a", "b", 1, 3)]
            .map(|(database, user, n, m)| (database.to_owned(), user.to_owned(), n, m));
        assert_eq!(found, expected);
    }

    #[test]
    fn too_many_logins_are_not_listed() {
        let mut counter = LoginCounter::default();
        for id in 0..=LISTED_MAX as u64 {
            counter.add(&session(id, "shop", &id.to_string()));
        }
        assert_eq!(counter.into_listed(), None);
    }
}
