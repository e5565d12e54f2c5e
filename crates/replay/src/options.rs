//! What shapes a replay, as the engine takes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::{Factor, Speed};

use crate::course::{Scale, Shape};
use crate::feed::Feed;
use crate::guard;
use crate::login::LoginMap;
use crate::resume::Earlier;
use crate::timeline::Timeline;
use connect::Target;

/// A restart takes seconds; who has waited a minute for a server will look after it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What shapes a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How fast captured time passes.
    pub speed: Speed,
    /// A closed loop: a statement is due when its session's previous one is done and its captured
    /// think time, times this, has passed. `None`, an open loop: each is due at its captured time.
    pub think_time: Option<Factor>,
    /// Silence is cut to this, in captured time.
    pub idle_max: Option<Duration>,
    /// For this long, in the replay's time, the speed grows from a tenth to the whole.
    pub ramp_up: Duration,
    /// How many times the workload is replayed, one after the other; 0 counts as 1.
    pub repeat: u32,
    /// How many times each session is there.
    pub scale: Scale,
    /// The server keeps every session from writing.
    pub read_only: bool,
    /// How many rows executions of named portals and further fetches ask for, where the capture does
    /// not know it; `None`: all at the first, and further fetches are skipped.
    pub fetch_size: Option<u32>,
    /// Values that the server made up are mapped to what it makes up in the replay, where later
    /// parameters of their session repeat them.
    pub remap_generated: bool,
    /// Rows are summed up in a checksum for each statement ([`workload::RowDigest`]).
    pub digest: bool,
    /// The server ends statements that take longer.
    pub statement_timeout: Option<Duration>,
    /// How long the target may be away, or not answer, before the replay gives up: connections are
    /// tried again and lost ones opened anew for so long. Zero: neither.
    pub patience: Duration,
    /// Who connects where.
    pub logins: LoginMap,
    /// What a statement waits for beside its own session.
    pub order: SendOrder,
    /// The most connections at once. Where there are more sessions, they share connections between
    /// transactions. `None`: each session has its own.
    pub connections_max: Option<u32>,
    /// At full speed, connections without TLS are read and written by io_uring where the system has it.
    pub by_ring: bool,
    /// Threads that send and receive; each owns its share of the sessions.
    pub workers: usize,
    /// How long before a deadline a worker stops sleeping and watches the clock, in microseconds:
    /// precision for CPU.
    pub spin_us: u32,
    /// Statements of one session that wait in memory; what waits past them waits on disk.
    pub queue_statements_max: usize,
    /// How often the unfinished run is made safe from a kill.
    pub checkpoint: Duration,
    /// What clients do, instead of the workload's events: the workload then only says which
    /// statements there may be, and who logs in where. Copies, think times, idle times and the
    /// order of commits are of no account then.
    pub feed: Option<Feed>,
    /// The run that this goes on with.
    pub earlier: Option<Arc<Earlier>>,
    /// Which part of a workload this is of, by option; for the run's manifest.
    pub part: BTreeMap<String, String>,
    /// The workload's name for the run's manifest, where it is not that of the reader's.
    pub workload_name: Option<String>,
}

/// What a statement waits for, beside those before it in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendOrder {
    /// Nothing.
    #[default]
    Session,
    /// The commits that were over before it began in the capture.
    Commit,
    /// Everything that was due before it has been sent. One session that waits for the server holds up
    /// all: as replays with one order for all work, and to be compared with.
    Global,
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
            read_only: false,
            statement_timeout: None,
            fetch_size: None,
            remap_generated: false,
            digest: false,
            patience: PATIENCE,
            logins: LoginMap::default(),
            order: SendOrder::Session,
            connections_max: None,
            by_ring: true,
            workers: default_workers(),
            spin_us: 0,
            queue_statements_max: 256,
            checkpoint: Duration::from_secs(10),
            feed: None,
            earlier: None,
            part: BTreeMap::new(),
            workload_name: None,
        }
    }
}

impl Options {
    /// The target, with the settings that every session of the replay begins with.
    pub fn prepared(&self, target: &Target) -> Target {
        let mut target = target.clone();
        let mut set = |name: &str, value: String| {
            target.settings.retain(|(known, _)| known != name);
            target.settings.push((name.to_owned(), value));
        };
        if self.read_only {
            set(guard::SETTING, "on".to_owned());
        }
        if let Some(timeout) = self.statement_timeout {
            // Zero would be no limit.
            set("statement_timeout", timeout.as_millis().max(1).to_string());
        }
        target
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

    /// Everything that was asked for, by name, for the run's manifest.
    pub fn described(&self) -> BTreeMap<String, String> {
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
        if self.patience != PATIENCE {
            note("patience", Some(span(self.patience)));
        }
        let order = match self.order {
            SendOrder::Session => None,
            SendOrder::Commit => Some("commit".to_owned()),
            SendOrder::Global => Some("global".to_owned()),
        };
        note("order", order);
        let connections = self.connections_max.map(|count| count.to_string());
        note("max_connections", connections);
        let clients = self.feed.as_ref().map(|feed| feed.clients().to_string());
        note("clients", clients);
        note("read_only", self.read_only.then(|| "true".to_owned()));
        note("fetch_size", self.fetch_size.map(|rows| rows.to_string()));
        let remaps = self.remap_generated.then(|| "true".to_owned());
        note("remap_generated", remaps);
        note("digest", self.digest.then(|| "rows".to_owned()));
        note("statement_timeout", self.statement_timeout.map(span));
        let LoginMap {
            user,
            database,
            users,
            databases,
            set_role,
        } = &self.logins;
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

/// One worker takes tens of thousands of statements a second; more than a quarter of the cores
/// would compete with what else the machine does.
fn default_workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 8)
}
