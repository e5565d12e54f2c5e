//! Transactions of a run that were open at its end.

use std::collections::HashMap;

use sql::SessionEffect;
use workload::{ArchiveError, Boundary, EventKind, WorkloadReader};

use crate::event_stream::{EventStream, Shape, Step};
use crate::statement_cache::TextCache;

/// Open transaction of a session.
struct OpenTransaction {
    /// Sequence number of its first event.
    first: u64,
    /// Whether a statement began it. If not, it is that of a pipeline, and a Sync ends it.
    is_explicit: bool,
}

/// Returns the sessions whose transaction was open when they had done the events before `next_sequence`, with the
/// sequence number of its first event. A transaction that `COMMIT AND CHAIN` began is left out: its first event ends
/// another one.
///
/// # Errors
/// If the workload cannot be read.
pub(super) fn find(
    workload: &WorkloadReader,
    shape: Shape,
    next_sequence: &HashMap<u64, u64>,
) -> Result<Vec<(u64, u64)>, ArchiveError> {
    let mut open: HashMap<u64, OpenTransaction> = HashMap::new();
    let mut effects = TextCache::default();
    let mut events = EventStream::new(shape, workload.info().span_us, || workload.events());
    while let Some(Step { event, .. }) = events.next()? {
        let next = next_sequence.get(&event.session);
        if next.is_none_or(|next| event.sequence >= *next) {
            continue;
        }
        let session = event.session;
        let effect = match &event.kind {
            EventKind::Connect { .. } | EventKind::Disconnect => {
                open.remove(&session);
                continue;
            }
            EventKind::Cancel => continue,
            EventKind::Simple { sql } => SessionEffect::of(sql),
            kind => match kind.sql() {
                Some(sql) => *effects.get(sql, SessionEffect::of),
                None => SessionEffect::default(),
            },
        };
        let details = event.wire_details.as_ref();
        let is_sync = details.is_none_or(|details| details.boundary == Boundary::Sync);
        if effect.ends_transaction {
            open.remove(&session);
        } else if effect.begins_transaction || !is_sync {
            let transaction = open.entry(session).or_insert(OpenTransaction {
                first: event.sequence,
                is_explicit: false,
            });
            transaction.is_explicit |= effect.begins_transaction;
        } else if open.get(&session).is_some_and(|one| !one.is_explicit) {
            open.remove(&session);
        }
    }
    let open = open.into_iter();
    Ok(open.map(|(session, one)| (session, one.first)).collect())
}
