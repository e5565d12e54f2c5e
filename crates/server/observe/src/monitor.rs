//! Schedules the probes, from before a replay's first statement until after its last.
//!
//! There are three threads, each with its own connection. One only samples the activity, so that no other query
//! delays it. One reads statement statistics, in a database that has the extension. The third runs the remaining
//! probes. A query of the user has a fourth thread, since its cost is unknown. A sample that is too late is
//! skipped and counted.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Clock;
use connect::Target;
use connect::login::{Dialer, Login};
use run::{ArchiveError, ObservedWriter, ProbeNote, ProbeState};

use crate::observation_log::{LatestActivity, ObservationLog, RunTime};
use crate::probe::activity::ActivityProbe;
use crate::probe::capabilities::CapabilitiesProbe;
use crate::probe::connections::ConnectionsProbe;
use crate::probe::counters::CountersProbe;
use crate::probe::custom_query::CustomQueryProbe;
use crate::probe::locks::LocksProbe;
use crate::probe::machine::MachineProbe;
use crate::probe::statements::{STATISTICS, StatementsProbe, has_extension};
use crate::probe::{Probe, SampleContext};
use crate::probe_connection::{Cost, OwnProcesses, ProbeConnection, ProbeError};

/// Number of failures in a row after which a probe is disabled.
const FAILURES_MAX: u32 = 3;
/// Interval at which rows are flushed to survive a kill.
const FLUSH_EVERY_NS: i64 = 10_000_000_000;
/// Longest sleep. A lost connection is retried in between.
const SLEEP_NS: i64 = 1_000_000_000;
/// Time that the server may need to count the last statements. Sessions report when they end, and before
/// version 15 another process writes the counts (documentation, 28.2).
const SETTLE: Duration = Duration::from_millis(1_100);

/// Default number of samples per second.
pub const DEFAULT_SAMPLE_RATE_HZ: u32 = 20;

/// Probes of a monitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MonitorScope {
    /// Statement statistics only: two readings, and one each minute.
    Statistics,
    /// All probes, with samples of the activity.
    #[default]
    Everything,
}

/// Options of the monitoring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorOptions {
    /// Probes that run.
    pub scope: MonitorScope,
    /// Samples of the activity per second.
    pub hz: u32,
    /// Query of the user whose numbers are recorded.
    pub custom_query: Option<String>,
    /// Interval of this query, regardless of its cost. `None`: every second, using at most a twentieth of the
    /// time.
    pub custom_query_interval: Option<Duration>,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        MonitorOptions {
            scope: MonitorScope::Everything,
            hz: DEFAULT_SAMPLE_RATE_HZ,
            custom_query: None,
            custom_query_interval: None,
        }
    }
}

/// Status of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeStatus {
    /// Name of the probe.
    pub probe: &'static str,
    /// Reason why the probe is disabled; `None` if it is active.
    pub off: Option<String>,
}

/// A running monitor. If it is dropped without [`Monitor::end`], it stops, and its table stays unfinished.
pub struct Monitor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    statuses: Vec<ProbeStatus>,
}

struct Shared {
    log: ObservationLog,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Initial values are read; the replay has not begun.
    Before,
    Running,
    Ending,
}

impl Shared {
    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }

    /// Sleeps for this time, or until the phase changes.
    fn sleep(&self, in_phase: Phase, ns: i64) {
        let guard = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *guard == in_phase && ns > 0 {
            let time = Duration::from_nanos(ns.unsigned_abs());
            let _ = self.changed.wait_timeout(guard, time);
        }
    }
}

impl Monitor {
    /// Starts the probes, with the first login that the server accepts, and reads the initial values. Returns
    /// when they are read, after at most about 15 s.
    pub fn begin(
        target: &Target,
        logins: &[Login],
        options: &MonitorOptions,
        clock: &Arc<dyn Clock>,
        writer: ObservedWriter,
    ) -> Monitor {
        let shared = Arc::new(Shared {
            log: ObservationLog::new(writer, clock.clone()),
            phase: Mutex::new(Phase::Before),
            changed: Condvar::new(),
        });
        let groups = probe_groups(options);
        let own = OwnProcesses::default();
        let mut threads = Vec::new();
        let mut ready = Vec::new();
        let mut statuses = Vec::new();
        for ProbeGroup {
            name,
            connection,
            probes,
        } in groups
        {
            if connection == ConnectionKind::WithStatistics {
                // The first queries of the others must not evict statements that this group has counted.
                statuses.extend(take_statuses(&mut ready));
            }
            let (sender, receiver) = sync_channel(1);
            let thread = MonitorThread {
                shared: shared.clone(),
                target: target.clone(),
                logins: logins.to_vec(),
                clock: clock.clone(),
                own: own.clone(),
                kind: connection,
            };
            let spawned = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || thread.run(probes, &sender));
            match spawned {
                Ok(thread) => {
                    threads.push(thread);
                    ready.push(receiver);
                }
                Err(error) => shared.log.note(name, ProbeState::Off, error.to_string()),
            }
        }
        statuses.extend(take_statuses(&mut ready));
        Monitor {
            shared,
            threads,
            statuses,
        }
    }

    /// Returns the initial status of the probes.
    pub fn statuses(&self) -> &[ProbeStatus] {
        &self.statuses
    }

    /// Marks the start of the replay. From now on samples are taken, with times of the replay.
    pub fn start(&self, time: RunTime) {
        self.shared.log.start(time);
        self.shared.enter(Phase::Running);
    }

    /// Returns the activity of the last complete second.
    pub fn latest(&self) -> LatestActivity {
        self.shared.log.latest()
    }

    /// Ends the monitoring after the last statement, and reads the final values.
    ///
    /// # Errors
    /// If writing the rows failed.
    pub fn end(mut self) -> Result<ObservedWriter, ArchiveError> {
        self.stop();
        let writer = self.shared.log.finish()?;
        Ok(writer.expect("it is taken once, and `end` takes the watch"))
    }

    fn stop(&mut self) {
        self.shared.enter(Phase::Ending);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

type Probes = Vec<Box<dyn Probe>>;

/// Waits until these groups have begun, and returns the status of their probes. A thread that panics sends nothing;
/// its panic is propagated when it is joined.
fn take_statuses(ready: &mut Vec<Receiver<Vec<ProbeStatus>>>) -> Vec<ProbeStatus> {
    let groups = ready.drain(..);
    groups
        .flat_map(|group| group.recv().unwrap_or_default())
        .collect()
}

/// Probes that share a thread and a connection.
struct ProbeGroup {
    name: &'static str,
    connection: ConnectionKind,
    probes: Probes,
}

/// Requirements for the connection of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionKind {
    /// The first login that the server accepts.
    Ordinary,
    /// The same, with the search path of the role.
    OfTheRole,
    /// A database that has the extension, whose statistics are those of the whole server.
    WithStatistics,
}

/// Database that may have the extension if those of the logins have not.
const MAINTENANCE_DATABASE: &str = "postgres";

/// Returns the probes of each thread, statement statistics last.
fn probe_groups(options: &MonitorOptions) -> Vec<ProbeGroup> {
    let statistics = ProbeGroup {
        name: STATISTICS,
        connection: ConnectionKind::WithStatistics,
        probes: vec![Box::new(StatementsProbe::default())],
    };
    if options.scope == MonitorScope::Statistics {
        return vec![statistics];
    }
    let mut groups = vec![ProbeGroup {
        name: "watch",
        connection: ConnectionKind::Ordinary,
        probes: vec![
            Box::new(CapabilitiesProbe::default()),
            Box::new(MachineProbe::default()),
            Box::new(CountersProbe::default()),
            Box::new(ConnectionsProbe::default()),
            Box::new(LocksProbe::default()),
        ],
    }];
    groups.push(ProbeGroup {
        name: "sample",
        connection: ConnectionKind::Ordinary,
        probes: vec![Box::new(ActivityProbe::new(options.hz))],
    });
    if let Some(query) = &options.custom_query {
        groups.push(ProbeGroup {
            name: "queue",
            connection: ConnectionKind::OfTheRole,
            probes: vec![Box::new(CustomQueryProbe::new(
                query,
                options.custom_query_interval,
            ))],
        });
    }
    groups.push(statistics);
    groups
}

/// ScheduleState of a monitoring thread.
struct MonitorThread {
    shared: Arc<Shared>,
    target: Target,
    logins: Vec<Login>,
    clock: Arc<dyn Clock>,
    own: OwnProcesses,
    kind: ConnectionKind,
}

/// A probe with its schedule.
struct ScheduledProbe {
    probe: Box<dyn Probe>,
    state: ScheduleState,
    failures: u32,
    due_ns: i64,
    cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ScheduleState {
    /// Whether it can work is unknown, or has to be checked again.
    New,
    On,
    Off(String),
}

impl MonitorThread {
    fn run(self, probes: Probes, ready: &SyncSender<Vec<ProbeStatus>>) {
        let mut all: Vec<ScheduledProbe> = probes.into_iter().map(ScheduledProbe::new).collect();
        let dialer = match Dialer::new(&self.target) {
            Ok(dialer) => dialer,
            Err(error) => {
                for scheduled in &mut all {
                    scheduled.disable(&self.shared.log, error.to_string(), None);
                }
                let _ = ready.send(statuses(&all));
                return;
            }
        };
        let mut connection = self.connect(&dialer, &mut all);
        for scheduled in &mut all {
            scheduled.begin(&mut connection, &self.shared.log);
        }
        let _ = ready.send(statuses(&all));
        while self.shared.phase() == Phase::Before {
            self.shared.sleep(Phase::Before, SLEEP_NS);
        }
        self.run_schedule(&mut connection, &mut all);
        self.finish(&mut connection, &mut all);
    }

    fn new_connection<'d>(&self, dialer: &'d Dialer, login: &Login) -> ProbeConnection<'d> {
        let plain = self.kind == ConnectionKind::OfTheRole;
        ProbeConnection::new(dialer, login, &self.clock, &self.own, plain)
    }

    /// Returns the logins to try, in their order.
    fn logins_to_try(&self) -> Vec<Login> {
        let mut logins = self.logins.clone();
        if self.kind == ConnectionKind::WithStatistics {
            let further = self.logins.iter().map(|login| Login {
                database: MAINTENANCE_DATABASE.into(),
                ..login.clone()
            });
            logins.extend(further);
        }
        logins
    }

    /// Connects with the first login that the server accepts.
    fn connect<'d>(&self, dialer: &'d Dialer, all: &mut [ScheduledProbe]) -> ProbeConnection<'d> {
        let mut whys: Vec<(String, Option<String>)> = Vec::new();
        let mut without_statistics = None;
        for login in self.logins_to_try() {
            let mut connection = self.new_connection(dialer, &login);
            match connection.open() {
                Ok(()) if self.kind == ConnectionKind::WithStatistics => {
                    if has_extension(&mut connection) {
                        return connection;
                    }
                    without_statistics.get_or_insert(connection);
                }
                Ok(()) => return connection,
                // The server may accept it later.
                Err(ProbeError::ConnectionLost(_) | ProbeError::Failed(_)) => return connection,
                Err(ProbeError::Unsupported { why, remedy }) => {
                    if !whys.iter().any(|(known, _)| *known == why) {
                        whys.push((why, remedy));
                    }
                }
            }
        }
        // The probe then says what is missing.
        if let Some(connection) = without_statistics {
            return connection;
        }
        let remedy = whys.iter().find_map(|(_, remedy)| remedy.clone());
        let whys: Vec<String> = whys.into_iter().map(|(why, _)| why).collect();
        let why = match whys.is_empty() {
            true => "there is nobody to log in as".to_owned(),
            false => whys.join("; "),
        };
        for scheduled in all {
            scheduled.disable(&self.shared.log, why.clone(), remedy.clone());
        }
        let login = self.logins.first().cloned().unwrap_or(Login {
            user: "".into(),
            database: "".into(),
            application: "".into(),
            role: None,
            settings: Default::default(),
        });
        self.new_connection(dialer, &login)
    }

    fn run_schedule(&self, connection: &mut ProbeConnection<'_>, all: &mut [ScheduledProbe]) {
        let log = &self.shared.log;
        let now_ns = log.clock_ns();
        for scheduled in all.iter_mut() {
            scheduled.due_ns = now_ns;
        }
        let mut flushed_ns = now_ns;
        let mut was_open = connection.is_open();
        while self.shared.phase() == Phase::Running {
            if log.is_broken() || all.iter().all(ScheduledProbe::is_off) {
                self.shared.sleep(Phase::Running, i64::MAX);
                continue;
            }
            if !connection.is_open() && connection.open().is_ok() {
                log.note("connection", ProbeState::Back, "");
                was_open = true;
            }
            if connection.is_open() {
                let now_ns = log.clock_ns();
                for scheduled in all
                    .iter_mut()
                    .filter(|scheduled| scheduled.due_ns <= now_ns)
                {
                    scheduled.run_due(connection, log);
                    if !connection.is_open() {
                        break;
                    }
                }
            }
            if was_open && !connection.is_open() {
                log.note("connection", ProbeState::Lost, describe_loss(all));
                was_open = false;
            }
            let now_ns = log.clock_ns();
            if now_ns - flushed_ns > FLUSH_EVERY_NS {
                log.flush();
                flushed_ns = now_ns;
            }
            let due_ns = all
                .iter()
                .filter(|scheduled| !scheduled.is_off())
                .map(|scheduled| scheduled.due_ns)
                .min();
            let until_ns = due_ns.unwrap_or(i64::MAX).saturating_sub(now_ns);
            let least_ns = if connection.is_open() {
                0
            } else {
                SLEEP_NS / 10
            };
            self.shared
                .sleep(Phase::Running, until_ns.clamp(least_ns, SLEEP_NS));
        }
    }

    /// Takes the last sample of each probe, and writes its cost.
    fn finish(&self, connection: &mut ProbeConnection<'_>, all: &mut [ScheduledProbe]) {
        let log = &self.shared.log;
        let is_open = connection.is_open() || connection.open().is_ok();
        let on = all
            .iter()
            .any(|scheduled| scheduled.state == ScheduleState::On);
        if is_open && on && all.len() > 1 {
            std::thread::sleep(SETTLE);
        }
        for scheduled in all {
            if is_open && scheduled.state == ScheduleState::On {
                let context = SampleContext {
                    missed: 0,
                    last: true,
                };
                scheduled.sample(connection, log, context);
            }
            scheduled.probe.flush(log);
            log.add_note(ProbeNote {
                probe: scheduled.probe.name().to_owned(),
                state: ProbeState::Ended,
                questions: Some(scheduled.cost.questions),
                asked_ns: Some(scheduled.cost.asked_ns),
                failures: Some(scheduled.cost.failures),
                ..ProbeNote::default()
            });
        }
    }
}

fn statuses(all: &[ScheduledProbe]) -> Vec<ProbeStatus> {
    let of = |scheduled: &ScheduledProbe| ProbeStatus {
        probe: scheduled.probe.name(),
        off: match &scheduled.state {
            ScheduleState::Off(why) => Some(why.clone()),
            ScheduleState::New | ScheduleState::On => None,
        },
    };
    all.iter().map(of).collect()
}

/// Describes which probe's query was running when the connection was lost.
fn describe_loss(all: &[ScheduledProbe]) -> String {
    let by = all.iter().find(|scheduled| scheduled.failures > 0);
    by.map_or_else(String::new, |scheduled| {
        format!("while {} asked", scheduled.probe.name())
    })
}

impl ScheduledProbe {
    fn new(probe: Box<dyn Probe>) -> Self {
        ScheduledProbe {
            probe,
            state: ScheduleState::New,
            failures: 0,
            due_ns: 0,
            cost: Cost::default(),
        }
    }

    fn is_off(&self) -> bool {
        matches!(self.state, ScheduleState::Off(_))
    }

    fn disable(&mut self, log: &ObservationLog, why: String, remedy: Option<String>) {
        if self.is_off() {
            return;
        }
        log.add_note(ProbeNote {
            probe: self.probe.name().to_owned(),
            state: ProbeState::Off,
            text: why.clone(),
            remedy,
            ..ProbeNote::default()
        });
        self.state = ScheduleState::Off(why);
    }

    fn begin(&mut self, connection: &mut ProbeConnection<'_>, log: &ObservationLog) {
        if self.is_off() || !connection.is_open() {
            return;
        }
        let before = connection.cost;
        let result = self.probe.begin(connection, log);
        self.add_cost(before, connection.cost);
        match result {
            Ok(()) => {
                self.state = ScheduleState::On;
                self.failures = 0;
                log.note(self.probe.name(), ProbeState::On, "");
            }
            Err(unable) => self.handle_failure(log, unable),
        }
    }

    fn run_due(&mut self, connection: &mut ProbeConnection<'_>, log: &ObservationLog) {
        let now_ns = log.clock_ns();
        let every_ns = self.probe.interval_ns().max(1);
        let late = (now_ns - self.due_ns).max(0) / every_ns;
        self.due_ns = match self.state {
            ScheduleState::New => now_ns.saturating_add(every_ns.min(SLEEP_NS)),
            _ => self
                .due_ns
                .saturating_add(every_ns.saturating_mul(late.saturating_add(1))),
        };
        match self.state {
            ScheduleState::New => self.begin(connection, log),
            ScheduleState::On => {
                let context = SampleContext {
                    missed: late.unsigned_abs(),
                    last: false,
                };
                self.sample(connection, log, context);
            }
            ScheduleState::Off(_) => {}
        }
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        context: SampleContext,
    ) {
        let before = connection.cost;
        let result = self.probe.sample(connection, log, context);
        self.add_cost(before, connection.cost);
        match result {
            Ok(()) => self.failures = 0,
            Err(unable) => self.handle_failure(log, unable),
        }
    }

    fn add_cost(&mut self, before: Cost, after: Cost) {
        self.cost.questions += after.questions - before.questions;
        self.cost.asked_ns += after.asked_ns - before.asked_ns;
        self.cost.failures += after.failures - before.failures;
    }

    fn handle_failure(&mut self, log: &ObservationLog, unable: ProbeError) {
        let why = match unable {
            ProbeError::Unsupported { why, remedy } => return self.disable(log, why, remedy),
            ProbeError::Failed(why) | ProbeError::ConnectionLost(why) => why,
        };
        self.failures += 1;
        if self.failures >= FAILURES_MAX {
            let why = format!("it failed {FAILURES_MAX} times in a row, last with: {why}");
            self.disable(log, why, None);
        }
    }
}
