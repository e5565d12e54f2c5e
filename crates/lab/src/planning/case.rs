//! Steps of the case *planning*.

use std::time::Duration;

use clock::Speed;
use diagnose::{Diagnosis, Thresholds, diagnose};
use observe::MonitorOptions;
use replay::Options;
use report::CaseReport;
use study::Failure;
use study::proof::Change;
use study::sweep::{Design, Mode, Pace, Script, Setting, Variant};
use study::target_snapshot::ObservationPlan;

use super::measurements::{Measurements, Stacks, Sweep};
use super::{
    COUNTINGS, Counting, Headroom, PREPARE, PROOF, PlanCounts, Protocol, RUN, WORKLOAD,
    account_join_query, account_query, application, counting, run_load, statistics, story,
};
use crate::case::Scale;
use crate::report_parts::processors;
use crate::stage::{
    CaseProof, LOGGING, ProofRequest, ScriptSweep, Stage, create_statistics, diagnose_run,
    read_evidence, server_settings, side_of_change,
};

/// Connections of the server itself and of this program.
const OTHER_CONNECTIONS: u32 = 20;
/// Sessions whose plans are counted.
const COUNTED_SESSIONS: u32 = 4;
/// Reads per second of an application that is far from any limit.
const APPLICATION_PER_S: f64 = 100.0;
/// Sessions whose reads are captured.
const CAPTURED_SESSIONS: u32 = 2;
/// Time limit of the captured reads.
const CAPTURE_LIMIT: Duration = Duration::from_secs(600);

/// Extent of each measurement.
struct Plan {
    /// Scale of pgbench's tables.
    scale: u32,
    clients: Vec<u32>,
    repeat: u32,
    warm_up: Duration,
    time: Duration,
    /// Reads that are profiled, and the time limit.
    profiled: (u64, Duration),
    /// Reads of each session whose plans are counted.
    calls: u32,
    /// Duration of observing the application.
    observed: Duration,
    /// Reads that are captured.
    captured: u64,
    /// Maximum number of blocks of the proof.
    blocks: u32,
    /// Whether the cost of tracking planning is proved too. A few short replays cannot show it.
    proves_tracking: bool,
}

impl Plan {
    fn of(scale: Scale) -> Self {
        let processors = processors() as u32;
        match scale {
            Scale::Small => Plan {
                scale: 1,
                clients: client_levels(processors, 1),
                repeat: 1,
                warm_up: Duration::from_millis(200),
                time: Duration::from_millis(800),
                profiled: (30_000, Duration::from_secs(20)),
                calls: 1_000,
                observed: Duration::from_secs(3),
                captured: 12_000,
                blocks: 4,
                proves_tracking: false,
            },
            // On 192 processors as was published: 1, 10, 20 … 200.
            Scale::Full => Plan {
                scale: 100,
                clients: client_levels(processors, 20),
                repeat: 3,
                warm_up: Duration::from_secs(5),
                time: Duration::from_secs(30),
                profiled: (u64::MAX, Duration::from_secs(30)),
                calls: 10_000,
                observed: Duration::from_secs(60),
                captured: 400_000,
                blocks: 6,
                proves_tracking: true,
            },
        }
    }

    fn clients_max(&self) -> u32 {
        self.clients.last().copied().unwrap_or(1)
    }
}

/// Returns one client, and `steps` levels up to a few more than processors, as 200 are for 192.
fn client_levels(processors: u32, steps: u32) -> Vec<u32> {
    let most = (processors * 200).div_ceil(192);
    let mut all = vec![1];
    all.extend((1..=steps).map(|step| (most * step / steps).max(1)));
    all.dedup();
    all
}

/// Runs the case.
pub(crate) fn run(mut stage: Stage, scale: Scale) -> Result<CaseReport, Failure> {
    let (plan, version) = (Plan::of(scale), stage.version());
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
    stage.keep_loaded()?;

    let clients: Vec<String> = plan.clients.iter().map(u32::to_string).collect();
    stage.step(format!(
        "Reads of single accounts by {} clients, in three protocols: without pg_stat_statements, with it, with track_planning too. The order is of chance.",
        clients.join(", ")
    ))?;
    let modes = vec![Mode::Simple, Mode::Extended, Mode::Prepared];
    let script = (Script::SelectOnly, modes, plan.clients.clone());
    let (mut stage, reads) = sweep(stage, &plan, "reads.sweep", script)?;
    stage.step("The same with writes (pgbench's own mix), prepared.")?;
    let script = (
        Script::TpcbLike,
        vec![Mode::Prepared],
        vec![plan.clients_max()],
    );
    let (mut stage, writes) = sweep(stage, &plan, "writes.sweep", script)?;

    let mut stacks = Vec::new();
    for counting in COUNTINGS {
        stacks.push(profile(&mut stage, &plan, counting)?);
    }
    let counted = compare_plan_counts(&mut stage, &plan)?;
    let (headroom, diagnosis) = measure_headroom(&mut stage, &plan, reads.ceiling_per_s())?;
    let (stage, captured, proof) = prove(stage, &plan)?;
    let measurements = Measurements {
        reads,
        writes,
        stacks,
        counted,
        headroom,
        diagnosis,
        captured,
        proof,
    };
    Ok(CaseReport {
        done: stage.close()?,
        ..story::report(&measurements, scale, &version)
    })
}

/// Sweeps a script over modes and numbers of clients, in all configurations.
fn sweep(
    stage: Stage,
    plan: &Plan,
    name: &str,
    (script, modes, clients): (Script, Vec<Mode>, Vec<u32>),
) -> Result<(Stage, Sweep), Failure> {
    let variants = COUNTINGS.map(|counting| Variant {
        name: counting.name.to_owned(),
        settings: server_settings(counting.settings)
            .into_iter()
            .map(|(name, value)| Setting { name, value })
            .collect(),
    });
    let most = clients.iter().max().copied().unwrap_or(1);
    let connections = (most + OTHER_CONNECTIONS).max(100);
    let (stage, records) = stage.sweep(ScriptSweep {
        name,
        script,
        scale: plan.scale,
        design: Design {
            clients,
            paces: vec![Pace::Closed],
            modes,
            variants: variants.into(),
            repeat: plan.repeat,
            seed: u64::from(rand::random::<u32>()),
        },
        warm_up: plan.warm_up,
        time: plan.time,
        settings: vec![("max_connections".to_owned(), connections.to_string())],
    })?;
    Ok((stage, Sweep(records)))
}

/// Profiles the server while sessions read, in one configuration.
fn profile(
    stage: &mut Stage,
    plan: &Plan,
    counting: Counting,
) -> Result<Result<Stacks, String>, Failure> {
    stage.step(format!(
        "What the processors do while sessions read, {}.",
        counting.name
    ))?;
    stage.restart_with(counting.settings)?;
    let connect = stage.connections();
    let file = counting.file_name();
    let profiled = stage.profile(&format!("{file}.run"), || {
        run_load(&connect, plan.clients_max(), account_query, plan.profiled)
    })?;
    stage.stop()?;
    let (run, calls) = match profiled {
        Ok((run, calls)) => (run, calls?),
        Err(reason) => return Ok(Err(reason)),
    };
    let title = format!(
        "Reads of single accounts, pg_stat_statements: {}",
        counting.name
    );
    let folded = stage.write_flame_graph(&run, &format!("flame-{file}"), &title)?;
    Ok(Ok(Stacks {
        statistics: statistics::count_samples(folded.iter().map(String::as_str)),
        calls,
    }))
}

/// Counts plans and calls of single sessions: simple, prepared.
fn compare_plan_counts(stage: &mut Stage, plan: &Plan) -> Result<[PlanCounts; 2], Failure> {
    stage.step(format!(
        "{COUNTED_SESSIONS} sessions read {} accounts each, as texts and prepared, and the server counts how often it planned.",
        plan.calls
    ))?;
    stage.restart_with(COUNTINGS[2].settings)?;
    let mut client = stage.client_with_statistics()?;
    let connect = stage.connections();
    let mut count = |protocol| {
        let extent = (COUNTED_SESSIONS, plan.calls);
        counting::count_plans(&mut client, &connect, protocol, extent)
    };
    let counted = [count(Protocol::Simple)?, count(Protocol::Prepared)?];
    drop(client);
    stage.stop()?;
    Ok(counted)
}

/// Observes an application, and diagnoses it with this machine's ceiling.
fn measure_headroom(
    stage: &mut Stage,
    plan: &Plan,
    ceiling_per_s: f64,
) -> Result<(Headroom, Diagnosis), Failure> {
    stage.step(format!(
        "An application reads {APPLICATION_PER_S:.0} accounts a second, and sums branches up now and then. It is watched for {} s, and diagnosed with this machine's ceiling ({ceiling_per_s:.0} calls a second of one statement).",
        plan.observed.as_secs()
    ))?;
    stage.restart_with(COUNTINGS[1].settings)?;
    drop(stage.client_with_statistics()?);
    let connect = stage.connections();
    let options = MonitorOptions::default();
    let (run, ()) = stage.observe("application.run", &options, plan.observed, |is_over| {
        while !is_over() {
            application::run_application(&connect, APPLICATION_PER_S, Duration::from_millis(500))?;
        }
        Ok(())
    })?;
    stage.stop()?;
    let evidence = read_evidence(&run)?;
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
    // The meter goes by the rate alone: an observed server does not show the time of its clients.
    for setting in [limit.as_str(), "planning-unseen-ms=0"] {
        thresholds
            .set(setting)
            .map_err(|_| Failure::could_not(format!("{setting} is no threshold")))?;
    }
    Ok((headroom, diagnose(&evidence, &thresholds)))
}

/// Captures reads as texts, diagnoses their replay with planning tracked, and proves preparing them. Returns the number
/// of captured reads, too.
fn prove(mut stage: Stage, plan: &Plan) -> Result<(Stage, u64, CaseProof), Failure> {
    stage.step(format!(
        "{CAPTURED_SESSIONS} sessions read {} accounts with their branches, as texts with their values. The server logs it, and the log becomes a workload.",
        plan.captured
    ))?;
    stage.restart_with(&LOGGING)?;
    let captured = run_load(
        &stage.connections(),
        CAPTURED_SESSIONS,
        account_join_query,
        (plan.captured, CAPTURE_LIMIT),
    )?;
    let workload = stage.capture_log(WORKLOAD)?;

    stage
        .step("It is replayed with planning counted, and diagnosed without being told anything.")?;
    stage.server.set(server_settings(COUNTINGS[2].settings))?;
    let options = Options {
        speed: Speed::Max,
        ..Options::default()
    };
    let asked = ObservationPlan {
        facts: true,
        plans: None,
        profile: None,
        watch: Some(MonitorOptions::default()),
    };
    let (run, _) = stage.replay(&workload, RUN, &options, asked, create_statistics)?;
    let diagnosis = diagnose_run(&run)?;

    stage.step(format!(
        "What it suggests is proved (each text prepared once a session){}: by turns with the texts, by the server's processor time.",
        if plan.proves_tracking { ", and what counting planning costs" } else { "" }
    ))?;
    stage.server.set(server_settings(COUNTINGS[1].settings))?;
    let mut changes = vec![side_of_change(Change::Rewrite(PREPARE.to_owned()))];
    if plan.proves_tracking {
        changes.push(side_of_change(Change::Settings(vec![Setting {
            name: "pg_stat_statements.track_planning".to_owned(),
            value: "on".to_owned(),
        }])));
    }
    let (stage, proof) = stage.prove(&workload, ProofRequest::new(PROOF, changes, plan.blocks))?;
    Ok((stage, captured, CaseProof { diagnosis, proof }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_levels_end_slightly_above_the_number_of_processors() {
        let published: Vec<u32> = [1]
            .into_iter()
            .chain((1..=20).map(|tens| tens * 10))
            .collect();
        assert_eq!(client_levels(192, 20), published);
        assert_eq!(client_levels(2, 20), [1, 2, 3]);
        assert_eq!(client_levels(2, 1), [1, 3]);
        assert_eq!(client_levels(1, 1), [1, 2]);
    }
}
