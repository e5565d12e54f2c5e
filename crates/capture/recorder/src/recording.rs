//! Defines the destination of a recording, and its account.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workload::{CapturedServer, Provenance, WorkloadInfo};

use capture_sink::series::SeriesWatch;
use capture_sink::{EventSink, SinkError};
use capture_wire::conversation::{DecoderAccount, Side};

/// A workload that is being recorded.
pub trait Recording: EventSink + Send {
    /// Returns the path of the workload.
    fn name(&self) -> String;

    /// Makes all events due by `up_to_us` (wall time) durable. Called twice a second.
    ///
    /// # Errors
    /// If the disk fails; the recording ends.
    fn checkpoint(&mut self, up_to_us: i64) -> Result<(), SinkError>;

    /// Takes the provenance with the account so far, for a recording that is stored in several parts. Called several
    /// times a second.
    fn note_provenance(&mut self, provenance: Provenance) {
        let _ = provenance;
    }

    /// Returns a handle for the status of the series, if the recording is stored in several parts.
    fn series(&self) -> Option<SeriesWatch> {
        None
    }

    /// Completes the recording.
    ///
    /// # Errors
    /// If the disk fails. Durable events stay.
    fn finish(self: Box<Self>, provenance: Provenance) -> Result<WorkloadInfo, SinkError>;
}

/// Opens a recording of these servers; recordings are numbered from 1.
pub type OpenRecording =
    Box<dyn FnMut(u32, &[CapturedServer]) -> Result<Box<dyn Recording>, SinkError> + Send>;

/// A time range that is missing in a recording, completely or partly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncompleteRange {
    /// Start, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// End.
    pub to_us: i64,
    /// Number of bytes in it that were not read.
    pub bytes: u64,
}

/// Maximum number of gaps that are listed.
const SESSION_GAPS_MAX: usize = 1_000;

/// Bytes that one session lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionGap {
    /// Session of the workload; `null` if it had none yet.
    pub session: Option<u64>,
    /// Whether the client sent them, or the server.
    pub from_client: bool,
    /// Their time range, and their number.
    #[serde(flatten)]
    pub range: IncompleteRange,
}

/// Lost bytes by session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionGaps {
    /// The gaps in the order of their ends, at most 1,000.
    #[serde(
        default,
        rename = "session_gaps",
        skip_serializing_if = "Vec::is_empty"
    )]
    listed: Vec<SessionGap>,
    /// Number of further gaps.
    #[serde(default, rename = "session_gaps_omitted")]
    omitted: u64,
}

impl SessionGaps {
    /// Adds a gap of one side of a session.
    pub(crate) fn add(&mut self, session: Option<u64>, side: Side, range: IncompleteRange) {
        if self.listed.len() >= SESSION_GAPS_MAX {
            self.omitted += 1;
            return;
        }
        self.listed.push(SessionGap {
            session,
            from_client: side == Side::Client,
            range,
        });
    }

    /// Returns the number of gaps that are not listed.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Returns the listed gaps.
    pub fn listed(&self) -> &[SessionGap] {
        &self.listed
    }
}

/// Account of all bytes that passed during a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingAccount {
    /// Start of the recording, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// End of the recording.
    pub to_us: i64,
    /// Number of bytes in both directions: those read, those lost and those that passed without
    /// capture.
    pub forwarded_bytes: u64,
    /// Number of bytes passed to the protocol decoder.
    pub read_bytes: u64,
    /// Number of bytes whose copies were dropped, since the capture was too slow.
    pub lost_bytes: u64,
    /// Number of bytes of connections that are left out: those of replication, and those that
    /// existed before if only new ones are captured.
    pub passed_bytes: u64,
    /// Time ranges in which bytes were dropped; those with a small distance are merged. At most 1,000, the last ones.
    pub incomplete: Vec<IncompleteRange>,
    /// Number of earlier time ranges that are not listed. Their bytes are in `lost_bytes`.
    #[serde(default)]
    pub incomplete_left_out: u64,
    /// The lost bytes by session.
    #[serde(flatten)]
    pub session_gaps: SessionGaps,
    /// Reason why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Account of the protocol decoder.
    pub conversation: DecoderAccount,
}

impl RecordingAccount {
    /// Returns whether every byte is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.read_bytes + self.lost_bytes + self.passed_bytes == self.forwarded_bytes
    }
}

/// Maximum distance of time ranges that are merged, in microseconds.
const MERGE_DISTANCE_US: i64 = 1_000_000;

/// Maximum number of time ranges that are kept.
const RANGES_MAX: usize = 1_000;

/// Time ranges in which bytes were dropped. Their number is bounded, since a recording may have no end.
#[derive(Debug, Clone, Default)]
pub(crate) struct IncompleteRanges {
    /// The last ones, the earliest first.
    pub(crate) last: Vec<IncompleteRange>,
    /// Number of earlier ones.
    pub(crate) left_out: u64,
    /// Number of bytes of all.
    pub(crate) bytes: u64,
}

impl IncompleteRanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    pub(crate) fn add(&mut self, range: IncompleteRange) {
        self.bytes += range.bytes;
        match self.last.last_mut() {
            Some(last) if range.from_us <= last.to_us + MERGE_DISTANCE_US => {
                last.from_us = last.from_us.min(range.from_us);
                last.to_us = last.to_us.max(range.to_us);
                last.bytes += range.bytes;
                return;
            }
            _ => {}
        }
        if self.last.len() == RANGES_MAX {
            self.last.remove(0);
            self.left_out += 1;
        }
        self.last.push(range);
    }
}

/// Subtracts an earlier account of the same decoder from a later one.
pub(crate) fn account_difference(
    before: &DecoderAccount,
    after: &DecoderAccount,
) -> DecoderAccount {
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
            // A reason with a difference of zero is left out.
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
    use capture_wire::conversation::UnreadableReason;

    #[test]
    fn accounts_are_subtracted_number_by_number() {
        let before = DecoderAccount {
            connections: 2,
            statements: 10,
            unreadable: [(UnreadableReason::Replication, 1)].into(),
            ..DecoderAccount::default()
        };
        let after = DecoderAccount {
            connections: 5,
            statements: 17,
            unreadable: [
                (UnreadableReason::Replication, 3),
                (UnreadableReason::Tls, 1),
            ]
            .into(),
            ..DecoderAccount::default()
        };
        let expected = DecoderAccount {
            connections: 3,
            statements: 7,
            unreadable: [
                (UnreadableReason::Replication, 2),
                (UnreadableReason::Tls, 1),
            ]
            .into(),
            ..DecoderAccount::default()
        };
        assert_eq!(account_difference(&before, &after), expected);
    }

    #[test]
    fn stretches_that_nearly_touch_are_one() {
        let stretch = |from_us, to_us, bytes| IncompleteRange {
            from_us,
            to_us,
            bytes,
        };
        let mut all = IncompleteRanges::default();
        for one in [
            stretch(10, 20, 1),
            stretch(900_000, 900_001, 2),
            stretch(5_000_000, 5_000_001, 4),
        ] {
            all.add(one);
        }
        assert_eq!(
            all.last,
            [stretch(10, 900_001, 3), stretch(5_000_000, 5_000_001, 4)]
        );
    }

    #[test]
    fn time_ranges_beyond_the_limit_are_counted() {
        let mut ranges = IncompleteRanges::default();
        let range = |second: i64| IncompleteRange {
            from_us: second * 1_000_000,
            to_us: second * 1_000_000 + 10,
            bytes: 2,
        };
        for second in 0..1_500 {
            ranges.add(range(2 * second));
        }
        assert_eq!((ranges.last.len(), ranges.left_out), (1_000, 500));
        assert_eq!((ranges.bytes, ranges.last[0]), (3_000, range(1_000)));
    }
}
