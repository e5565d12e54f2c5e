//! `rehearse lab queue`.

mod checks;
mod diagnosed;
mod proved;
mod story;
mod watched;

use std::path::PathBuf;
use std::time::Duration;

use lab::queue;
use lab::queue::{
    Amplification, COMPOSITE, Deployment, DrainResult, KeyCosts, KillCondition, LockClause,
    Migration, Queue, SystemPlan, SystemResult,
};
use lab::{LabError, Scale};
use report::CaseReport;

use self::diagnosed::Diagnosed;
use self::proved::Proved;
use super::stage::{DATABASE, LOADED, Stage};
use crate::options::lab::CaseArgs;
use study::Failure;

const WORKLOAD: &str = "downloader.workload";
/// The snapshot behind the trouble: with its backlog.
const GROWN: &str = "grown";
/// How long a fixed number of links may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How large all is.
struct Size {
    instances: usize,
    workers: usize,
    arrivals_per_s: u32,
    trouble: Duration,
    /// How often the queue is looked at, where once a second would be too seldom for a few seconds.
    look_every: Option<Duration>,
    cured: Duration,
    /// Of the capture, for the proof.
    part_s: u32,
    blocks: u32,
    /// Links of the race, and of the kill.
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
                // A look reads the whole table.
                look_every: None,
                cured: Duration::from_secs(120),
                part_s: 20,
                blocks: 6,
                drained: 20_000,
            },
        }
    }

    /// As the system is set in its everyday work.
    fn plan(&self, made: &Queue) -> SystemPlan {
        let batch = made.batch(self.arrivals_per_s, self.instances);
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

    /// Greedy pollers, no limit, no errors but those of the links: whatever collides does.
    fn race(&self, locks: LockClause) -> SystemPlan {
        SystemPlan {
            instances: 4,
            workers: 8,
            batch: 40,
            channel: 80,
            locks,
            rate_per_s: 1e9,
            arrivals_per_s: 0,
            upkeep_every: PATIENCE,
            reap_after: Duration::from_secs(600),
            has_error_periods: false,
        }
    }

    /// Two instances, and a reaper that comes soon.
    fn kill(&self) -> SystemPlan {
        SystemPlan {
            instances: 2,
            upkeep_every: Duration::from_millis(500),
            reap_after: Duration::from_secs(3),
            ..self.race(LockClause::SkipLocked)
        }
    }
}

/// Everything that was measured.
struct Seen {
    scale: Scale,
    version: String,
    made: Queue,
    plan: SystemPlan,
    trouble: SystemResult,
    /// What a diagnosis of the trouble itself, watched, says of its workers.
    starved: Option<String>,
    diagnosed: Diagnosed,
    proved: Proved,
    cured: SystemResult,
    unlocked: DrainResult,
    locked: DrainResult,
    killed: DrainResult,
    keys: Vec<KeyCosts>,
    migration: Migration,
    amplification: Amplification,
}

fn could_not(error: LabError) -> Failure {
    Failure::could_not(error)
}

/// What this process runs, also where its file was replaced meanwhile (`proc(5)`).
const OURSELVES: &str = "/proc/self/exe";

/// The system, where the server is now. Its instances are processes of this program.
fn deployment(stage: &Stage) -> Deployment {
    Deployment {
        url: stage.endpoint.url(DATABASE),
        program: OURSELVES.into(),
        arguments: &["lab", "instance"],
    }
}

/// Runs the case. Returns its folder, and what was seen.
pub fn run(args: &CaseArgs) -> Result<(PathBuf, CaseReport), Failure> {
    let scale = Scale::from(args.size);
    let size = Size::of(scale);
    let mut stage = Stage::begin(queue::CASE, args)?;
    stage.step("A table of image links. Most are not referenced any more or due later; nothing but the key and the link has an index.".to_owned())?;
    let made = queue::create(&mut stage.client()?, scale).map_err(could_not)?;
    let version = stage.version();
    stage.loaded()?;

    let plan = size.plan(&made);
    stage.step(format!(
        "For {} s {} instances download: each has a poller that claims {} links at once, a channel for {} and {} workers, which fetch over HTTP. Each second {} links come in. The server logs it, and it is watched with the queue's series.",
        size.trouble.as_secs(),
        plan.instances,
        plan.batch,
        plan.channel,
        plan.workers,
        plan.arrivals_per_s,
    ))?;
    let (trouble, starved) = watched::drive(&stage, &made, &plan, (size.trouble, size.look_every))?;
    stage.step(format!(
        "The log of {} claims and {} attempts to download becomes a workload.",
        trouble.counts.claims, trouble.served.requests
    ))?;
    let workload = stage.captured(WORKLOAD)?;
    stage.server.snapshot(GROWN)?;

    stage.step("Replayed in the order of commits, watched with the queue's series, and diagnosed without being told anything else.".to_owned())?;
    let diagnosed = diagnosed::look(&mut stage, &workload, size.look_every)?;
    stage.step(format!(
        "Three indexes are proved on the first {} s of it: replays with each and without any, by turns, as fast as the server takes them.",
        size.part_s
    ))?;
    let (mut stage, proved) = proved::prove_indexes(stage, &workload, size.part_s, size.blocks)?;

    stage.step(format!(
        "The system goes on where it was left, for {} s, with the index {}.",
        size.cured.as_secs(),
        COMPOSITE.on
    ))?;
    stage.server.restore(GROWN)?;
    stage.endpoint = stage.server.start()?;
    queue::create_index(&mut stage.client()?, &COMPOSITE).map_err(could_not)?;
    let grown = Queue {
        links: made.links + trouble.counts.arrived as u32,
        ..made
    };
    let cured =
        queue::run_system(&deployment(&stage), &grown, &plan, size.cured).map_err(could_not)?;

    let drain = |stage: &mut Stage,
                 plan: &SystemPlan,
                 kill: Option<KillCondition>|
     -> Result<DrainResult, Failure> {
        let mut client = stage.client()?;
        queue::postpone_all(&mut client).map_err(could_not)?;
        queue::make_due(&mut client, size.drained).map_err(could_not)?;
        drop(client);
        queue::drain_queue(&deployment(stage), &grown, plan, kill, PATIENCE).map_err(could_not)
    };
    stage.step(format!(
        "{} links are due, and four instances claim them without FOR UPDATE SKIP LOCKED; then as many with it.",
        size.drained
    ))?;
    let unlocked = drain(&mut stage, &size.race(LockClause::None), None)?;
    let locked = drain(&mut stage, &size.race(LockClause::SkipLocked), None)?;
    stage.step(format!(
        "{} links are due, and one of two instances is killed with what it has claimed; the reaper takes back what is claimed for 3 s.",
        size.drained
    ))?;
    let killed = drain(&mut stage, &size.kill(), Some(KillCondition { held: 20 }))?;

    stage.step("The same links under a digest, a number and a key that is ordered by time; from the digest to the number; with a unique index on the link and without.".to_owned())?;
    stage.server.restore(LOADED)?;
    stage.endpoint = stage.server.start()?;
    let mut client = stage.client()?;
    let keys = queue::measure_keys(&mut client, scale).map_err(could_not)?;
    let migration = queue::measure_migration(&mut client, scale).map_err(could_not)?;
    let amplification = queue::measure_amplification(&mut client, scale).map_err(could_not)?;
    drop(client);
    let (directory, done) = stage.end()?;
    let seen = Seen {
        scale,
        version,
        made,
        plan,
        trouble,
        starved,
        diagnosed,
        proved,
        cured,
        unlocked,
        locked,
        killed,
        keys,
        migration,
        amplification,
    };
    Ok((directory, story::view(&seen, done)))
}
