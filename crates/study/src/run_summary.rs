//! Summary of a run.

use std::collections::BTreeMap;

use inspect::{Divergence, DivergenceFinder, Summary};
use run::{RunInfo, RunReader, RunStatus, SampleWindow, ShardAccount, ToolStall};
use schemars::JsonSchema;
use serde::Serialize;
use time_breakdown::observed::Observation;
use time_breakdown::time_model::{ResponseTotals, TimeBreakdown};
use workload::Literals;

use crate::failure::Failure;
use crate::observation;
use crate::processor_time::CpuTimeSource;
use crate::run_time;

/// Summary of a run. `done` + those failed + those skipped = `statements`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct RunReport {
    /// `rehearse/run/1`.
    pub schema: &'static str,
    /// Name of the run, as the user gave it.
    pub run: String,
    /// Name of the workload.
    pub workload: String,
    /// Whether the replay reached its end.
    pub status: RunStatus,
    /// Address of the server.
    pub target: String,
    /// Version of the server; empty if unknown.
    pub server_version: String,
    /// Speed of the replay.
    pub speed: String,
    /// All given options.
    pub options: BTreeMap<String, String>,
    /// Time from the replay's start to the last event due.
    pub span_due_ns: i64,
    /// Statements of the workload that are missing from the run because it was killed, or because shards are missing.
    pub missing: u64,
    /// Shards of a replay by several workers, with what is missing; `null` for other runs.
    pub shards: Option<ShardAccount>,
    /// Intervals in which the replay itself was stopped or starved, until nothing was late because of it.
    pub tool_stalls: Vec<ToolStall>,
    /// Statements answered per second; `null` if the run took no time.
    pub throughput_per_s: Option<f64>,
    /// Counts and times.
    #[serde(flatten)]
    pub summary: Summary,
    /// Differences from the capture.
    pub divergence: Divergence,
    /// Observations of the server; `null` if it was not observed.
    pub observed: Option<Observation>,
    /// Time breakdown; `null` if the target was not observed.
    pub time: Option<TimeBreakdown>,
}

impl RunReport {
    /// Creates the report of a run that was not observed. `run` is the name to display.
    pub fn new(run: &str, info: &RunInfo, mut summary: Summary, divergence: Divergence) -> Self {
        let lacks = |all: u64| all.saturating_sub(summary.statements);
        let (unreached, missing) = match info.status {
            RunStatus::Complete => (0, 0),
            RunStatus::Stopped => (lacks(info.statements), 0),
            RunStatus::Recovered | RunStatus::Incomplete => (0, lacks(info.workload.statements)),
        };
        summary.add_unreached(unreached);
        let speed = info.options.get("speed");
        Self {
            schema: "rehearse/run/1",
            run: run.to_owned(),
            workload: info.workload.name.clone(),
            status: info.status,
            target: info.target.address.clone(),
            server_version: info.target.server_version.clone(),
            speed: speed.map_or("1", String::as_str).to_owned(),
            options: info.options.clone(),
            span_due_ns: info.span_due_ns,
            missing,
            shards: None,
            tool_stalls: info.tool_stalls.clone(),
            throughput_per_s: summary.throughput_per_s(),
            summary,
            divergence,
            observed: None,
            time: None,
        }
    }
}

/// Computes the summary of a run, under this name.
///
/// # Errors
/// If the run cannot be read.
pub fn summarise_run(
    reader: &RunReader,
    name: &str,
    literals: Literals,
) -> Result<RunReport, Failure> {
    let observed = match reader.is_observed() {
        true => Some(observation::read_observation(reader, name)?),
        false => None,
    };
    let mut finder = DivergenceFinder::new(reader.info().workload.failures_named);
    let windows: Vec<SampleWindow> = reader.sample_windows()?.collect::<Result<_, _>>()?;
    let mut sums = ResponseTotals::with_windows(&windows);
    let executions = reader.executions()?.inspect(|execution| {
        if let Ok(execution) = execution {
            finder.add(execution);
            sums.add(execution);
        }
    });
    let summary = Summary::collect(executions, literals)?;
    let divergence = finder.finish(reader.statements()?, reader.info(), literals)?;
    let mut report = RunReport::new(name, reader.info(), summary, divergence);
    report.shards = reader.shards().cloned();
    report.observed = observed;
    report.time = run_time::break_down_time(reader, &sums, CpuTimeSource::TaskClock)?;
    Ok(report)
}
