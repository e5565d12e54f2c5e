//! All that rules may look at, put together by statement. Each part may be missing, with the reason.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use run::{Facts, IndexFact, PlanFact, PlanOutcome, RelationFact};
use sql::{Fingerprint, StatementClass};
use workload::{ServerEvent, ServerEventKind, Sqlstate, StatementText};

use super::finding::Cost;
use super::history::{History, Repetition, SessionAccount, Sessions, TransactionAccount};
use super::statement_text;
use cpu_profile::phases::{Phase, SpinLocks};
use plans::{Plan, read_plan};
use time_breakdown::observed::{CounterChange, Observed, StatementTotals, Wait};

/// Fewer samples of backends that were not waiting do not tell how processor time is shared: of 200, a share of
/// 5 % is known to 3 % (1.96 √(0.05 · 0.95 / 200)).
const RUNNING_MIN: u64 = 200;

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub String);

impl Missing {
    /// Of a reason: `because …`.
    pub fn because(reason: impl Into<String>) -> Self {
        Missing(reason.into())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something, or why it is not known.
pub type Have<T> = Result<T, Missing>;

/// What the evidence is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A replay: times as clients saw them.
    Run,
    /// A server that was watched: times as it counted them.
    Observation,
    /// A workload: times as they were captured.
    Workload,
}

impl Basis {
    /// What the whole is made of, in words.
    pub fn whole(self) -> &'static str {
        match self {
            Basis::Run => "service time of all statements (sent → done)",
            Basis::Observation => "time of all statements as the server was observed",
            Basis::Workload => "captured time of all statements",
        }
    }
}

/// What stacks say, in samples of clients' backends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackEvidence {
    /// Samples a second of processor time.
    pub hz: u64,
    /// By phase, waiting for clients left out.
    pub all: Vec<(Phase, u64)>,
    /// Of each statement by phase.
    pub statements: HashMap<Fingerprint, Vec<(Phase, u64)>>,
    /// By the function that took a spin lock.
    pub spin_locks: SpinLocks,
}

impl StackEvidence {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.all.iter().map(|(_, samples)| samples).sum()
    }
}

/// What a server's log said beside statements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerLog {
    /// Temporary files by statement: how many, and their bytes.
    pub temporary_files: HashMap<Option<Fingerprint>, (u64, u64)>,
    /// Ended waits for locks by statement: how many, and how long in nanoseconds.
    pub lock_waits: HashMap<Option<Fingerprint>, (u64, f64)>,
    /// Deadlocks by statement.
    pub deadlocks: HashMap<Option<Fingerprint>, u64>,
    /// Checkpoints that were complete.
    pub checkpoints: u64,
    /// Of those that began, how many for too much WAL.
    pub checkpoints_by_wal: u64,
    /// Times that the server complained that they follow each other too fast.
    pub checkpoints_too_frequent: u64,
}

impl ServerLog {
    /// Takes a line.
    pub fn add(&mut self, event: &ServerEvent, fingerprint: Option<Fingerprint>) {
        match event.kind {
            ServerEventKind::TemporaryFile => {
                let one = self.temporary_files.entry(fingerprint).or_default();
                one.0 += 1;
                one.1 += event.bytes.unwrap_or(0);
            }
            ServerEventKind::LockAcquired | ServerEventKind::LockFailed => {
                let one = self.lock_waits.entry(fingerprint).or_default();
                one.0 += 1;
                one.1 += event.duration_us.unwrap_or(0) as f64 * 1e3;
            }
            ServerEventKind::Deadlock => *self.deadlocks.entry(fingerprint).or_default() += 1,
            ServerEventKind::Checkpoint => self.checkpoints += 1,
            ServerEventKind::CheckpointStarting => {
                let cause = event.subject.as_deref().unwrap_or_default();
                let by_wal = cause.split(' ').any(|word| word == "wal" || word == "xlog");
                self.checkpoints_by_wal += u64::from(by_wal);
            }
            ServerEventKind::CheckpointsTooFrequent => self.checkpoints_too_frequent += 1,
            _ => {}
        }
    }
}

/// What was read, before it is put together.
#[derive(Debug)]
pub struct Gathered {
    /// Of what.
    pub basis: Basis,
    /// How long it went on, in seconds.
    pub elapsed_s: f64,
    /// As the server reports it (`15.4`); empty where it is not known.
    pub server_version: String,
    /// All statements.
    pub texts: Vec<StatementText>,
    /// Which statement one is of which the server gave only the beginning.
    pub whole: HashMap<Fingerprint, Fingerprint>,
    /// What sessions did.
    pub history: Have<History>,
    /// What was seen of the server.
    pub observed: Have<Observed>,
    /// What it is.
    pub facts: Have<Facts>,
    /// How it would carry statements out.
    pub plans: Have<Vec<PlanFact>>,
    /// What its processors did.
    pub stacks: Have<StackEvidence>,
    /// What it wrote into its log.
    pub log: Have<ServerLog>,
}

/// One statement, as far as anybody knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementEvidence {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normal form.
    pub sql: String,
    /// What kind it is of.
    pub class: StatementClass,
    /// How often it was sent or counted.
    pub calls: u64,
    /// Its part of the whole, in nanoseconds.
    pub ns: f64,
    /// Due → done, in nanoseconds; of a run.
    pub response_ns: Option<f64>,
    /// Rows that came or were written, where that is known.
    pub rows: Option<u64>,
    /// More than one session sent it; `None` where nobody knows.
    pub by_many_sessions: Option<bool>,
    /// Errors.
    pub failed: BTreeMap<Sqlstate, u64>,
    /// How often it was sent again and again.
    pub repetition: Repetition,
    /// What the server counted.
    pub counted: Option<StatementTotals>,
    /// What samples met it at.
    pub waits: Vec<Wait>,
    /// Its plan.
    pub plan: Option<Plan>,
    /// Its stacks, by phase.
    pub phases: Vec<(Phase, u64)>,
}

impl StatementEvidence {
    /// Rows a call.
    pub fn rows_per_call(&self) -> Option<f64> {
        let counted = self.counted.filter(|counted| counted.calls > 0);
        let counted = counted.map(|counted| counted.rows as f64 / counted.calls as f64);
        let own = self.rows.filter(|_| self.calls > 0);
        counted.or(own.map(|rows| rows as f64 / self.calls as f64))
    }

    /// Time a call, in nanoseconds.
    pub fn ns_per_call(&self) -> f64 {
        self.ns / self.calls.max(1) as f64
    }

    /// In how many samples it was met waiting for this type.
    pub fn samples_waiting(&self, kind: &str) -> u64 {
        let all = self.waits.iter();
        all.filter(|wait| wait.kind.as_deref() == Some(kind))
            .map(|wait| wait.samples)
            .sum()
    }

    /// The share of its stacks in this phase, and how many stacks it has; `None` without any.
    pub fn phase_share(&self, phases: &[Phase]) -> Option<(f64, u64)> {
        let all: u64 = self.phases.iter().map(|(_, samples)| samples).sum();
        let of = self
            .phases
            .iter()
            .filter(|(phase, _)| phases.contains(phase));
        let of: u64 = of.map(|(_, samples)| samples).sum();
        (all > 0).then(|| (of as f64 / all as f64, all))
    }

    /// Whether it asks, changes or adds rows: not a beginning or end of a transaction, a setting and the like.
    pub fn is_work(&self) -> bool {
        !matches!(
            self.class,
            StatementClass::Transaction | StatementClass::Utility | StatementClass::Ddl
        )
    }
}

/// All that rules may look at.
#[derive(Debug)]
pub struct Evidence {
    /// Of what.
    pub basis: Basis,
    /// How long it went on, in seconds.
    pub elapsed_s: f64,
    /// The server's major version.
    pub server_major: Option<u32>,
    /// All statements' time, of which shares are: see [`Basis::whole`].
    pub whole_ns: f64,
    /// Due → done of all statements, in nanoseconds; of a run.
    pub response_ns: Option<f64>,
    /// Statements, the most time first.
    pub statements: Vec<StatementEvidence>,
    /// What was seen of the server.
    pub observed: Have<Observed>,
    /// Whether the server counted statements (`pg_stat_statements`).
    pub counted: Have<()>,
    /// The time that a sample stands for, in nanoseconds.
    pub sample_ns: Have<f64>,
    /// What it is.
    pub facts: Have<Facts>,
    /// Whether there are plans.
    pub plans: Have<()>,
    /// What its processors did.
    pub stacks: Have<StackEvidence>,
    /// What it wrote into its log.
    pub log: Have<ServerLog>,
    /// What transactions did.
    pub transactions: Have<TransactionAccount>,
    /// Who came and went.
    pub sessions: Have<SessionAccount>,
    /// Pairs of statements that write, in the order in which transactions sent them.
    pub orders: Have<HashMap<(Fingerprint, Fingerprint), u64>>,
}

impl Evidence {
    /// Puts it together.
    pub fn new(gathered: Gathered) -> Self {
        let Gathered {
            basis,
            elapsed_s,
            server_version,
            texts,
            whole,
            history,
            observed,
            facts,
            plans,
            stacks,
            log,
        } = gathered;
        let counted = observed.as_ref().map_err(Clone::clone).and_then(counted);
        let sample_ns = observed.as_ref().map_err(Clone::clone).and_then(sample_ns);
        let mut by_fingerprint: HashMap<Fingerprint, StatementEvidence> = texts
            .into_iter()
            .map(|text| (text.fingerprint, unseen(text)))
            .collect();
        let mut history = history;
        let mut response_ns = None;
        let mut elapsed_s = elapsed_s;
        if let Ok(history) = &mut history {
            history.finish();
            if elapsed_s <= 0.0 {
                elapsed_s = history.span_s();
            }
            if basis == Basis::Run {
                response_ns = Some(history.response_ns);
            }
            for (fingerprint, sums) in &history.statements {
                let Some(one) = by_fingerprint.get_mut(fingerprint) else {
                    continue;
                };
                one.calls = sums.calls;
                one.ns = sums.service_ns;
                one.response_ns = (basis == Basis::Run).then_some(sums.response_ns);
                one.rows = sums.rows;
                one.by_many_sessions = Some(sums.sessions == Sessions::More);
                one.failed = sums.failed.clone();
                one.repetition = sums.repetition;
            }
        }
        if let Ok(observed) = &observed {
            for seen in &observed.statements {
                let Some(fingerprint) = seen.fingerprint else {
                    continue;
                };
                let fingerprint = whole.get(&fingerprint).copied().unwrap_or(fingerprint);
                let Some(one) = by_fingerprint.get_mut(&fingerprint) else {
                    continue;
                };
                if seen.counted.is_some() {
                    one.counted = seen.counted;
                }
                one.waits.extend(seen.waits.iter().cloned());
                if basis == Basis::Observation {
                    match (&one.counted, &sample_ns) {
                        (Some(counted), _) => {
                            one.calls = counted.calls;
                            one.ns = (counted.exec_ns + counted.plan_ns.unwrap_or(0)) as f64;
                            one.rows = Some(counted.rows);
                        }
                        (None, Ok(each_ns)) if counted.is_err() => {
                            one.ns += each_ns * seen.samples as f64;
                        }
                        _ => {}
                    }
                }
            }
        }
        if let Ok(stacks) = &stacks {
            for (fingerprint, phases) in &stacks.statements {
                if let Some(one) = by_fingerprint.get_mut(fingerprint) {
                    one.phases.clone_from(phases);
                }
            }
        }
        for plan in plans.iter().flatten() {
            if let (Some(one), PlanOutcome::Planned(text)) =
                (by_fingerprint.get_mut(&plan.fingerprint), &plan.outcome)
            {
                one.plan = read_plan(text).ok();
            }
        }
        let planned = match by_fingerprint.values().any(|one| one.plan.is_some()) {
            true => Ok(()),
            false => Err(Missing::because("no statement has a plan")),
        };
        let mut statements: Vec<StatementEvidence> = by_fingerprint
            .into_values()
            .filter(|one| one.calls > 0 || one.counted.is_some() || !one.waits.is_empty())
            .collect();
        statements.sort_by(|a, b| {
            let most = b.ns.total_cmp(&a.ns);
            most.then(b.calls.cmp(&a.calls))
                .then(a.fingerprint.cmp(&b.fingerprint))
        });
        let whole_ns = match (&history, &observed, &counted) {
            (Ok(history), _, _) => history.service_ns,
            // What functions sent is within what called them.
            (Err(_), Ok(observed), Ok(())) => observed.total_ns() as f64,
            _ => statements.iter().map(|one| one.ns).sum(),
        };
        let (transactions, sessions, orders) = match history {
            Ok(history) => (
                Ok(history.transactions),
                Ok(history.sessions),
                Ok(history.orders),
            ),
            Err(missing) => (Err(missing.clone()), Err(missing.clone()), Err(missing)),
        };
        Evidence {
            basis,
            elapsed_s,
            server_major: major(&server_version),
            whole_ns,
            response_ns,
            statements,
            observed,
            counted,
            sample_ns,
            facts,
            plans: plans.and(planned),
            stacks,
            log,
            transactions,
            sessions,
            orders,
        }
    }

    /// What of the whole so much is.
    pub fn share(&self, ns: f64) -> f64 {
        match self.whole_ns > 0.0 {
            true => (ns / self.whole_ns).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// A cost, of a statement or a part of it; of the processor's time the same part.
    pub fn cost(&self, statement: &StatementEvidence, ns: f64) -> Cost {
        let part = if statement.ns > 0.0 {
            ns / statement.ns
        } else {
            0.0
        };
        Cost {
            ns,
            share: self.share(ns),
            cpu_share: self.cpu_share(statement).map(|share| share * part.min(1.0)),
        }
    }

    /// A cost that is no statement's.
    pub fn cost_of(&self, ns: f64) -> Cost {
        Cost {
            ns,
            share: self.share(ns),
            cpu_share: None,
        }
    }

    /// The share of the processor's time that a statement has: by stacks, else by samples that met it not
    /// waiting.
    pub fn cpu_share(&self, statement: &StatementEvidence) -> Option<f64> {
        if let Ok(stacks) = &self.stacks {
            let own: u64 = statement.phases.iter().map(|(_, samples)| samples).sum();
            let all = stacks.samples();
            return (all > 0).then(|| own as f64 / all as f64);
        }
        let observed = self.observed.as_ref().ok()?;
        let running = |waits: &[Wait]| -> u64 {
            let all = waits.iter().filter(|wait| wait.kind.is_none());
            all.map(|wait| wait.samples).sum()
        };
        let all = running(&observed.waits);
        (all >= RUNNING_MIN).then(|| running(&statement.waits) as f64 / all as f64)
    }

    /// A statement.
    pub fn statement(&self, fingerprint: Fingerprint) -> Option<&StatementEvidence> {
        self.statements
            .iter()
            .find(|one| one.fingerprint == fingerprint)
    }

    /// A setting's value, in its unit.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let facts = self.facts.as_ref().ok()?;
        let found = facts.settings.iter().find(|one| one.name == name)?;
        found.value.as_deref()
    }

    /// A table by its name; of several schemas the largest.
    pub fn table(&self, (schema, table): &(Option<String>, String)) -> Option<&RelationFact> {
        let facts = self.facts.as_ref().ok()?;
        let found = facts.relations.iter().filter(|one| {
            one.name == *table && schema.as_ref().is_none_or(|schema| one.schema == *schema)
        });
        found.max_by_key(|one| (one.rows, one.bytes))
    }

    /// The table that a statement writes, and where there are facts.
    pub fn written_by(&self, statement: &StatementEvidence) -> Option<&RelationFact> {
        self.table(&statement_text::written(&statement.sql)?)
    }

    /// A table's indexes; of a partitioned one those of the partition that has the most.
    pub fn indexes(&self, table: &RelationFact) -> Vec<&IndexFact> {
        let Ok(facts) = &self.facts else {
            return Vec::new();
        };
        let of = |table: &RelationFact| -> Vec<&IndexFact> {
            let all = facts.indexes.iter();
            all.filter(|index| {
                index.database == table.database
                    && index.schema == table.schema
                    && index.table == table.name
            })
            .collect()
        };
        let name = format!("{}.{}", table.schema, table.name);
        let partitions = facts
            .relations
            .iter()
            .filter(|one| one.partition_of.as_ref() == Some(&name));
        let own = of(table);
        partitions.map(of).fold(
            own,
            |most, one| {
                if one.len() > most.len() { one } else { most }
            },
        )
    }

    /// A counter that moved; those of a table as `schema.table`.
    pub fn moved(&self, source: &str, object: &str, name: &str) -> Option<&CounterChange> {
        let observed = self.observed.as_ref().ok()?;
        let mut all = observed.counters.iter();
        all.find(|one| one.source == source && one.object == object && one.name == name)
    }

    /// What a counter gained; 0 where it did not move.
    pub fn gained(&self, source: &str, object: &str, name: &str) -> f64 {
        self.moved(source, object, name)
            .map_or(0.0, |one| one.delta)
    }
}

fn counted(observed: &Observed) -> Have<()> {
    if observed.statements.iter().any(|one| one.counted.is_some()) {
        return Ok(());
    }
    let probe = observed.probes.iter().find(|one| one.probe == "statements");
    let off = probe.and_then(|probe| probe.disabled_reason.as_ref());
    Err(Missing::because(match off {
        Some(why) => format!("the server's statistics of statements were not read: {why}"),
        None => "the server's statistics of statements counted nothing".to_owned(),
    }))
}

fn sample_ns(observed: &Observed) -> Have<f64> {
    match observed.samples {
        0 => Err(Missing::because("the server's activity was not sampled")),
        samples => Ok(observed.sampled_ns as f64 / samples as f64),
    }
}

fn unseen(text: StatementText) -> StatementEvidence {
    StatementEvidence {
        fingerprint: text.fingerprint,
        sql: text.sql,
        class: text.class,
        calls: 0,
        ns: 0.0,
        response_ns: None,
        rows: None,
        by_many_sessions: None,
        failed: BTreeMap::new(),
        repetition: Repetition::default(),
        counted: None,
        waits: Vec::new(),
        plan: None,
        phases: Vec::new(),
    }
}

fn major(version: &str) -> Option<u32> {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
