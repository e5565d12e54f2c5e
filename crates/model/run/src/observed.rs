//! What was seen of a server while it was watched: who waited for what, what its statistics of
//! statements gained, its counters and its machine's. Plain data; who looks is not known here.
//!
//! Times are nanoseconds from the replay's start, or of an observation without a replay from its own;
//! what was looked at before is negative.

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, StatementClass};

/// What became of a probe, or what it could not see. In the order in which it happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProbeNote {
    /// When.
    pub at_ns: i64,
    /// Which probe (`activity`), or what of the host (`track_planning`).
    pub probe: String,
    /// What became of it.
    pub state: ProbeState,
    /// Why, or what, in words; may be empty where it is on.
    pub text: String,
    /// What would change that.
    pub remedy: Option<String>,
    /// How much of it, where it can be counted.
    pub count: Option<u64>,
    /// Of one that has ended: the questions it asked.
    pub questions: Option<u64>,
    /// Of one that has ended: how long these took, as seen from here.
    pub asked_ns: Option<u64>,
    /// Of one that has ended: how many of them failed.
    pub failures: Option<u64>,
}

/// What became of a probe.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProbeState {
    /// It looks from now on.
    #[default]
    On,
    /// It does not, or no longer.
    Off,
    /// It looks and does not see this.
    Unseen,
    /// What is to be known about what it saw.
    Remark,
    /// The connection is gone; nothing is seen until it is back.
    Lost,
    /// The connection is back.
    Back,
    /// The watch is over: what it cost.
    Ended,
    /// Of the host: this can be had.
    Allowed,
    /// Of the host: this is off, and can be turned on.
    Changeable,
    /// Of the host: this cannot be had.
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

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(state, _)| *state == self);
        known.map_or("on", |(_, name)| name)
    }

    /// The one stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(state, _)| *state)
    }
}

/// A statement that was seen at the server, the workload's or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenStatement {
    /// Of its normal form.
    pub fingerprint: Fingerprint,
    /// What kind it is of.
    pub class: StatementClass,
    /// Its normal form.
    pub sql: String,
    /// The server gave its beginning only (`track_activity_query_size`), so that the fingerprint is of
    /// that.
    pub cut: bool,
}

/// What `pg_stat_statements` counted of one of its entries between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementStatistics {
    /// The earlier reading.
    pub from_ns: i64,
    /// The later reading.
    pub until_ns: i64,
    /// Of its text; `None` where the role may not see it.
    pub fingerprint: Option<Fingerprint>,
    /// The server's own number for it; `None` where the role may not see it.
    pub query_id: Option<i64>,
    /// The database.
    pub database: Option<String>,
    /// The role.
    pub user: Option<String>,
    /// Whether a client sent it, and no function (from 14).
    pub top_level: Option<bool>,
    /// How many entries of the extension this row is of: more than one only of those that the role may
    /// not see.
    pub entries: u64,
    /// The later reading no longer had what the earlier one had, so that it counts from nothing: it was
    /// evicted and came again, or the statistics were reset.
    pub anew: bool,
    /// Executions.
    pub calls: u64,
    /// How often it was planned; `None` where planning is not tracked.
    pub plans: Option<u64>,
    /// Time of planning; `None` where planning is not tracked.
    pub plan_ns: Option<u64>,
    /// Time of execution.
    pub exec_ns: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Shared buffers found.
    pub shared_hit: u64,
    /// Shared buffers read.
    pub shared_read: u64,
    /// Shared buffers dirtied.
    pub shared_dirtied: u64,
    /// Shared buffers written.
    pub shared_written: u64,
    /// Buffers of temporary tables: found, read, dirtied and written together.
    pub local_blocks: u64,
    /// Blocks of temporary files read.
    pub temp_read: u64,
    /// Blocks of temporary files written.
    pub temp_written: u64,
    /// Time of reading shared blocks; 0 without `track_io_timing`.
    pub read_ns: u64,
    /// Time of writing shared blocks; 0 without `track_io_timing`.
    pub write_ns: u64,
    /// WAL records (from 13).
    pub wal_records: Option<u64>,
    /// Full pages in the WAL (from 13).
    pub wal_full_pages: Option<u64>,
    /// Bytes of WAL (from 13).
    pub wal_bytes: Option<u64>,
}

/// A stretch of time in which the activity was sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleWindow {
    /// Its beginning.
    pub at_ns: i64,
    /// Its end.
    pub until_ns: i64,
    /// How many samples were taken in it.
    pub samples: u64,
    /// How many were due and not taken, because the server or this machine was late.
    pub missed: u64,
}

/// How often something was met in the samples of a window: a backend that did this statement, in this
/// state, waiting for this. `count` / samples is how many did so on average.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Activity {
    /// The beginning of its [`SampleWindow`].
    pub at_ns: i64,
    /// Of the text; `None` where the role may not see it or there is none.
    pub fingerprint: Option<Fingerprint>,
    /// The server's own number for the statement (from 14, where it computes one).
    pub query_id: Option<i64>,
    /// The database.
    pub database: Option<String>,
    /// What kind of process (`client backend`).
    pub backend: String,
    /// Its state (`active`, `idle in transaction`); `hidden` where the role may not see it.
    pub state: String,
    /// The type of what it waited for (`Lock`); `None`: it did not wait, or the role may not see it.
    pub wait_type: Option<String>,
    /// What it waited for (`transactionid`).
    pub wait: Option<String>,
    /// How often.
    pub count: u64,
}

/// Who held up whom, a lock wait at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blocking {
    /// When.
    pub at_ns: i64,
    /// What waited.
    pub blocked: Option<Fingerprint>,
    /// What the one in its way did, or had done last.
    pub blocker: Option<Fingerprint>,
    /// The state of the one in its way.
    pub blocker_state: String,
    /// What was waited for.
    pub wait: String,
    /// How many pairs of processes.
    pub count: u64,
}

/// Locks that were held or waited for at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockCount {
    /// When.
    pub at_ns: i64,
    /// Of what kind (`relation`).
    pub kind: String,
    /// In which mode (`AccessShareLock`).
    pub mode: String,
    /// Taken without the shared lock table.
    pub fast_path: bool,
    /// Held, and not waited for.
    pub granted: bool,
    /// How many.
    pub locks: u64,
    /// By how many processes.
    pub backends: u64,
    /// The most of one process.
    pub most: u64,
}

/// The value of a counter from this moment on, until the next row of the same one. What did not change
/// has no row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counter {
    /// When it was read.
    pub at_ns: i64,
    /// Where it comes from: a view of the server (`pg_stat_database`), or a part of the machine (`cpu`).
    pub source: String,
    /// Of what: a database, a table, a device; empty where there is only one.
    pub object: String,
    /// Its name there; times are in milliseconds where the server has them so, of the machine in seconds.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// It goes up and down; others only grow, but for a reset.
    pub gauge: bool,
}
