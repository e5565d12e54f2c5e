//! Observations of a monitored server: waits, differences of statement statistics, and counters of the server
//! and its machine. This module has the data only; the crate `observe` collects them.
//!
//! Times are nanoseconds from the replay's start; negative before it. For an observation without a replay
//! they count from its own start.

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, StatementClass};

/// Name of the probe that reads statement statistics.
pub const STATISTICS_PROBE: &str = "statements";

/// Note about a probe, or about data that it cannot see. Notes are in time order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProbeNote {
    /// Time.
    pub at_ns: i64,
    /// Probe (`activity`), or capability of the host (`track_planning`).
    pub probe: String,
    /// State of the probe.
    pub state: ProbeState,
    /// Reason or description; may be empty for a probe that is on.
    pub text: String,
    /// Remedy.
    pub remedy: Option<String>,
    /// Number of affected objects, if it can be counted.
    pub count: Option<u64>,
    /// Ended probe: number of its queries.
    pub questions: Option<u64>,
    /// Ended probe: total duration of its queries, measured by the client.
    pub asked_ns: Option<u64>,
    /// Ended probe: number of failed queries.
    pub failures: Option<u64>,
}

/// State of a probe, or availability of a capability.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProbeState {
    /// The probe takes samples from now on.
    #[default]
    On,
    /// The probe is disabled.
    Off,
    /// The probe is on, but cannot see this data.
    Unseen,
    /// Remark about the data.
    Remark,
    /// The connection was lost. No samples are taken until it is back.
    Lost,
    /// The connection is back.
    Back,
    /// The monitoring has ended; the note has the cost.
    Ended,
    /// Capability of the host: available.
    Allowed,
    /// Capability of the host: disabled, but can be enabled.
    Changeable,
    /// Capability of the host: unavailable.
    Fixed,
}

impl ProbeState {
    const ALL: [(ProbeState, &'static str); 10] = [
        (ProbeState::On, "on"),
        (ProbeState::Off, "off"),
        (ProbeState::Unseen, "unseen"),
        (ProbeState::Remark, "remark"),
        (ProbeState::Lost, "lost"),
        (ProbeState::Back, "back"),
        (ProbeState::Ended, "ended"),
        (ProbeState::Allowed, "allowed"),
        (ProbeState::Changeable, "changeable"),
        (ProbeState::Fixed, "fixed"),
    ];

    /// Returns the name under which the state is stored.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(state, _)| *state == self);
        known.map_or("on", |(_, name)| name)
    }

    /// Returns the state stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(state, _)| *state)
    }
}

/// A statement seen at the server, of the workload or of another client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledStatement {
    /// Fingerprint of its normal form.
    pub fingerprint: Fingerprint,
    /// Class.
    pub class: StatementClass,
    /// Normal form.
    pub sql: String,
    /// The server truncated the text (`track_activity_query_size`). The fingerprint is that of the truncated
    /// text.
    pub is_truncated: bool,
}

/// Difference of an entry of `pg_stat_statements` between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementStatistics {
    /// Time of the earlier reading.
    pub from_ns: i64,
    /// Time of the later reading.
    pub until_ns: i64,
    /// Fingerprint of the text; `None` if the role may not see it.
    pub fingerprint: Option<Fingerprint>,
    /// Query id of the server; `None` if the role may not see it.
    pub query_id: Option<i64>,
    /// Database.
    pub database: Option<String>,
    /// Role.
    pub user: Option<String>,
    /// Whether a client sent it, rather than a function (from 14).
    pub top_level: Option<bool>,
    /// Number of entries that this row sums up. It is more than one only for entries that the role may not
    /// see.
    pub entries: u64,
    /// The entry of the later reading counts from zero: it was evicted and added again, or the statistics
    /// were reset.
    pub counts_from_zero: bool,
    /// Number of executions.
    pub calls: u64,
    /// Number of plannings; `None` if planning is not tracked.
    pub plans: Option<u64>,
    /// Time of planning; `None` if planning is not tracked.
    pub plan_ns: Option<u64>,
    /// Time of execution.
    pub exec_ns: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Shared buffers hit.
    pub shared_hit: u64,
    /// Shared buffers read.
    pub shared_read: u64,
    /// Shared buffers dirtied.
    pub shared_dirtied: u64,
    /// Shared buffers written.
    pub shared_written: u64,
    /// Buffers of temporary tables: hit, read, dirtied and written together.
    pub local_blocks: u64,
    /// Blocks of temporary files read.
    pub temp_read: u64,
    /// Blocks of temporary files written.
    pub temp_written: u64,
    /// Time spent reading shared blocks; 0 without `track_io_timing`.
    pub read_ns: u64,
    /// Time spent writing shared blocks; 0 without `track_io_timing`.
    pub write_ns: u64,
    /// WAL records (from 13).
    pub wal_records: Option<u64>,
    /// Full page images in the WAL (from 13).
    pub wal_full_pages: Option<u64>,
    /// Bytes of WAL (from 13).
    pub wal_bytes: Option<u64>,
    /// Functions that were JIT-compiled (from 15).
    pub jit_functions: Option<u64>,
    /// Time of JIT compilation, in nanoseconds; part of the time of execution (from 15).
    pub jit_ns: Option<u64>,
    /// Parallel workers that plans asked for (from 18).
    pub workers_planned: Option<u64>,
    /// Parallel workers that were launched (from 18).
    pub workers_launched: Option<u64>,
    /// Sum of the squares of the execution times, in square microseconds. With [`Self::exec_ns`] it gives their variance.
    pub exec_square_us2: Option<u64>,
}

/// A period in which the activity was sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleWindow {
    /// Start.
    pub at_ns: i64,
    /// End.
    pub until_ns: i64,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were due and not taken, because the server or this machine was late.
    pub missed: u64,
}

/// Number of backends in the samples of a window with this statement, state and wait. `count` / samples is
/// their average number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Activity {
    /// Start of its [`SampleWindow`].
    pub at_ns: i64,
    /// Fingerprint of the text; `None` if the role may not see it or there is none.
    pub fingerprint: Option<Fingerprint>,
    /// Query id of the server (from 14, if it computes one).
    pub query_id: Option<i64>,
    /// Database.
    pub database: Option<String>,
    /// Kind of process (`client backend`).
    pub backend: String,
    /// State (`active`, `idle in transaction`); `hidden` if the role may not see it.
    pub state: String,
    /// Type of the wait event (`Lock`); `None` if it did not wait, or the role may not see it.
    pub wait_type: Option<String>,
    /// Wait event (`transactionid`).
    pub wait: Option<String>,
    /// Number of occurrences.
    pub count: u64,
}

/// Lock waits of one moment, by statement of the waiting and of the blocking session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blocking {
    /// Time.
    pub at_ns: i64,
    /// Statement that waited.
    pub blocked: Option<Fingerprint>,
    /// Current or last statement of the blocking session.
    pub blocker: Option<Fingerprint>,
    /// State of the blocking session.
    pub blocker_state: String,
    /// Wait event.
    pub wait: String,
    /// Number of pairs of processes.
    pub count: u64,
}

/// Locks that were held or waited for at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockCount {
    /// Time.
    pub at_ns: i64,
    /// Kind (`relation`).
    pub kind: String,
    /// Mode (`AccessShareLock`).
    pub mode: String,
    /// Whether it was taken on the fast path, without the shared lock table.
    pub fast_path: bool,
    /// Whether it was granted, rather than waited for.
    pub granted: bool,
    /// Number of locks.
    pub locks: u64,
    /// Number of processes.
    pub backends: u64,
    /// Maximum number of locks of one process.
    pub most: u64,
}

/// Value of a counter from this time until the next row of the same counter. Unchanged values have no row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counter {
    /// Time of the reading.
    pub at_ns: i64,
    /// Source: a view of the server (`pg_stat_database`), or a part of the machine (`cpu`).
    pub source: String,
    /// Object: a database, a table, a device; empty if there is only one.
    pub object: String,
    /// Name in the source. Times of the server are in milliseconds, those of the machine in seconds.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Whether it rises and falls. Others only grow, except for a reset.
    pub gauge: bool,
}
