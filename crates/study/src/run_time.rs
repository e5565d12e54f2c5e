//! Breakdown of the time of a run, from its executions, observations and CPU profile.

use std::collections::BTreeMap;
use std::path::PathBuf;

use run::{RunReader, SampleWindow, SampledStatement};
use time_breakdown::observed::{Observed, ObservedChange};
use time_breakdown::time_model::{
    PlanningShare, ProcessorBreakdown, ResponseTotals, ServerObservations, TimeBreakdown,
    TimeChange, break_down_processor_time, match_truncated_queries,
};

use crate::failure::Failure;
use crate::observation;
use crate::processor_time;
use crate::processor_time::CpuTimeSource;

/// Breaks down the time that clients saw. Returns `None` if the server was neither observed nor profiled.
///
/// # Errors
/// If the run cannot be read.
pub fn break_down_time(
    run: &RunReader,
    sums: &ResponseTotals,
    count: CpuTimeSource,
) -> Result<Option<TimeBreakdown>, Failure> {
    let stacks = processor_time::read_stacks(run, count)?;
    if sums.all.calls == 0 || (!run.is_observed() && stacks.times.is_empty()) {
        return Ok(None);
    }
    let mut texts = BTreeMap::new();
    for text in run.statements()? {
        let text = text?;
        texts.insert(text.fingerprint, text);
    }
    let seen: Vec<SampledStatement> = run.observed_statements()?.collect::<Result<_, _>>()?;
    let windows: Vec<SampleWindow> = run.sample_windows()?.collect::<Result<_, _>>()?;
    let seen = ServerObservations {
        windows: &windows,
        stacks: &stacks.times,
        whole: &match_truncated_queries(&seen, &texts),
    };
    let mut model = time_breakdown::time_model::break_down_time(
        sums,
        seen,
        run.statement_statistics()?,
        run.activity()?,
    )?;
    let mut evidence = stacks.processor;
    if evidence.stacks.is_empty() {
        evidence = processor_time::read_kernel_counts(run)?;
        evidence.running_ns = model.running_ns();
    }
    model.processor = break_down_processor_time(&evidence);
    model.planning = PlanningShare::new(model.planned_and_executed_ns, stacks.planned_and_executed);
    model.name_statements(&texts);
    Ok(Some(model))
}

/// Breaks down the processor time of the server, as `show` does. Returns `None` if it was neither counted nor sampled.
///
/// # Errors
/// If the run cannot be read.
pub fn break_down_processor(run: &RunReader) -> Result<Option<ProcessorBreakdown>, Failure> {
    let stacks = processor_time::read_stacks(run, CpuTimeSource::TaskClock)?.processor;
    // Without stacks, the time of statements is inferred from the breakdown of their response times.
    if !stacks.stacks.is_empty() || !run.is_observed() {
        return Ok(break_down_processor_time(&stacks));
    }
    let windows: Vec<SampleWindow> = run.sample_windows()?.collect::<Result<_, _>>()?;
    let sums = ResponseTotals::with_windows(&windows).collect(run.executions()?)?;
    let time = break_down_time(run, &sums, CpuTimeSource::TaskClock)?;
    Ok(time.and_then(|time| time.processor))
}

/// Compares the time breakdown of both sides of a comparison. Returns `None` unless all runs were observed.
///
/// # Errors
/// If a run cannot be read.
pub fn compare_time_breakdowns(
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<Option<TimeChange>, Failure> {
    let mut sides = [Vec::new(), Vec::new()];
    for (times, paths) in sides.iter_mut().zip([before, after]) {
        for path in paths {
            let run = RunReader::open(path)?;
            if !run.is_observed() {
                return Ok(None);
            }
            let windows: Vec<SampleWindow> = run.sample_windows()?.collect::<Result<_, _>>()?;
            let sums = ResponseTotals::with_windows(&windows).collect(run.executions()?)?;
            let Some(time) = break_down_time(&run, &sums, CpuTimeSource::Scheduler)? else {
                return Ok(None);
            };
            times.push(time);
        }
    }
    let [before, after] = sides;
    Ok(TimeChange::new(&before, &after))
}

/// Compares the observations of the targets of both sides.
///
/// # Errors
/// If a run cannot be read.
pub fn compare_observations(
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<Option<ObservedChange>, Failure> {
    let side = |paths: &[PathBuf]| -> Result<Vec<Observed>, Failure> {
        let each = paths
            .iter()
            .map(|path| observation::summarize_observations(&RunReader::open(path)?));
        each.collect()
    };
    Ok(ObservedChange::new(&side(before)?, &side(after)?))
}
