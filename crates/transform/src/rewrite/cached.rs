//! Reads that a cache before the server would have answered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::session_context::SessionContexts;
use sql::{StatementClass, classify, holds_several};
use workload::{Boundary, Event, EventKind};

/// Words with which a read does more than read, or that make it another one each time.
const NOT_READS: [&str; 7] = [
    "nextval",
    "setval",
    "set_config",
    "advisory",
    "for update",
    "for share",
    "random",
];
/// What is held is looked through for what is too old after so many more.
const SWEEP: usize = 4_096;

/// A cache that all sessions of one database and user with the same settings share. It knows of no
/// writes: what it has is as old as it may be.
#[derive(Debug)]
pub(super) struct Cache {
    time_us: i64,
    contexts: SessionContexts,
    /// When each read was sent last.
    sent_us: HashMap<(u64, u64), i64>,
    since_sweep: usize,
}

impl Cache {
    pub(super) fn new(time: Duration) -> Self {
        Cache {
            time_us: i64::try_from(time.as_micros()).unwrap_or(i64::MAX),
            contexts: SessionContexts::default(),
            sent_us: HashMap::new(),
            since_sweep: 0,
        }
    }

    /// Whether the cache has the answer, so that nothing is sent.
    pub(super) fn answers(&mut self, event: &Event) -> bool {
        self.contexts.follow(event);
        let context = self.contexts.get(event.session);
        let usual = event
            .particulars
            .as_ref()
            .is_none_or(|one| one.awaited && one.boundary == Boundary::Sync);
        if context.is_exclusive()
            || !usual
            || event.prelude
            || event.outcome.sqlstate.is_some()
            || event.unreplayable.is_some()
        {
            return false;
        }
        let Some(key) = key(&event.kind) else {
            return false;
        };
        let key = (context.hash, key);
        let now_us = event.due_us;
        if let Some(&sent_us) = self.sent_us.get(&key)
            && now_us - sent_us < self.time_us
        {
            return true;
        }
        self.sent_us.insert(key, now_us);
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP {
            self.since_sweep = 0;
            let time_us = self.time_us;
            self.sent_us
                .retain(|_, sent_us| now_us - *sent_us < time_us);
        }
        false
    }
}

/// What a read is remembered by; `None` of what is none.
fn key(kind: &EventKind) -> Option<u64> {
    let sql = match kind {
        EventKind::Simple { sql } | EventKind::Execute { sql, .. } => sql,
        _ => return None,
    };
    if classify(sql) != StatementClass::Select || holds_several(sql) {
        return None;
    }
    let lower = sql.to_ascii_lowercase();
    if NOT_READS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    sql.hash(&mut hasher);
    if let EventKind::Execute {
        parameters, portal, ..
    } = kind
    {
        // Rows of a named portal may be fetched further.
        if !portal.is_empty() {
            return None;
        }
        parameters.hash(&mut hasher);
    }
    Some(hasher.finish())
}
