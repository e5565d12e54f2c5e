//! A backlog, and how it clears: more is produced than single rows can take, then consumers write batches.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::event::{Event, Events};
use super::ingest::{Pool, for_a_while};
use super::store::Store;
use crate::LabError;
use crate::error::reason;

/// From one look at the lag to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A consumer that finds nothing looks again so soon.
const PAUSE: Duration = Duration::from_millis(5);

/// How a backlog is made, and cleared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogPlan {
    /// Partitions, each with a consumer of its own.
    pub partitions: usize,
    /// Events a second that are produced, in all.
    pub per_s: f64,
    /// For how long rows are written singly.
    pub single: Duration,
    /// For how long in batches, at most: it ends once nothing is left.
    pub batched: Duration,
    /// Rows of a batch, at most.
    pub rows: usize,
}

/// The lag at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct LagPoint {
    /// Seconds from the beginning.
    pub at_s: f64,
    /// Events produced and not written yet, of each partition.
    pub lag: Vec<u64>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Backlog {
    /// How it was made.
    pub plan: BacklogPlan,
    /// The lag over time.
    pub points: Vec<LagPoint>,
    /// When batches began, in seconds from the beginning.
    pub switched_s: f64,
    /// When the lag of all partitions was a tenth of what it had been at that moment, or less.
    pub cleared_s: Option<f64>,
    /// The lag of all partitions when batches began.
    pub at_switch: u64,
    /// And at the end.
    pub at_end: u64,
    /// Events a second that were written singly.
    pub single_per_s: f64,
    /// Events a second that were written in batches, until the backlog was cleared.
    pub batched_per_s: f64,
}

/// What the same consumers write in a second, one row a statement, where there is always more.
///
/// # Errors
/// Where one breaks off.
pub fn single_row_rate(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    partitions: usize,
    time: Duration,
) -> Result<f64, LabError> {
    let done = for_a_while(pool, store, first_event, (partitions, 1), time)?;
    Ok(done.per_s())
}

/// Produces, consumes, and looks at the lag.
///
/// # Errors
/// Where a consumer breaks off.
pub fn backlog(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    plan: BacklogPlan,
) -> Result<Backlog, LabError> {
    let begun = Instant::now();
    let end = plan.single + plan.batched;
    let committed: Vec<AtomicU64> = (0..plan.partitions).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let failure: Mutex<Option<LabError>> = Mutex::new(None);
    // A partition is a log that grows evenly; what is in it is made up when it is read.
    let produced =
        |elapsed: Duration| (plan.per_s / plan.partitions as f64 * elapsed.as_secs_f64()) as u64;
    let mut points: Vec<LagPoint> = Vec::new();
    thread::scope(|scope| {
        for (number, committed) in committed.iter().enumerate() {
            let (over, failure, produced) = (&over, &failure, &produced);
            scope.spawn(move || {
                let first = first_event + ((number as u64 + 1) << 32);
                let events = Events::new(store.size.customers, first);
                let mut events = events.of_partition(number as u32, plan.partitions as u32);
                while !over.load(Ordering::Relaxed) {
                    let elapsed = begun.elapsed();
                    let waiting = produced(elapsed) - committed.load(Ordering::Relaxed);
                    if waiting == 0 {
                        thread::sleep(PAUSE);
                        continue;
                    }
                    let (most, rows) = match elapsed >= plan.single {
                        true => (plan.rows * store.size.customers as usize, plan.rows),
                        false => (1, 1),
                    };
                    let count = waiting.min(most as u64);
                    let taken: Vec<Event> = events.by_ref().take(count as usize).collect();
                    if let Err(error) = pool.write(taken, rows) {
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failure.get_or_insert(LabError::Client {
                            number,
                            reason: reason(&error),
                        });
                        over.store(true, Ordering::Relaxed);
                        return;
                    }
                    committed.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
        loop {
            let elapsed = begun.elapsed();
            let lag: Vec<u64> = committed
                .iter()
                .map(|one| produced(elapsed).saturating_sub(one.load(Ordering::Relaxed)))
                .collect();
            points.push(LagPoint {
                at_s: elapsed.as_secs_f64(),
                lag,
            });
            let cleared = cleared(&points, plan.single.as_secs_f64());
            // A little longer, so that it is seen to stay so.
            let stays = cleared.is_some_and(|at| elapsed.as_secs_f64() > at + 1.0);
            if elapsed >= end || stays || over.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(told(plan, points))
}

fn sum(point: &LagPoint) -> u64 {
    point.lag.iter().sum()
}

/// The lag when batches began.
fn at_switch(points: &[LagPoint], switched_s: f64) -> u64 {
    let before = points.iter().rev().find(|point| point.at_s <= switched_s);
    before.map_or(0, sum)
}

/// When no more than a tenth of that was left.
fn cleared(points: &[LagPoint], switched_s: f64) -> Option<f64> {
    let tenth = at_switch(points, switched_s) / 10;
    let mut behind = points.iter().filter(|point| point.at_s > switched_s);
    behind
        .find(|point| sum(point) <= tenth)
        .map(|point| point.at_s)
}

fn told(plan: BacklogPlan, points: Vec<LagPoint>) -> Backlog {
    let switched_s = plan.single.as_secs_f64();
    let (at_switch, cleared_s) = (at_switch(&points, switched_s), cleared(&points, switched_s));
    let last = points.last();
    let (at_end, end_s) = (last.map_or(0, sum), last.map_or(0.0, |point| point.at_s));
    let until_s = cleared_s.unwrap_or(end_s);
    let left = points.iter().find(|point| point.at_s >= until_s);
    let left = left.map_or(at_end, sum);
    // Written is what was produced less what the lag grew by.
    let single = plan.per_s * switched_s - at_switch as f64;
    let batched = plan.per_s * (until_s - switched_s) + at_switch as f64 - left as f64;
    Backlog {
        plan,
        switched_s,
        cleared_s,
        at_switch,
        at_end,
        single_per_s: single / switched_s.max(1e-9),
        batched_per_s: batched / (until_s - switched_s).max(1e-9),
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_from_production_and_lag() {
        let plan = BacklogPlan {
            partitions: 2,
            per_s: 100.0,
            single: Duration::from_secs(10),
            batched: Duration::from_secs(10),
            rows: 50,
        };
        let points = [
            (0.0, 0, 0),
            (10.0, 300, 200),
            (12.0, 100, 100),
            (15.0, 20, 20),
            (16.0, 0, 5),
        ]
        .map(|(at_s, a, b)| LagPoint {
            at_s,
            lag: vec![a, b],
        })
        .to_vec();
        let told = told(plan, points);
        assert_eq!((told.at_switch, told.at_end), (500, 5));
        assert_eq!(told.cleared_s, Some(15.0));
        assert_eq!(told.single_per_s, 50.0);
        // 500 more produced, and 460 of the backlog, in five seconds.
        assert_eq!(told.batched_per_s, (500.0 + 460.0) / 5.0);
    }
}
