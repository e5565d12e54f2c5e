//! Steps of the case *queue*.

use std::time::Duration;

use report::CaseReport;
use study::Failure;
use study::proof::ProofReport;
use workload::WorkloadReader;

use super::diagnosis::{diagnose_replay, observe_system};
use super::measurements::Measurements;
use super::{
    COMPOSITE, Deployment, DrainResult, KillCondition, LockClause, OBVIOUS, PART, PARTIAL, PROOF,
    Queue, SystemPlan, SystemResult, WORKLOAD, amplification, create, create_index, drain_queue,
    make_due, measure_keys, measure_migration, postpone_all, run_system, story,
};
use crate::case::Scale;
use crate::stage::{ProofRequest, Stage};

/// Snapshot of the system without the index, with its backlog.
const GROWN: &str = "grown";
/// Time limit of a fixed number of links.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// The file of this process, even if it was replaced meanwhile (`proc(5)`).
const PROGRAM: &str = "/proc/self/exe";

/// Extent of each measurement.
struct Size {
    instances: usize,
    workers: usize,
    arrivals_per_s: u32,
    trouble: Duration,
    /// Interval between samples of the queue, if once a second is too seldom for a few seconds.
    look_every: Option<Duration>,
    cured: Duration,
    /// Part of the capture that the proof replays, in seconds.
    part_s: u32,
    blocks: u32,
    /// Links of each drain.
    drained: u32,
}

impl Size {
    fn of(scale: Scale) -> Self {
        match scale {
            Scale::Small => Size {
                instances: 2,
                workers: 16,
                arrivals_per_s: 250,
                trouble: Duration::from_secs(9),
                look_every: Some(Duration::from_millis(250)),
                cured: Duration::from_secs(12),
                part_s: 2,
                blocks: 2,
                drained: 600,
            },
            Scale::Full => Size {
                instances: 3,
                workers: 64,
                arrivals_per_s: 1_000,
                trouble: Duration::from_secs(120),
                // A sample reads the whole table.
                look_every: None,
                cured: Duration::from_secs(120),
                part_s: 20,
                blocks: 6,
                drained: 20_000,
            },
        }
    }

    /// Returns the usual parameters of the system.
    fn plan(&self, queue: &Queue) -> SystemPlan {
        let batch = queue.batch(self.arrivals_per_s, self.instances);
        SystemPlan {
            instances: self.instances,
            workers: self.workers,
            batch,
            channel: 2 * batch as usize,
            locks: LockClause::SkipLocked,
            rate_per_s: f64::from(self.arrivals_per_s) * 1.2,
            arrivals_per_s: self.arrivals_per_s,
            upkeep_every: Duration::from_secs(3),
            reap_after: Duration::from_secs(600),
            has_error_periods: true,
        }
    }
}

/// Returns parameters with which claims collide: greedy pollers, no limit, and no errors other than those of links.
fn greedy_plan(locks: LockClause) -> SystemPlan {
    SystemPlan {
        instances: 4,
        workers: 8,
        batch: 40,
        channel: 80,
        locks,
        rate_per_s: 1e9,
        arrivals_per_s: 0,
        upkeep_every: DRAIN_LIMIT,
        reap_after: Duration::from_secs(600),
        has_error_periods: false,
    }
}

/// Returns the system at the stage's server. Its instances are processes of this program.
fn deployment(stage: &Stage) -> Deployment {
    Deployment {
        url: stage.url(),
        program: PROGRAM.into(),
        arguments: &["lab", "instance"],
    }
}

/// Runs the case.
pub(crate) fn run(mut stage: Stage, scale: Scale) -> Result<CaseReport, Failure> {
    let (size, version) = (Size::of(scale), stage.version());
    stage.step("A table of image links. Most are not referenced any more or due later; nothing but the key and the link has an index.")?;
    let queue = create(&mut stage.client()?, scale)?;
    stage.keep_loaded()?;

    let plan = size.plan(&queue);
    stage.step(format!(
        "For {} s {} instances download: each has a poller that claims {} links at once, a channel for {} and {} workers, which fetch over HTTP. Each second {} links come in. The server logs it, and it is watched with the queue's series.",
        size.trouble.as_secs(),
        plan.instances,
        plan.batch,
        plan.channel,
        plan.workers,
        plan.arrivals_per_s,
    ))?;
    let timing = (size.trouble, size.look_every);
    let (trouble, starved) = observe_system(&stage, &deployment(&stage), &queue, &plan, timing)?;
    stage.step(format!(
        "The log of {} claims and {} attempts to download becomes a workload.",
        trouble.counts.claims, trouble.served.requests
    ))?;
    let workload = stage.capture_log(WORKLOAD)?;
    stage.server.snapshot(GROWN)?;

    stage.step("Replayed in the order of commits, watched with the queue's series, and diagnosed without being told anything else.")?;
    let diagnosis = diagnose_replay(&mut stage, &workload, size.look_every)?;
    stage.step(format!(
        "Three indexes are proved on the first {} s of it: replays with each and without any, by turns, as fast as the server takes them.",
        size.part_s
    ))?;
    let (mut stage, proof) = prove_indexes(stage, &workload, &size)?;

    let grown = Queue {
        links: queue.links + trouble.counts.arrived as u32,
        ..queue
    };
    let cured = cure(&mut stage, &grown, &plan, &size)?;
    let [unlocked, locked, killed] = drain_three_times(&mut stage, &grown, size.drained)?;

    stage.step("The same links under a digest, a number and a key that is ordered by time; from the digest to the number; with a unique index on the link and without.")?;
    stage.restart()?;
    let mut client = stage.client()?;
    let measurements = Measurements {
        queue,
        plan,
        trouble,
        starved,
        diagnosis,
        proof,
        cured,
        unlocked,
        locked,
        killed,
        keys: measure_keys(&mut client, scale)?,
        migration: measure_migration(&mut client, scale)?,
        amplification: amplification::measure_amplification(&mut client, scale)?,
    };
    drop(client);
    Ok(CaseReport {
        done: stage.close()?,
        ..story::report(&measurements, scale, &version)
    })
}

/// Proves the index of the claim and its rivals on the first seconds of the workload.
fn prove_indexes(
    stage: Stage,
    workload: &WorkloadReader,
    size: &Size,
) -> Result<(Stage, ProofReport), Failure> {
    let part = stage.first_seconds(workload, PART, size.part_s)?;
    let mut changes = Vec::new();
    for index in [COMPOSITE, PARTIAL, OBVIOUS] {
        let text = format!("{};\nANALYZE image_links;\n", index.sql);
        changes.push(stage.side_of_sql(index.on, &format!("{}.sql", index.name), text)?);
    }
    stage.prove(&part, ProofRequest::new(PROOF, changes, size.blocks))
}

/// Continues the system with the index, from its backlog.
fn cure(
    stage: &mut Stage,
    grown: &Queue,
    plan: &SystemPlan,
    size: &Size,
) -> Result<SystemResult, Failure> {
    stage.step(format!(
        "The system continues where it was left, for {} s, with the index {}.",
        size.cured.as_secs(),
        COMPOSITE.on
    ))?;
    stage.restart_from(GROWN)?;
    create_index(&mut stage.client()?, &COMPOSITE)?;
    Ok(run_system(&deployment(stage), grown, plan, size.cured)?)
}

/// Lets instances claim a fixed number of links: without `FOR UPDATE SKIP LOCKED`, with it, and with an instance that
/// is killed.
fn drain_three_times(
    stage: &mut Stage,
    grown: &Queue,
    links: u32,
) -> Result<[DrainResult; 3], Failure> {
    let drain = |stage: &mut Stage, plan: &SystemPlan, kill| -> Result<DrainResult, Failure> {
        let mut client = stage.client()?;
        postpone_all(&mut client)?;
        make_due(&mut client, links)?;
        drop(client);
        Ok(drain_queue(
            &deployment(stage),
            grown,
            plan,
            kill,
            DRAIN_LIMIT,
        )?)
    };
    stage.step(format!(
        "{links} links are due, and four instances claim them without FOR UPDATE SKIP LOCKED; then as many with it."
    ))?;
    let unlocked = drain(stage, &greedy_plan(LockClause::None), None)?;
    let locked = drain(stage, &greedy_plan(LockClause::SkipLocked), None)?;
    stage.step(format!(
        "{links} links are due, and one of two instances is killed with what it has claimed; the reaper takes back what is claimed for 3 s."
    ))?;
    let plan = SystemPlan {
        instances: 2,
        upkeep_every: Duration::from_millis(500),
        reap_after: Duration::from_secs(3),
        ..greedy_plan(LockClause::SkipLocked)
    };
    let killed = drain(stage, &plan, Some(KillCondition { held: 20 }))?;
    Ok([unlocked, locked, killed])
}
