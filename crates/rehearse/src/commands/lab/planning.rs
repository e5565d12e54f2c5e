//! `rehearse lab planning`.

mod checks;
mod proved;
mod view;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use diagnose::{Diagnosis, Thresholds, diagnose};
use lab::planning;
use lab::planning::{COUNTINGS, Counting, ExtensionSamples, Headroom, PlanCounts, Protocol};
use lab::{LabError, Scale};
use replay::Target;
use report::CaseReport;
use run::RunReader;
use study::sweep::{Design, Mode, Pace, Record, Script, Setting, Variant};

use self::proved::Proved;
use super::stage::{DATABASE, Stage};
use super::sweeping::SweepWanted;
use crate::commands::{flame, observe as observing};
use crate::options::lab::CaseArgs;
use crate::options::watching::{LookArgs, Observe};
use study::Failure;
use study::diagnosis_inputs;

/// A server's own connections, and ours beside the clients'.
const CONNECTIONS_BESIDE: u32 = 20;
/// Sessions whose plans are counted one by one.
const SESSIONS: u32 = 4;
/// Reads a second of an application that is far from any cliff.
const APPLICATION_PER_S: f64 = 100.0;

/// How much of each is done.
struct Plan {
    /// Of pgbench's tables.
    scale: u32,
    clients: Vec<u32>,
    repeat: u32,
    warm_up: Duration,
    time: Duration,
    /// So many reads are recorded for a flame graph, or as many as can be done in this time.
    profiled: (u64, Duration),
    /// Reads of each session whose plans are counted.
    calls: u32,
    /// How long the application is watched.
    watched: Duration,
    proved: proved::Size,
}

impl Plan {
    fn of(scale: Scale) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        match scale {
            Scale::Small => Plan {
                scale: 1,
                clients: up_to(processors, 1),
                repeat: 1,
                warm_up: Duration::from_millis(200),
                time: Duration::from_millis(800),
                profiled: (30_000, Duration::from_secs(20)),
                calls: 1_000,
                watched: Duration::from_secs(3),
                proved: proved::Size {
                    reads: 12_000,
                    blocks: 4,
                    counting: false,
                },
            },
            // On 192 processors as was published: 1, 10, 20 … 200.
            Scale::Full => Plan {
                scale: 100,
                clients: up_to(processors, 20),
                repeat: 3,
                warm_up: Duration::from_secs(5),
                time: Duration::from_secs(30),
                profiled: (u64::MAX, Duration::from_secs(30)),
                calls: 10_000,
                watched: Duration::from_secs(60),
                proved: proved::Size {
                    reads: 400_000,
                    blocks: 6,
                    counting: true,
                },
            },
        }
    }
}

/// One client, and so many steps until there are a few more than processors, as 200 are for 192.
fn up_to(processors: u32, steps: u32) -> Vec<u32> {
    let most = (processors * 200).div_ceil(192);
    let mut all = vec![1];
    all.extend((1..=steps).map(|step| (most * step / steps).max(1)));
    all.dedup();
    all
}

/// Stacks while sessions read as fast as they can, in one way of counting.
struct Stacks {
    statistics: ExtensionSamples,
    /// Reads meanwhile.
    calls: u64,
}

/// All that was seen.
struct Seen {
    scale: Scale,
    version: String,
    /// Reads alone, and with writes.
    reads: Vec<Record>,
    writes: Vec<Record>,
    /// Plans against calls of single sessions: simple, prepared.
    counted: [PlanCounts; 2],
    /// By way of counting, as in [`COUNTINGS`].
    stacks: Vec<Result<Stacks, String>>,
    headroom: Headroom,
    diagnosis: Diagnosis,
    proved: Proved,
    steps: Vec<String>,
}

/// Runs the case. Returns its folder, and what was seen.
pub fn run(args: &CaseArgs) -> Result<(PathBuf, CaseReport), Failure> {
    let scale = Scale::from(args.size);
    let plan = Plan::of(scale);
    let mut stage = Stage::begin(planning::CASE, args)?;
    let version = stage.version();
    stage.step(format!(
        "The tables of pgbench at scale {}, in a private server.",
        plan.scale
    ))?;
    let mut client = stage.client()?;
    for sql in Script::tables(plan.scale) {
        client
            .batch_execute(&sql)
            .map_err(|error| Failure::could_not(format!("the tables cannot be made: {error}")))?;
    }
    drop(client);
    stage.loaded()?;

    let clients: Vec<String> = plan.clients.iter().map(u32::to_string).collect();
    stage.step(format!(
        "Reads of single accounts by {} clients, in three protocols: without pg_stat_statements, with it, with track_planning too. The order is of chance.",
        clients.join(", ")
    ))?;
    let modes = [Mode::Simple, Mode::Extended, Mode::Prepared];
    let reads = wanted(
        "reads.sweep",
        Script::SelectOnly,
        &plan,
        &modes,
        &plan.clients,
    );
    let (mut stage, reads) = stage.sweep(reads)?;
    stage.step("The same with writes (pgbench's own mix), prepared.".to_owned())?;
    let last = &plan.clients[plan.clients.len() - 1..];
    let writes = wanted(
        "writes.sweep",
        Script::TpcbLike,
        &plan,
        &[Mode::Prepared],
        last,
    );
    let (mut stage, writes) = stage.sweep(writes)?;

    let mut stacks = Vec::new();
    for counting in COUNTINGS {
        stacks.push(stacks_of(&mut stage, &plan, counting)?);
    }
    let counted = counted(&mut stage, &plan)?;
    let ceiling_per_s = ceiling(&reads);
    let (headroom, diagnosis) = headroom(&mut stage, &plan, ceiling_per_s)?;
    let (stage, proved) = proved::prove(stage, &plan.proved)?;
    let (directory, steps) = stage.end()?;
    let view = view::view(&Seen {
        scale,
        version,
        reads,
        writes,
        counted,
        stacks,
        headroom,
        diagnosis,
        proved,
        steps,
    });
    Ok((directory, view))
}

fn settings(counting: Counting) -> Vec<(String, String)> {
    let all = counting.settings.iter();
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn wanted<'w>(
    name: &'w str,
    script: Script,
    plan: &Plan,
    modes: &[Mode],
    clients: &[u32],
) -> SweepWanted<'w> {
    let variants = COUNTINGS.map(|counting| Variant {
        name: counting.name.to_owned(),
        settings: settings(counting)
            .into_iter()
            .map(|(name, value)| Setting { name, value })
            .collect(),
    });
    let most = clients.iter().max().copied().unwrap_or(1);
    SweepWanted {
        name,
        script,
        scale: plan.scale,
        design: Design {
            clients: clients.to_vec(),
            paces: vec![Pace::Closed],
            modes: modes.to_vec(),
            variants: variants.into(),
            repeat: plan.repeat,
            seed: u64::from(rand::random::<u32>()),
        },
        warm_up: plan.warm_up,
        time: plan.time,
        settings: vec![(
            "max_connections".to_owned(),
            (most + CONNECTIONS_BESIDE).max(100).to_string(),
        )],
    }
}

/// Stacks while sessions read, in one way of counting.
fn stacks_of(
    stage: &mut Stage,
    plan: &Plan,
    counting: Counting,
) -> Result<Result<Stacks, String>, Failure> {
    stage.step(format!(
        "What the processors do while sessions read, {}.",
        counting.name
    ))?;
    start(stage, settings(counting))?;
    let stem = format!("flame-{}", counting.name.replace(' ', "-"));
    let run = format!("{}.run", counting.name.replace(' ', "-"));
    let connect = stage.connecting();
    let sessions = plan.clients.last().copied().unwrap_or(1);
    let calls = stage.profiled(&run, || {
        planning::run_load(&connect, sessions, planning::account_query, plan.profiled)
    })?;
    stage.server.stop(sandbox::Stop::Fast)?;
    let calls = match calls {
        Ok(calls) => calls.map_err(Failure::could_not)?,
        Err(why) => return Ok(Err(why)),
    };
    let title = format!(
        "Reads of single accounts, pg_stat_statements: {}",
        counting.name
    );
    let run = stage.directory.join(run);
    let folded = flame::leave(&run, &stage.directory.join(stem), &title)?;
    Ok(Ok(Stacks {
        statistics: planning::count_samples(folded.iter().map(String::as_str)),
        calls,
    }))
}

fn start(stage: &mut Stage, settings: Vec<(String, String)>) -> Result<(), Failure> {
    stage.server.set(settings)?;
    stage.begin_again()
}

fn extension(stage: &Stage) -> Result<postgres::Client, Failure> {
    let mut client = stage.client()?;
    client
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .map_err(|error| {
            Failure::could_not(format!("pg_stat_statements cannot be made: {error}"))
        })?;
    Ok(client)
}

/// Plans against calls of single sessions.
fn counted(stage: &mut Stage, plan: &Plan) -> Result<[PlanCounts; 2], Failure> {
    stage.step(format!(
        "{SESSIONS} sessions read {} accounts each, as texts and prepared, and the server counts how often it planned.",
        plan.calls
    ))?;
    start(stage, settings(COUNTINGS[2]))?;
    let mut client = extension(stage)?;
    let connect = stage.connecting();
    let mut of = |protocol| {
        planning::count_plans(&mut client, &connect, protocol, (SESSIONS, plan.calls))
            .map_err(Failure::could_not)
    };
    let counted = [of(Protocol::Simple)?, of(Protocol::Prepared)?];
    drop(client);
    stage.server.stop(sandbox::Stop::Fast)?;
    Ok(counted)
}

/// The most calls a second of one statement with planning counted, in any protocol.
fn ceiling(reads: &[Record]) -> f64 {
    let counting_planning = reads.iter().filter(|record| record.trial.cell.variant == 2);
    counting_planning
        .filter_map(|record| Some(record.numbers.as_ref()?.per_s))
        .fold(0.0, f64::max)
}

/// An application is watched, and diagnosed with this machine's own ceiling.
fn headroom(
    stage: &mut Stage,
    plan: &Plan,
    ceiling_per_s: f64,
) -> Result<(Headroom, Diagnosis), Failure> {
    stage.step(format!(
        "An application reads {APPLICATION_PER_S:.0} accounts a second, and sums branches up now and then. It is watched for {} s, and diagnosed with this machine's ceiling ({ceiling_per_s:.0} calls a second of one statement).",
        plan.watched.as_secs()
    ))?;
    start(stage, settings(COUNTINGS[1]))?;
    drop(extension(stage)?);
    let connect = stage.connecting();
    let target = Target::parse(&stage.endpoint.url(DATABASE), |_| None)?;
    let output = stage.directory.join("application.run");
    let watching = Observe {
        target: stage.endpoint.url(DATABASE),
        duration: Some(plan.watched),
        output: Some(output.clone()),
        json: false,
        looks: LookArgs {
            sample_rate: observe::DEFAULT_SAMPLE_RATE_HZ,
            custom_query: None,
            custom_query_every: None,
        },
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let working = scope.spawn(|| -> Result<(), LabError> {
            while !over.load(Ordering::Relaxed) {
                planning::run_application(&connect, APPLICATION_PER_S, Duration::from_millis(500))?;
            }
            Ok(())
        });
        let watched = observing::watch(&watching, &target, &output, &stage.interrupt);
        over.store(true, Ordering::Relaxed);
        let worked = working.join().expect("an application does not panic");
        watched?;
        worked.map_err(Failure::could_not)
    })?;
    stage.server.stop(sandbox::Stop::Fast)?;
    let evidence = diagnosis_inputs::read_run_evidence(
        &RunReader::open(&output)?,
        diagnosis_inputs::QueriedFacts::default(),
    )?;
    let most = evidence
        .statements
        .iter()
        .filter_map(|one| one.counted)
        .map(|counted| counted.calls)
        .max();
    let headroom = Headroom {
        calls_per_s: most.unwrap_or(0) as f64 / evidence.elapsed_s.max(1e-9),
        ceiling_per_s,
    };
    let mut thresholds = Thresholds::default();
    let limit = format!("cliff-calls-per-second={ceiling_per_s:.0}");
    thresholds
        .set(&limit)
        .map_err(|_| Failure::could_not(format!("{limit} is no threshold")))?;
    Ok((headroom, diagnose(&evidence, &thresholds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_up_to_the_machine() {
        let published: Vec<u32> = [1]
            .into_iter()
            .chain((1..=20).map(|tens| tens * 10))
            .collect();
        assert_eq!(up_to(192, 20), published);
        assert_eq!(up_to(2, 20), [1, 2, 3]);
        assert_eq!(up_to(2, 1), [1, 3]);
        assert_eq!(up_to(1, 1), [1, 2]);
    }
}
