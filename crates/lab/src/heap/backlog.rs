//! A backlog that grows while consumers write single rows, and shrinks once they write batches.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::event::{Event, Events};
use super::ingest::{Pool, ingest_for};
use super::store::Store;
use crate::LabError;
use crate::error::reason;

/// Interval between two samples of the lag.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Pause of a consumer that found nothing to write.
const PAUSE: Duration = Duration::from_millis(5);

/// Parameters of a backlog test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogPlan {
    /// Number of partitions. Each has its own consumer.
    pub partitions: usize,
    /// Events produced a second, in total.
    pub per_s: f64,
    /// Duration of writing single rows.
    pub single: Duration,
    /// Maximum duration of writing batches. It ends early once nothing is left.
    pub batched: Duration,
    /// Maximum number of rows of a batch.
    pub rows: usize,
}

/// The lag at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct LagPoint {
    /// Time since the start, in seconds.
    pub at_s: f64,
    /// Events produced but not yet written, by partition.
    pub lag: Vec<u64>,
}

/// Result of a backlog test.
#[derive(Debug, Clone, PartialEq)]
pub struct Backlog {
    /// Its parameters.
    pub plan: BacklogPlan,
    /// The lag over time.
    pub points: Vec<LagPoint>,
    /// Time at which consumers switched to batches, in seconds from the start.
    pub switched_s: f64,
    /// Time at which the total lag was first at most a tenth of the lag at the switch, in seconds from the start.
    pub cleared_s: Option<f64>,
    /// Total lag at the switch to batches.
    pub at_switch: u64,
    /// Total lag at the end.
    pub at_end: u64,
    /// Events written a second as single rows.
    pub single_per_s: f64,
    /// Events written a second in batches, until the backlog was cleared.
    pub batched_per_s: f64,
}

/// Measures the rate at which the same consumers write single rows, in rows a second, if there is always more to
/// write.
///
/// # Errors
/// If one breaks off.
pub fn measure_single_row_rate(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    partitions: usize,
    time: Duration,
) -> Result<f64, LabError> {
    let done = ingest_for(pool, store, first_event, (partitions, 1), time)?;
    Ok(done.per_s())
}

/// Produces and consumes events, and samples the lag.
///
/// # Errors
/// If a consumer breaks off.
pub fn measure_backlog(
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
    // A partition is a log that grows evenly. Its events are generated when they are read.
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
            // Continues for another second, to verify that the lag stays low.
            let stays = cleared.is_some_and(|at| elapsed.as_secs_f64() > at + 1.0);
            if elapsed >= end || stays || over.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
                return;
            }
            thread::sleep(SAMPLE_EVERY);
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok(summarize(plan, points))
}

fn sum(point: &LagPoint) -> u64 {
    point.lag.iter().sum()
}

/// Returns the lag at the switch to batches.
fn at_switch(points: &[LagPoint], switched_s: f64) -> u64 {
    let before = points.iter().rev().find(|point| point.at_s <= switched_s);
    before.map_or(0, sum)
}

/// Returns the time at which the lag was first at most a tenth of the lag at the switch.
fn cleared(points: &[LagPoint], switched_s: f64) -> Option<f64> {
    let tenth = at_switch(points, switched_s) / 10;
    let mut later_points = points.iter().filter(|point| point.at_s > switched_s);
    later_points
        .find(|point| sum(point) <= tenth)
        .map(|point| point.at_s)
}

fn summarize(plan: BacklogPlan, points: Vec<LagPoint>) -> Backlog {
    let switched_s = plan.single.as_secs_f64();
    let (at_switch, cleared_s) = (at_switch(&points, switched_s), cleared(&points, switched_s));
    let last = points.last();
    let (at_end, end_s) = (last.map_or(0, sum), last.map_or(0.0, |point| point.at_s));
    let until_s = cleared_s.unwrap_or(end_s);
    let left = points.iter().find(|point| point.at_s >= until_s);
    let left = left.map_or(at_end, sum);
    // Events written are events produced minus the growth of the lag.
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
        let backlog = summarize(plan, points);
        assert_eq!((backlog.at_switch, backlog.at_end), (500, 5));
        assert_eq!(backlog.cleared_s, Some(15.0));
        assert_eq!(backlog.single_per_s, 50.0);
        // 500 more produced, and 460 of the backlog, in five seconds.
        assert_eq!(backlog.batched_per_s, (500.0 + 460.0) / 5.0);
    }
}
