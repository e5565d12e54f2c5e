//! Summarises the observations of a server: statements by time, waits, locks, counters, the
//! machine, and what could not be observed.
//!
//! A sample of a process represents the time until the next sample, so a share of samples is a
//! share of time with the error of a count: a wait found *n* times has an error of about √*n*
//! ([Poisson](https://en.wikipedia.org/wiki/Poisson_distribution)). Statement statistics are
//! counted, not sampled.

mod change;
mod counters;
mod statements;

use std::collections::HashMap;

use run::{
    Activity, Blocking, Counter, LockCount, ProbeNote, ProbeState, RunInfo, SampleWindow,
    SampledStatement, StatementStatistics,
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

/// Sum of locks over weak modes, as `observe` names it.
const WEAK_MODES: &str = "weak modes together";
/// Backend type of a client's process.
const CLIENT: &str = "client backend";
/// Backend type of a process that helps a client's process.
const PARALLEL: &str = "parallel worker";

/// Observation of a server, and its duration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Observation {
    /// Name of the run, as the user gave it.
    pub run: String,
    /// Address of the server.
    pub target: String,
    /// Version of the server.
    pub server_version: String,
    /// Duration of the observation, or of its replay.
    pub elapsed_ns: u64,
    /// Summary of the observations.
    #[serde(flatten)]
    pub observed: Observed,
}

impl Observation {
    /// Creates the observation of a run. `run` is the name to display.
    pub fn new(run: &str, info: &RunInfo, observed: Observed) -> Self {
        Self {
            run: run.to_owned(),
            target: info.target.address.clone(),
            server_version: info.target.server_version.clone(),
            // A killed run has not recorded its duration.
            elapsed_ns: match info.elapsed_ns {
                0 => observed.sampled_ns,
                elapsed_ns => elapsed_ns.unsigned_abs(),
            },
            observed,
        }
    }
}

/// Summary of the observations of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Observed {
    /// Outcome of each probe.
    pub probes: Vec<ProbeOutcome>,
    /// Notes on what could not be observed and on what to know, in order of occurrence.
    pub notes: Vec<ProbeNote>,
    /// Notes on what the host allows.
    pub host: Vec<ProbeNote>,
    /// Number of samples taken.
    pub samples: u64,
    /// Number of samples that were due but not taken.
    pub samples_missed: u64,
    /// Time that the samples cover, in nanoseconds.
    pub sampled_ns: u64,
    /// Active statements of clients over all samples: a sample that found three counts three.
    pub active_samples: u64,
    /// Wait events of clients' statements, the most frequent first.
    pub waits: Vec<Wait>,
    /// Sessions found idle in a transaction, over all samples.
    pub idle_in_transaction: u64,
    /// Wait events of the server's own processes, the most frequent first.
    pub server_waits: Vec<ServerWait>,
    /// Statements by planning and execution time, then by samples.
    pub statements: Vec<ObservedStatement>,
    /// Totals over all statements.
    pub totals: StatementTotals,
    /// Blocking pairs, the most frequent first.
    pub blocking: Vec<Blocked>,
    /// Locks, if they were observed.
    pub locks: Option<Locks>,
    /// The machine and the server's processes, if they could be read.
    pub machine: Option<Machine>,
    /// The counters that changed, by source.
    pub counters: Vec<CounterChange>,
    /// The series of the user's query.
    pub queue: Vec<QueueSeries>,
    /// Rows that were modified since the last `ANALYZE`, at most, by table (`schema.table`).
    #[serde(skip)]
    pub stale_rows: HashMap<String, f64>,
}

/// Outcome of a probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ProbeOutcome {
    /// Name of the probe.
    pub probe: String,
    /// Reason why it is disabled; `null` if it is enabled.
    pub disabled_reason: Option<String>,
    /// Action that would enable it.
    pub remedy: Option<String>,
    /// Number of queries that it ran.
    pub queries: u64,
    /// Total time of these queries, as measured by this program.
    pub query_ns: u64,
    /// Number of queries that failed.
    pub failures: u64,
}

/// A wait event of clients' statements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wait {
    /// Type of wait event, such as `Lock`; `null` if the server reports none: running or runnable.
    #[serde(rename = "wait_event_type")]
    pub kind: Option<String>,
    /// The wait event.
    #[serde(rename = "wait_event")]
    pub wait: Option<String>,
    /// Number of samples with it.
    pub samples: u64,
}

/// A wait event of the server's own processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServerWait {
    /// Kind of the process.
    pub backend: String,
    /// Type of wait event; `null` for none.
    #[serde(rename = "wait_event_type")]
    pub kind: Option<String>,
    /// The wait event.
    #[serde(rename = "wait_event")]
    pub wait: Option<String>,
    /// Number of samples with it.
    pub samples: u64,
}

/// Statement that was blocked by another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Blocked {
    /// Statement that waited, normalised; `null` if unknown.
    pub blocked: Option<String>,
    /// Current or last statement of the blocking session; `null` if unknown.
    pub blocker: Option<String>,
    /// State of the blocking session, such as `idle in transaction`.
    pub blocker_state: String,
    /// Lock that was waited for.
    pub wait: String,
    /// Number of samples (one a second), times the processes that waited for it.
    pub samples: u64,
}

/// Locks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Locks {
    /// Number of times that they were counted.
    pub samples: u64,
    /// Maximum number at one time.
    pub max: u64,
    /// Maximum number of waiting locks at one time.
    pub max_waiting: u64,
    /// Maximum number of one process on the fast path, which has 16 slots before version 18.
    pub fast_path_max: u64,
    /// Maximum number of one process that are eligible for the fast path but not on it, because its
    /// slots were full.
    pub past_fast_path_max: u64,
    /// Sum of the fast-path locks over all counts.
    pub fast_path: u64,
    /// Sum of the locks that are eligible for the fast path but not on it, over all counts.
    pub past_fast_path: u64,
}

impl Observed {
    /// Returns the total planning and execution time of all statements, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.totals.plan_ns.unwrap_or(0) + self.totals.exec_ns
    }
}

/// Blocked and blocking statement, the blocker's state, and the lock.
type Pair = (Option<Fingerprint>, Option<Fingerprint>, String, String);

/// Sums observations table by table. Statement statistics must come before the activity, because
/// the server's query identifiers identify truncated texts.
#[derive(Default)]
pub struct ObservationSummary {
    observed: Observed,
    texts: HashMap<Fingerprint, (String, bool)>,
    statements: Statements,
    waits: HashMap<(Option<String>, Option<String>), u64>,
    server_waits: HashMap<(String, Option<String>, Option<String>), u64>,
    blocking_pairs: HashMap<Pair, u64>,
    /// Time of the last lock row, with the locks and waiting locks at that time.
    lock_moment: Option<(i64, u64, u64)>,
    counters: Counters,
}

impl ObservationSummary {
    /// Adds the outcomes of the probes.
    pub fn add_notes(&mut self, notes: Vec<ProbeNote>) {
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

    /// Adds a statement of the workload.
    pub fn add_text(&mut self, text: StatementText) {
        self.texts.insert(text.fingerprint, (text.sql, false));
    }

    /// Adds a statement that was observed.
    pub fn add_seen_statement(&mut self, seen: SampledStatement) {
        let text = (seen.sql, seen.is_truncated);
        self.texts.entry(seen.fingerprint).or_insert(text);
    }

    /// Adds statistics of a statement.
    pub fn add_statistics(&mut self, row: &StatementStatistics) {
        self.statements.add_statistics(row);
    }

    /// Adds a window of samples.
    pub fn add_window(&mut self, window: &SampleWindow) {
        self.observed.samples += window.samples;
        self.observed.samples_missed += window.missed;
        self.observed.sampled_ns += (window.until_ns - window.at_ns).max(0).unsigned_abs();
    }

    /// Adds activity from samples.
    pub fn add_activity(&mut self, row: &Activity) {
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
        self.statements.add_samples(row, cut);
    }

    /// Adds a blocking pair.
    pub fn add_blocking(&mut self, row: &Blocking) {
        let pair = (
            row.blocked,
            row.blocker,
            row.blocker_state.clone(),
            row.wait.clone(),
        );
        *self.blocking_pairs.entry(pair).or_default() += row.count;
    }

    /// Adds lock counts; those of one time must be consecutive.
    pub fn add_locks(&mut self, row: &LockCount) {
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

    /// Adds a counter; values of the same counter must come in order of time.
    pub fn add_counter(&mut self, row: &Counter) {
        self.counters.add(row);
    }

    /// Returns the summary.
    pub fn finish(self) -> Observed {
        let ObservationSummary {
            mut observed,
            texts,
            statements,
            waits,
            server_waits,
            blocking_pairs,
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
        observed.blocking = blocking_pairs
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
        observed.stale_rows = counters.stale_rows();
        (observed.machine, observed.counters, observed.queue) = counters.finish();
        observed
    }
}
