//! What was seen of a server while it was watched.

use analyse::observed::{Observed, ObservedStatement, StatementTotals, Wait};
use run::{ProbeState, RunInfo};
use schemars::JsonSchema;
use serde::Serialize;

/// The most statements of a view, and the most counters of each source.
const STATEMENTS_MAX: usize = 200;
const COUNTERS_MAX: usize = 2_000;

/// What was seen of a server. Shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct WatchedView {
    /// `rehearse/observe/1`.
    pub schema: &'static str,
    /// The run's name, as the user gave it.
    pub run: String,
    /// The server's address.
    pub target: String,
    /// The server's version.
    pub server_version: String,
    /// How long it was watched, or its replay took, in microseconds.
    pub elapsed_us: f64,
    /// What became of each probe.
    pub probes: Vec<ProbeView>,
    /// What could not be seen, and what is to be known.
    pub notes: Vec<ObservedNoteView>,
    /// What the host allows of what helps to explain.
    pub host: Vec<HostView>,
    /// Samples of the activity that were taken.
    pub samples: u64,
    /// Samples that were due and not taken, because something was late.
    pub samples_missed: u64,
    /// How many of clients' processes did a statement, on average over the samples; `null` without samples.
    pub active: Option<f64>,
    /// How many held a transaction open and did nothing, on average; `null` without samples.
    pub idle_in_transaction: Option<f64>,
    /// What clients' statements waited for, the most first.
    pub waits: Vec<WaitView>,
    /// What processes of the server's own were met at, the most first.
    pub server_processes: Vec<ServerProcessView>,
    /// All statements that the server counted.
    pub totals: CountedView,
    /// Statements by planning and execution time, the most first: up to 200.
    pub statements: Vec<ObservedStatementView>,
    /// How many more there are.
    pub statements_left_out: u64,
    /// Who held up whom, the most first.
    pub blocking: Vec<BlockedView>,
    /// Locks; `null` where they were not looked at.
    pub locks: Option<LocksView>,
    /// The machine; `null` where it is not this one.
    pub machine: Option<MachineView>,
    /// Counters that moved.
    pub counters: Vec<MovedView>,
    /// How many more there are.
    pub counters_left_out: u64,
    /// The series of the user's query.
    pub queue: Vec<QueueView>,
}

/// A probe.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProbeView {
    /// Its name.
    pub probe: String,
    /// Why it did not look, or no longer; `null`: it did.
    pub off: Option<String>,
    /// What would turn it on.
    pub remedy: Option<String>,
    /// The questions that it asked.
    pub questions: u64,
    /// How long these took in all, as seen from here, in microseconds.
    pub asked_us: f64,
    /// How many failed.
    pub failures: u64,
}

/// Something that could not be seen, or is to be known.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ObservedNoteView {
    /// Which probe says so.
    pub probe: String,
    /// `unseen`, `remark`, `lost` (its connection) or `back`.
    pub kind: &'static str,
    /// What.
    pub text: String,
    /// What would change that.
    pub remedy: Option<String>,
    /// How much of it, where it can be counted.
    pub count: Option<u64>,
    /// When, from the replay's start, in microseconds.
    pub at_us: f64,
}

/// A setting that helps to explain.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HostView {
    /// Its name.
    pub setting: String,
    /// `allowed`: it is on; `changeable`: off, and can be turned on; `fixed`: not to be had.
    pub state: &'static str,
    /// Its value, or why there is none.
    pub value: String,
    /// Who can turn it on.
    pub remedy: Option<String>,
}

/// What was waited for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct WaitView {
    /// The type of wait event, such as `Lock`; `null`: nothing that the server names: on a processor, or in
    /// want of one.
    pub kind: Option<String>,
    /// The wait event.
    pub wait: Option<String>,
    /// How often it was met.
    pub samples: u64,
    /// Its share of all such samples.
    pub share: f64,
    /// How many waited so, on average.
    pub average: f64,
}

/// What processes of the server's own were met at.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ServerProcessView {
    /// What kind of process.
    pub backend: String,
    /// The type of wait event; `null`: none.
    pub kind: Option<String>,
    /// The wait event.
    pub wait: Option<String>,
    /// How often it was met.
    pub samples: u64,
    /// How many were met so, on average.
    pub average: f64,
}

/// What the server counted.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct CountedView {
    /// Executions.
    pub calls: u64,
    /// How often it was planned; `null` where nobody counted that.
    pub plans: Option<u64>,
    /// Planning and execution, in microseconds; execution alone where planning is not counted.
    pub total_us: f64,
    /// Planning, in microseconds; `null` where nobody counted it.
    pub plan_us: Option<f64>,
    /// Execution, in microseconds.
    pub exec_us: f64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Shared buffers found.
    pub shared_hit: u64,
    /// Shared buffers read.
    pub shared_read: u64,
    /// Blocks of temporary files, read and written.
    pub temp_blocks: u64,
    /// Reading and writing blocks, in microseconds; 0 where it is not timed.
    pub io_us: f64,
    /// Bytes of WAL; `null` where nobody counted them.
    pub wal_bytes: Option<u64>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ObservedStatementView {
    /// As in workloads and runs; `null`: all those that the role may not see.
    pub fingerprint: Option<String>,
    /// Its normal form.
    pub sql: Option<String>,
    /// What the server counted; `null` where it was met in samples only.
    pub counted: Option<CountedView>,
    /// Its share of all statements' planning and execution time; `null` where that was not counted.
    pub share: Option<f64>,
    /// In how many samples a process was met at it.
    pub samples: u64,
    /// What it was met at, the most first.
    pub waits: Vec<WaitView>,
}

/// A statement that was held up by another.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct BlockedView {
    /// What waited; `null` where it was not seen.
    pub blocked: Option<String>,
    /// What the one in its way did, or had done last; `null` where it was not seen.
    pub blocker: Option<String>,
    /// The state of that one, such as `idle in transaction`.
    pub blocker_state: String,
    /// What was waited for.
    pub wait: String,
    /// At how many looks (one a second), times the processes that waited so.
    pub looks: u64,
}

/// Locks.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct LocksView {
    /// At how many moments they were counted.
    pub looks: u64,
    /// The most at a moment.
    pub most: u64,
    /// The most that waited at a moment.
    pub most_waiting: u64,
    /// The most of one process by the fast path, which has 16 places before version 18.
    pub fast_path_most: u64,
    /// The most of one process that might have gone by the fast path and did not.
    pub past_fast_path_most: u64,
    /// The share of those that might have gone by the fast path which did; `null` where there were none.
    pub fast_path_share: Option<f64>,
}

/// The server's machine.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct MachineView {
    /// How many processors it has.
    pub processors: f64,
    /// The share of their time in which they did something.
    pub busy: f64,
    /// The share in which they waited for a disk and had nothing else to do.
    pub waiting_for_disk: f64,
    /// The share that another machine on the same host took.
    pub stolen: f64,
    /// Processor time of the server's processes for themselves, in seconds.
    pub server_user_s: f64,
    /// Processor time of the server's processes in the kernel, in seconds.
    pub server_system_s: f64,
    /// The time over which that was counted, in seconds.
    pub over_s: f64,
    /// Processor time of this program, in seconds.
    pub own_s: f64,
    /// Memory, in bytes.
    pub memory_bytes: f64,
    /// The least that was available, in bytes.
    pub memory_available_least_bytes: f64,
    /// Read from disks, in bytes.
    pub disk_read_bytes: f64,
    /// Written to disks, in bytes.
    pub disk_written_bytes: f64,
    /// Received over interfaces, in bytes; the machine's own left out.
    pub network_received_bytes: f64,
    /// Sent, in bytes.
    pub network_sent_bytes: f64,
    /// The share of the time in which something wanted a processor; `null` where the kernel does not tell.
    pub pressure_cpu: Option<f64>,
    /// The same, memory.
    pub pressure_memory: Option<f64>,
    /// The same, a disk.
    pub pressure_io: Option<f64>,
}

/// A counter that moved.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct MovedView {
    /// The server's view.
    pub source: String,
    /// Of what; empty where there is only one.
    pub object: String,
    /// Its name in the view; times are in milliseconds, as there.
    pub name: String,
    /// Whether it goes up and down; others only grow.
    pub gauge: bool,
    /// What it grew by; of a gauge, last less first.
    pub gained: f64,
    /// Its first value.
    pub first: f64,
    /// Its last.
    pub last: f64,
    /// Its least.
    pub least: f64,
    /// Its most.
    pub most: f64,
}

/// A series of the user's query.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct QueueView {
    /// The row's texts.
    pub object: String,
    /// The column.
    pub name: String,
    /// How many values.
    pub values: u64,
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Their mean.
    pub mean: f64,
}

impl WatchedView {
    /// The view of what a run has. `run` is the name to show.
    pub fn new(run: &str, info: &RunInfo, observed: &Observed) -> Self {
        let samples = observed.samples;
        let average = |count: u64| (samples > 0).then(|| count as f64 / samples as f64);
        let total_ns = observed.total_ns();
        let waits = |waits: &[Wait], of: u64| -> Vec<WaitView> {
            waits
                .iter()
                .map(|wait| WaitView {
                    kind: wait.kind.clone(),
                    wait: wait.wait.clone(),
                    samples: wait.samples,
                    share: wait.samples as f64 / of.max(1) as f64,
                    average: wait.samples as f64 / samples.max(1) as f64,
                })
                .collect()
        };
        let statement = |one: &ObservedStatement| ObservedStatementView {
            fingerprint: one.fingerprint.map(|fingerprint| fingerprint.to_string()),
            sql: one.sql.clone(),
            counted: one.counted.as_ref().map(counted),
            share: one
                .counted
                .filter(|_| total_ns > 0)
                .map(|_| one.total_ns() as f64 / total_ns as f64),
            samples: one.samples,
            waits: waits(&one.waits, one.samples),
        };
        WatchedView {
            schema: "rehearse/observe/1",
            run: run.to_owned(),
            target: info.target.address.clone(),
            server_version: info.target.server_version.clone(),
            // One that was killed did not come to write down how long it was.
            elapsed_us: match info.elapsed_ns {
                0 => observed.sampled_ns as f64 / 1e3,
                elapsed_ns => elapsed_ns as f64 / 1e3,
            },
            probes: observed
                .probes
                .iter()
                .map(|probe| ProbeView {
                    probe: probe.probe.clone(),
                    off: probe.off.clone(),
                    remedy: probe.remedy.clone(),
                    questions: probe.questions,
                    asked_us: probe.asked_ns as f64 / 1e3,
                    failures: probe.failures,
                })
                .collect(),
            notes: observed
                .notes
                .iter()
                .map(|note| ObservedNoteView {
                    probe: note.probe.clone(),
                    kind: note.state.name(),
                    text: note.text.clone(),
                    remedy: note.remedy.clone(),
                    count: note.count,
                    at_us: note.at_ns as f64 / 1e3,
                })
                .collect(),
            host: observed
                .host
                .iter()
                .map(|note| HostView {
                    setting: note.probe.clone(),
                    state: ProbeState::name(note.state),
                    value: note.text.clone(),
                    remedy: note.remedy.clone(),
                })
                .collect(),
            samples,
            samples_missed: observed.samples_missed,
            active: average(observed.active_samples),
            idle_in_transaction: average(observed.idle_in_transaction),
            waits: waits(&observed.waits, observed.active_samples),
            server_processes: observed
                .server_waits
                .iter()
                .map(|one| ServerProcessView {
                    backend: one.backend.clone(),
                    kind: one.kind.clone(),
                    wait: one.wait.clone(),
                    samples: one.samples,
                    average: one.samples as f64 / samples.max(1) as f64,
                })
                .collect(),
            totals: counted(&observed.totals),
            statements: observed
                .statements
                .iter()
                .take(STATEMENTS_MAX)
                .map(statement)
                .collect(),
            statements_left_out: observed.statements.len().saturating_sub(STATEMENTS_MAX) as u64,
            blocking: observed
                .blocking
                .iter()
                .map(|one| BlockedView {
                    blocked: one.blocked.clone(),
                    blocker: one.blocker.clone(),
                    blocker_state: one.blocker_state.clone(),
                    wait: one.wait.clone(),
                    looks: one.looks,
                })
                .collect(),
            locks: observed.locks.as_ref().map(|locks| {
                let (by, past) = locks.fast_path;
                LocksView {
                    looks: locks.looks,
                    most: locks.most,
                    most_waiting: locks.most_waiting,
                    fast_path_most: locks.fast_path_most,
                    past_fast_path_most: locks.past_fast_path_most,
                    fast_path_share: (by + past > 0).then(|| by as f64 / (by + past) as f64),
                }
            }),
            machine: observed.machine.as_ref().map(|machine| MachineView {
                processors: machine.processors,
                busy: machine.busy,
                waiting_for_disk: machine.waiting_for_disk,
                stolen: machine.stolen,
                server_user_s: machine.server_s.0,
                server_system_s: machine.server_s.1,
                over_s: machine.over_s,
                own_s: machine.own_s,
                memory_bytes: machine.memory,
                memory_available_least_bytes: machine.memory_available_least,
                disk_read_bytes: machine.disk_bytes.0,
                disk_written_bytes: machine.disk_bytes.1,
                network_received_bytes: machine.network_bytes.0,
                network_sent_bytes: machine.network_bytes.1,
                pressure_cpu: machine.pressure.map(|[cpu, _, _]| cpu),
                pressure_memory: machine.pressure.map(|[_, memory, _]| memory),
                pressure_io: machine.pressure.map(|[_, _, io]| io),
            }),
            counters: kept_counters(observed)
                .map(|one| MovedView {
                    source: one.source.clone(),
                    object: one.object.clone(),
                    name: one.name.clone(),
                    gauge: one.gauge,
                    gained: one.gained,
                    first: one.first,
                    last: one.last,
                    least: one.least,
                    most: one.most,
                })
                .collect(),
            counters_left_out: (observed.moved.len() - kept_counters(observed).count()) as u64,
            queue: observed
                .queue
                .iter()
                .map(|one| QueueView {
                    object: one.object.clone(),
                    name: one.name.clone(),
                    values: one.values,
                    first: one.first,
                    last: one.last,
                    least: one.least,
                    most: one.most,
                    mean: one.mean,
                })
                .collect(),
        }
    }
}

fn counted(totals: &StatementTotals) -> CountedView {
    CountedView {
        calls: totals.calls,
        plans: totals.plans,
        total_us: (totals.plan_ns.unwrap_or(0) + totals.exec_ns) as f64 / 1e3,
        plan_us: totals.plan_ns.map(|ns| ns as f64 / 1e3),
        exec_us: totals.exec_ns as f64 / 1e3,
        rows: totals.rows,
        shared_hit: totals.shared_hit,
        shared_read: totals.shared_read,
        temp_blocks: totals.temp_blocks,
        io_us: totals.io_ns as f64 / 1e3,
        wal_bytes: totals.wal_bytes,
    }
}

/// The first of each source, so that one with many objects does not crowd out the others.
fn kept_counters(observed: &Observed) -> impl Iterator<Item = &analyse::observed::Moved> {
    let mut of_source: (&str, usize) = ("", 0);
    // They are sorted by source.
    observed.moved.iter().filter(move |one| {
        if of_source.0 != one.source {
            of_source = (&one.source, 0);
        }
        of_source.1 += 1;
        of_source.1 <= COUNTERS_MAX
    })
}
