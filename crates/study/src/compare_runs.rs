//! Compares runs before and after a change.

use std::path::PathBuf;

use archive::ArchiveError;
use compare::condition::Condition;
use compare::targets::compare_targets;
use compare::{CompareOptions, Comparison, RunStats, Runs};
use run::{Facts, RunReader, ToolStall};
use sql::{ContextKey, Pattern};

use crate::common_stalls::common_stalls;
use crate::compare_contexts::compare_contexts;
use crate::differing_rows::count_differing_rows;
use crate::enrich_comparison;
use crate::enrich_comparison::PlanTargets;
use crate::failure::Failure;
use crate::run_time;

/// Runs to compare, and the criteria of a difference.
#[derive(Debug, Clone, Default)]
pub struct ComparisonRequest {
    /// Paths of the runs before the change.
    pub before: Vec<PathBuf>,
    /// Paths of the runs after the change.
    pub after: Vec<PathBuf>,
    /// Paths of the runs of an unchanged server, which measure the noise.
    pub noise: Vec<PathBuf>,
    /// Options of the comparison.
    pub options: CompareOptions,
    /// Targets that are queried now for plans, instead of reading the plans of the runs.
    pub plan_targets: Option<PlanTargets>,
    /// Part of the context by which executions are compared, too.
    pub by: Option<ContextKey>,
    /// Whether to compare the time breakdown of both sides, which reads each run once more.
    pub compares_time_breakdown: bool,
    /// Patterns of statements whose rows are not compared.
    pub ignored_rows: Vec<Pattern>,
    /// Names of result columns whose values are not compared, in any case.
    pub ignored_columns: Vec<String>,
    /// Conditions that are checked on the result.
    pub conditions: Vec<Condition>,
}

/// Refuses a side that has the same run twice, even under two paths.
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

/// Returns a run that is on both sides.
fn find_common_run<'r>(
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

/// Refuses runs for the noise that are of different servers: they would show what the servers differ by.
fn refuse_different_servers(noise: &[RunReader]) -> Result<(), Failure> {
    let mut known: Option<(&RunReader, Option<Facts>)> = None;
    for run in noise {
        let facts = run.facts()?;
        let Some((first, first_facts)) = &known else {
            known = Some((run, facts));
            continue;
        };
        let version = |run: &RunReader| run.info().target.server_version.clone();
        let (one, other) = (version(first), version(run));
        let difference = match (one == other, first_facts, &facts) {
            (false, _, _) => Some(format!("PostgreSQL {one} and {other}")),
            (true, Some(one), Some(other)) => compare_targets(one, other).first_difference(),
            (true, _, _) => None,
        };
        if let Some(difference) = difference {
            return Err(Failure::usage(format!(
                "--noise takes runs of one unchanged server, and {} and {} are of different ones ({difference}); replay twice on one of them",
                first.path().display(),
                run.path().display()
            )));
        }
        if first_facts.is_none() {
            known = Some((run, facts));
        }
    }
    Ok(())
}

/// Refuses a run that has no executions, since there is nothing to compare.
fn require_executions(reader: RunReader) -> Result<RunReader, Failure> {
    match reader.info().is_observation() {
        false => Ok(reader),
        true => Err(Failure::usage(format!(
            "{} is of `rehearse observe` or `rehearse profile`, which replayed nothing; compare runs of `rehearse replay`",
            reader.path().display()
        ))),
    }
}

/// Compares runs and adds targets and plans.
///
/// # Errors
/// If a run cannot be read, is given twice, or was not replayed, or if [`PlanTargets`] are not fulfilled.
pub fn compare_runs(request: &ComparisonRequest) -> Result<Comparison, Failure> {
    let mut comparison = compare_executions(request)?;
    enrich_comparison::add_targets_and_plans(&mut comparison, &request.before, &request.after)?;
    enrich_comparison::add_earlier_replays(&mut comparison, &request.before, &request.after)?;
    if let Some(targets) = &request.plan_targets {
        enrich_comparison::add_queried_plans(&mut comparison, request, targets)?;
    }
    if request.compares_time_breakdown {
        comparison.time = run_time::compare_time_breakdowns(&request.before, &request.after)?;
        if comparison.time.is_some() {
            comparison.observed = run_time::compare_observations(&request.before, &request.after)?;
        }
    }
    if let Some(key) = request.by {
        let sides = [&request.before[..], &request.after, &request.noise];
        let contexts = compare_contexts(key, sides, request.options, &comparison)?;
        comparison.contexts = Some(contexts);
    }
    let check = |condition: &Condition| condition.check(&comparison);
    comparison.conditions = request.conditions.iter().map(check).collect();
    Ok(comparison)
}

/// Compares the executions of runs. All runs are opened before any is read, and two are read at a time.
fn compare_executions(request: &ComparisonRequest) -> Result<Comparison, Failure> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, Failure> {
        paths
            .iter()
            .map(|path| require_executions(RunReader::open(path)?))
            .collect()
    };
    let (before, after) = (open(&request.before)?, open(&request.after)?);
    let noise = open(&request.noise)?;
    for side in [&before, &after, &noise] {
        refuse_repeats(side)?;
    }
    if let Some((one, other)) = find_common_run(&before, &after) {
        return Err(Failure::usage(format!(
            "{} and {} are one run, given before and after; a run compared with itself shows nothing: \
             replay once more, and give that run",
            one.path().display(),
            other.path().display()
        )));
    }
    refuse_different_servers(&noise)?;
    let readers: Vec<&RunReader> = before.iter().chain(&after).chain(&noise).collect();
    let common_stalls = common_stalls(&readers);
    let mut profiles = Vec::with_capacity(readers.len());
    for pair in readers.chunks(2) {
        let read = std::thread::scope(|scope| {
            let threads: Vec<_> = pair
                .iter()
                .map(|reader| scope.spawn(|| read_stats(reader, common_stalls.as_deref())))
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
    let runs = Runs {
        after: profiles.split_off(before.len()),
        before: profiles,
        noise,
    };
    let mut comparison = compare::compare(runs, request.options);
    comparison.rows.ignore(&request.ignored_rows);
    comparison.rows.ignore_columns(&request.ignored_columns);
    count_differing_rows(&mut comparison, &before, &after)?;
    Ok(comparison)
}

/// Reads the statistics of a run. Times within these stalls, or else within its own, are not compared.
pub(crate) fn read_stats(
    reader: &RunReader,
    stalls: Option<&[ToolStall]>,
) -> Result<RunStats, ArchiveError> {
    let stalls = stalls.unwrap_or(&reader.info().tool_stalls);
    let mut profile = RunStats::collect_outside(
        stalls.to_vec(),
        reader.info().clone(),
        reader.executions()?,
        reader.statements()?,
    )?;
    profile.add_statistics(reader.statement_statistics()?)?;
    profile.name = reader.path().display().to_string();
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use run::{RunInfo, RunStatus, RunWriter, TargetInfo, WorkloadRef};

    use super::*;

    fn run_of(directory: &std::path::Path, name: &str, version: &str) -> RunReader {
        let info = RunInfo {
            status: RunStatus::Complete,
            workload: WorkloadRef::default(),
            target: TargetInfo {
                server_version: version.to_owned(),
                ..TargetInfo::default()
            },
            options: Default::default(),
            started_wall_us: 0,
            elapsed_ns: 0,
            span_due_ns: 0,
            span_sent_ns: 0,
            statements: 0,
            done: 0,
            failed: Default::default(),
            skipped: Default::default(),
            connections_failed: Default::default(),
            connections_lost: Default::default(),
            connections_reopened: Default::default(),
            given_up: None,
            tool_stalls: Vec::new(),
            series_gaps: Vec::new(),
            machine: None,
        };
        let path = directory.join(name);
        let writer = RunWriter::create(&path, &info, std::iter::empty()).unwrap();
        writer.finish(info, 0).unwrap();
        RunReader::open(&path).unwrap()
    }

    #[test]
    fn noise_of_different_servers_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let run = |name, version| run_of(directory.path(), name, version);
        let equal = [run("a.run", "15.18"), run("b.run", "15.18")];
        assert_eq!(refuse_different_servers(&equal), Ok(()));
        let [first, _] = equal;
        let other = [first, run("c.run", "17.2")];
        let refused = refuse_different_servers(&other).unwrap_err();
        assert!(
            refused.message.contains("PostgreSQL 15.18 and 17.2"),
            "{}",
            refused.message
        );
    }
}
