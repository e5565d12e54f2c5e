//! Where a recording goes, and the account of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workload::{Provenance, WorkloadInfo};

use capture_sink::{EventSink, SinkError};
use capture_wire::conversation::Account;

/// A workload that is being recorded.
pub trait Recording: EventSink + Send {
    /// Where it will lie.
    fn name(&self) -> String;

    /// Has all that is due by `up_to_us` (wall time) outlive this process. Called twice a second.
    ///
    /// # Errors
    /// Where the disk refuses; the recording ends.
    fn secure(&mut self, up_to_us: i64) -> Result<(), SinkError>;

    /// Completes it.
    ///
    /// # Errors
    /// Where the disk refuses. What was secured stays.
    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError>;
}

/// Opens a recording; they are numbered from 1.
pub type OpenRecording = Box<dyn FnMut(u32) -> Result<Box<dyn Recording>, SinkError> + Send>;

/// A stretch of time that a recording does not have, or not all of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Incomplete {
    /// From when, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// To when.
    pub to_us: i64,
    /// So many bytes passed in it and were not read.
    pub bytes: u64,
}

/// What became of all that passed while a recording was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingAccount {
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// When it ended.
    pub to_us: i64,
    /// Bytes that passed, both ways: those read, those lost and those passed on without capture.
    pub forwarded_bytes: u64,
    /// Bytes that the reader of conversations was given.
    pub read_bytes: u64,
    /// Bytes whose copies were dropped, since the capture could not keep up.
    pub lost_bytes: u64,
    /// Bytes of replication connections, which are passed on without capture.
    pub passed_bytes: u64,
    /// From when to when bytes were dropped; times that nearly touch are one.
    pub incomplete: Vec<Incomplete>,
    /// Why it ended before it was told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What the reader made of what it was given.
    pub conversation: Account,
}

impl RecordingAccount {
    /// Whether every byte is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.read_bytes + self.lost_bytes + self.passed_bytes == self.forwarded_bytes
    }
}

/// Stretches that are nearer to each other than this are one.
const NEAR_US: i64 = 1_000_000;

/// Adds a stretch to those before.
pub(super) fn add_stretch(all: &mut Vec<Incomplete>, stretch: Incomplete) {
    match all.last_mut() {
        Some(last) if stretch.from_us <= last.to_us + NEAR_US => {
            last.from_us = last.from_us.min(stretch.from_us);
            last.to_us = last.to_us.max(stretch.to_us);
            last.bytes += stretch.bytes;
        }
        _ => all.push(stretch),
    }
}

/// What came between two accounts of the same reader.
pub(super) fn between(before: &Account, after: &Account) -> Account {
    let value = |account| serde_json::to_value(account).expect("plain data");
    let mut difference = value(after);
    subtract(&mut difference, &value(before));
    serde_json::from_value(difference).expect("as it was written")
}

fn subtract(from: &mut Value, what: &Value) {
    match (from, what) {
        (Value::Object(from), Value::Object(what)) => {
            for (name, what) in what {
                if let Some(from) = from.get_mut(name) {
                    subtract(from, what);
                }
            }
            // A reason that nothing was added to is none.
            from.retain(|_, value| !value.is_null());
        }
        (from @ Value::Number(_), Value::Number(what)) => {
            let left = from.as_u64().zip(what.as_u64());
            if let Some((from_number, what)) = left {
                *from = from_number.saturating_sub(what).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture_wire::conversation::Unreadable;

    #[test]
    fn accounts_are_subtracted_number_by_number() {
        let before = Account {
            connections: 2,
            statements: 10,
            unreadable: [(Unreadable::Replication, 1)].into(),
            ..Account::default()
        };
        let after = Account {
            connections: 5,
            statements: 17,
            unreadable: [(Unreadable::Replication, 3), (Unreadable::Tls, 1)].into(),
            ..Account::default()
        };
        let expected = Account {
            connections: 3,
            statements: 7,
            unreadable: [(Unreadable::Replication, 2), (Unreadable::Tls, 1)].into(),
            ..Account::default()
        };
        assert_eq!(between(&before, &after), expected);
    }

    #[test]
    fn stretches_that_nearly_touch_are_one() {
        let stretch = |from_us, to_us, bytes| Incomplete {
            from_us,
            to_us,
            bytes,
        };
        let mut all = Vec::new();
        for one in [
            stretch(10, 20, 1),
            stretch(900_000, 900_001, 2),
            stretch(5_000_000, 5_000_001, 4),
        ] {
            add_stretch(&mut all, one);
        }
        assert_eq!(
            all,
            [stretch(10, 900_001, 3), stretch(5_000_000, 5_000_001, 4)]
        );
    }
}
