//! Evidence for the rules, grouped by statement. Each part may be unavailable, with the reason.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use run::{Facts, IndexFact, PlanFact, PlanOutcome, RelationFact};
use sql::{Fingerprint, StatementClass};
use workload::{ServerEvent, ServerEventKind, Sqlstate, StatementText};

use super::finding::Cost;
use super::history::{History, Repetition, SenderCount, SessionAccount, TransactionAccount};
use super::statement_text;
use cpu_profile::phases::{Phase, SpinLocks};
use plans::{Plan, read_plan};
use time_breakdown::observed::{CounterChange, Observed, StatementTotals, Wait};
use time_breakdown::time_model::ProcessorBreakdown;

/// Minimum number of samples of running backends for estimating shares of processor time. With 200
/// samples, a share of 5 % has an error of 3 % (1.96 √(0.05 · 0.95 / 200)).
const RUNNING_MIN: u64 = 200;

/// Number of blocks up to which a plan's cost says nothing about the blocks that it reads.
const EXCEEDED_BLOCKS: f64 = 200.0;
/// Factor by which blocks exceed the cost of a plan that cannot have read them.
const EXCEEDED_TIMES: f64 = 4.0;

/// Reason why evidence is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl Unavailable {
    /// Creates one from a reason that follows the word "because".
    pub fn because(reason: impl Into<String>) -> Self {
        Unavailable(reason.into())
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Evidence, or the reason why it is unavailable.
pub type Available<T> = Result<T, Unavailable>;

/// Source of the evidence, which determines the times used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A replay: times as clients measured them.
    Run,
    /// An observed server: times as the server counted them.
    Observation,
    /// A workload: times as captured.
    Workload,
}

impl Basis {
    /// Returns the name of the total that shares refer to.
    pub fn whole(self) -> &'static str {
        match self {
            Basis::Run => "service time of all statements (sent → done)",
            Basis::Observation => "time of all statements as the server was observed",
            Basis::Workload => "captured time of all statements",
        }
    }
}

/// Stack samples of client backends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackEvidence {
    /// Samples per second of processor time.
    pub hz: u64,
    /// Samples by phase, without waiting for clients.
    pub all: Vec<(Phase, u64)>,
    /// Samples of each statement by phase.
    pub statements: HashMap<Fingerprint, Vec<(Phase, u64)>>,
    /// Samples by the function that took a spin lock.
    pub spin_locks: SpinLocks,
}

impl StackEvidence {
    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.all.iter().map(|(_, samples)| samples).sum()
    }
}

/// Facts from a server's log other than statements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerLog {
    /// Number of temporary files and their bytes, by statement.
    pub temporary_files: HashMap<Option<Fingerprint>, (u64, u64)>,
    /// Number of ended lock waits and their time in nanoseconds, by statement.
    pub lock_waits: HashMap<Option<Fingerprint>, (u64, f64)>,
    /// Deadlocks by statement.
    pub deadlocks: HashMap<Option<Fingerprint>, u64>,
    /// Number of completed checkpoints.
    pub checkpoints: u64,
    /// Number of started checkpoints that were caused by WAL volume.
    pub checkpoints_by_wal: u64,
    /// Number of warnings that checkpoints occur too frequently.
    pub checkpoints_too_frequent: u64,
}

impl ServerLog {
    /// Adds a log line.
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

/// Inputs from which [`Evidence`] is built.
#[derive(Debug)]
pub struct EvidenceInputs {
    /// Source of the evidence.
    pub basis: Basis,
    /// Observed time, in seconds.
    pub elapsed_s: f64,
    /// Version that the server reports (`15.4`); empty if unknown.
    pub server_version: String,
    /// Texts of all statements.
    pub texts: Vec<StatementText>,
    /// Full statement for each truncated one.
    pub whole: HashMap<Fingerprint, Fingerprint>,
    /// Activity of sessions.
    pub history: Available<History>,
    /// Observations of the server.
    pub observed: Available<Observed>,
    /// Facts about the server.
    pub facts: Available<Facts>,
    /// Plans of statements.
    pub plans: Available<Vec<PlanFact>>,
    /// Stack samples.
    pub stacks: Available<StackEvidence>,
    /// Processor time of the server, if it was counted or sampled.
    pub processor: Option<ProcessorBreakdown>,
    /// Facts from the server's log.
    pub log: Available<ServerLog>,
}

/// Everything known about one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementEvidence {
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// Normalised SQL.
    pub sql: String,
    /// Statement class.
    pub class: StatementClass,
    /// Number of executions, sent or counted.
    pub calls: u64,
    /// Its part of the whole, in nanoseconds.
    pub ns: f64,
    /// Response time (due → done) in nanoseconds; only for a run.
    pub response_ns: Option<f64>,
    /// Rows returned or written, if known.
    pub rows: Option<u64>,
    /// Whether more than one session sent it; `None` if unknown.
    pub by_many_sessions: Option<bool>,
    /// Errors by code.
    pub failed: BTreeMap<Sqlstate, u64>,
    /// Repetitions in one session.
    pub repetition: Repetition,
    /// Statistics of the server.
    pub counted: Option<StatementTotals>,
    /// Wait events from samples.
    pub waits: Vec<Wait>,
    /// Plan.
    pub plan: Option<Plan>,
    /// Stack samples by phase.
    pub phases: Vec<(Phase, u64)>,
}

impl StatementEvidence {
    /// Returns the rows per call.
    pub fn rows_per_call(&self) -> Option<f64> {
        let counted = self.counted.filter(|counted| counted.calls > 0);
        let counted = counted.map(|counted| counted.rows as f64 / counted.calls as f64);
        let own = self.rows.filter(|_| self.calls > 0);
        counted.or(own.map(|rows| rows as f64 / self.calls as f64))
    }

    /// Returns the time per call, in nanoseconds.
    pub fn ns_per_call(&self) -> f64 {
        self.ns / self.calls.max(1) as f64
    }

    /// Returns the number of samples in which it waited for this type of event.
    pub fn samples_waiting(&self, kind: &str) -> u64 {
        let all = self.waits.iter();
        all.filter(|wait| wait.kind.as_deref() == Some(kind))
            .map(|wait| wait.samples)
            .sum()
    }

    /// Returns the share of its stack samples in these phases, and the number of its samples;
    /// `None` without samples.
    pub fn phase_share(&self, phases: &[Phase]) -> Option<(f64, u64)> {
        let all: u64 = self.phases.iter().map(|(_, samples)| samples).sum();
        let of = self
            .phases
            .iter()
            .filter(|(phase, _)| phases.contains(phase));
        let of: u64 = of.map(|(_, samples)| samples).sum();
        (all > 0).then(|| (of as f64 / all as f64, all))
    }

    /// Whether the server read many more blocks than its known plan can account for: the plan's cost
    /// counts a block as one or more. Then another plan ran, or triggers and constraints did.
    pub fn exceeds_its_plan(&self) -> bool {
        let (Some(plan), Some(counted)) = (&self.plan, self.counted) else {
            return false;
        };
        let blocks = (counted.shared_hit + counted.shared_read) as f64;
        let blocks = blocks / counted.calls.max(1) as f64;
        let cost = plan.root.cost;
        cost > 0.0 && blocks > EXCEEDED_BLOCKS && blocks > cost * EXCEEDED_TIMES
    }

    /// Whether it queries or writes rows, unlike transaction control, settings and the like.
    pub fn is_work(&self) -> bool {
        !matches!(
            self.class,
            StatementClass::Transaction | StatementClass::Utility | StatementClass::Ddl
        )
    }
}

/// Evidence for the rules.
#[derive(Debug)]
pub struct Evidence {
    /// Source of the evidence.
    pub basis: Basis,
    /// Observed time, in seconds.
    pub elapsed_s: f64,
    /// The server's major version.
    pub server_major: Option<u32>,
    /// Total time of all statements, to which shares refer; see [`Basis::whole`].
    pub whole_ns: f64,
    /// Response time (due → done) of all statements, in nanoseconds; only for a run.
    pub response_ns: Option<f64>,
    /// Statements by descending time.
    pub statements: Vec<StatementEvidence>,
    /// Observations of the server.
    pub observed: Available<Observed>,
    /// Whether the server counted statements (`pg_stat_statements`).
    pub counted: Available<()>,
    /// Time that a sample represents, in nanoseconds.
    pub sample_ns: Available<f64>,
    /// Facts about the server.
    pub facts: Available<Facts>,
    /// Whether there are plans.
    pub plans: Available<()>,
    /// Stack samples.
    pub stacks: Available<StackEvidence>,
    /// Processor time of the server, if it was counted or sampled.
    pub processor: Option<ProcessorBreakdown>,
    /// Facts from the server's log.
    pub log: Available<ServerLog>,
    /// Transaction statistics.
    pub transactions: Available<TransactionAccount>,
    /// Session statistics.
    pub sessions: Available<SessionAccount>,
    /// Pairs of writing statements in the order in which transactions sent them, with their counts.
    pub orders: Available<HashMap<(Fingerprint, Fingerprint), u64>>,
}

impl Evidence {
    /// Groups the inputs by statement.
    pub fn new(gathered: EvidenceInputs) -> Self {
        let EvidenceInputs {
            basis,
            mut elapsed_s,
            server_version,
            texts,
            whole,
            mut history,
            observed,
            facts,
            plans,
            stacks,
            processor,
            log,
        } = gathered;
        let counted = observed.as_ref().map_err(Clone::clone).and_then(counted);
        let sample_ns = observed.as_ref().map_err(Clone::clone).and_then(sample_ns);
        let mut statements: ByFingerprint = texts
            .into_iter()
            .map(|text| (text.fingerprint, statement_without_history(text)))
            .collect();
        if let Ok(history) = &mut history {
            history.finish();
            if elapsed_s <= 0.0 {
                elapsed_s = history.span_s();
            }
            add_history(&mut statements, history, basis);
        }
        if let Ok(observed) = &observed {
            // Time from samples is only needed if the server did not count statements.
            let each_ns = sample_ns.as_ref().ok().filter(|_| counted.is_err());
            add_observed(&mut statements, observed, &whole, basis, each_ns.copied());
        }
        if let Ok(stacks) = &stacks {
            add_phases(&mut statements, stacks);
        }
        add_plans(&mut statements, plans.iter().flatten());
        let planned = match statements.values().any(|one| one.plan.is_some()) {
            true => Ok(()),
            false => Err(Unavailable::because("no statement has a plan")),
        };
        let statements = by_descending_time(statements);
        let whole_ns = match (&history, &observed, &counted) {
            (Ok(history), _, _) => history.service_ns,
            // Statements of functions are included in the statements that called them.
            (Err(_), Ok(observed), Ok(())) => observed.total_ns() as f64,
            _ => statements.iter().map(|one| one.ns).sum(),
        };
        let response_ns = history
            .as_ref()
            .ok()
            .filter(|_| basis == Basis::Run)
            .map(|history| history.response_ns);
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
            processor,
            log,
            transactions,
            sessions,
            orders,
        }
    }

    /// Returns the share of the whole.
    pub fn share(&self, ns: f64) -> f64 {
        match self.whole_ns > 0.0 {
            true => (ns / self.whole_ns).clamp(0.0, 1.0),
            false => 0.0,
        }
    }

    /// Returns the cost of a statement, or of `ns` of it, with the proportional share of processor
    /// time.
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

    /// Returns a cost that belongs to no statement.
    pub fn cost_of(&self, ns: f64) -> Cost {
        Cost {
            ns,
            share: self.share(ns),
            cpu_share: None,
        }
    }

    /// Returns the processor share of a statement ([`ProcessorBreakdown::processor_share`]). Without stacks it is inferred from
    /// samples of running backends, of which there must be enough.
    pub fn cpu_share(&self, statement: &StatementEvidence) -> Option<f64> {
        let processor = self.processor.as_ref()?;
        if processor.samples == 0 {
            let waits = &self.observed.as_ref().ok()?.waits;
            let running = waits.iter().filter(|wait| wait.kind.is_none());
            if running.map(|wait| wait.samples).sum::<u64>() < RUNNING_MIN {
                return None;
            }
        }
        Some(processor.processor_share(statement.fingerprint))
    }

    /// Returns the evidence of a statement.
    pub fn statement(&self, fingerprint: Fingerprint) -> Option<&StatementEvidence> {
        self.statements
            .iter()
            .find(|one| one.fingerprint == fingerprint)
    }

    /// Returns a setting's value in its unit.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let facts = self.facts.as_ref().ok()?;
        let found = facts.settings.iter().find(|one| one.name == name)?;
        found.value.as_deref()
    }

    /// Returns a table by name; without a schema, the largest of that name.
    pub fn table(&self, (schema, table): &(Option<String>, String)) -> Option<&RelationFact> {
        let facts = self.facts.as_ref().ok()?;
        let found = facts.relations.iter().filter(|one| {
            one.name == *table && schema.as_ref().is_none_or(|schema| one.schema == *schema)
        });
        found.max_by_key(|one| (one.rows, one.bytes))
    }

    /// Returns the table that a statement writes, if there are facts about it.
    pub fn written_by(&self, statement: &StatementEvidence) -> Option<&RelationFact> {
        self.table(&statement_text::written_table(&statement.sql)?)
    }

    /// Returns a table's indexes; for a partitioned table, those of the partition with the most.
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

    /// Returns a counter that changed. Objects of tables are named `schema.table`.
    pub fn counter_change(&self, source: &str, object: &str, name: &str) -> Option<&CounterChange> {
        let observed = self.observed.as_ref().ok()?;
        let mut all = observed.counters.iter();
        all.find(|one| one.source == source && one.object == object && one.name == name)
    }

    /// Returns the increase of a counter; 0 if it did not change.
    pub fn increase(&self, source: &str, object: &str, name: &str) -> f64 {
        self.counter_change(source, object, name)
            .map_or(0.0, |one| one.delta)
    }
}

type ByFingerprint = HashMap<Fingerprint, StatementEvidence>;

/// Adds the totals of sessions' activity.
fn add_history(statements: &mut ByFingerprint, history: &History, basis: Basis) {
    for (fingerprint, sums) in &history.statements {
        let Some(one) = statements.get_mut(fingerprint) else {
            continue;
        };
        one.calls = sums.calls;
        one.ns = sums.service_ns;
        one.response_ns = (basis == Basis::Run).then_some(sums.response_ns);
        one.rows = sums.rows;
        one.by_many_sessions = Some(sums.sessions == SenderCount::More);
        one.failed = sums.failed.clone();
        one.repetition = sums.repetition;
    }
}

/// Adds the server's statistics and wait events. For an observed server they also give calls and times:
/// from the statistics, or from samples of `each_ns`.
fn add_observed(
    statements: &mut ByFingerprint,
    observed: &Observed,
    whole: &HashMap<Fingerprint, Fingerprint>,
    basis: Basis,
    each_ns: Option<f64>,
) {
    for seen in &observed.statements {
        let Some(fingerprint) = seen.fingerprint else {
            continue;
        };
        let fingerprint = whole.get(&fingerprint).copied().unwrap_or(fingerprint);
        let Some(one) = statements.get_mut(&fingerprint) else {
            continue;
        };
        if seen.counted.is_some() {
            one.counted = seen.counted;
        }
        one.waits.extend(seen.waits.iter().cloned());
        if basis != Basis::Observation {
            continue;
        }
        match (&one.counted, each_ns) {
            (Some(counted), _) => {
                one.calls = counted.calls;
                one.ns = (counted.exec_ns + counted.plan_ns.unwrap_or(0)) as f64;
                one.rows = Some(counted.rows);
            }
            (None, Some(each_ns)) => one.ns += each_ns * seen.samples as f64,
            (None, None) => {}
        }
    }
}

/// Adds stack samples by phase.
fn add_phases(statements: &mut ByFingerprint, stacks: &StackEvidence) {
    for (fingerprint, phases) in &stacks.statements {
        if let Some(one) = statements.get_mut(fingerprint) {
            one.phases.clone_from(phases);
        }
    }
}

/// Adds the plans that can be read.
fn add_plans<'p>(statements: &mut ByFingerprint, plans: impl Iterator<Item = &'p PlanFact>) {
    for plan in plans {
        if let (Some(one), PlanOutcome::Planned(text)) =
            (statements.get_mut(&plan.fingerprint), &plan.outcome)
        {
            one.plan = read_plan(text).ok();
        }
    }
}

/// Returns the statements with any activity, by descending time.
fn by_descending_time(statements: ByFingerprint) -> Vec<StatementEvidence> {
    let mut statements: Vec<StatementEvidence> = statements
        .into_values()
        .filter(|one| one.calls > 0 || one.counted.is_some() || !one.waits.is_empty())
        .collect();
    statements.sort_by(|a, b| {
        let most = b.ns.total_cmp(&a.ns);
        most.then(b.calls.cmp(&a.calls))
            .then(a.fingerprint.cmp(&b.fingerprint))
    });
    statements
}

fn counted(observed: &Observed) -> Available<()> {
    if observed.statements.iter().any(|one| one.counted.is_some()) {
        return Ok(());
    }
    let probe = observed.probes.iter().find(|one| one.probe == "statements");
    let off = probe.and_then(|probe| Some((probe.disabled_reason.as_ref()?, &probe.remedy)));
    Err(Unavailable::because(match off {
        Some((why, remedy)) => {
            let remedy = remedy
                .as_ref()
                .map(|remedy| format!("; to change that: {remedy}"));
            let remedy = remedy.unwrap_or_default();
            format!("the server's statistics of statements were not read: {why}{remedy}")
        }
        None => "the server's statistics of statements counted nothing".to_owned(),
    }))
}

fn sample_ns(observed: &Observed) -> Available<f64> {
    match observed.samples {
        0 => Err(Unavailable::because(
            "the server's activity was not sampled",
        )),
        samples => Ok(observed.sampled_ns as f64 / samples as f64),
    }
}

fn statement_without_history(text: StatementText) -> StatementEvidence {
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
