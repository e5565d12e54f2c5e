//! The whole system: instances, importer, upkeep, the links' server, and metrics.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::claim::LockClause;
use super::feed::{Feed, import};
use super::links::{LinkServer, RequestCounts};
use super::metrics::{Metrics, Sample};
use super::process::{Deployment, Process};
use super::schema::{Queue, number};
use super::tally::{Counts, Tally};
use super::upkeep::run_upkeep;
use super::{Connect, connections};
use crate::LabError;
use crate::error::reason;

/// Interval between two samples of the metrics.
const SAMPLE_EVERY: Duration = Duration::from_millis(400);
/// Interval of checks whether all work is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Parameters of the system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemPlan {
    /// Number of instances.
    pub instances: usize,
    /// Number of workers of each instance.
    pub workers: usize,
    /// Maximum number of links of a claim.
    pub batch: u32,
    /// Number of links that the channel of an instance holds.
    pub channel: usize,
    /// Lock clause of a claim.
    pub locks: LockClause,
    /// Maximum rate of an instance's limiter, in links a second.
    pub rate_per_s: f64,
    /// New links that arrive each second; 0 for none.
    pub arrivals_per_s: u32,
    /// Interval of the reaper and of retention.
    pub upkeep_every: Duration,
    /// Age at which the reaper releases a claim.
    pub reap_after: Duration,
    /// Whether the shops' servers have periods of errors.
    pub has_error_periods: bool,
}

/// Result of a period of the system's work.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemResult {
    /// Metrics over time.
    pub samples: Vec<Sample>,
    /// Counts of the programs' work.
    pub counts: Counts,
    /// Requests that the links' server received.
    pub served: RequestCounts,
    /// Duration.
    pub took: Duration,
}

/// Condition under which an instance is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillCondition {
    /// Number of links that the instance has claimed but not finished.
    pub held: i64,
}

/// Result of processing a fixed number of links.
#[derive(Debug, Clone, PartialEq)]
pub struct DrainResult {
    /// Number of links that were due.
    pub due: u64,
    /// Number of these links that were never requested, or were claimed but not finished.
    pub lost: u64,
    /// Number of links that the killed instance had claimed but not finished, by its last report.
    pub held: Option<i64>,
    /// Counts of the programs' work.
    pub counts: Counts,
    /// Requests that the links' server received.
    pub served: RequestCounts,
}

type Program = JoinHandle<Result<(), postgres::Error>>;

/// The running system.
struct System {
    links: LinkServer,
    tally: Arc<Tally>,
    instances: Vec<Process>,
    /// Counts of a killed instance, by its last report.
    killed_counts: Counts,
    others: Vec<Program>,
    is_over: Arc<AtomicBool>,
    metrics: Metrics,
    begun: Instant,
}

fn program_error(error: &postgres::Error) -> LabError {
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
        plan: &SystemPlan,
    ) -> Result<Self, LabError> {
        let links = LinkServer::start(plan.has_error_periods)?;
        let tally = Arc::new(Tally::default());
        let is_over = Arc::new(AtomicBool::new(false));
        let metrics = connect("metrics").and_then(Metrics::new);
        let metrics = metrics.map_err(|error| program_error(&error))?;
        let begun = Instant::now();
        // Instances start first, since they may fail to.
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
            run_upkeep(&theirs, every, after, &kept, &over)
        }));
        Ok(System {
            links,
            tally,
            instances,
            killed_counts: Counts::default(),
            others,
            is_over,
            metrics,
            begun,
        })
    }

    fn sample(&mut self) -> Result<Sample, LabError> {
        let (stalled, queued) = self.metrics.now().map_err(|error| program_error(&error))?;
        Ok(Sample {
            at: self.begun.elapsed(),
            stalled,
            queued,
            target_per_s: self.instances.iter().map(Process::target_per_s).sum(),
        })
    }

    /// Ends all programs in order.
    fn end(self) -> Result<(Counts, RequestCounts), LabError> {
        self.is_over.store(true, Ordering::Release);
        let ended: Vec<_> = self.instances.into_iter().map(Process::end).collect();
        for program in self.others {
            let ended = program.join().expect("a program does not panic");
            ended.map_err(|error| program_error(&error))?;
        }
        let mut counts = self.tally.counts();
        counts += self.killed_counts;
        for of_instance in ended {
            counts += of_instance?;
        }
        Ok((counts, self.links.served()))
    }
}

/// Runs the system for a duration.
///
/// # Errors
/// If a program of it breaks off.
pub fn run_system(
    deployment: &Deployment,
    queue: &Queue,
    plan: &SystemPlan,
    duration: Duration,
) -> Result<SystemResult, LabError> {
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
    Ok(SystemResult {
        samples,
        counts,
        served,
        took,
    })
}

/// Processes the links that are due, without new arrivals. The first instance is killed under the condition `kill`.
/// It ends when nothing is due or claimed, or when `patience` is over.
///
/// # Errors
/// If a program of it breaks off.
pub fn drain_queue(
    deployment: &Deployment,
    queue: &Queue,
    plan: &SystemPlan,
    kill: Option<KillCondition>,
    patience: Duration,
) -> Result<DrainResult, LabError> {
    let connect = connections(&deployment.url);
    let metrics = connect("metrics").and_then(Metrics::new);
    let due = metrics.and_then(|mut metrics| metrics.due());
    let due = due.map_err(|error| program_error(&error))?;
    let due: HashSet<u64> = due.iter().filter_map(|link| number(link)).collect();
    let plan = SystemPlan {
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
        system.killed_counts = counts;
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
    Ok(DrainResult {
        due: due.len() as u64,
        lost: (due.len() - asked) as u64 + left.unsigned_abs(),
        held,
        counts,
        served,
    })
}
