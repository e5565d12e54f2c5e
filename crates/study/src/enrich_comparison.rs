//! Adds targets and plans of the compared runs to a comparison.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use archive::ArchiveError;
use clock::SystemClock;
use compare::targets::{TargetNote, compare_targets};
use compare::{Comparison, Side, Warning, WhichRun};
use observe::Example;
use plans::{StatementPlans, statement_plans};
use replay::{LoginMap, Target};
use run::{FactNote, Facts, Moment, PlanFact, PlanOutcome, RunReader, ServiceTime};
use sql::Fingerprint;
use workload::WorkloadReader;

use crate::compare_runs::ComparisonRequest;
use crate::earlier_replay;
use crate::failure::Failure;
use crate::keys;
use crate::notes;
use crate::target_snapshot::{example_login, summarize_plans};

/// Servers that are queried for plans. The workload must be that of the runs, and a login must work at each server.
#[derive(Debug, Clone)]
pub struct PlanTargets {
    /// Connection string of the server before the change.
    pub before: String,
    /// Connection string of the server after the change.
    pub after: String,
    /// The workload of the runs, which has the values of an example of each statement.
    pub workload: PathBuf,
}

/// Adds targets and plans to the comparison, if both sides have them. Each side is represented by its first run that
/// has them.
///
/// # Errors
/// If a run cannot be read.
pub fn add_targets_and_plans(
    comparison: &mut Comparison,
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<(), ArchiveError> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, ArchiveError> {
        paths.iter().map(|path| RunReader::open(path)).collect()
    };
    let (before, after) = (&open(before)?[..], &open(after)?[..]);
    let facts = [read_facts(before)?, read_facts(after)?];
    if let [[one, ..], [other, ..]] = [&facts[0][..], &facts[1][..]] {
        let mut targets = compare_targets(one, other);
        for (side, all) in [Side::Before, Side::After].into_iter().zip(&facts) {
            if all
                .iter()
                .any(|other| !compare_targets(&all[0], other).same)
            {
                let text =
                    "the runs of this side found targets that differ; the first one's is shown";
                let note = FactNote {
                    about: "target".to_owned(),
                    text: text.to_owned(),
                    ..FactNote::default()
                };
                targets.notes.push(TargetNote { side, note });
            }
        }
        comparison.set_targets(targets);
        comparison.explain_rows(Some([one, other]));
    } else {
        comparison.explain_rows(None);
    }
    let (before, after) = (read_plans(before)?, read_plans(after)?);
    let literals = comparison.literals;
    comparison.set_plans(|statement| {
        let [before, after] = [&before, &after].map(|plans| plans.get(&statement.fingerprint));
        statement_plans(before, after, literals)
    });
    Ok(())
}

/// Warns of runs at whose start the target still had the writes of an earlier one: of these runs, or one next to it.
///
/// # Errors
/// If a run cannot be read.
pub fn add_earlier_replays(
    comparison: &mut Comparison,
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<(), ArchiveError> {
    let paths = before.iter().chain(after);
    let runs: Vec<RunReader> = paths
        .map(|path| RunReader::open(path))
        .collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let Some(evidence) = run.evidence(Moment::Before)? else {
            continue;
        };
        let started_us = run.info().started_wall_us;
        let given = earlier_replay::find_among(&runs, &evidence, started_us)?;
        let earlier =
            given.or_else(|| earlier_replay::find_next_to(run.path(), &evidence, started_us));
        let Some(earlier) = earlier else {
            continue;
        };
        let (side, at, count) = match place.checked_sub(before.len()) {
            None => (Side::Before, place, before.len()),
            Some(at) => (Side::After, at, after.len()),
        };
        let number = (count > 1).then_some(at + 1);
        found.push(Warning::TargetNotRestored {
            run: WhichRun { side, number },
            earlier: earlier.run.display().to_string(),
            changed: earlier.tables,
            tables: earlier.named,
        });
    }
    comparison.warnings.splice(..0, found);
    Ok(())
}

/// Queries both targets for the plans of statements and adds them to the comparison. Statements with a known
/// difference come first. A plan of the run is kept if its statement could not be queried.
///
/// # Errors
/// If a target or the workload cannot be used, the workload is not that of the runs, or no login works at a target.
pub fn add_queried_plans(
    comparison: &mut Comparison,
    request: &ComparisonRequest,
    targets: &PlanTargets,
) -> Result<(), Failure> {
    let reader = keys::open_workload(&targets.workload)?;
    let chosen = choose_statements(comparison);
    let fingerprints = chosen.iter().map(|(_, fingerprint)| *fingerprint).collect();
    let mut examples = observe::examples(&reader, &fingerprints)?;
    let examples: Vec<(ServiceTime, Option<Example>)> = chosen
        .iter()
        .map(|&(_, fingerprint)| {
            let time = ServiceTime {
                fingerprint,
                service_ns: 0,
                calls: 0,
            };
            (time, examples.remove(&fingerprint))
        })
        .collect();
    let query = |side: &str, target: &str, runs: &[PathBuf]| {
        let runs: Vec<RunReader> = runs
            .iter()
            .map(|run| RunReader::open(run))
            .collect::<Result<_, _>>()?;
        let run = runs.first().expect("a side has a run");
        require_same_workload(run, &reader, &targets.workload)?;
        query_plans(side, target, &runs, &examples)
    };
    let before = query("before", &targets.before, &request.before)?;
    let after = query("after", &targets.after, &request.after)?;
    let literals = comparison.literals;
    let mut queried: HashMap<Fingerprint, Option<StatementPlans>> = chosen
        .iter()
        .zip(before.iter().zip(&after))
        .map(|((_, fingerprint), (before, after))| {
            let plans = statement_plans(Some(before), Some(after), literals);
            (*fingerprint, plans)
        })
        .collect();
    comparison.set_plans(|statement| {
        let queried = queried.remove(&statement.fingerprint);
        queried.unwrap_or_else(|| statement.plans.clone())
    });
    Ok(())
}

/// Chooses the statements whose plans are queried, by index and fingerprint. Statements with a known difference come
/// first. The others follow in the order of their contribution.
fn choose_statements(comparison: &Comparison) -> Vec<(usize, Fingerprint)> {
    let statements = comparison.statements.iter().enumerate();
    let mut chosen: Vec<(usize, Fingerprint)> = statements
        .map(|(place, statement)| (place, statement.fingerprint))
        .collect();
    let finding = |place: usize| comparison.statements[place].service.finding;
    chosen.sort_by_key(|(place, _)| finding(*place).measure().is_none());
    chosen.truncate(observe::PLANS_MAX);
    chosen
}

/// Refuses a workload that is not that of a run.
fn require_same_workload(
    run: &RunReader,
    reader: &WorkloadReader,
    path: &Path,
) -> Result<(), Failure> {
    // A run of a part of a workload has the part's id, and the name of the whole.
    let replayed = &run.info().workload;
    if replayed.id == reader.id() || replayed.name == path.display().to_string() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} is not the workload of the run {}; give the one that was replayed, {}",
        reader.path().display(),
        run.path().display(),
        replayed.name
    )))
}

/// Queries the target of a side for plans, and keeps those of its runs for statements that could not be queried.
fn query_plans(
    side: &str,
    target: &str,
    runs: &[RunReader],
    examples: &[(ServiceTime, Option<Example>)],
) -> Result<Vec<PlanFact>, Failure> {
    let target = Target::parse(target, |name| std::env::var(name).ok())?;
    let logins = LoginMap::from_manifest(&runs[0].info().options);
    let login_of = |example: &Example| example_login(&target, &logins, example);
    let answers = observe::plans(&target, examples, &login_of, &SystemClock::start());
    if answers.logins == 0 && !answers.failures.is_empty() {
        return Err(Failure::could_not(format!(
            "the target {side} could not be asked for plans: {}; check --{side}-target, or leave \
             --explain out to see the plans that the runs know",
            answers.failures.join("; ")
        )));
    }
    let summary = summarize_plans(&answers);
    let (found, kept) = keep_known_plans(answers.plans, &read_plans(runs)?);
    let kept = match kept {
        0 => String::new(),
        kept => format!(" Those that the run knows stay: {kept}."),
    };
    notes::note(&format!("The target {side}. {summary}{kept}"));
    Ok(found)
}

/// Merges answers with the plans that a run knows, which replace answers of statements that were not queried. Returns
/// the number of plans of the run that were kept.
fn keep_known_plans(
    answers: Vec<PlanFact>,
    known: &HashMap<Fingerprint, PlanFact>,
) -> (Vec<PlanFact>, u64) {
    let is_queried = |plan: &PlanFact| !matches!(plan.outcome, PlanOutcome::Unasked(_));
    let mut kept = 0;
    let all = answers.into_iter().map(|answer| {
        let known = known.get(&answer.fingerprint);
        match known.filter(|known| is_queried(known) && !is_queried(&answer)) {
            Some(known) => {
                kept += 1;
                known.clone()
            }
            None => answer,
        }
    });
    (all.collect(), kept)
}

fn read_facts(runs: &[RunReader]) -> Result<Vec<Facts>, ArchiveError> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(run.facts()?);
    }
    Ok(all)
}

/// Returns the plans of the first run that has any, by fingerprint.
fn read_plans(runs: &[RunReader]) -> Result<HashMap<Fingerprint, PlanFact>, ArchiveError> {
    for run in runs {
        if let Some(plans) = run.plans()? {
            let by_name = plans.into_iter();
            return Ok(by_name.map(|plan| (plan.fingerprint, plan)).collect());
        }
    }
    Ok(HashMap::new())
}

#[cfg(test)]
mod tests {
    use run::NoPlan;
    use workload::Sqlstate;

    use super::*;

    fn plan(fingerprint: u64, outcome: PlanOutcome) -> PlanFact {
        PlanFact {
            fingerprint: Fingerprint(fingerprint),
            service_ns: 0,
            calls: 0,
            example: None,
            database: String::new(),
            user: String::new(),
            outcome,
        }
    }

    #[test]
    fn keep_known_plans_replaces_only_statements_not_queried() {
        let planned = |text: &str| PlanOutcome::Planned(text.to_owned());
        let unasked = || PlanOutcome::Unasked(NoPlan::NoConnection);
        let refused = || PlanOutcome::Refused {
            sqlstate: Sqlstate(*b"42P01"),
            message: "gone".to_owned(),
        };
        let utility = || PlanOutcome::Unasked(NoPlan::Utility);
        let known: HashMap<Fingerprint, PlanFact> = [
            plan(1, planned("old")),
            plan(2, planned("old")),
            plan(3, planned("old")),
            plan(4, utility()),
        ]
        .into_iter()
        .map(|plan| (plan.fingerprint, plan))
        .collect();
        let answers = vec![
            plan(1, unasked()),
            plan(2, planned("new")),
            plan(3, refused()),
            plan(4, unasked()),
            plan(5, unasked()),
        ];
        let (found, kept) = keep_known_plans(answers, &known);
        let outcomes: Vec<_> = found.into_iter().map(|plan| plan.outcome).collect();
        assert_eq!(
            outcomes,
            [
                planned("old"),
                planned("new"),
                refused(),
                unasked(),
                unasked()
            ]
        );
        assert_eq!(kept, 1);
    }
}
