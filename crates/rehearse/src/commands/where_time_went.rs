//! Where the time of a run went: reads what was observed and profiled for the time model.

use std::collections::BTreeMap;
use std::path::PathBuf;

use analyse::observed::Observed;
use analyse::phases::{Phase, PhaseAccount, PhaseSums, Rules};
use analyse::time_model::{ProcessorTime, Seen, Sums, time_model, whole_statements};
use report::{ObservedChangeView, TimeChangeView, TimeView};
use run::{RunReader, SampleWindow, SeenStatement};
use workload::Fingerprint;

use crate::commands::profiled::Profiled;
use crate::commands::summary;
use crate::ending::Failure;
use crate::options::profiling::ChoiceArgs;

/// Of what clients saw, if somebody watched the server meanwhile, or took its stacks.
///
/// # Errors
/// Where the run cannot be read.
pub fn time(run: &RunReader, sums: &Sums) -> Result<Option<TimeView>, Failure> {
    let stacks = stacks(run)?;
    if sums.all.calls == 0 || (!run.is_observed() && stacks.is_empty()) {
        return Ok(None);
    }
    let mut texts = BTreeMap::new();
    for text in run.statements()? {
        let text = text?;
        texts.insert(text.fingerprint, text);
    }
    let seen: Vec<SeenStatement> = run.seen_statements()?.collect::<Result<_, _>>()?;
    let windows: Vec<SampleWindow> = run.sample_windows()?.collect::<Result<_, _>>()?;
    let seen = Seen {
        windows: &windows,
        stacks: &stacks,
        whole: &whole_statements(&seen, &texts),
    };
    let model = time_model(sums, seen, run.statement_statistics()?, run.activity()?)?;
    Ok(Some(TimeView::new(&model, &texts)))
}

/// Of both sides of a comparison, where all runs were watched.
///
/// # Errors
/// Where a run cannot be read.
pub fn change(before: &[PathBuf], after: &[PathBuf]) -> Result<Option<TimeChangeView>, Failure> {
    let mut sides = [Vec::new(), Vec::new()];
    for (times, paths) in sides.iter_mut().zip([before, after]) {
        for path in paths {
            let run = RunReader::open(path)?;
            if !run.is_observed() {
                return Ok(None);
            }
            let sums = Sums::collect(run.executions()?)?;
            let Some(time) = time(&run, &sums)? else {
                return Ok(None);
            };
            times.push(time);
        }
    }
    let [before, after] = sides;
    Ok(TimeChangeView::new(&before, &after))
}

/// What was observed of the targets of both sides.
///
/// # Errors
/// Where a run cannot be read.
pub fn observed(
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<Option<ObservedChangeView>, Failure> {
    let side = |paths: &[PathBuf]| -> Result<Vec<Observed>, Failure> {
        let each = paths
            .iter()
            .map(|path| summary::observed(&RunReader::open(path)?));
        each.collect()
    };
    Ok(ObservedChangeView::new(&side(before)?, &side(after)?))
}

/// The processor's time by phase, of all and of each statement where that can be told. Nothing
/// where no profile was taken.
fn stacks(run: &RunReader) -> Result<Vec<ProcessorTime>, Failure> {
    let has = run
        .profile()?
        .is_some_and(|profile| profile.info().off.is_none());
    if !has {
        return Ok(Vec::new());
    }
    let profiled = Profiled::open(RunReader::open(run.path())?, &ChoiceArgs::default())?;
    let (stacks, rules) = (profiled.stacks()?, Rules::new());
    let placed: Vec<_> = stacks.iter().map(|stack| rules.place(stack)).collect();
    let mut account = PhaseAccount::default();
    profiled.each(|stack, statement| {
        if let Some(placed) = placed.get(stack as usize) {
            account.add(*placed, statement);
        }
    })?;
    let mut all = times(None, account.all());
    for one in account.statements() {
        all.extend(times(Some(one.fingerprint), &one.sums));
    }
    Ok(all)
}

/// Waiting for a client is no statement's time.
fn times(fingerprint: Option<Fingerprint>, sums: &PhaseSums) -> Vec<ProcessorTime> {
    let phases = sums.largest_first().into_iter();
    phases
        .filter(|(phase, _)| *phase != Phase::Idle)
        .map(|(phase, samples)| ProcessorTime {
            fingerprint,
            phase: phase.title().to_owned(),
            is_planning: phase == Phase::Plan,
            time: samples as f64,
        })
        .collect()
}
