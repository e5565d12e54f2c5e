//! One run of a proof: a replay with warm caches, and the resources it used.

use std::sync::Arc;

use connect::login::{Login, QueryConnection};
use cpu_profile::CpuUsage;
use observe::{Monitor, MonitorOptions, MonitorScope};
use plans::{PlanShape, read_plan};
use replay::{Metrics, Observer, Options, Snapshot};
use run::{ArchiveError, MachineLoad, PlanFact, PlanOutcome, RunReader, RunStatus, RunWriter};
use workload::WorkloadReader;

use super::load_probe::probe_load_s;
use super::numbers::{ProofNumbers, RelationSize, StatementShape, Sums};
use super::table_counters::{TableCounters, read_settled};
use crate::cache_warming::{open_own_connection, own_login, warm_caches};
use crate::error::ExperimentError;
use crate::trial::{SERVER_UNSEEN, TrialContext, TrialReplay};

/// Limit of tables and indexes whose sizes are kept.
const SIZES_MAX: usize = 300;

/// Maximum number of statements whose plans are asked for.
const PLANS_MAX: usize = 100;

/// Warms caches, replays, and measures; then asks for plans if `asks_for_plans`. Returns `None` if the user interrupted it.
pub(super) fn perform(
    workload: &WorkloadReader,
    options: &Options,
    context: &TrialContext<'_>,
    asks_for_plans: bool,
) -> Result<Option<ProofNumbers>, ExperimentError> {
    let replay = TrialReplay::new(workload, options, context)?;
    let mut watch = Watch {
        login: own_login(&replay.target, &replay.session),
        replay: &replay,
        postmaster: context.postmaster,
        begun: None,
        ended: None,
        sizes: Vec::new(),
        asks_for_plans,
        plans: Vec::new(),
        statistics: None,
    };
    let opened = watch.connect().map(|mut questions| {
        let warmed = warm_caches(&mut questions, context.is_private());
        (warmed, replay.postmaster(&mut questions, &watch.login))
    });
    let warmed = opened.and_then(|(warmed, postmaster)| {
        watch.postmaster = postmaster;
        warmed
    });
    let probe_before_s = probe_load_s();
    let info = replay.run(&mut watch)?;
    let probe_after_s = probe_load_s();
    if info.status == RunStatus::Stopped {
        return match &info.given_up {
            Some(why) => Err(ExperimentError::Failed(format!(
                "the replay gave the target up: {why}"
            ))),
            None => Ok(None),
        };
    }
    if info.done == 0 {
        return Err(ExperimentError::Failed(format!(
            "the target did none of the {} statements ({} failed, {} connections could not be opened); see `rehearse show {}`",
            info.statements,
            info.failed.values().sum::<u64>(),
            info.connections_failed.values().sum::<u64>(),
            context.run.display()
        )));
    }
    let run = RunReader::open(context.run)?;
    let classes = run.statements()?.map(|text| {
        let text = text?;
        Ok::<_, ArchiveError>((text.fingerprint, text.class))
    });
    let mut sums = Sums::new(classes.collect::<Result<_, _>>()?);
    for execution in run.executions()? {
        sums.take(&execution?);
    }
    let mut numbers = sums.finish(&info);
    numbers.machine = watch.machine_load();
    numbers.sizes = watch.sizes;
    numbers.plans = watch.plans;
    numbers.load_probes_s = Some((probe_before_s, probe_after_s));
    if let (Some(begun), Some(ended)) = (&watch.begun, &watch.ended) {
        add_usage(&mut numbers, begun, ended);
    }
    if let Err(error) = warmed {
        numbers.missing.insert("warming".to_owned(), error);
    }
    Ok(Some(numbers))
}

/// Adds the resources used between two readings.
fn add_usage(numbers: &mut ProofNumbers, begun: &Reading, ended: &Reading) {
    let seconds =
        |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?) as f64 / 1e6);
    let mut missing = |what: &str, why: &str| {
        numbers.missing.insert(what.to_owned(), why.to_owned());
    };
    numbers.server_cpu_s = seconds(begun.used.server_us, ended.used.server_us);
    numbers.client_cpu_s = seconds(begun.used.client_us, ended.used.client_us);
    if numbers.server_cpu_s.is_none() {
        missing("cpu", SERVER_UNSEEN);
    }
    match (&begun.tables, &ended.tables) {
        (Ok(before), Ok(now)) => {
            numbers.blocks = Some(now.blocks.saturating_sub(before.blocks));
            numbers.updates = Some(now.updates.saturating_sub(before.updates));
            numbers.hot_updates = Some(now.hot.saturating_sub(before.hot));
            let temporary = now.temporary_bytes.saturating_sub(before.temporary_bytes);
            numbers.temporary_bytes = Some(temporary);
        }
        (Err(why), _) | (_, Err(why)) => missing("blocks", why),
    }
    match (&begun.wal_bytes, &ended.wal_bytes) {
        (Ok(before), Ok(now)) => numbers.wal_bytes = Some(now.saturating_sub(*before)),
        (Err(why), _) | (_, Err(why)) => missing("wal", why),
    }
}

/// Returns the shapes of the plans that could be read.
fn shapes(plans: &[PlanFact]) -> Vec<StatementShape> {
    let planned = plans.iter().filter_map(|plan| match &plan.outcome {
        PlanOutcome::Planned(text) => Some((plan, read_plan(text).ok()?.shape())),
        PlanOutcome::Refused { .. } | PlanOutcome::Unasked(_) => None,
    });
    let planned: Vec<_> = planned.collect();
    let all_ns: u64 = planned.iter().map(|(plan, _)| plan.service_ns).sum();
    let shape = |(plan, shape): (&PlanFact, PlanShape)| StatementShape {
        fingerprint: plan.fingerprint.to_string(),
        shape: shape.to_string(),
        share: plan.service_ns as f64 / all_ns.max(1) as f64,
    };
    planned.into_iter().map(shape).collect()
}

/// Readings of counters at one time.
struct Reading {
    used: CpuUsage,
    /// WAL written since the cluster was created.
    wal_bytes: Result<u64, String>,
    tables: Result<TableCounters, String>,
}

/// Reads counters before the first connection and after the last.
struct Watch<'a> {
    replay: &'a TrialReplay<'a>,
    /// Login of this program's own connections.
    login: Login,
    postmaster: Option<i32>,
    begun: Option<Reading>,
    ended: Option<Reading>,
    sizes: Vec<RelationSize>,
    asks_for_plans: bool,
    plans: Vec<StatementShape>,
    /// Reads statement statistics before and after, and once a minute.
    statistics: Option<Monitor>,
}

impl Watch<'_> {
    fn connect(&self) -> Result<QueryConnection<'_>, String> {
        open_own_connection(&self.replay.dialer, &self.login)
    }

    /// Returns the load of the machine between the readings.
    fn machine_load(&self) -> Option<MachineLoad> {
        let (begun, ended) = (self.begun.as_ref()?, self.ended.as_ref()?);
        ended.used.load_since(&begun.used)
    }

    fn tables(&self) -> Result<TableCounters, String> {
        read_settled(&mut self.connect()?)
    }

    fn wal_bytes(&self) -> Result<u64, String> {
        // Names are qualified, since the replayed roles may have created functions that fit better.
        let question =
            "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')";
        let rows = self.connect()?.query(question);
        let rows = rows.map_err(|error| error.to_string())?;
        let found = rows.first().and_then(|row| row.first()?.as_deref());
        let bytes = found.and_then(|text| text.parse().ok());
        bytes.ok_or_else(|| "the server gave no answer".to_owned())
    }

    fn sizes(&self) -> Option<Vec<RelationSize>> {
        let question = format!(
            "SELECT c.oid::regclass::text, relkind = 'i', pg_catalog.pg_table_size(c.oid) \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace \
             WHERE relkind IN ('r', 'm', 'i') AND relpersistence <> 't' \
             AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
             ORDER BY 3 DESC, 1 LIMIT {SIZES_MAX}"
        );
        let rows = self.connect().ok()?.query(&question).ok()?;
        let size = |row: &Vec<Option<String>>| {
            Some(RelationSize {
                name: row.first()?.clone()?,
                is_index: row.get(1)?.as_deref()? == "t",
                bytes: row.get(2)?.as_deref()?.parse().ok()?,
            })
        };
        Some(rows.iter().filter_map(size).collect())
    }
}

impl Observer for Watch<'_> {
    fn before_start(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        if self.asks_for_plans {
            run.sum_up_service_times();
        }
        self.replay.write_facts(run)?;
        let options = MonitorOptions {
            scope: MonitorScope::Statistics,
            ..MonitorOptions::default()
        };
        let (target, clock) = (&self.replay.target, self.replay.context.clock);
        let logins = [self.login.clone(), self.replay.session.clone()];
        let monitor = Monitor::begin(target, &logins, &options, clock, run.observed()?);
        self.statistics = Some(monitor);
        // By then the backend that warmed the caches has reported its counts.
        let tables = self.tables();
        self.begun = Some(Reading {
            used: CpuUsage::now(self.postmaster),
            wal_bytes: self.wal_bytes(),
            tables,
        });
        Ok(())
    }

    fn before_finish(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        // Counters of tables are read last, so that waiting for them to settle is not charged to the workload.
        self.ended = Some(Reading {
            used: CpuUsage::now(self.postmaster),
            wal_bytes: self.wal_bytes(),
            tables: self.tables(),
        });
        if let Some(statistics) = self.statistics.take() {
            run.take_observed(statistics.end()?)?;
        }
        if let Some(load) = self.machine_load() {
            run.machine_load(load);
        }
        self.sizes = self.sizes().unwrap_or_default();
        if self.asks_for_plans && !(self.replay.context.stop)() {
            let plans = self.replay.collect_plans(run, PLANS_MAX)?;
            run.plans(&plans)?;
            self.plans = shapes(&plans);
        }
        Ok(())
    }

    fn on_metrics(&mut self, metrics: &Arc<Metrics>) {
        if let Some(statistics) = &self.statistics {
            let metrics = metrics.clone();
            statistics.start(Arc::new(move || metrics.now_ns()));
        }
    }

    fn on_progress(&mut self, _: &Snapshot) {}

    fn should_stop(&mut self) -> bool {
        (self.replay.context.stop)()
    }
}
