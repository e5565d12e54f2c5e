//! Statement counts by the context that comments name. The values come from outside.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use sql::{ContextKey, ContextReader, TraceParent};
use workload::Event;

/// Maximum number of values of a key. An application that puts ids into its routes has very many, which must not
/// exhaust memory.
const VALUES_MAX: usize = 10_000;

/// Value of the entry for values past the limit.
const OTHERS: &str = "(others)";

/// Statements by the values of one key.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContextBreakdown {
    /// The key.
    pub key: ContextKey,
    /// Values by descending time, then calls. Those past the first 10,000 share the last entry, `(others)`.
    pub values: Vec<ContextStats>,
}

/// Counts of the statements with one value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ContextStats {
    /// The value, such as `/polls/<int>`.
    pub value: String,
    /// Number of statements.
    pub calls: u64,
    /// Number of statements that failed.
    pub errors: u64,
    /// The server's own execution time over statements with a captured duration, in microseconds.
    pub time_us: u64,
    /// Slowest statement; `null` if no duration is known.
    pub slowest: Option<ContextExample>,
}

/// Statement of a context.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ContextExample {
    /// Its duration, in microseconds.
    pub duration_us: u64,
    /// Its session.
    pub session: u64,
    /// Its position in the session.
    pub sequence: u64,
    /// Its trace, if the comment names one.
    #[schemars(with = "Option<String>")]
    pub traceparent: Option<TraceParent>,
}

/// Counts the statements of each key.
#[derive(Default)]
pub(super) struct ContextCounter {
    reader: ContextReader,
    by_key: [HashMap<String, ContextStats>; ContextKey::ALL.len()],
}

impl ContextCounter {
    pub(super) fn add(&mut self, event: &Event) {
        let Some(comment) = event.kind.sql().and_then(|sql| self.reader.read(sql)) else {
            return;
        };
        for (key, values) in ContextKey::ALL.into_iter().zip(&mut self.by_key) {
            let Some(value) = comment.context.value(key) else {
                continue;
            };
            let is_full = values.len() >= VALUES_MAX && !values.contains_key(value);
            let value = if is_full { OTHERS } else { value };
            if !values.contains_key(value) {
                values.insert(value.to_owned(), ContextStats::default());
            }
            let stats = values.get_mut(value).expect("it was added");
            stats.calls += 1;
            stats.errors += u64::from(event.outcome.sqlstate.is_some());
            let Some(duration_us) = event.outcome.duration_us else {
                continue;
            };
            stats.time_us += duration_us;
            if (stats.slowest).is_none_or(|slowest| slowest.duration_us < duration_us) {
                stats.slowest = Some(ContextExample {
                    duration_us,
                    session: event.session,
                    sequence: event.sequence,
                    traceparent: comment.trace,
                });
            }
        }
    }

    /// Returns the breakdowns of the keys that occurred.
    pub(super) fn breakdowns(self) -> Vec<ContextBreakdown> {
        let of_keys = ContextKey::ALL.into_iter().zip(self.by_key);
        of_keys
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| {
                let named = |(value, stats)| ContextStats { value, ..stats };
                let mut values: Vec<ContextStats> = values.into_iter().map(named).collect();
                values.sort_by(|a, b| {
                    let order = |one: &ContextStats| {
                        (
                            one.value == OTHERS,
                            u64::MAX - one.time_us,
                            u64::MAX - one.calls,
                        )
                    };
                    (order(a).cmp(&order(b))).then_with(|| a.value.cmp(&b.value))
                });
                ContextBreakdown { key, values }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use workload::{EventKind, Outcome, Sqlstate};

    use super::*;

    fn event(sequence: u64, comment: &str, duration_us: Option<u64>) -> Event {
        Event {
            session: 3,
            sequence,
            due_us: 0,
            kind: EventKind::Simple {
                sql: format!("SELECT 1 /*{comment}*/").into(),
            },
            outcome: Outcome {
                duration_us,
                sqlstate: (sequence == 1).then_some(Sqlstate(*b"42P01")),
                ..Outcome::default()
            },
            unreplayable: None,
            source: 0,
            line: 1,
            prelude: false,
            wire_details: None,
        }
    }

    #[test]
    fn statements_are_counted_by_each_key_with_the_trace_of_the_slowest() {
        let mut counter = ContextCounter::default();
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        counter.add(&event(0, "route='%2Fa',job='mail'", Some(5)));
        counter.add(&event(
            1,
            &format!("route='/b',traceparent='{trace}'"),
            Some(90),
        ));
        counter.add(&event(2, "route:/a", Some(7)));
        counter.add(&event(3, "no context", Some(1_000)));
        counter.add(&event(4, "job='mail'", None));
        let [routes, jobs] = counter.breakdowns().try_into().unwrap();
        let counts = |one: &ContextStats| (one.value.clone(), one.calls, one.errors, one.time_us);
        assert_eq!(routes.key, ContextKey::Route);
        let values: Vec<_> = routes.values.iter().map(counts).collect();
        assert_eq!(values, [("/b".into(), 1, 1, 90), ("/a".into(), 2, 0, 12)]);
        let slowest = routes.values[0].slowest.unwrap();
        assert_eq!(slowest.traceparent.unwrap().to_string(), trace);
        assert_eq!((slowest.session, slowest.sequence), (3, 1));
        assert_eq!(jobs.key, ContextKey::Job);
        assert_eq!(jobs.values[0].calls, 2);
    }

    #[test]
    fn values_past_the_limit_are_counted_together() {
        let mut counter = ContextCounter::default();
        for number in 0..VALUES_MAX as u64 + 5 {
            counter.add(&event(0, &format!("route='/{number}'"), Some(1)));
        }
        let [routes] = counter.breakdowns().try_into().unwrap();
        assert_eq!(routes.values.len(), VALUES_MAX + 1);
        let last = routes.values.last().unwrap();
        assert_eq!((last.value.as_str(), last.calls), (OTHERS, 5));
    }
}
