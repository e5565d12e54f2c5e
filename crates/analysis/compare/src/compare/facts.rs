//! Facts about a side: counts and latencies without a judgement.

use std::collections::BTreeSet;

use run::RunStatus;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::over_time::{ComparedOverTime, SideStretch, TimesByStretch};
use crate::run_stats::RunStats;
use statistics::Histogram;
use statistics::LatencySummary;
use statistics::STRETCHES_MAX;

/// All runs of one side. Counts are sums over the runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SideFacts {
    /// Each run separately, in the given order.
    pub runs: Vec<RunFacts>,
    /// Statements that succeeded.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Statements that ended otherwise than in the capture, as far as that is known: with another error, another
    /// number of rows or other values.
    pub diverged: u64,
    /// Statements answered per second of replay; `None` if the runs took no time.
    pub throughput_per_s: Option<f64>,
    /// Response time (due → done) of the statements that succeeded.
    pub response: Option<LatencySummary>,
    /// Tool lag of the statements that were sent.
    pub tool_lag: Option<LatencySummary>,
    /// Session lag (waiting for the session's previous statement) of the statements that were sent.
    pub session_lag: Option<LatencySummary>,
}

/// Facts about one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunFacts {
    /// Name of the run, as the user gave it.
    pub name: String,
    /// Name of the workload.
    pub workload: String,
    /// Whether the replay reached its end.
    pub status: RunStatus,
    /// Address of the server.
    pub target: String,
    /// Version that the server reports; empty if unknown.
    pub server_version: String,
    /// Speed of the replay.
    pub speed: String,
    /// Start of the replay, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Completion time of the last statement, in nanoseconds from the start.
    pub elapsed_ns: i64,
    /// Statements that succeeded.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Statements that ended otherwise than in the capture, as far as that is known.
    pub diverged: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that could not be opened.
    pub connects_failed: u64,
    /// Response time (due → done) of the statements that succeeded.
    pub response: Option<LatencySummary>,
    /// Tool lag of the statements that were sent.
    pub tool_lag: Option<LatencySummary>,
    /// Session lag (waiting for the session's previous statement) of the statements that were sent.
    pub session_lag: Option<LatencySummary>,
}

/// Returns the latency summary of several histograms merged.
pub(super) fn merged_summary<'a>(
    histograms: impl Iterator<Item = &'a Histogram>,
) -> Option<LatencySummary> {
    let mut all: Option<Histogram> = None;
    for one in histograms {
        match &mut all {
            None => all = Some(one.clone()),
            Some(sum) => sum.merge(one),
        }
    }
    all?.latency_summary()
}

/// Collects a side's facts; `response` is the latency summary of all its runs.
pub(super) fn side_facts(runs: &[RunStats], response: Option<LatencySummary>) -> SideFacts {
    let each: Vec<RunFacts> = runs.iter().map(run_facts).collect();
    let sum = |count: fn(&RunFacts) -> u64| each.iter().map(count).sum::<u64>();
    let (done, failed) = (sum(|run| run.done), sum(|run| run.failed));
    let elapsed_ns: i64 = each.iter().map(|run| run.elapsed_ns).sum();
    SideFacts {
        done,
        failed,
        skipped: sum(|run| run.skipped),
        diverged: sum(|run| run.diverged),
        throughput_per_s: (elapsed_ns > 0)
            .then(|| (done + failed) as f64 * 1e9 / elapsed_ns as f64),
        response,
        tool_lag: merged_summary(runs.iter().map(|run| &run.tool_lag)),
        session_lag: merged_summary(runs.iter().map(|run| &run.session_lag)),
        runs: each,
    }
}

fn run_facts(run: &RunStats) -> RunFacts {
    RunFacts {
        name: run.name.clone(),
        workload: run.info.workload.name.clone(),
        status: run.info.status,
        target: run.info.target.address.clone(),
        server_version: run.info.target.server_version.clone(),
        speed: run.speed().to_owned(),
        started_wall_us: run.info.started_wall_us,
        elapsed_ns: run.last_done_ns,
        done: run.all.outcomes.done,
        failed: run.all.outcomes.failed(),
        skipped: run.all.outcomes.skipped,
        diverged: run.diverged,
        connects: run.connects.outcomes.done,
        connects_failed: run.connects.outcomes.failed(),
        response: run.response.latency_summary(&run.response.sorted()),
        tool_lag: run.tool_lag.latency_summary(),
        session_lag: run.session_lag.latency_summary(),
    }
}

/// Returns the fingerprints of all runs.
pub(super) fn fingerprints<'a>(runs: impl Iterator<Item = &'a RunStats>) -> Vec<Fingerprint> {
    let all: BTreeSet<Fingerprint> = runs
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    all.into_iter().collect()
}

/// Returns the number of stretches up to the last that is not empty in any of the runs.
pub(super) fn stretches_used<'a>(runs: impl Iterator<Item = &'a RunStats>) -> usize {
    runs.filter_map(|run| {
        run.counts_by_stretch
            .iter()
            .rposition(|(sent, _)| *sent > 0)
    })
    .max()
    .map_or(0, |last| last + 1)
}

/// Returns both sides by stretch.
pub(super) fn over_time(before: &[RunStats], after: &[RunStats], used: usize) -> ComparedOverTime {
    let width_ns = before.first().map_or(0, |run| run.timeline.width_ns());
    ComparedOverTime {
        width_ns,
        before: side_over_time(before, used),
        after: side_over_time(after, used),
    }
}

fn side_over_time(runs: &[RunStats], used: usize) -> Vec<SideStretch> {
    let sum = |get: fn(&RunStats) -> &TimesByStretch| {
        let mut all = TimesByStretch::new();
        for run in runs {
            all.merge(get(run));
        }
        all
    };
    let service = sum(|run| &run.service_by_stretch);
    let response = sum(|run| &run.response_by_stretch);
    let tool_lag = sum(|run| &run.tool_lag_by_stretch);
    (0..used.min(STRETCHES_MAX))
        .map(|slot| {
            let counts = runs.iter().map(|run| run.counts_by_stretch[slot]);
            let (sent, failed) = counts.fold((0, 0), |(sent, failed), (more, bad)| {
                (sent + more, failed + bad)
            });
            SideStretch {
                sent,
                failed,
                service: service.stretch(slot),
                response: response.stretch(slot),
                tool_lag: tool_lag.stretch(slot),
            }
        })
        .collect()
}
