//! Steps of the case *heap*.

use std::path::Path;
use std::time::Duration;

use clock::Speed;
use cpu_profile::ProfileOptions;
use replay::Options;
use report::CaseReport;
use run::RunReader;
use study::profile_samples::phase_account;
use study::proof::Change;
use study::target_snapshot::ObservationPlan;
use study::{Failure, rewrite_workload};
use transform::Rewrite;
use workload::WorkloadReader;

use super::measurements::{IngestProfile, Measurements, Phases};
use super::{
    BATCH, Backlog, BacklogPlan, Caches, Cost, IngestCounts, MORE, PARTITIONS, PATTERNS, POOL,
    PatternCost, Pool, REWRITE, Size, Store, create, ingest, ingest_for, measure_single_row_rate,
    run_queries, story,
};
use super::{backlog, cost, patterns};
use crate::case::Scale;
use crate::error::LabError;
use crate::stage::{PROFILE_HZ, ProofRequest, Stage, diagnose_run, side_of_change};

/// Distance between the event numbers of two measurements.
const NUMBERS_STEP: u64 = 20_000_000;

/// Extent of each measurement.
struct Plan {
    /// Rows per statement that are tried.
    rows: &'static [u32],
    /// Captured events per customer, on average.
    captured: u64,
    /// Duration of a profile.
    profiled: Duration,
    /// Duration of writing single rows while a backlog grows.
    single: Duration,
    /// Time limit of clearing the backlog.
    batched: Duration,
    /// Statements per connection into tables of expressions.
    patterns: u32,
    /// Time limit of the proof.
    proof: Duration,
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
                proof: Duration::from_secs(300),
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
                proof: Duration::from_secs(7_200),
                blocks: 8,
                noise_runs: 3,
            },
        }
    }
}

/// Runs the case.
pub(crate) fn run(mut stage: Stage, scale: Scale) -> Result<CaseReport, Failure> {
    let (plan, size, version) = (Plan::of(scale), Size::of(scale), stage.version());
    stage.step(format!(
        "An event store: {} customers with a table and {} definitions of events each. Definitions are rows of a table, and of each an index is made.",
        size.customers, size.definitions
    ))?;
    let mut client = stage.client()?;
    let store = create(&mut client, size)?;
    stage.step("Customers ask: how often, by how many users, and how many of these went on.")?;
    let asked = run_queries(&mut client, &store, 4)?;
    drop(client);
    stage.keep_loaded()?;
    let (workload, captured) = capture(&mut stage, &store, &plan)?;

    stage.restart()?;
    let costs = measure_costs(&mut stage, &store, &plan)?;
    let patterns = compare_patterns(&mut stage, &plan)?;
    let (single_row_rate, backlog) = clear_backlog(&mut stage, &store, &plan)?;
    let profiles = [
        profile(&mut stage, &store, &plan, 1)?,
        profile(&mut stage, &store, &plan, BATCH)?,
    ];
    stage.server.stop(sandbox::Stop::Immediate)?;

    stage.step("The captured workload is replayed and looked at, and diagnosed.")?;
    let before = replay(&mut stage, &workload, "single-rows.run")?;
    let diagnosis = diagnose_run(&before)?;
    stage.step(format!("It is rewritten ({REWRITE}), and replayed again."))?;
    let batched = rewrite(&stage, &workload)?;
    let after = replay(&mut stage, &batched, "batches.run")?;
    let replays = [phases(&before)?, phases(&after)?];

    stage.step("What the diagnosis suggests is proved: by turns with single rows and with batches, each time from the same state and with caches that know nothing.")?;
    let side = side_of_change(Change::Rewrite(REWRITE.to_owned()));
    let request = ProofRequest {
        time_limit: plan.proof,
        noise_runs: plan.noise_runs,
        ..ProofRequest::new("batches.proof", vec![side], plan.blocks)
    };
    let (stage, proof) = stage.prove(&workload, request)?;
    let measurements = Measurements {
        store,
        asked,
        captured,
        costs,
        patterns,
        single_row_rate,
        backlog,
        profiles,
        replays,
        rewritten: batched.info().clone(),
        diagnosis,
        proof,
    };
    Ok(CaseReport {
        done: stage.close()?,
        ..story::report(&measurements, scale, &version)
    })
}

/// Writes single rows while customers query, and captures the server's log.
fn capture(
    stage: &mut Stage,
    store: &Store,
    plan: &Plan,
) -> Result<(WorkloadReader, IngestCounts), Failure> {
    stage.step(format!(
        "{PARTITIONS} consumers, each of a partition, write events, one row a statement, through a pool of {POOL} connections that take turns; meanwhile customers ask. The server logs it."
    ))?;
    let connect = stage.connections();
    let each = plan.captured * u64::from(store.size.customers) / PARTITIONS as u64;
    let captured = std::thread::scope(|scope| -> Result<IngestCounts, LabError> {
        let analyst = scope.spawn(|| -> Result<(), LabError> {
            let mut client = connect("analyst").map_err(|error| LabError::Client {
                number: 0,
                reason: error.to_string(),
            })?;
            run_queries(&mut client, store, 2).map(drop)
        });
        let pool = Pool::open(&connect, POOL)?;
        let captured = ingest(&pool, store, store.next_event, PARTITIONS, each)?;
        analyst.join().expect("asking does not panic")?;
        Ok(captured)
    })?;
    Ok((stage.capture_log("events.workload")?, captured))
}

/// Measures the CPU time of an event by rows per statement, with cold and with warm caches.
fn measure_costs(stage: &mut Stage, store: &Store, plan: &Plan) -> Result<Vec<Cost>, Failure> {
    let list = plan.rows.iter().map(u32::to_string).collect::<Vec<_>>();
    stage.step(format!(
        "Statements of {} rows, with backends that have not seen their table and with such that have: what an event costs the server's processors.",
        list.join(", ")
    ))?;
    let (connect, time) = (stage.connections(), stage.processor_time());
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
            let first = store.next_event + NUMBERS_STEP * (1 + costs.len() as u64);
            let statements = rounds * customers;
            costs.extend(cost::measure_cost(
                &connect,
                &time,
                store,
                (rows, caches),
                statements,
                first,
            )?);
        }
    }
    Ok(costs)
}

/// Measures tables with as many expressions as a backend keeps compiled, and with a few more.
fn compare_patterns(stage: &mut Stage, plan: &Plan) -> Result<Vec<PatternCost>, Failure> {
    let [kept, exceeded] = PATTERNS;
    stage.step(format!(
        "A related trap: tables of {kept} and of {exceeded} indexes, each with an expression that every row reaches."
    ))?;
    let (mut client, time) = (stage.client()?, stage.processor_time());
    let mut all = Vec::new();
    for count in PATTERNS {
        all.extend(patterns::measure_patterns(
            &mut client,
            &time,
            count,
            plan.patterns,
        )?);
    }
    Ok(all)
}

/// Grows a backlog with single rows, and clears it with batches. Returns the rate of single rows, too.
fn clear_backlog(stage: &mut Stage, store: &Store, plan: &Plan) -> Result<(f64, Backlog), Failure> {
    let pool = Pool::open(&stage.connections(), POOL)?;
    let first = store.next_event + NUMBERS_STEP * 100;
    let rate = measure_single_row_rate(&pool, store, first, PARTITIONS, plan.single / 3)?;
    stage.step(format!(
        "The consumers can write {rate:.0} single rows a second. {MORE} times as many are produced, for {} s; then they write up to {BATCH} rows of a table at once, of those that wait.",
        plan.single.as_secs()
    ))?;
    let plan = BacklogPlan {
        partitions: PARTITIONS,
        per_s: rate * MORE,
        single: plan.single,
        batched: plan.batched,
        rows: BATCH as usize,
    };
    Ok((
        rate,
        backlog::measure_backlog(&pool, store, first + NUMBERS_STEP, plan)?,
    ))
}

/// Profiles the server while rows are written. Single rows begin with new connections, whose caches are cold. Batches
/// use connections that have accessed every table, as connections that stay open soon have.
fn profile(
    stage: &mut Stage,
    store: &Store,
    plan: &Plan,
    rows: u32,
) -> Result<Result<IngestProfile, String>, Failure> {
    let seconds = plan.profiled.as_secs();
    stage.step(match rows {
        1 => format!(
            "What the processors do while single rows are written, for {seconds} s, through new connections."
        ),
        rows => format!(
            "What they do while {rows} rows a statement are, for {seconds} s, through connections that have written every table before."
        ),
    })?;
    let first = store.next_event + NUMBERS_STEP * (200 + u64::from(rows));
    let connect = stage.connections();
    let new_pool = || Pool::open(&connect, POOL);
    let warm_pool = match rows {
        1 => None,
        _ => {
            let pool = new_pool()?;
            pool.warm_caches(store, first + NUMBERS_STEP / 2)?;
            Some(pool)
        }
    };
    let profiled = stage.profile(&format!("rows-{rows}.run"), || {
        let pool = warm_pool.map_or_else(new_pool, Ok)?;
        let load = (PARTITIONS, rows as usize);
        ingest_for(&pool, store, first, load, plan.profiled)
    })?;
    let (run, ingested) = match profiled {
        Ok((run, ingested)) => (run, ingested?),
        Err(reason) => return Ok(Err(reason)),
    };
    let phases = match phases(&run)? {
        Ok(phases) => phases,
        Err(reason) => return Ok(Err(reason)),
    };
    let title = format!("Processor time while {rows} rows a statement are written");
    let folded = stage.write_flame_graph(&run, &format!("flame-rows-{rows}"), &title)?;
    Ok(Ok(IngestProfile {
        events: ingested.events,
        phases,
        folded,
    }))
}

fn phases(run: &Path) -> Result<Result<Phases, String>, Failure> {
    let account = phase_account(RunReader::open(run)?)?;
    Ok(account.map(|(account, sample_time)| Phases {
        account,
        sample_time,
    }))
}

/// Replays at full speed, since work is measured and not time.
fn replay(
    stage: &mut Stage,
    workload: &WorkloadReader,
    name: &str,
) -> Result<std::path::PathBuf, Failure> {
    let options = Options {
        speed: Speed::Max,
        ..Options::default()
    };
    let asked = ObservationPlan {
        facts: true,
        plans: None,
        profile: Some(ProfileOptions {
            frequency_hz: PROFILE_HZ,
            ..ProfileOptions::default()
        }),
        watch: Some(observe::MonitorOptions::default()),
    };
    let (run, _) = stage.replay(workload, name, &options, asked, |_| Ok(()))?;
    Ok(run)
}

/// Rewrites the captured workload to batches.
fn rewrite(stage: &Stage, workload: &WorkloadReader) -> Result<WorkloadReader, Failure> {
    let path = stage.directory.join("batches.workload");
    let rewriting: Rewrite = REWRITE.parse().map_err(Failure::could_not)?;
    rewrite_workload::rewrite_workload(workload, &[rewriting], (&path, &[]), stage.interrupt())?;
    Ok(WorkloadReader::open(&path)?)
}
