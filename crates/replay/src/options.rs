//! Options of a replay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::{Factor, Speed};
use workload::{ArchiveError, WorkloadReader};

use crate::event_stream::{Scale, Shape};
use crate::load_source::LoadSource;
use crate::login::LoginMap;
use crate::meeting::WorkerMeeting;
use crate::pacing::Timeline;
use crate::read_only_guard;
use crate::resume::PreviousRun;
use crate::series_follower::FollowOptions;
use crate::shard::ShardSelection;
use crate::target_clock::TargetClock;
use connect::Target;

/// Default of [`Options::retry_for`]. A restart takes seconds; a server that is away for a minute needs attention.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checksums of the rows that statements return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultChecksums {
    /// None.
    None,
    /// One of each result ([`workload::RowDigest`]).
    Rows,
    /// One of each result, and one of each of its columns ([`run::ResultColumns`]).
    Columns,
}

/// Options of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Speed of captured time.
    pub speed: Speed,
    /// Factor of think times in a closed loop: a statement is due when its session's previous one is done and
    /// its captured think time, times this factor, has passed. `None` is an open loop: each is due at its
    /// captured time.
    pub think_time: Option<Factor>,
    /// Longest idle time of the whole workload, in captured time; longer ones are cut to it.
    pub idle_max: Option<Duration>,
    /// Ramp-up time, in the replay's time, during which the speed grows from a tenth to the whole.
    pub ramp_up: Duration,
    /// Number of rounds of the workload, one after the other; 0 counts as 1.
    pub repeat: u32,
    /// Concurrent copies of each session.
    pub scale: Scale,
    /// Protection of the target from writes.
    pub read_only: ReadOnly,
    /// Row limit for executions of named portals and further fetches, if the capture does not have it. `None`:
    /// the first execution asks for all rows, and further fetches are skipped.
    pub fetch_size: Option<u32>,
    /// Whether values that the server generated in the capture are replaced, in later statements, by the values that
    /// it generates in the replay.
    pub remap_generated: bool,
    /// Checksums of results.
    pub checksums: ResultChecksums,
    /// `statement_timeout` of every session.
    pub statement_timeout: Option<Duration>,
    /// Time that the target may be unreachable or silent before the replay gives up. Until then, connections are
    /// retried and lost ones are opened again. Zero disables both.
    pub retry_for: Duration,
    /// Mapping of captured users and databases.
    pub logins: LoginMap,
    /// Order of statements across sessions.
    pub order: SendOrder,
    /// Most connections at once. More sessions than that share connections between transactions. `None`: each
    /// session has its own connection.
    pub connections_max: Option<u32>,
    /// I/O method at full speed.
    pub io: IoMethod,
    /// Threads that send and receive; each owns its share of the sessions.
    pub workers: usize,
    /// Time before a deadline, in microseconds, during which a worker busy-waits instead of sleeping. It trades
    /// CPU time for precision.
    pub spin_us: u32,
    /// Most statements of one session that wait in memory; further ones are spilled to disk.
    pub queue_statements_max: usize,
    /// Interval at which the unfinished run is flushed to disk.
    pub checkpoint: Duration,
    /// Load source that replaces the workload's events. The workload then only provides statements and logins.
    /// Copies, think times, idle times and the order of commits have no effect.
    pub load_source: Option<LoadSource>,
    /// Series that is followed while it is being written. The workload is its first part, and provides logins and settings.
    pub follow: Option<FollowOptions>,
    /// Whether the run is encrypted to the recipients of the workload. No command reads such a run.
    pub encrypts_run: bool,
    /// Clock of the target that is set to the captured time when the replay starts.
    pub target_clock: Option<TargetClock>,
    /// Share of the sessions that this worker replays. `None`: all.
    pub shard: Option<ShardSelection>,
    /// Meeting with the other workers before the first statement and after the last.
    pub meeting: Option<WorkerMeeting>,
    /// Run to resume.
    pub previous_run: Option<Arc<PreviousRun>>,
    /// Options that selected a part of a workload, for the run's manifest.
    pub part: BTreeMap<String, String>,
    /// Workload's name for the run's manifest, if it is not the path of the reader.
    pub workload_name: Option<String>,
}

/// Protection of the target from the writes of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadOnly {
    /// None.
    #[default]
    Off,
    /// Sessions are read-only, and what this does not hold back is not sent.
    Sessions,
    /// As [`ReadOnly::Sessions`], and no role of a session has a right to write. The replay checks that before it
    /// begins.
    Role,
}

impl ReadOnly {
    /// Whether the target is protected.
    pub fn is_on(self) -> bool {
        self != ReadOnly::Off
    }
}

/// I/O method of workers at full speed, for connections without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMethod {
    /// io_uring if the system supports it, otherwise epoll.
    #[default]
    IoUring,
    /// epoll.
    Epoll,
}

/// Events of other sessions that a statement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendOrder {
    /// Nothing.
    #[default]
    Session,
    /// The commits that were over before it began in the capture.
    Commit,
    /// The executions on which it depends. Generated values are followed, too.
    Dependencies,
    /// All statements that were due before it must have been sent. One session that waits for the server delays
    /// all others. Some other tools replay in this order; it is for comparison with them.
    Global,
}

impl SendOrder {
    /// Returns the order of a replay that may write and for which none was asked. If a session may depend on what another
    /// one did, and the capture has results or durations that show it, statements wait for that.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub fn suited_to(workload: &WorkloadReader) -> Result<Self, ArchiveError> {
        let info = workload.info();
        let shows_order = match &*info.provenance.source_kind {
            "proxy" | "attach" | "pcap" => true,
            // Without durations, it is not known what was over.
            "log" => info.with_duration > 0,
            _ => false,
        };
        if !shows_order || info.sessions < 2 {
            return Ok(SendOrder::Session);
        }
        let mut depends = info.writes > 0;
        for statement in workload.statements()? {
            depends |= statement?.sql.contains("pg_export_snapshot");
        }
        Ok(match depends {
            true => SendOrder::Dependencies,
            false => SendOrder::Session,
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            speed: Speed::ONE,
            think_time: None,
            idle_max: None,
            ramp_up: Duration::ZERO,
            repeat: 1,
            scale: Scale::default(),
            read_only: ReadOnly::Off,
            statement_timeout: None,
            fetch_size: None,
            remap_generated: false,
            checksums: ResultChecksums::None,
            retry_for: PATIENCE,
            logins: LoginMap::default(),
            order: SendOrder::Session,
            connections_max: None,
            io: IoMethod::IoUring,
            workers: default_workers(),
            spin_us: 0,
            queue_statements_max: 256,
            checkpoint: Duration::from_secs(10),
            load_source: None,
            follow: None,
            encrypts_run: false,
            target_clock: None,
            shard: None,
            meeting: None,
            previous_run: None,
            part: BTreeMap::new(),
            workload_name: None,
        }
    }
}

impl Options {
    /// Adds the settings of every session to a target.
    pub fn target_with_settings(&self, target: &Target) -> Target {
        let mut target = target.clone();
        let mut set = |name: &str, value: String| {
            target.settings.retain(|(known, _)| known != name);
            target.settings.push((name.to_owned(), value));
        };
        if self.read_only.is_on() {
            set(read_only_guard::SETTING, "on".to_owned());
        }
        if let Some(timeout) = self.statement_timeout {
            // Zero would mean no limit.
            set("statement_timeout", timeout.as_millis().max(1).to_string());
        }
        target
    }

    /// Whether values that the server generates are followed from the capture to the replay.
    pub fn follows_values(&self) -> bool {
        self.remap_generated || self.order == SendOrder::Dependencies
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape {
            scale: self.scale,
            rounds: u64::from(self.repeat.max(1)),
            idle_max: self.idle_max,
        }
    }

    pub(crate) fn timeline(&self) -> Timeline {
        Timeline {
            speed: self.speed,
            ramp_up_ns: i64::try_from(self.ramp_up.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    /// Returns all options by name, for the run's manifest.
    pub fn to_manifest(&self) -> BTreeMap<String, String> {
        let mut described = BTreeMap::from([
            ("speed".to_owned(), self.speed.to_string()),
            ("workers".to_owned(), self.workers.to_string()),
            ("spin_us".to_owned(), self.spin_us.to_string()),
        ]);
        let mut note = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                described.insert(name.to_owned(), value);
            }
        };
        let span = |span: Duration| {
            let ns = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
            clock::duration_text(ns)
        };
        note(
            "think_time",
            self.think_time.map(|factor| factor.to_string()),
        );
        note("idle_skip", self.idle_max.map(span));
        note(
            "ramp_up",
            Some(self.ramp_up).filter(|ramp| !ramp.is_zero()).map(span),
        );
        note(
            "repeat",
            Some(self.repeat).filter(|&n| n > 1).map(|n| n.to_string()),
        );
        if self.scale.factor != Factor::ONE {
            note("scale", Some(self.scale.factor.to_string()));
            note("scale_shift", Some(span(self.scale.shift)));
        }
        if self.retry_for != PATIENCE && self.follow.is_none() {
            note("patience", Some(span(self.retry_for)));
        }
        let order = match self.order {
            SendOrder::Session => None,
            SendOrder::Commit => Some("commit".to_owned()),
            SendOrder::Dependencies => Some("dependencies".to_owned()),
            SendOrder::Global => Some("global".to_owned()),
        };
        note("order", order);
        let clock = self.target_clock.as_ref().map(|_| "captured".to_owned());
        note("target_clock", clock);
        let shard = self.shard.as_ref();
        let number = shard.map(|shard| format!("{}/{}", shard.number(), shard.count()));
        note(run::SHARD_OPTION, number);
        let division = shard.map(|shard| shard.division().name().to_owned());
        note(run::DIVISION_OPTION, division);
        let connections = self.connections_max.map(|count| count.to_string());
        note("max_connections", connections);
        let clients = self
            .load_source
            .as_ref()
            .map(|feed| feed.clients().to_string());
        note("clients", clients);
        if let Some(follow) = &self.follow {
            note("follow_delay", Some(span(follow.delay)));
            note("max_lag", Some(span(follow.lag_max)));
        }
        let read_only = match self.read_only {
            ReadOnly::Off => None,
            ReadOnly::Sessions => Some("true".to_owned()),
            ReadOnly::Role => Some("role".to_owned()),
        };
        note("read_only", read_only);
        note("fetch_size", self.fetch_size.map(|rows| rows.to_string()));
        let remaps = self.follows_values().then(|| "true".to_owned());
        note("remap_generated", remaps);
        let checksums = match self.checksums {
            ResultChecksums::None => None,
            ResultChecksums::Rows => Some("rows".to_owned()),
            ResultChecksums::Columns => Some("columns".to_owned()),
        };
        note("digest", checksums);
        note("statement_timeout", self.statement_timeout.map(span));
        let LoginMap {
            user,
            database,
            users,
            databases,
            set_role,
            startup_options,
        } = &self.logins;
        startup_options.describe(&mut described);
        if *set_role {
            described.insert("set_role".to_owned(), "yes".to_owned());
        }
        for (name, one, map) in [("user", user, users), ("database", database, databases)] {
            if let Some(one) = one {
                described.insert(name.to_owned(), one.clone());
            }
            for (from, to) in map {
                described.insert(format!("map_{name} {from}"), to.clone());
            }
        }
        described.extend(self.part.clone());
        described
    }
}

/// Returns a quarter of the cores, between 1 and 8. One worker sends tens of thousands of statements per second,
/// and more threads would compete with other programs of the machine.
fn default_workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 8)
}
