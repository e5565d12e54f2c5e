//! Compares the executions of each route, controller, action, application or job, as those of statements are
//! compared.

use std::collections::{BTreeSet, HashMap};

use run::{Execution, Outcome};
use sql::{ContextId, ContextKey, Fingerprint, StatementClass, StatementContext};
use workload::{ContextText, StatementText};

use crate::cause::{Direction, StatementChange};
use crate::compare::{
    CompareOptions, Comparison, ContextComparison, ContextStatement, ContextsComparison, Runs,
    StatementComparison, TimesComparison, compare,
};

/// Maximum number of values that are compared. Executions with further ones belong to none.
const VALUES_MAX: usize = 10_000;
/// Number of statements that are named for a value.
const STATEMENTS_MAX: usize = 3;

/// Service times by value and statement, in nanoseconds.
type StatementTimes = HashMap<(Fingerprint, Fingerprint), f64>;

/// Replaces the fingerprints of one run's executions by those of their values, so that values are compared as
/// statements are.
#[derive(Debug)]
pub struct ContextGrouper {
    by_context: HashMap<ContextId, Fingerprint>,
    texts: Vec<StatementText>,
    times: StatementTimes,
}

impl ContextGrouper {
    /// Reads the contexts of a run.
    ///
    /// # Errors
    /// If the iterator fails.
    pub fn new<E>(
        key: ContextKey,
        contexts: impl IntoIterator<Item = Result<ContextText, E>>,
    ) -> Result<Self, E> {
        let mut grouper = ContextGrouper {
            by_context: HashMap::new(),
            texts: Vec::new(),
            times: HashMap::new(),
        };
        let mut known = BTreeSet::new();
        for context in contexts {
            let ContextText { id, context } = context?;
            let Some(value) = context.value(key) else {
                continue;
            };
            let fingerprint = value_fingerprint(key, value);
            if !known.contains(&fingerprint) {
                if known.len() >= VALUES_MAX {
                    continue;
                }
                known.insert(fingerprint);
                grouper.texts.push(StatementText {
                    fingerprint,
                    sql: value.to_owned(),
                    class: StatementClass::Other,
                });
            }
            grouper.by_context.insert(id, fingerprint);
        }
        Ok(grouper)
    }

    /// Returns the values as texts of statements.
    pub fn texts(&self) -> Vec<StatementText> {
        self.texts.clone()
    }

    /// Returns the execution with the fingerprint of its value; without a fingerprint if it has none.
    pub fn regroup(&mut self, mut execution: Execution) -> Execution {
        let context = execution.captured.context;
        let value = context.and_then(|context| self.by_context.get(&context).copied());
        let statement = std::mem::replace(&mut execution.fingerprint, value);
        if let (Some(value), Some(statement), Outcome::Done, Some(service_ns)) =
            (value, statement, execution.outcome, execution.service_ns())
        {
            *self.times.entry((value, statement)).or_default() += service_ns as f64;
        }
        execution
    }
}

/// Returns the fingerprint of a value: the identity of the context with this value alone.
fn value_fingerprint(key: ContextKey, value: &str) -> Fingerprint {
    let values = ContextKey::ALL.map(|other| (if other == key { value } else { "" }).into());
    Fingerprint(StatementContext::from_values(values).id().0)
}

/// Compares runs whose executions were regrouped; `groupers` are those of the runs before, and of the runs after.
/// `statements` is the comparison of the same runs by statement.
///
/// # Panics
/// If there is no run before or no run after.
pub fn compare_contexts(
    key: ContextKey,
    runs: Runs,
    groupers: [&[ContextGrouper]; 2],
    options: CompareOptions,
    statements: &Comparison,
) -> ContextsComparison {
    let added = added_times(groupers);
    let by_fingerprint: HashMap<Fingerprint, &StatementComparison> = (statements.statements.iter())
        .map(|statement| (statement.fingerprint, statement))
        .collect();
    let compared = compare(runs, options);
    let context = |value: StatementComparison| {
        let mut statements: Vec<(Fingerprint, f64)> =
            added.get(&value.fingerprint).cloned().unwrap_or_default();
        let sign = value.service.added_ns.map_or(1.0, f64::signum);
        statements.sort_by(|a, b| (sign * b.1).total_cmp(&(sign * a.1)).then(a.0.cmp(&b.0)));
        statements.truncate(STATEMENTS_MAX);
        let statements: Vec<ContextStatement> = statements
            .into_iter()
            .filter_map(|(fingerprint, added_ns)| {
                let statement = by_fingerprint.get(&fingerprint)?;
                Some(ContextStatement {
                    fingerprint,
                    sql: statement.sql.clone(),
                    added_ns,
                    change: statement.change.clone(),
                })
            })
            .collect();
        let details = value.details.unwrap_or_default();
        ContextComparison {
            value: value.sql.unwrap_or_default(),
            change: cause_of(&value.service, statements.first()).unwrap_or(value.change),
            service: value.service,
            calls_before: value.calls_before,
            calls_after: value.calls_after,
            errors_before: value.errors_before,
            errors_after: value.errors_after,
            slowest_before: details.slowest_before,
            slowest_after: details.slowest_after,
            statements,
        }
    };
    ContextsComparison {
        key,
        values: compared.statements.into_iter().map(context).collect(),
    }
}

/// Returns the change of the statement that changes the time of a value most, if it is in the direction of the value.
/// Plans and work are known of statements only.
fn cause_of(
    times: &TimesComparison,
    statement: Option<&ContextStatement>,
) -> Option<StatementChange> {
    let direction = match times.added_ns? < 0.0 {
        true => Direction::Faster,
        false => Direction::Slower,
    };
    let change = &statement?.change;
    (change.direction() == Some(direction)).then(|| change.clone())
}

/// Returns the time that each statement adds to a value, for a run of each side.
fn added_times(
    [before, after]: [&[ContextGrouper]; 2],
) -> HashMap<Fingerprint, Vec<(Fingerprint, f64)>> {
    let mut added: StatementTimes = HashMap::new();
    for (side, sign) in [(before, -1.0), (after, 1.0)] {
        for (place, service_ns) in side.iter().flat_map(|run| &run.times) {
            *added.entry(*place).or_default() += sign * service_ns / side.len() as f64;
        }
    }
    let mut by_value: HashMap<Fingerprint, Vec<(Fingerprint, f64)>> = HashMap::new();
    for ((value, statement), added_ns) in added {
        by_value
            .entry(value)
            .or_default()
            .push((statement, added_ns));
    }
    by_value
}
