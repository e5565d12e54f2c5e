//! The whole system: instances, the importer, what keeps order, the links' server, and the metrics.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::claim::LockClause;
use super::feed::{Feed, import};
use super::links::{LinkServer, Served};
use super::metrics::{Metrics, Sample};
use super::process::{Deployment, Process};
use super::schema::{Queue, number};
use super::tally::{Counts, Tally};
use super::upkeep::keep_order;
use super::{Connect, connections};
use crate::LabError;
use crate::error::reason;

/// How often the metrics are looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(400);
/// How often it is looked whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How the system is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Instances.
    pub instances: usize,
    /// Workers of each.
    pub workers: usize,
    /// Links that a claim takes.
    pub batch: u32,
    /// Links that the channel of an instance holds.
    pub channel: usize,
    /// How a claim locks.
    pub locks: LockClause,
    /// How many a second the limiter of an instance lets through at most.
    pub rate_per_s: f64,
    /// New links that come in each second; 0 for none.
    pub arrivals_per_s: u32,
    /// How often the reaper and the retention come.
    pub upkeep_every: Duration,
    /// How old a claim is that the reaper takes back.
    pub reap_after: Duration,
    /// The shops' servers have spells of errors.
    pub spells: bool,
}

/// What a stretch of the system's work was.
#[derive(Debug, Clone, PartialEq)]
pub struct Driven {
    /// The metrics over time.
    pub samples: Vec<Sample>,
    /// What was done.
    pub counts: Counts,
    /// What the links' server was asked for.
    pub served: Served,
    /// How long it took.
    pub took: Duration,
}

/// When an instance is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    /// As soon as it has claimed and not done so many links.
    pub held: i64,
}

/// What became of a fixed number of links.
#[derive(Debug, Clone, PartialEq)]
pub struct Drained {
    /// Links that were due.
    pub due: u64,
    /// Of these, those that nobody asked for, or that somebody claimed and nobody did.
    pub lost: u64,
    /// Links that the instance that was killed had claimed and not done, as far as it had said.
    pub held: Option<i64>,
    /// What was done.
    pub counts: Counts,
    /// What the links' server was asked for.
    pub served: Served,
}

type Program = JoinHandle<Result<(), postgres::Error>>;

/// All of it, running.
struct System {
    links: LinkServer,
    tally: Arc<Tally>,
    instances: Vec<Process>,
    /// What one did that was killed, as far as it had said.
    of_the_dead: Counts,
    others: Vec<Program>,
    is_over: Arc<AtomicBool>,
    metrics: Metrics,
    begun: Instant,
}

fn broke_off(error: &postgres::Error) -> LabError {
    LabError::Client {
        number: 0,
        reason: reason(error),
    }
}

impl System {
    fn start(
        deployment: &Deployment,
        connect: &Connect,
        queue: &Queue,
        plan: &Plan,
    ) -> Result<Self, LabError> {
        let links = LinkServer::start(plan.spells)?;
        let tally = Arc::new(Tally::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let metrics = connect("metrics").and_then(Metrics::new);
        let metrics = metrics.map_err(|error| broke_off(&error))?;
        let begun = Instant::now();
        // Those first that may not start.
        let instances = (1..=plan.instances)
            .map(|number| Process::start(deployment, number, plan, links.address()))
            .collect::<Result<_, _>>()?;
        let mut others: Vec<Program> = Vec::new();
        if plan.arrivals_per_s > 0 {
            let feed = Feed {
                links: queue.links,
                arrivals_per_s: plan.arrivals_per_s,
            };
            let (connect, tally, over) = (connect.clone(), tally.clone(), is_over.clone());
            others.push(thread::spawn(move || import(&connect, feed, &tally, &over)));
        }
        let (every, after) = (plan.upkeep_every, plan.reap_after);
        let (theirs, kept, over) = (connect.clone(), tally.clone(), is_over.clone());
        others.push(thread::spawn(move || {
            keep_order(&theirs, every, after, &kept, &over)
        }));
        Ok(System {
            links,
            tally,
            instances,
            of_the_dead: Counts::default(),
            others,
            is_over,
            metrics,
            begun,
        })
    }

    fn sample(&mut self) -> Result<Sample, LabError> {
        let (stalled, queued) = self.metrics.now().map_err(|error| broke_off(&error))?;
        Ok(Sample {
            at: self.begun.elapsed(),
            stalled,
            queued,
            target_per_s: self.instances.iter().map(Process::target_per_s).sum(),
        })
    }

    /// Ends in order.
    fn end(self) -> Result<(Counts, Served), LabError> {
        self.is_over.store(true, Ordering::Release);
        let ended: Vec<_> = self.instances.into_iter().map(Process::end).collect();
        for program in self.others {
            let ended = program.join().expect("a program does not panic");
            ended.map_err(|error| broke_off(&error))?;
        }
        let mut counts = self.tally.counts();
        counts += self.of_the_dead;
        for of_instance in ended {
            counts += of_instance?;
        }
        Ok((counts, self.links.served()))
    }
}

/// Has the system work for so long.
///
/// # Errors
/// Where a program of it breaks off.
pub fn drive(
    deployment: &Deployment,
    queue: &Queue,
    plan: &Plan,
    duration: Duration,
) -> Result<Driven, LabError> {
    let connect = connections(&deployment.url);
    let mut system = System::start(deployment, &connect, queue, plan)?;
    let mut samples = Vec::new();
    while system.begun.elapsed() < duration {
        samples.push(system.sample()?);
        let next = SAMPLE_EVERY * samples.len() as u32;
        thread::sleep(next.saturating_sub(system.begun.elapsed()));
    }
    let took = system.begun.elapsed();
    let (counts, served) = system.end()?;
    Ok(Driven {
        samples,
        counts,
        served,
        took,
    })
}

/// Has the system do what is due, and nothing that comes in; the first instance is killed where `kill` says so.
/// It ends when nothing is due or claimed, or when `patience` is over.
///
/// # Errors
/// Where a program of it breaks off.
pub fn drain(
    deployment: &Deployment,
    queue: &Queue,
    plan: &Plan,
    kill: Option<Kill>,
    patience: Duration,
) -> Result<Drained, LabError> {
    let connect = connections(&deployment.url);
    let metrics = connect("metrics").and_then(Metrics::new);
    let due = metrics.and_then(|mut metrics| metrics.due());
    let due = due.map_err(|error| broke_off(&error))?;
    let due: HashSet<u64> = due.iter().filter_map(|link| number(link)).collect();
    let plan = Plan {
        arrivals_per_s: 0,
        ..*plan
    };
    let mut system = System::start(deployment, &connect, queue, &plan)?;
    let mut held = None;
    if let Some(kill) = kill {
        while system.instances[0].held() < kill.held && system.begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        let (claimed, counts) = system.instances.remove(0).kill()?;
        system.of_the_dead = counts;
        held = Some(claimed);
    }
    let mut left = 0;
    while system.begun.elapsed() < patience {
        let sample = system.sample()?;
        left = sample.stalled + sample.queued;
        if left == 0 {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    let (counts, served) = system.end()?;
    let asked = due.iter().filter(|one| served.links.contains(one)).count();
    Ok(Drained {
        due: due.len() as u64,
        lost: (due.len() - asked) as u64 + left.unsigned_abs(),
        held,
        counts,
        served,
    })
}
