//! Series: a recording without end, as a directory of workloads that follow each other in time.
//!
//! A series is a directory `NAME.series`:
//!
//! - `series.json`: [`SeriesInfo`], replaced atomically.
//! - `YYYYMMDDTHHMMSSZ.workload`: a complete part, named by the start of its time range (UTC). Names sort by time.
//! - `YYYYMMDDTHHMMSSZ.workload.partial`: a part that is being written, or that was left by a capture that was killed.
//!
//! A part is an ordinary workload. Its manifest states the series that it belongs to ([`SeriesMember`]). A statement is
//! in the part of the time at which it was sent, with that time. If this part is complete when the statement ends, it is
//! in the first part that is not. So the first event of a part may be earlier than the part's time range.
//!
//! Session numbers are unique in the series. A session that continues in a part begins there with a *prelude*: its
//! connection, and the statements that restore its settings, prepared statements and open transaction. Reading the
//! series as one workload leaves out the preludes of sessions that an earlier part began ([`SessionJoiner`]).

mod account;
mod checkpoint;
mod join;
mod parts;
mod possible_gap;
mod protection;
mod recovered;
mod running;

use std::io::Write;
use std::path::Path;

use archive::{ArchiveError, read_small_file};

pub use archive::SeriesMember;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::CapturedServer;

pub(crate) use account::add_account;
pub use account::{CarriedCounts, PartAccount};
pub(crate) use checkpoint::CHECKPOINT_FILE;
pub use checkpoint::{ClosedPart, PartCheckpoint};
pub use join::SessionJoiner;
pub use parts::{Series, SeriesPart, UnfinishedPart, part_name, remove_leftovers};
pub use possible_gap::PossibleGap;
pub use protection::SeriesProtection;
pub(crate) use recovered::{RecoveredPart, refuse_captured_again};
pub use recovered::{limit_to_lost_part, note_complete_parts};
pub use running::{
    HeldEvent, NO_SESSION, RunningEvent, RunningEvents, count_events, is_among, settled_us,
    take_event, take_exactly,
};

/// Name of the file that describes a series.
pub const SERIES_FILE: &str = "series.json";
/// Ending of the name of a series.
pub const SERIES_EXTENSION: &str = "series";
/// Version of the format of `series.json` that this build writes. A reader refuses a higher one.
pub const SERIES_FORMAT: u32 = 1;
/// Largest `series.json` that is read, in bytes.
pub(crate) const SERIES_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of running events in `series.json`. The rest is counted.
const RUNNING_MAX: usize = 200_000;
/// Maximum number of gaps in `series.json`. The oldest are dropped.
const GAPS_MAX: usize = 1000;
/// Distance between the first session numbers of two captures of one series.
pub const SESSIONS_PER_CAPTURE: u64 = 1_000_000_000_000;

/// Whether events of this kind of source happen while they are captured, on this machine's clock, and never come again.
pub fn is_live_traffic(source_kind: &str) -> bool {
    matches!(source_kind, "proxy" | "attach")
}

/// Whether a count is zero.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// State of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesState {
    /// A capture writes it, or was killed ([`Series::is_being_captured`]).
    #[default]
    BeingCaptured,
    /// The capture has ended.
    Complete,
}

/// Limits beyond which the oldest parts are removed. The newest complete part is never removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retention {
    /// Maximum age of the end of a part, compared with the end of the newest, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_us: Option<i64>,
    /// Maximum size of all complete parts, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Parts that the retention has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedParts {
    /// Number of parts.
    pub parts: u64,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Latest end of their time ranges, in microseconds since 1970-01-01 UTC.
    pub latest_end_us: Option<i64>,
}

/// A time range in which nothing was captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesGap {
    /// Start, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// End (exclusive): of a source that is read again, the end of its first event that the series did not have. It is the start
    /// if there is no such event.
    pub to_us: i64,
    /// Number of the first part after the gap. Sessions of earlier parts do not continue in it.
    pub before_part: u64,
    /// Reason, as the end of a sentence: `the capture was stopped`.
    pub reason: String,
}

/// Content of `series.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesInfo {
    /// Always `series`.
    pub kind: String,
    /// Version of the format.
    pub format: u32,
    /// Program and version that wrote it.
    pub tool: String,
    /// Identity, which is in the manifest of each part.
    pub uuid: String,
    /// State.
    pub state: SeriesState,
    /// Kind of source: `log`, `proxy` or `pcap`.
    pub source_kind: String,
    /// Duration of a part, in microseconds. Parts end at multiples of it since 1970-01-01 UTC.
    pub roll_us: i64,
    /// Time after the end of a part's range at which it is completed, in microseconds. A statement that ends later is in
    /// a later part.
    pub wait_us: i64,
    /// Limits of the retention.
    #[serde(default)]
    pub retention: Retention,
    /// Parts that the retention has removed.
    #[serde(default)]
    pub removed: RemovedParts,
    /// Time up to which everything that had ended is in complete parts, in microseconds since 1970-01-01 UTC. It also
    /// advances if nothing happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_to_us: Option<i64>,
    /// Time up to which a part that was recovered after a kill has everything. Events of clients that had ended by then are in
    /// the series, but server events are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_to_us: Option<i64>,
    /// Number of the last complete part whose events are considered in [`SeriesInfo::running`]. After a kill there can be a
    /// later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub noted_part: u64,
    /// Numbers of later parts that were recovered, and whose events are considered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted_recoveries: Vec<u64>,
    /// Events in the parts that ended near [`SeriesInfo::recorded_to_us`] or later. Those that ended earlier are settled
    /// ([`settled_us`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningEvent>,
    /// Number of such events that are not in the list, since it is full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub running_left_out: u64,
    /// Latest time at which one of these ended, in microseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_to_us: Option<i64>,
    /// Times of server events in the parts, near [`SeriesInfo::captured_to_us`] or later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running_server: Vec<i64>,
    /// Statements that ran when a capture ended, as far as is known. The parts have them without a duration, and a log that is
    /// read again has it. At most one of each session that was open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unended: Vec<RunningEvent>,
    /// Events that had ended by [`SeriesInfo::recorded_to_us`] and are in no part, since the source had not delivered them when
    /// it was killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldEvent>,
    /// Encryption and masks of the parts; `None` if a version without this field began the series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<SeriesProtection>,
    /// Servers of the last capture, if they were known at its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<CapturedServer>,
    /// Whether it has logs of several servers. Their events are not captured in the order of time, so the time up to which a
    /// capture came does not determine what the series has of each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_several_servers: bool,
    /// Number of captures that wrote it. Session numbers of capture `n` begin at `(n - 1) * SESSIONS_PER_CAPTURE`.
    pub captures: u64,
    /// Time ranges in which nothing was captured, the earliest first.
    #[serde(default)]
    pub gaps: Vec<SeriesGap>,
    /// Time ranges for which a file of a log may be missing, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub possible_gaps: Vec<PossibleGap>,
}

impl SeriesInfo {
    /// Describes a new series.
    pub fn new(uuid: String, source_kind: &str, roll_us: i64, wait_us: i64) -> Self {
        SeriesInfo {
            kind: SERIES_EXTENSION.to_owned(),
            format: SERIES_FORMAT,
            tool: concat!("rehearse ", env!("CARGO_PKG_VERSION")).to_owned(),
            uuid,
            state: SeriesState::BeingCaptured,
            source_kind: source_kind.to_owned(),
            roll_us,
            wait_us,
            retention: Retention::default(),
            removed: RemovedParts::default(),
            captured_to_us: None,
            recovered_to_us: None,
            noted_part: 0,
            noted_recoveries: Vec::new(),
            running: Vec::new(),
            running_left_out: 0,
            left_out_to_us: None,
            running_server: Vec::new(),
            unended: Vec::new(),
            held: Vec::new(),
            protection: None,
            servers: Vec::new(),
            has_several_servers: false,
            captures: 1,
            gaps: Vec::new(),
            possible_gaps: Vec::new(),
        }
    }

    /// Returns the time up to which complete and recovered parts have the events of clients that had ended.
    pub fn recorded_to_us(&self) -> Option<i64> {
        self.captured_to_us.max(self.recovered_to_us)
    }

    /// Notes a complete part of this number, and its last state.
    pub fn note_complete(&mut self, number: u64, mut state: PartCheckpoint) {
        self.captured_to_us = self.captured_to_us.max(state.known_to_us());
        let closed = state.closed.take().unwrap_or_default();
        self.running.extend(closed.running);
        self.running_server.extend(closed.running_server);
        self.note_closed(number, state);
        self.noted_part = self.noted_part.max(number);
        self.forget_noted();
        self.forget_settled();
    }

    /// Notes what the source held when a part got its last event, and which statements ran. The states of later parts are
    /// later.
    fn note_closed(&mut self, number: u64, state: PartCheckpoint) {
        if self.noted_recoveries.iter().all(|noted| *noted <= number) {
            self.note_state(number, state);
        }
    }

    /// Notes what the source held at the state of a part, and which statements ran.
    fn note_state(&mut self, number: u64, state: PartCheckpoint) {
        if self.noted_part < number {
            self.held = state.held;
            self.unended = state.unended;
        }
    }

    fn forget_noted(&mut self) {
        let noted_part = self.noted_part;
        self.noted_recoveries.retain(|number| *number > noted_part);
    }

    /// Forgets running events that are settled. Of too many, the first to end are left out and counted.
    pub fn forget_settled(&mut self) {
        if let Some(recorded_to_us) = self.recorded_to_us() {
            let settled_us = settled_us(recorded_to_us);
            (self.running).retain(|event| event.ended_us >= settled_us);
            if self.left_out_to_us.is_some_and(|to_us| to_us < settled_us) {
                (self.running_left_out, self.left_out_to_us) = (0, None);
            }
        }
        if let Some(captured_to_us) = self.captured_to_us {
            let settled_us = settled_us(captured_to_us);
            (self.running_server).retain(|at_us| *at_us >= settled_us);
        }
        self.running.sort_unstable_by_key(|event| event.ended_us);
        self.running_server.sort_unstable();
        let excess = self.running.len().saturating_sub(RUNNING_MAX);
        let server_excess = self.running_server.len().saturating_sub(RUNNING_MAX);
        let left_out = self.running.drain(..excess).map(|event| event.ended_us);
        let left_out = left_out.chain(self.running_server.drain(..server_excess));
        self.left_out_to_us = self.left_out_to_us.max(left_out.max());
        self.running_left_out += (excess + server_excess) as u64;
    }

    /// Reads the description of the series in `directory`.
    ///
    /// # Errors
    /// If it is no series, was written by a later version, or cannot be read.
    pub fn read(directory: &Path) -> Result<Self, ArchiveError> {
        let foreign = |reason: String| ArchiveError::WrongKind {
            path: directory.to_owned(),
            kind: SERIES_EXTENSION.to_owned(),
            reason,
        };
        let path = directory.join(SERIES_FILE);
        let text = match read_small_file(&path, SERIES_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && directory.exists() => {
                return Err(foreign(format!("it has no {SERIES_FILE}")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ArchiveError::NotFound {
                    path: directory.to_owned(),
                    kind: SERIES_EXTENSION.to_owned(),
                });
            }
            Err(error) => return Err(ArchiveError::io("read", &path, error)),
        };
        let unreadable = |error| foreign(format!("its {SERIES_FILE} cannot be read ({error})"));
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(unreadable)?;
        let format = value["format"].as_u64().unwrap_or(0);
        if format > u64::from(SERIES_FORMAT) {
            return Err(ArchiveError::Newer {
                path: directory.to_owned(),
                found: u32::try_from(format).unwrap_or(u32::MAX),
                known: SERIES_FORMAT,
            });
        }
        let info: SeriesInfo = serde_json::from_value(value).map_err(unreadable)?;
        let is_possible = info.roll_us > 0 && info.wait_us >= 0 && !info.uuid.is_empty();
        match is_possible && info.kind == SERIES_EXTENSION {
            true => Ok(info),
            false => Err(foreign(format!(
                "its {SERIES_FILE} has an impossible kind, uuid or duration"
            ))),
        }
    }

    /// Replaces the description of the series in `directory`, so that a reader finds the old one or the new one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, directory: &Path) -> Result<(), ArchiveError> {
        let too_many = self.gaps.len().saturating_sub(GAPS_MAX);
        self.gaps.drain(..too_many);
        let path = directory.join(SERIES_FILE);
        let fresh = directory.join("series.json.new");
        let mut text = serde_json::to_vec_pretty(self).expect("plain data");
        text.push(b'\n');
        let mut file = archive::create_private(&fresh)?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(|error| ArchiveError::io("write", &path, error))?;
        archive::sync_parent(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_a_full_list_left_out_are_counted_until_they_are_settled() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        let times = (0_i64..).map(|index| RunningEvent::new(index * 1000, None, None));
        info.running = times.take(RUNNING_MAX + 10).collect();
        info.forget_settled();
        assert_eq!(
            (info.running_left_out, info.left_out_to_us),
            (10, Some(9000))
        );
        info.captured_to_us = Some(2_000_000);
        info.forget_settled();
        assert_eq!((info.running_left_out, info.left_out_to_us), (0, None));
        assert_eq!(info.running.len(), RUNNING_MAX + 10 - 1000);
    }
}
