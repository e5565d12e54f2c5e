//! Runs before and after a change are compared.

use std::path::PathBuf;

use archive::ArchiveError;
use compare::condition::Condition;
use compare::{CompareOptions, Comparison, RunProfile, Runs};
use run::RunReader;

use crate::enrich_comparison;
use crate::enrich_comparison::PlanTargets;
use crate::failure::Failure;
use crate::run_time;

/// Which runs, and what counts as a difference.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Before the change.
    pub before: Vec<PathBuf>,
    /// After the change.
    pub after: Vec<PathBuf>,
    /// Of one unchanged server.
    pub noise: Vec<PathBuf>,
    /// How it is judged.
    pub options: CompareOptions,
    /// Targets that are asked now for the plans of statements, instead of those that the runs know.
    pub plan_targets: Option<PlanTargets>,
    /// Whether to divide the time of both sides into parts, which reads each run once more.
    pub breaks_down_time: bool,
    /// Conditions that are checked on the result.
    pub conditions: Vec<Condition>,
}

/// A run that is given twice on one side would pass for two, whatever it is called.
fn refuse_repeats(side: &[RunReader]) -> Result<(), Failure> {
    for (at, run) in side.iter().enumerate() {
        if let Some(other) = side[..at].iter().find(|other| other.id() == run.id()) {
            return Err(Failure::usage(format!(
                "{} and {} are one run, given twice on one side; give each run once",
                other.path().display(),
                run.path().display()
            )));
        }
    }
    Ok(())
}

/// A run that is on both sides.
fn in_both<'r>(
    before: &'r [RunReader],
    after: &'r [RunReader],
) -> Option<(&'r RunReader, &'r RunReader)> {
    let pairs = before
        .iter()
        .flat_map(|one| after.iter().map(move |other| (one, other)));
    pairs
        .into_iter()
        .find(|(one, other)| one.id() == other.id())
}

/// A run of an observation has nothing to compare.
fn replayed(reader: RunReader) -> Result<RunReader, Failure> {
    match reader.info().is_observation() {
        false => Ok(reader),
        true => Err(Failure::usage(format!(
            "{} is of `rehearse observe` or `rehearse profile`, which replayed nothing; compare runs of `rehearse replay`",
            reader.path().display()
        ))),
    }
}

/// Compares runs, with all that is known of their targets and plans.
///
/// # Errors
/// If a run cannot be read, is given twice, or was not replayed; and as [`PlanTargets`] says.
pub fn compare_runs(request: &Request) -> Result<Comparison, Failure> {
    let mut comparison = compare_executions(request)?;
    enrich_comparison::put_into(&mut comparison, &request.before, &request.after)?;
    if let Some(targets) = &request.plan_targets {
        enrich_comparison::explain(&mut comparison, request, targets)?;
    }
    if request.breaks_down_time {
        comparison.time = run_time::change(&request.before, &request.after)?;
        if comparison.time.is_some() {
            comparison.observed = run_time::observed(&request.before, &request.after)?;
        }
    }
    let check = |condition: &Condition| condition.check(&comparison);
    comparison.conditions = request.conditions.iter().map(check).collect();
    Ok(comparison)
}

/// All runs are opened before any is read, and two are read at a time.
fn compare_executions(request: &Request) -> Result<Comparison, Failure> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, Failure> {
        paths
            .iter()
            .map(|path| replayed(RunReader::open(path)?))
            .collect()
    };
    let (before, after) = (open(&request.before)?, open(&request.after)?);
    let noise = open(&request.noise)?;
    for side in [&before, &after, &noise] {
        refuse_repeats(side)?;
    }
    if let Some((one, other)) = in_both(&before, &after) {
        return Err(Failure::usage(format!(
            "{} and {} are one run, given before and after; a run beside itself shows nothing: \
             replay once more, and give that run",
            one.path().display(),
            other.path().display()
        )));
    }
    let readers: Vec<&RunReader> = before.iter().chain(&after).chain(&noise).collect();
    let mut profiles = Vec::with_capacity(readers.len());
    for pair in readers.chunks(2) {
        let read = std::thread::scope(|scope| {
            let threads: Vec<_> = pair
                .iter()
                .map(|reader| scope.spawn(|| profile(reader)))
                .collect();
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(profile) => profile,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Vec<_>>()
        });
        for profile in read {
            profiles.push(profile?);
        }
    }
    let noise = profiles.split_off(before.len() + after.len());
    let after = profiles.split_off(before.len());
    let runs = Runs {
        before: profiles,
        after,
        noise,
    };
    Ok(compare::compare(runs, request.options))
}

fn profile(reader: &RunReader) -> Result<RunProfile, ArchiveError> {
    let mut profile = RunProfile::collect(
        reader.info().clone(),
        reader.executions()?,
        reader.statements()?,
    )?;
    profile.name = reader.path().display().to_string();
    Ok(profile)
}
