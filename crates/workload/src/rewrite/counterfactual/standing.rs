//! What has to be known of a session, so that another may send in its place.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::{Event, EventKind};
use crate::fingerprint::{StatementClass, classify, holds_several};
use crate::rewrite::parts::parts;

/// What is known of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    /// Equal for sessions of one database and user with the same settings.
    pub(super) context: u64,
    /// It is within a transaction block.
    pub(super) in_transaction: bool,
    /// It has temporary tables: nobody else can send what it does.
    pub(super) is_alone: bool,
}

/// Follows open sessions.
#[derive(Debug, Default)]
pub(super) struct Standings {
    sessions: HashMap<u64, Standing>,
}

impl Standings {
    /// Of a session; one that was never seen is in no transaction.
    pub(super) fn of(&self, session: u64) -> Standing {
        self.sessions.get(&session).cloned().unwrap_or_default()
    }

    /// What an event changes of its session.
    pub(super) fn follow(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                let mut hasher = DefaultHasher::new();
                (database, user).hash(&mut hasher);
                if let Some(particulars) = &event.particulars {
                    particulars.settings.hash(&mut hasher);
                }
                let standing = Standing {
                    context: hasher.finish(),
                    ..Standing::default()
                };
                self.sessions.insert(event.session, standing);
            }
            EventKind::Disconnect => {
                self.sessions.remove(&event.session);
            }
            EventKind::Simple { sql } | EventKind::Execute { sql, .. } => {
                let class = classify(sql);
                let may_matter = matches!(
                    class,
                    StatementClass::Transaction | StatementClass::Utility | StatementClass::Ddl
                );
                let sets = class == StatementClass::Select && sql.contains("set_config");
                if may_matter || sets || holds_several(sql) {
                    let standing = self.sessions.entry(event.session).or_default();
                    standing.statement(sql, event.outcome.sqlstate.is_some());
                }
            }
            EventKind::Prepare { .. } | EventKind::Fetch { .. } | EventKind::Cancel => {}
        }
    }
}

impl Standing {
    fn statement(&mut self, sql: &str, failed: bool) {
        for part in parts(sql) {
            let is = |at: usize, word: &str| part.words.get(at).is_some_and(|one| one.is(word));
            let any = |word: &str| part.words.iter().any(|one| one.is(word));
            if is(0, "begin") || is(0, "start") {
                self.in_transaction = true;
            } else if is(0, "commit") || is(0, "end") || is(0, "rollback") || is(0, "abort") {
                let goes_on = any("to") || any("prepared");
                if !goes_on {
                    self.in_transaction = any("chain") && !any("no");
                }
            } else if is(0, "prepare") && is(1, "transaction") {
                self.in_transaction = false;
            } else if failed {
                continue;
            } else if is(0, "create") && (any("temp") || any("temporary")) {
                self.is_alone = true;
            } else if is(0, "set") || is(0, "reset") || is(0, "discard") || any("set_config") {
                let mut hasher = DefaultHasher::new();
                (self.context, part.text).hash(&mut hasher);
                self.context = hasher.finish();
            }
        }
    }
}
