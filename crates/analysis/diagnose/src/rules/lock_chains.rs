//! Chains of sessions that wait for each other's locks, up to the session that waits for none.

use std::collections::HashSet;

use time_breakdown::observed::{Blocked, Observed};

/// Kind of a lock that sessions wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum LockKind {
    /// Lock of a whole table or index, as DDL takes it.
    Relation,
    /// Lock of rows: the transaction that changed them, or a row itself.
    Row,
    /// Lock of the application (`pg_advisory_lock`).
    Advisory,
    /// Any other lock.
    Other,
}

impl LockKind {
    fn of_wait(wait: &str) -> Self {
        match wait {
            "relation" => LockKind::Relation,
            "transactionid" | "tuple" => LockKind::Row,
            "advisory" => LockKind::Advisory,
            _ => LockKind::Other,
        }
    }

    /// Returns the noun for a report.
    pub(super) fn noun(self) -> &'static str {
        match self {
            LockKind::Relation => "a lock of a table",
            LockKind::Row => "a lock of rows",
            LockKind::Advisory => "an advisory lock",
            LockKind::Other => "a lock",
        }
    }
}

/// End of a chain: the session that holds the lock and waits for none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Root {
    /// Its last statement, if known.
    pub(super) statement: Option<String>,
    /// Its state.
    pub(super) state: String,
    /// Lock that it holds.
    pub(super) kind: LockKind,
}

/// Chain from a blocked statement to its root.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain {
    /// Its end.
    pub(super) root: Root,
    /// Statements between, which wait themselves.
    pub(super) through: Vec<String>,
    /// Samples of the first pair.
    pub(super) samples: u64,
}

impl Root {
    /// Whether its transaction waits for its client.
    pub(super) fn is_idle(&self) -> bool {
        self.state.starts_with("idle in transaction")
    }
}

/// Follows the blockers of a statement; `None` if it was not seen blocked.
pub(super) fn lock_chain(observed: &Observed, blocked: &str) -> Option<Chain> {
    let first = blocker(observed, blocked)?;
    let mut seen = HashSet::from([blocked]);
    let mut through = Vec::new();
    let mut last = first;
    while let Some(sql) = last.blocker.as_deref()
        && last.blocker_state == "active"
        && seen.insert(sql)
        && let Some(next) = blocker(observed, sql)
        && next.blocker.as_deref() != Some(sql)
    {
        through.push(sql.to_owned());
        last = next;
    }
    Some(Chain {
        root: Root {
            statement: last.blocker.clone(),
            state: last.blocker_state.clone(),
            kind: LockKind::of_wait(&last.wait),
        },
        through,
        samples: first.samples,
    })
}

/// Returns the pair with the most samples. A queue of equal statements stands after one that waits
/// for another, so pairs of one statement come last.
fn blocker<'o>(observed: &'o Observed, blocked: &str) -> Option<&'o Blocked> {
    let all = observed.blocking.iter();
    all.filter(|one| one.blocked.as_deref() == Some(blocked))
        .max_by_key(|one| (one.blocker.as_deref() != Some(blocked), one.samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(blocked: &str, blocker: &str, state: &str, wait: &str) -> Blocked {
        Blocked {
            blocked: Some(blocked.to_owned()),
            blocker: Some(blocker.to_owned()),
            blocker_state: state.to_owned(),
            wait: wait.to_owned(),
            samples: 5,
        }
    }

    #[test]
    fn chain_ends_at_the_session_that_waits_for_none() {
        let observed = Observed {
            blocking: vec![
                pair("select bal", "alter table", "active", "relation"),
                pair(
                    "alter table",
                    "select count",
                    "idle in transaction",
                    "relation",
                ),
                pair("select bal", "select bal", "active", "tuple"),
            ],
            ..Observed::default()
        };
        let chain = lock_chain(&observed, "select bal").unwrap();
        assert_eq!(chain.root.statement.as_deref(), Some("select count"));
        assert!(chain.root.is_idle());
        assert_eq!(chain.root.kind, LockKind::Relation);
        assert_eq!(chain.through, ["alter table"]);
        assert_eq!(lock_chain(&observed, "select count"), None);
    }

    #[test]
    fn circle_of_statements_ends() {
        let observed = Observed {
            blocking: vec![
                pair("a", "b", "active", "transactionid"),
                pair("b", "a", "active", "transactionid"),
            ],
            ..Observed::default()
        };
        let chain = lock_chain(&observed, "a").unwrap();
        assert_eq!(chain.root.kind, LockKind::Row);
        assert_eq!(chain.through, ["b"]);
    }
}
