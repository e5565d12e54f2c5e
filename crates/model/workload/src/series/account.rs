//! Accounts of parts, which add up to that of the series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, EventKind};

/// Account of a part of a series, in the manifest of its workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartAccount {
    /// Maximum number of sessions that were open at the same time, with those that have no event in this part.
    pub sessions_at_once: u64,
    /// Number of events that were sent before the part's time range. The part of that time was complete.
    pub late_events: u64,
    /// Number of sessions whose prelude is incomplete because of the limits of memory.
    pub preludes_cut: u64,
    /// Preludes of sessions that continue in this part, by the last part before it in which the session has an event.
    pub carried: Vec<CarriedCounts>,
}

/// Preludes of sessions that continue in a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CarriedCounts {
    /// Number of the last part before this one in which these sessions have an event.
    pub last_part: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of events of their preludes.
    pub events: u64,
    /// Number of these events that are statements.
    pub statements: u64,
    /// Number of these statements with a captured duration.
    pub with_duration: u64,
    /// Number of these statements that may write.
    pub writes: u64,
}

impl CarriedCounts {
    /// Counts an event of a prelude; other events are ignored.
    pub fn add(&mut self, event: &Event) {
        if !event.prelude {
            return;
        }
        self.events += 1;
        self.sessions += u64::from(matches!(event.kind, EventKind::Connect { .. }));
        if let Some(sql) = event.kind.sql() {
            self.statements += 1;
            self.with_duration += u64::from(event.outcome.duration_us.is_some());
            self.writes += u64::from(sql::classify(sql).may_write());
        }
    }
}

impl PartAccount {
    /// Returns the sum of the preludes that a reader of all parts since number `first` leaves out.
    pub fn left_out_since(&self, first: u64) -> CarriedCounts {
        let left_out = self
            .carried
            .iter()
            .filter(|counts| counts.last_part >= first);
        left_out.fold(CarriedCounts::default(), |sum, counts| CarriedCounts {
            last_part: sum.last_part.max(counts.last_part),
            sessions: sum.sessions + counts.sessions,
            events: sum.events + counts.events,
            statements: sum.statements + counts.statements,
            with_duration: sum.with_duration + counts.with_duration,
            writes: sum.writes + counts.writes,
        })
    }
}

/// Adds the account of a part to the sum of earlier ones. Numbers are added, apart from the start and the end of a time
/// range, and lists are joined. What is neither stays as it is in the first account.
pub(crate) fn add_account(sum: &mut Value, part: &Value) {
    match (sum, part) {
        (sum @ Value::Null, part) => *sum = part.clone(),
        (Value::Object(sum), Value::Object(part)) => {
            for (name, part) in part {
                let sum = sum.entry(name.clone()).or_insert(Value::Null);
                match name.as_str() {
                    "from_us" if !sum.is_null() => {}
                    "to_us" => *sum = part.clone(),
                    _ => add_account(sum, part),
                }
            }
        }
        (Value::Array(sum), Value::Array(part)) => sum.extend(part.iter().cloned()),
        (sum @ Value::Number(_), Value::Number(part)) => {
            if let Some((before, part)) = sum.as_u64().zip(part.as_u64()) {
                *sum = before.saturating_add(part).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn add_account_numbers_are_added_and_time_ranges_are_joined() {
        let mut sum = Value::Null;
        let parts = [
            json!({"from_us": 10, "to_us": 20, "lost_bytes": 1, "incomplete": [1], "conversation": {"statements": 4}}),
            json!({"from_us": 20, "to_us": 30, "lost_bytes": 2, "incomplete": [2], "conversation": {"statements": 5}, "failure": "x"}),
        ];
        for part in &parts {
            add_account(&mut sum, part);
        }
        let expected = json!({"from_us": 10, "to_us": 30, "lost_bytes": 3, "incomplete": [1, 2], "conversation": {"statements": 9}, "failure": "x"});
        assert_eq!(sum, expected);
    }

    #[test]
    fn left_out_since_counts_only_sessions_that_an_earlier_part_has() {
        let counts = |last_part, sessions| CarriedCounts {
            last_part,
            sessions,
            events: 2 * sessions,
            ..CarriedCounts::default()
        };
        let account = PartAccount {
            carried: vec![counts(2, 1), counts(4, 10)],
            ..PartAccount::default()
        };
        assert_eq!(account.left_out_since(1).sessions, 11);
        assert_eq!(account.left_out_since(3).events, 20);
        assert_eq!(account.left_out_since(5), CarriedCounts::default());
    }
}
