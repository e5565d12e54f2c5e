//! What was seen of a server while it was watched, summed up: the statements by their time, what was
//! waited for, locks, counters, the machine, and what could not be seen.
//!
//! A sample that met a process is worth the stretch of time between samples: a share of the samples is a
//! share of the time, with the error of a count (a wait that was met *n* times is known to within some
//! √*n*; [Poisson](https://en.wikipedia.org/wiki/Poisson_distribution)). The statistics of statements are
//! counted, not sampled.

mod change;
mod counters;
mod statements;

use std::collections::HashMap;

use run::{
    Activity, Blocking, Counter, LockCount, ProbeNote, ProbeState, RunInfo, SampleWindow,
    SeenStatement, StatementStatistics,
};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::StatementText;

pub use change::{NumberChange, ObservedChange};
use counters::Counters;
pub use counters::{CounterChange, Machine, Pressure, QueueSeries};
use statements::Statements;
pub use statements::{ObservedStatement, StatementTotals};

/// A sum of locks over modes, as `observe` names it.
const WEAK_MODES: &str = "weak modes together";
/// What a client's process is called.
const CLIENT: &str = "client backend";
/// Helps a client's process.
const PARALLEL: &str = "parallel worker";

/// A server that was observed, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Observation {
    /// The run's name, as the user gave it.
    pub run: String,
    /// The server's address.
    pub target: String,
    /// The server's version.
    pub server_version: String,
    /// How long it was observed, or its replay took.
    pub elapsed_ns: u64,
    /// What was observed.
    #[serde(flatten)]
    pub observed: Observed,
}

impl Observation {
    /// Describes what a run observed. `run` is the name to show.
    pub fn new(run: &str, info: &RunInfo, observed: Observed) -> Self {
        Self {
            run: run.to_owned(),
            target: info.target.address.clone(),
            server_version: info.target.server_version.clone(),
            // A run that was killed has not recorded how long it was.
            elapsed_ns: match info.elapsed_ns {
                0 => observed.sampled_ns,
                elapsed_ns => elapsed_ns.unsigned_abs(),
            },
            observed,
        }
    }
}

/// What was observed of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Observed {
    /// What became of each probe.
    pub probes: Vec<ProbeOutcome>,
    /// What could not be seen, and what is to be known, in the order in which it was said.
    pub notes: Vec<ProbeNote>,
    /// What the host allows.
    pub host: Vec<ProbeNote>,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that were due and not taken.
    pub samples_missed: u64,
    /// The time that they cover, in nanoseconds.
    pub sampled_ns: u64,
    /// Clients' statements that were met in them: a sample that met three counts three.
    pub active_samples: u64,
    /// What clients' statements waited for, the most first.
    pub waits: Vec<Wait>,
    /// Sessions that held a transaction open and did nothing, as they were met in samples.
    pub idle_in_transaction: u64,
    /// What processes of the server's own were met at, the most first.
    pub server_waits: Vec<ServerWait>,
    /// Statements by planning and execution time, then by samples.
    pub statements: Vec<ObservedStatement>,
    /// All statements together.
    pub totals: StatementTotals,
    /// Who held up whom, the most first.
    pub blocking: Vec<Blocked>,
    /// Locks, where they were looked at.
    pub locks: Option<Locks>,
    /// The machine and the server's processes, where they could be read.
    pub machine: Option<Machine>,
    /// The counters that changed, by source.
    pub counters: Vec<CounterChange>,
    /// The series of the user's query.
    pub queue: Vec<QueueSeries>,
}

/// What became of a probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProbeOutcome {
    /// Name of the probe.
    pub probe: String,
    /// Why it is disabled; `null` if it is enabled.
    pub disabled_reason: Option<String>,
    /// What would enable it.
    pub remedy: Option<String>,
    /// Number of queries that it ran.
    pub queries: u64,
    /// How long these took in all, as seen from this program.
    pub query_ns: u64,
    /// Number of queries that failed.
    pub failures: u64,
}

/// A wait event of clients' statements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wait {
    /// The type of wait event, such as `Lock`; `null` if the server names none: running, or ready to run.
    #[serde(rename = "wait_event_type")]
    pub kind: Option<String>,
    /// The wait event.
    #[serde(rename = "wait_event")]
    pub wait: Option<String>,
    /// Number of samples that found it.
    pub samples: u64,
}

/// A wait event of the server's own processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerWait {
    /// Kind of the process.
    pub backend: String,
    /// The type of wait event; `null` for none.
    #[serde(rename = "wait_event_type")]
    pub kind: Option<String>,
    /// The wait event.
    #[serde(rename = "wait_event")]
    pub wait: Option<String>,
    /// Number of samples that found it.
    pub samples: u64,
}

/// A statement that was held up by another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocked {
    /// The statement that waited, normalised; `null` if it was not seen.
    pub blocked: Option<String>,
    /// The statement that the blocking session ran, or had run last; `null` if it was not seen.
    pub blocker: Option<String>,
    /// State of the blocking session, such as `idle in transaction`.
    pub blocker_state: String,
    /// What was waited for.
    pub wait: String,
    /// Number of samples (one a second), times the processes that waited so.
    pub samples: u64,
}

/// Locks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Locks {
    /// Number of moments at which they were counted.
    pub samples: u64,
    /// The most at a moment.
    pub max: u64,
    /// The most that waited at a moment.
    pub max_waiting: u64,
    /// The most of one process on the fast path, which has 16 slots before version 18.
    pub fast_path_max: u64,
    /// The most of one process that are eligible for the fast path and not on it: its slots were full.
    pub past_fast_path_max: u64,
    /// Sum over the moments of the locks on the fast path.
    pub fast_path: u64,
    /// Sum over the moments of the locks that are eligible for the fast path and not on it.
    pub past_fast_path: u64,
}

impl Observed {
    /// All statements' planning and execution time, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.totals.plan_ns.unwrap_or(0) + self.totals.exec_ns
    }
}

/// Blocked and blocker, its state, and what was waited for.
type Pair = (Option<Fingerprint>, Option<Fingerprint>, String, String);

/// Takes what was seen, table by table; the statistics of statements before the activity, since the
/// server's numbers for statements tell texts that were cut.
#[derive(Default)]
pub struct ObservedSum {
    observed: Observed,
    texts: HashMap<Fingerprint, (String, bool)>,
    statements: Statements,
    waits: HashMap<(Option<String>, Option<String>), u64>,
    server_waits: HashMap<(String, Option<String>, Option<String>), u64>,
    blocking: HashMap<Pair, u64>,
    /// The moment of the last lock, and how many there were and waited at it.
    lock_moment: Option<(i64, u64, u64)>,
    counters: Counters,
}

impl ObservedSum {
    /// What became of the probes.
    pub fn notes(&mut self, notes: Vec<ProbeNote>) {
        let probes = &mut self.observed.probes;
        for note in notes {
            match note.state {
                ProbeState::On | ProbeState::Off | ProbeState::Ended => {
                    let place = probes.iter().position(|one| one.probe == note.probe);
                    let place = place.unwrap_or_else(|| {
                        probes.push(ProbeOutcome {
                            probe: note.probe.clone(),
                            ..ProbeOutcome::default()
                        });
                        probes.len() - 1
                    });
                    let probe = &mut probes[place];
                    match note.state {
                        ProbeState::On => (probe.disabled_reason, probe.remedy) = (None, None),
                        ProbeState::Off => {
                            (probe.disabled_reason, probe.remedy) = (Some(note.text), note.remedy)
                        }
                        _ => {
                            probe.queries = note.questions.unwrap_or(0);
                            probe.query_ns = note.asked_ns.unwrap_or(0);
                            probe.failures = note.failures.unwrap_or(0);
                        }
                    }
                }
                ProbeState::Allowed | ProbeState::Changeable | ProbeState::Fixed => {
                    self.observed.host.push(note);
                }
                ProbeState::Unseen | ProbeState::Remark | ProbeState::Lost | ProbeState::Back => {
                    self.observed.notes.push(note);
                }
            }
        }
    }

    /// A statement of the workload.
    pub fn text(&mut self, text: StatementText) {
        self.texts.insert(text.fingerprint, (text.sql, false));
    }

    /// A statement that was seen.
    pub fn seen(&mut self, seen: SeenStatement) {
        let text = (seen.sql, seen.cut);
        self.texts.entry(seen.fingerprint).or_insert(text);
    }

    /// What a statement gained.
    pub fn statistics(&mut self, row: &StatementStatistics) {
        self.statements.counted(row);
    }

    /// A window of samples.
    pub fn window(&mut self, window: &SampleWindow) {
        self.observed.samples += window.samples;
        self.observed.samples_missed += window.missed;
        self.observed.sampled_ns += (window.until_ns - window.at_ns).max(0).unsigned_abs();
    }

    /// What was met in samples.
    pub fn activity(&mut self, row: &Activity) {
        let is_client = [CLIENT, PARALLEL].contains(&row.backend.as_str());
        if !is_client {
            let what = (row.backend.clone(), row.wait_type.clone(), row.wait.clone());
            *self.server_waits.entry(what).or_default() += row.count;
            return;
        }
        if row.state.starts_with("idle in transaction") {
            self.observed.idle_in_transaction += row.count;
            return;
        }
        self.observed.active_samples += row.count;
        let what = (row.wait_type.clone(), row.wait.clone());
        *self.waits.entry(what).or_default() += row.count;
        let cut = row.fingerprint.and_then(|one| self.texts.get(&one));
        let cut = cut.is_some_and(|(_, cut)| *cut);
        self.statements.met(row, cut);
    }

    /// Who held up whom.
    pub fn blocking(&mut self, row: &Blocking) {
        let pair = (
            row.blocked,
            row.blocker,
            row.blocker_state.clone(),
            row.wait.clone(),
        );
        *self.blocking.entry(pair).or_default() += row.count;
    }

    /// Locks; those of a moment one behind the other.
    pub fn locks(&mut self, row: &LockCount) {
        let locks = self.observed.locks.get_or_insert_default();
        let moment = match self.lock_moment {
            Some(moment) if moment.0 == row.at_ns => moment,
            _ => {
                locks.samples += 1;
                (row.at_ns, 0, 0)
            }
        };
        if row.mode == WEAK_MODES {
            match row.fast_path {
                true => {
                    locks.fast_path += row.locks;
                    locks.fast_path_max = locks.fast_path_max.max(row.most);
                }
                false => {
                    locks.past_fast_path += row.locks;
                    locks.past_fast_path_max = locks.past_fast_path_max.max(row.most);
                }
            }
            self.lock_moment = Some(moment);
            return;
        }
        let waiting = if row.granted { 0 } else { row.locks };
        let moment = (row.at_ns, moment.1 + row.locks, moment.2 + waiting);
        locks.max = locks.max.max(moment.1);
        locks.max_waiting = locks.max_waiting.max(moment.2);
        self.lock_moment = Some(moment);
    }

    /// A counter; those of the same name in the order of time.
    pub fn counter(&mut self, row: &Counter) {
        self.counters.add(row);
    }

    /// The sum.
    pub fn finish(self) -> Observed {
        let ObservedSum {
            mut observed,
            texts,
            statements,
            waits,
            server_waits,
            blocking,
            counters,
            ..
        } = self;
        observed.waits = waits
            .into_iter()
            .map(|((kind, wait), samples)| Wait {
                kind,
                wait,
                samples,
            })
            .collect();
        observed
            .waits
            .sort_by(|a, b| (b.samples, &a.kind, &a.wait).cmp(&(a.samples, &b.kind, &b.wait)));
        observed.server_waits = server_waits
            .into_iter()
            .map(|((backend, kind, wait), samples)| ServerWait {
                backend,
                kind,
                wait,
                samples,
            })
            .collect();
        observed.server_waits.sort_by(|a, b| {
            (b.samples, &a.backend, &a.wait).cmp(&(a.samples, &b.backend, &b.wait))
        });
        let text = |fingerprint: Option<Fingerprint>| {
            let known = fingerprint.and_then(|one| texts.get(&one));
            known.map(|(sql, _)| sql.clone())
        };
        observed.blocking = blocking
            .into_iter()
            .map(
                |((blocked, blocker, blocker_state, wait), samples)| Blocked {
                    blocked: text(blocked),
                    blocker: text(blocker),
                    blocker_state,
                    wait,
                    samples,
                },
            )
            .collect();
        observed.blocking.sort_by(|a, b| {
            (b.samples, &a.blocked, &a.blocker).cmp(&(a.samples, &b.blocked, &b.blocker))
        });
        (observed.statements, observed.totals) = statements.finish(&texts);
        (observed.machine, observed.counters, observed.queue) = counters.finish();
        observed
    }
}
