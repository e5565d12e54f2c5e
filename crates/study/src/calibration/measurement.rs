//! Measurement of the tool on this machine: the beginning of a workload is replayed against a server that answers at once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Speed, SystemClock};
use replay::{BOUNDS_NS, Histogram, Metrics, Observer, Options, SendOrder, Snapshot, Target};
use run::TargetInfo;
use schemars::JsonSchema;
use serde::Serialize;
use workload::WorkloadReader;

use super::answering_server::AnsweringServer;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Duration of a measurement.
const MEASURED: Duration = Duration::from_secs(4);
/// Duration of a part of it, whose cost is one observation.
const PART: Duration = Duration::from_millis(500);
/// Least statements of a part, since the start of a thread must not count for few of them.
const PART_STATEMENTS_MIN: u64 = 50;
/// Statements that last for a measurement at full speed. A shorter workload is repeated …
const FULL_SPEED_STATEMENTS: u64 = 500_000;
/// … at most this number of times.
const LOOPS_MAX: u64 = 1_000;
/// Longest idle time of the measurement: the beginning of a workload may be silent.
const IDLE_MAX: Duration = Duration::from_millis(250);

/// Cost of a statement, in microseconds of CPU time of this tool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StatementCost {
    /// Lowest cost of half a second.
    pub min_us: f64,
    /// Cost over the whole measurement.
    pub mean_us: f64,
    /// Highest cost of half a second.
    pub max_us: f64,
}

/// A replay of the beginning of the workload against a server that answers at once.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Measurement {
    /// Number of statements.
    pub statements: u64,
    /// Statements per second.
    pub statements_per_second: f64,
    /// CPU time of a statement.
    pub cost: StatementCost,
    /// Upper bound of the median of the tool's lag, in microseconds; `null` at full speed, when nothing is due.
    pub lag_p50_us: Option<f64>,
    /// Upper bound of the 99th percentile of the tool's lag, in microseconds; `null` at full speed.
    pub lag_p99_us: Option<f64>,
}

/// Replays the beginning of the workload at this speed for a few seconds. Returns the reason if it gives no number.
///
/// # Errors
/// If the replay cannot be started.
pub(super) fn measure(
    reader: &WorkloadReader,
    engine: &Options,
    speed: Speed,
    (server, interrupt): (&AnsweringServer, &Interrupt),
) -> Result<Result<Measurement, String>, Failure> {
    let Some(thread) = server.thread_directory() else {
        return Ok(Err(
            "this system does not show the CPU time of threads".to_owned()
        ));
    };
    let text = format!(
        "host=127.0.0.1 port={} user=rehearse dbname=rehearse sslmode=disable",
        server.port()
    );
    let target = Target::parse(&text, |_| None)?;
    let options = options_of_measurement(reader, engine, speed);
    let directory = tempfile::tempdir().map_err(Failure::could_not)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut sampler = CostSampler {
        cpu_clock: ToolCpuClock::new(thread.clone()),
        interrupt,
        metrics: None,
        elapsed_ns: 0,
        readings: Vec::new(),
    };
    replay::replay(
        reader,
        &target,
        TargetInfo::default(),
        &options,
        &directory.path().join("measured.run"),
        &clock,
        &mut sampler,
    )?;
    let is_paced = speed != Speed::Max;
    Ok(sampler.evaluate(is_paced).ok_or_else(|| {
        format!(
            "fewer than {PART_STATEMENTS_MIN} statements were due in the few seconds of a measurement"
        )
    }))
}

/// Returns the options of a measurement. What asks the target or changes the workload is left out.
fn options_of_measurement(reader: &WorkloadReader, engine: &Options, speed: Speed) -> Options {
    let mut options = Options {
        speed,
        order: SendOrder::Session,
        remap_generated: false,
        read_only: replay::ReadOnly::Off,
        previous_run: None,
        target_clock: None,
        // A kill leaves the measured run. What is encrypted must not be plain in it.
        encrypts_run: true,
        ..engine.clone()
    };
    let idle_max = options.idle_max.map_or(IDLE_MAX, |max| max.min(IDLE_MAX));
    if speed == Speed::Max {
        let statements = reader.info().statements.max(1);
        let loops = FULL_SPEED_STATEMENTS.div_ceil(statements).min(LOOPS_MAX);
        options.repeat = options.repeat.max(loops as u32);
    }
    options.idle_max = (speed != Speed::Max).then_some(idle_max);
    options
}

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at_ns: i64,
    done: u64,
    cpu_ns: u64,
}

/// Observer that reads the tool's CPU time, and stops the replay after a few seconds.
struct CostSampler<'m> {
    cpu_clock: ToolCpuClock,
    interrupt: &'m Interrupt,
    metrics: Option<Arc<Metrics>>,
    /// Time since the start of the replay.
    elapsed_ns: i64,
    /// Readings with progress.
    readings: Vec<Reading>,
}

impl CostSampler<'_> {
    /// Whether the measured time is over.
    fn is_over(&self) -> bool {
        match &self.readings[..] {
            [first, ..] => self.elapsed_ns - first.at_ns >= MEASURED.as_nanos() as i64,
            [] => false,
        }
    }

    fn evaluate(&self, is_paced: bool) -> Option<Measurement> {
        let (first, last) = (self.readings.first()?, self.readings.last()?);
        let mut costs: Vec<f64> = Vec::new();
        let mut from = first;
        for reading in &self.readings {
            let statements = reading.done - from.done;
            let is_part = reading.at_ns - from.at_ns >= PART.as_nanos() as i64;
            if is_part && statements >= PART_STATEMENTS_MIN {
                costs.push(cost_us(from, reading));
                from = reading;
            }
        }
        let statements = last.done - first.done;
        if statements < PART_STATEMENTS_MIN {
            return None;
        }
        let mean_us = cost_us(first, last);
        let seconds = (last.at_ns - first.at_ns) as f64 / 1e9;
        let lag = self.metrics.as_ref().map(|metrics| metrics.read().tool_lag);
        let lag = lag.filter(|_| is_paced);
        let quantile_us = |part: f64| Some(quantile_ns(lag.as_ref()?, part)? / 1e3);
        Some(Measurement {
            statements,
            statements_per_second: statements as f64 / seconds,
            cost: StatementCost {
                min_us: costs.iter().copied().fold(mean_us, f64::min),
                mean_us,
                max_us: costs.iter().copied().fold(mean_us, f64::max),
            },
            lag_p50_us: quantile_us(0.5),
            lag_p99_us: quantile_us(0.99),
        })
    }
}

fn cost_us(from: &Reading, to: &Reading) -> f64 {
    to.cpu_ns.saturating_sub(from.cpu_ns) as f64 / 1e3 / (to.done - from.done).max(1) as f64
}

/// Returns the upper bound of the cell with a quantile; `None` without durations.
fn quantile_ns(histogram: &Histogram, part: f64) -> Option<f64> {
    let rank = (histogram.count() as f64 * part).ceil().max(1.0) as u64;
    let mut below = 0;
    for (cell, bound) in histogram.cells.iter().zip(BOUNDS_NS) {
        below += cell;
        if below >= rank {
            return Some(bound as f64);
        }
    }
    // Longer than all bounds.
    (histogram.count() > 0).then_some(BOUNDS_NS[BOUNDS_NS.len() - 1] as f64)
}

impl Observer for CostSampler<'_> {
    fn on_metrics(&mut self, metrics: &Arc<Metrics>) {
        self.metrics = Some(Arc::clone(metrics));
    }

    fn on_progress(&mut self, snapshot: &Snapshot) {
        let done = snapshot.done + snapshot.failed;
        let cpu_ns = self.cpu_clock.now_ns();
        self.elapsed_ns = snapshot.elapsed_ns;
        // Connecting the sessions that were open at the start of a capture is no cost of a statement. After the measured
        // time the replay is being stopped.
        let known = self.readings.last().map_or(0, |reading| reading.done);
        if done == known || self.is_over() {
            return;
        }
        if let Some(cpu_ns) = cpu_ns {
            self.readings.push(Reading {
                at_ns: snapshot.elapsed_ns,
                done,
                cpu_ns,
            });
        }
    }

    fn should_stop(&mut self) -> bool {
        self.interrupt.is_requested() || self.is_over()
    }
}

/// CPU time of this process's threads apart from the answering server's.
struct ToolCpuClock {
    server_thread: PathBuf,
    /// Last reading of each thread, in nanoseconds. Threads that have ended keep theirs.
    threads: HashMap<OsString, u64>,
}

impl ToolCpuClock {
    fn new(server_thread: PathBuf) -> Self {
        ToolCpuClock {
            server_thread,
            threads: HashMap::new(),
        }
    }

    /// Returns the CPU time in nanoseconds: the first number of each `schedstat` (the kernel's
    /// `Documentation/scheduler/sched-stats.rst`).
    fn now_ns(&mut self) -> Option<u64> {
        for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
            let path = task.path();
            // A thread may have ended since the directory was listed.
            if path != self.server_thread
                && let Some(cpu_ns) = thread_cpu_ns(&path)
            {
                self.threads.insert(task.file_name(), cpu_ns);
            }
        }
        Some(self.threads.values().sum())
    }
}

fn thread_cpu_ns(directory: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(directory.join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn cpu_time_of_an_ended_thread_is_kept_and_that_of_the_server_left_out() {
        let work = || {
            let begun_ns = clock::monotonic_ns();
            while clock::monotonic_ns() - begun_ns < 20_000_000 {}
        };
        let mut clock = ToolCpuClock::new(PathBuf::new());
        clock.threads.insert("ended".into(), 5);
        let before_ns = clock.now_ns().unwrap();
        work();
        let after_ns = clock.now_ns().unwrap();
        assert!(after_ns > before_ns && clock.threads.get(OsStr::new("ended")) == Some(&5));
    }

    #[test]
    fn quantile_is_the_bound_of_its_cell() {
        let mut histogram = Histogram::default();
        assert_eq!(quantile_ns(&histogram, 0.5), None);
        histogram.cells[1] = 98;
        histogram.cells[3] = 2;
        assert_eq!(quantile_ns(&histogram, 0.5), Some(20_000.0));
        assert_eq!(quantile_ns(&histogram, 0.99), Some(100_000.0));
    }

    #[test]
    fn cost_is_of_whole_parts_with_enough_statements() {
        let reading = |tenths: i64, done, cpu_us: u64| Reading {
            at_ns: tenths * 100_000_000,
            done,
            cpu_ns: cpu_us * 1_000,
        };
        let interrupt = Interrupt::default();
        let mut sampler = CostSampler {
            cpu_clock: ToolCpuClock::new(PathBuf::new()),
            interrupt: &interrupt,
            metrics: None,
            elapsed_ns: 0,
            readings: vec![reading(1, 10, 500), reading(6, 110, 2_500)],
        };
        sampler.readings.push(reading(11, 120, 9_000));
        sampler.readings.push(reading(16, 210, 12_500));
        let measured = sampler.evaluate(true).unwrap();
        assert_eq!(measured.statements, 200);
        // 100 statements for 2 ms, and 100 for 10 ms; the ten of the third reading are no part of their own.
        let StatementCost {
            min_us,
            mean_us,
            max_us,
        } = measured.cost;
        assert_eq!((min_us, mean_us, max_us), (20.0, 60.0, 100.0));
        sampler.readings.truncate(1);
        assert_eq!(sampler.evaluate(true), None);
    }
}
