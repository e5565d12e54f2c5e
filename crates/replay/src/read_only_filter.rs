//! Keeps events that may write out of a read-only replay.

use std::sync::Arc;

use sql::{ReadOnlyText, ReadOnlyTreatment, UnrestrictedNames};
use workload::{Boundary, Event, EventKind, LargeObjectFunction, Parameter};

use crate::statement_cache::TextCache;

/// Filter of the events of a read-only replay. It decides once about a text that executions share.
#[derive(Debug)]
pub(crate) struct ReadOnlyFilter<'n> {
    /// Names of the target that a read-only replay must not use.
    unrestricted: &'n UnrestrictedNames,
    texts: TextCache<ReadOnlyText>,
}

impl<'n> ReadOnlyFilter<'n> {
    pub(crate) fn new(unrestricted: &'n UnrestrictedNames) -> Self {
        let texts = TextCache::default();
        ReadOnlyFilter {
            unrestricted,
            texts,
        }
    }

    /// Rewrites an event such that its transaction stays read-only. Returns false if it may write even then, and must
    /// not be sent.
    pub(crate) fn keep_from_writing(&mut self, event: &mut Event) -> bool {
        let goes_on_in_its_group = (event.wire_details.as_ref())
            .is_some_and(|particulars| particulars.boundary != Boundary::Sync);
        match &mut event.kind {
            // Its text is its own.
            EventKind::Simple { sql } => {
                let text = ReadOnlyText::of(sql, self.unrestricted);
                treat(sql, &[], &text, goes_on_in_its_group)
            }
            EventKind::Prepare { sql, .. } => self.treat(sql, &[], goes_on_in_its_group),
            EventKind::Execute {
                sql, parameters, ..
            } => self.treat(sql, parameters, goes_on_in_its_group),
            EventKind::FunctionCall { function, .. } => {
                let function = function.parse().ok().and_then(LargeObjectFunction::of);
                function.is_some_and(|function| !function.writes)
            }
            EventKind::Connect { .. }
            | EventKind::Fetch { .. }
            | EventKind::Cancel
            | EventKind::Disconnect => true,
        }
    }

    fn treat(
        &mut self,
        sql: &mut Arc<str>,
        parameters: &[Option<Parameter>],
        goes_on_in_its_group: bool,
    ) -> bool {
        let unrestricted = self.unrestricted;
        let text = self
            .texts
            .get(sql, |sql| ReadOnlyText::of(sql, unrestricted));
        treat(sql, parameters, text, goes_on_in_its_group)
    }
}

fn treat(
    sql: &mut Arc<str>,
    parameters: &[Option<Parameter>],
    text: &ReadOnlyText,
    goes_on_in_its_group: bool,
) -> bool {
    // After it, the next transaction would begin before the server has reported its mode.
    if goes_on_in_its_group && text.ends_transaction {
        return false;
    }
    let readable = parameters.iter().flatten().filter_map(Parameter::readable);
    match text.treatment(readable) {
        ReadOnlyTreatment::Unchanged => true,
        ReadOnlyTreatment::Rewritten(instead) => {
            *sql = instead.clone();
            true
        }
        ReadOnlyTreatment::Withheld => false,
    }
}
