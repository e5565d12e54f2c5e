//! `rehearse lab heap`.

mod checks;
mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::Speed;
use cpu_profile::ProfileOptions;
use cpu_profile::phases::{Phase, PhaseAccount, SampleTime};
use diagnose::{Diagnosis, Thresholds, diagnose};
use lab::heap;
use lab::heap::{Backlog, BacklogPlan, Caches, Cost, IngestCounts, PatternCost, Pool, Size, Store};
use lab::{LabError, Scale};
use replay::Options;
use report::CaseReport;
use run::RunReader;
use study::proof::Change;
use study::proof::ProofReport;
use transform::Rewrite;
use workload::{WorkloadInfo, WorkloadReader};

use super::proving::ProofWanted;
use super::stage::{PROFILE_HZ, Stage};
use crate::commands::flame;
use crate::options::lab::CaseArgs;
use study::Failure;
use study::diagnosis_inputs;
use study::profile_samples::phase_account;
use study::proof::sides;
use study::rewrite_workload;
use study::target_snapshot::ObservationPlan;

/// Connections of the ingester's pool; rows of a table come to all of them.
const POOL: usize = 16;
/// Partitions, each with a consumer.
const PARTITIONS: usize = 4;
/// The batch that cured it.
const BATCH: u32 = 50;
/// How a workload is rewritten: rows wait for as long as the capture takes, since it is short.
const REWRITE: &str = "batch-inserts=50,window=10m";
/// So many times as many events are produced as can be written singly.
const MORE: f64 = 3.0;
/// Numbers of events lie so far apart from one measurement to the next.
const APART: u64 = 20_000_000;
/// Regular expressions that a backend keeps compiled (`MAX_CACHED_RES` of `regexp.c`), and a few more.
const PATTERNS: [u32; 2] = [32, 34];

/// How much of each is done.
struct Plan {
    /// Batches that are tried.
    rows: &'static [u32],
    /// Events that are captured, of each customer on average.
    captured: u64,
    /// How long a flame graph's recording is.
    profiled: Duration,
    /// How long rows are written singly while a backlog grows.
    single: Duration,
    /// How long clearing it may take.
    batched: Duration,
    /// Statements of each connection into tables of expressions.
    patterns: u32,
    /// How long the proof may take.
    within: Duration,
    blocks: u32,
    noise_runs: u32,
}

impl Plan {
    fn of(scale: Scale) -> Self {
        match scale {
            Scale::Small => Plan {
                rows: &[1, 5, 10, 50, 500],
                captured: 90,
                profiled: Duration::from_secs(3),
                single: Duration::from_secs(4),
                batched: Duration::from_secs(12),
                patterns: 12,
                within: Duration::from_secs(300),
                blocks: 3,
                noise_runs: 2,
            },
            Scale::Full => Plan {
                rows: &[1, 2, 5, 10, 20, 50, 100, 200, 500],
                captured: 500,
                profiled: Duration::from_secs(60),
                single: Duration::from_secs(120),
                batched: Duration::from_secs(600),
                patterns: 100,
                within: Duration::from_secs(7_200),
                blocks: 8,
                noise_runs: 3,
            },
        }
    }
}

/// What the processors did while rows were written.
struct Profiled {
    /// What was written meanwhile.
    ingested: IngestCounts,
    account: PhaseAccount,
    each: SampleTime,
    /// Stacks with their samples.
    folded: Vec<String>,
}

impl Profiled {
    /// The share of clients' samples in which this function is.
    fn share_within(&self, function: &str) -> f64 {
        let (mut all, mut within) = (0, 0);
        for line in &self.folded {
            let Some((stack, samples)) = line.rsplit_once(' ') else {
                continue;
            };
            let samples: u64 = samples.parse().unwrap_or(0);
            all += samples;
            if stack.split(';').any(|frame| frame == function) {
                within += samples;
            }
        }
        within as f64 / all.max(1) as f64
    }

    fn largest(&self) -> Option<Phase> {
        largest(&self.account)
    }

    /// Microseconds of processor time for each event.
    fn of_event(&self, phase: Phase) -> f64 {
        of_event(&self.account, phase, self.each, self.ingested.events)
    }
}

fn of_event(account: &PhaseAccount, phase: Phase, each: SampleTime, events: u64) -> f64 {
    account.all().samples(phase) as f64 * each.ns / 1e3 / events.max(1) as f64
}

fn largest(account: &PhaseAccount) -> Option<Phase> {
    let all = account.all().largest_first().into_iter();
    let mut working = all.filter(|(phase, _)| *phase != Phase::Idle);
    working.next().map(|(phase, _)| phase)
}

/// The phases of a replay.
type Replayed = Result<(PhaseAccount, SampleTime), String>;

/// All that was seen.
struct Seen {
    scale: Scale,
    version: String,
    store: Store,
    asked: Vec<heap::QueryResult>,
    captured: IngestCounts,
    costs: Vec<Cost>,
    patterns: Vec<PatternCost>,
    single_row_rate: f64,
    backlog: Backlog,
    /// One row a statement, and fifty.
    profiles: [Result<Profiled, String>; 2],
    /// The workload as it was captured, and rewritten.
    replays: [Replayed; 2],
    rewritten: WorkloadInfo,
    diagnosis: Diagnosis,
    proof: ProofReport,
    steps: Vec<String>,
}

/// Runs the case. Returns its folder, and what was seen.
pub fn run(args: &CaseArgs) -> Result<(PathBuf, CaseReport), Failure> {
    let scale = Scale::from(args.size);
    let plan = Plan::of(scale);
    let size = Size::of(scale);
    let mut stage = Stage::begin(heap::CASE, args)?;
    stage.step(format!(
        "An event store: {} customers with a table and {} definitions of events each. Definitions are rows of a table, and of each an index is made.",
        size.customers, size.definitions
    ))?;
    let mut client = stage.client()?;
    let store = heap::create(&mut client, size).map_err(Failure::could_not)?;
    stage.step(
        "Customers ask: how often, by how many users, and how many of these went on.".to_owned(),
    )?;
    let asked = heap::run_queries(&mut client, &store, 4).map_err(Failure::could_not)?;
    drop(client);
    let version = stage.version();
    stage.loaded()?;
    let (workload, captured) = capture(&mut stage, &store, &plan)?;

    stage.begin_again()?;
    let costs = costs(&mut stage, &store, &plan)?;
    let patterns = patterns(&mut stage, &plan)?;
    let (single_row_rate, backlog) = cleared(&mut stage, &store, &plan)?;
    let profiles = [
        profiled(&mut stage, &store, &plan, 1)?,
        profiled(&mut stage, &store, &plan, BATCH)?,
    ];
    stage.server.stop(sandbox::Stop::Immediate)?;

    stage.step("The captured workload is replayed and looked at, and diagnosed.".to_owned())?;
    let (before, _) =
        stage.replay_asked(&workload, "single-rows.run", &at_once(), looks(), none)?;
    let evidence = diagnosis_inputs::read_run_evidence(
        &RunReader::open(&before)?,
        diagnosis_inputs::QueriedFacts::default(),
    )?;
    let diagnosis = diagnose(&evidence, &Thresholds::default());
    stage.step(format!("It is rewritten ({REWRITE}), and replayed again."))?;
    let path = stage.directory.join("batches.workload");
    let rewriting: Rewrite = REWRITE.parse().map_err(Failure::could_not)?;
    let rewritten = rewrite_workload::rewrite_workload(
        &workload,
        &[rewriting],
        (&path, &[]),
        &stage.interrupt,
    )?;
    let batched = WorkloadReader::open(&path)?;
    let (after, _) = stage.replay_asked(&batched, "batches.run", &at_once(), looks(), none)?;
    let account = |path: &Path| phase_account(RunReader::open(path)?);
    let replays = [account(&before)?, account(&after)?];

    stage.step("What the diagnosis suggests is proved: by turns with single rows and with batches, each time from the same state and with caches that know nothing.".to_owned())?;
    let sides = sides::sides_of_changes(vec![Change::Rewrite(REWRITE.to_owned())])?;
    let wanted = ProofWanted {
        within: plan.within,
        noise_runs: plan.noise_runs,
        ..ProofWanted::by_processor_time("batches.proof", sides, plan.blocks)
    };
    let (stage, proof) = stage.prove(&workload, &wanted)?;
    let (directory, steps) = stage.end()?;
    let view = view::view(Seen {
        scale,
        version,
        store,
        asked,
        captured,
        costs,
        patterns,
        single_row_rate,
        backlog,
        profiles,
        replays,
        rewritten,
        diagnosis,
        proof,
        steps,
    });
    Ok((directory, view))
}

/// As fast as the server takes it: what counts is work, not times.
fn at_once() -> Options {
    Options {
        speed: Speed::Max,
        ..Options::default()
    }
}

fn looks() -> ObservationPlan {
    ObservationPlan {
        facts: true,
        plans: None,
        profile: Some(ProfileOptions {
            frequency_hz: PROFILE_HZ,
            ..ProfileOptions::default()
        }),
        watch: Some(observe::MonitorOptions::default()),
    }
}

fn none(_: &mut postgres::Client) -> Result<(), LabError> {
    Ok(())
}

/// The ingester writes single rows, and customers ask meanwhile; the server logs it.
fn capture(
    stage: &mut Stage,
    store: &Store,
    plan: &Plan,
) -> Result<(WorkloadReader, IngestCounts), Failure> {
    stage.step(format!(
        "{PARTITIONS} consumers, each of a partition, write events, one row a statement, through a pool of {POOL} connections that take turns; meanwhile customers ask. The server logs it."
    ))?;
    let connect = stage.connecting();
    let each = plan.captured * u64::from(store.size.customers) / PARTITIONS as u64;
    let captured = std::thread::scope(|scope| -> Result<IngestCounts, LabError> {
        let analyst = scope.spawn(|| -> Result<(), LabError> {
            let mut client = connect("analyst").map_err(|error| LabError::Client {
                number: 0,
                reason: error.to_string(),
            })?;
            heap::run_queries(&mut client, store, 2).map(drop)
        });
        let pool = Pool::open(&connect, POOL)?;
        let done = heap::ingest(&pool, store, store.next_event, PARTITIONS, each)?;
        analyst.join().expect("asking does not panic")?;
        Ok(done)
    });
    let captured = captured.map_err(Failure::could_not)?;
    Ok((stage.captured("events.workload")?, captured))
}

/// Processor time of an event by rows a statement, with caches cold and warm.
fn costs(stage: &mut Stage, store: &Store, plan: &Plan) -> Result<Vec<Cost>, Failure> {
    let list = plan.rows.iter().map(u32::to_string).collect::<Vec<_>>();
    stage.step(format!(
        "Statements of {} rows, with backends that have not seen their table and with such that have: what an event costs the server's processors.",
        list.join(", ")
    ))?;
    let (connect, time) = (stage.connecting(), stage.processor_time());
    let customers = store.size.customers;
    let mut costs = Vec::new();
    for caches in [Caches::Cold, Caches::Warm] {
        for &rows in plan.rows {
            let rounds = match (caches, rows) {
                (Caches::Cold, 0..=99) => 3,
                (Caches::Cold, _) => 1,
                (Caches::Warm, 0..=9) => 30,
                (Caches::Warm, 10..=99) => 8,
                (Caches::Warm, _) => 2,
            };
            let first = store.next_event + APART * (1 + costs.len() as u64);
            let measured = heap::measure_cost(
                &connect,
                &time,
                store,
                (rows, caches),
                rounds * customers,
                first,
            );
            costs.extend(measured.map_err(Failure::could_not)?);
        }
    }
    Ok(costs)
}

/// As many expressions as a backend keeps compiled, and a few more.
fn patterns(stage: &mut Stage, plan: &Plan) -> Result<Vec<PatternCost>, Failure> {
    let [fit, more] = PATTERNS;
    stage.step(format!(
        "The trap beside it: tables of {fit} and of {more} indexes, each with an expression that every row reaches."
    ))?;
    let (mut client, time) = (stage.client()?, stage.processor_time());
    let mut all = Vec::new();
    for count in PATTERNS {
        let measured = heap::measure_patterns(&mut client, &time, count, plan.patterns);
        all.extend(measured.map_err(Failure::could_not)?);
    }
    Ok(all)
}

/// A backlog that grows while rows are written singly, and what becomes of it.
fn cleared(stage: &mut Stage, store: &Store, plan: &Plan) -> Result<(f64, Backlog), Failure> {
    let pool = Pool::open(&stage.connecting(), POOL).map_err(Failure::could_not)?;
    let first = store.next_event + APART * 100;
    let time = plan.single / 3;
    let rate = heap::measure_single_row_rate(&pool, store, first, PARTITIONS, time);
    let rate = rate.map_err(Failure::could_not)?;
    stage.step(format!(
        "The consumers can write {rate:.0} single rows a second. {MORE} times as many are produced, for {} s; then they write up to {BATCH} rows of a table at once, of those that wait.",
        plan.single.as_secs()
    ))?;
    let wanted = BacklogPlan {
        partitions: PARTITIONS,
        per_s: rate * MORE,
        single: plan.single,
        batched: plan.batched,
        rows: BATCH as usize,
    };
    let done = heap::measure_backlog(&pool, store, first + APART, wanted);
    Ok((rate, done.map_err(Failure::could_not)?))
}

/// A flame graph of writing so many rows a statement: single ones by a pool that begins knowing nothing, batches by one
/// that has seen every table, as it soon has where connections stay.
fn profiled(
    stage: &mut Stage,
    store: &Store,
    plan: &Plan,
    rows: u32,
) -> Result<Result<Profiled, String>, Failure> {
    stage.step(match rows {
        1 => format!(
            "What the processors do while single rows are written, for {} s, through new connections.",
            plan.profiled.as_secs()
        ),
        rows => format!(
            "What they do while {rows} rows a statement are, for {} s, through connections that have written every table before.",
            plan.profiled.as_secs()
        ),
    })?;
    let first = store.next_event + APART * (200 + u64::from(rows));
    let connect = stage.connecting();
    let name = format!("rows-{rows}.run");
    let fresh = || Pool::open(&connect, POOL);
    let known = match rows {
        1 => None,
        _ => {
            let pool = fresh().map_err(Failure::could_not)?;
            let visited = pool.warm_caches(store, first + APART / 2);
            visited.map_err(Failure::could_not)?;
            Some(pool)
        }
    };
    let ingested = stage.profiled(&name, || {
        let pool = known.map_or_else(fresh, Ok)?;
        let how = (PARTITIONS, rows as usize);
        heap::ingest_for(&pool, store, first, how, plan.profiled)
    })?;
    let ingested = match ingested {
        Ok(ingested) => ingested.map_err(Failure::could_not)?,
        Err(why) => return Ok(Err(why)),
    };
    let run = stage.directory.join(&name);
    let (account, each) = match phase_account(RunReader::open(&run)?)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let folded = leave_flame(&run, &stage.directory, rows)?;
    Ok(Ok(Profiled {
        ingested,
        account,
        each,
        folded,
    }))
}

fn leave_flame(run: &Path, directory: &Path, rows: u32) -> Result<Vec<String>, Failure> {
    let title = format!("Processor time while {rows} rows a statement are written");
    flame::leave(run, &directory.join(format!("flame-rows-{rows}")), &title)
}
