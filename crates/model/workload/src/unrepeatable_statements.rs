//! Statements of a workload whose conditions depend on the time, on chance or on the server.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, UnrepeatableCall, may_have_time_literal};

use crate::event::{Event, EventKind};
use crate::table::StatementText;

/// Statement whose conditions have unrepeatable calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnrepeatableStatement {
    /// The statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL.
    pub sql: String,
    /// Number of executions. If only literals such as `'today'` are unrepeatable, executions with one.
    pub executions: u64,
    /// Calls, keywords and literals in its conditions.
    pub calls: BTreeSet<UnrepeatableCall>,
}

/// Executions of one statement.
#[derive(Debug, Default)]
struct Counter {
    executions: u64,
    with_literals: u64,
    /// Literals that no normalised text has.
    literals: BTreeSet<UnrepeatableCall>,
}

/// Finds these statements from the events and texts of a workload. Memory is bounded by the number of statements.
#[derive(Debug, Default)]
pub struct UnrepeatableFinder {
    counters: HashMap<Fingerprint, Counter>,
}

impl UnrepeatableFinder {
    /// Adds an event.
    pub fn add(&mut self, event: &Event, fingerprint: Option<Fingerprint>) {
        let is_execution =
            event.kind.is_statement() && !matches!(event.kind, EventKind::Prepare { .. });
        let Some(fingerprint) = fingerprint.filter(|_| is_execution) else {
            return;
        };
        let counter = self.counters.entry(fingerprint).or_default();
        counter.executions += 1;
        let Some(sql) = event.kind.sql().filter(|sql| may_have_time_literal(sql)) else {
            return;
        };
        let calls = UnrepeatableCall::find_in_conditions(sql);
        if !calls.is_empty() {
            counter.with_literals += 1;
            counter.literals.extend(calls);
        }
    }

    /// Returns the statements, the most frequent first. `texts` are the workload's.
    ///
    /// # Errors
    /// If the iterator fails; the first error is returned.
    pub fn finish<T: Borrow<StatementText>, E>(
        mut self,
        texts: impl IntoIterator<Item = Result<T, E>>,
    ) -> Result<Vec<UnrepeatableStatement>, E> {
        let mut found = Vec::new();
        for text in texts {
            let text = text?;
            let text = text.borrow();
            let Some(counter) = self.counters.remove(&text.fingerprint) else {
                continue;
            };
            let calls = UnrepeatableCall::find_in_conditions(&text.sql);
            let executions = match calls.is_empty() {
                true => counter.with_literals,
                false => counter.executions,
            };
            let mut all = counter.literals;
            all.extend(calls);
            if executions > 0 {
                found.push(UnrepeatableStatement {
                    fingerprint: text.fingerprint,
                    sql: text.sql.clone(),
                    executions,
                    calls: all,
                });
            }
        }
        found.sort_by_key(|one| (Reverse(one.executions), one.fingerprint));
        Ok(found)
    }
}
