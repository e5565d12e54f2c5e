//! Drops reads that a cache in front of the server would have answered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::session_context::SessionContexts;
use sql::{StatementClass, classify, holds_several};
use workload::{Boundary, Event, EventKind};

/// Keywords of reads with side effects, or with a different result each time.
const NOT_READS: [&str; 7] = [
    "nextval",
    "setval",
    "set_config",
    "advisory",
    "for update",
    "for share",
    "random",
];
/// Number of insertions after which expired entries are removed.
const SWEEP_INTERVAL: usize = 4_096;

/// A cache shared by all sessions of one database and user with the same settings. Writes do not
/// invalidate it: an entry is valid until it expires.
#[derive(Debug)]
pub(super) struct ReadCache {
    time_us: i64,
    contexts: SessionContexts,
    /// Time at which each read was last sent.
    sent_us: HashMap<(u64, u64), i64>,
    since_sweep: usize,
}

impl ReadCache {
    pub(super) fn new(time: Duration) -> Self {
        ReadCache {
            time_us: i64::try_from(time.as_micros()).unwrap_or(i64::MAX),
            contexts: SessionContexts::default(),
            sent_us: HashMap::new(),
            since_sweep: 0,
        }
    }

    /// Returns whether the cache has the answer, so that nothing is sent.
    pub(super) fn is_hit(&mut self, event: &Event) -> bool {
        self.contexts.follow(event);
        let context = self.contexts.get(event.session);
        let usual = event
            .wire_details
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
        let Some(key) = read_key(&event.kind) else {
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
        if self.since_sweep >= SWEEP_INTERVAL {
            self.since_sweep = 0;
            let time_us = self.time_us;
            self.sent_us
                .retain(|_, sent_us| now_us - *sent_us < time_us);
        }
        false
    }
}

/// Returns the cache key of a read; `None` if the statement is no such read.
fn read_key(kind: &EventKind) -> Option<u64> {
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
        // A named portal may be fetched further.
        if !portal.is_empty() {
            return None;
        }
        parameters.hash(&mut hasher);
    }
    Some(hasher.finish())
}
