//! What the runs of a comparison know of their targets and of plans, put into it.

use std::collections::HashMap;
use std::path::PathBuf;

use archive::ArchiveError;
use clock::SystemClock;
use compare::targets::{TargetNote, compare_targets};
use compare::{Comparison, Side};
use observe::Example;
use plans::statement_plans;
use replay::{LoginMap, Target};
use run::{FactNote, Facts, PlanFact, PlanOutcome, RunReader, ServiceTime};
use sql::Fingerprint;

use crate::compare_runs::Request;
use crate::failure::Failure;
use crate::keys;
use crate::notes;
use crate::target_snapshot::{login_of, told};

/// Servers that are asked for plans. The workload must be that of the runs, and a login must work at each server.
#[derive(Debug, Clone)]
pub struct PlanTargets {
    /// Connection string of the server before the change.
    pub before: String,
    /// Connection string of the server after the change.
    pub after: String,
    /// The workload of the runs, which has the values of an example of each statement.
    pub workload: PathBuf,
}

/// Puts targets and plans into the comparison, as far as both sides know them: of each side, the first run
/// that does.
///
/// # Errors
/// Where a run cannot be read.
pub fn put_into(
    comparison: &mut Comparison,
    before: &[PathBuf],
    after: &[PathBuf],
) -> Result<(), ArchiveError> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, ArchiveError> {
        paths.iter().map(|path| RunReader::open(path)).collect()
    };
    let (before, after) = (&open(before)?[..], &open(after)?[..]);
    let facts = [facts(before)?, facts(after)?];
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
        comparison.targets = Some(targets);
    }
    let (before, after) = (plans(before)?, plans(after)?);
    for statement in &mut comparison.statements {
        let [before, after] = [&before, &after].map(|plans| plans.get(&statement.fingerprint));
        statement.plans = statement_plans(before, after, comparison.literals);
    }
    Ok(())
}

/// Asks both targets for the plans of statements, those first that got slower or faster, if that is
/// wished, and puts them in the place of those that the runs know. Where nothing could be asked of a
/// statement, that of the runs stays.
///
/// # Errors
/// Where a target or the workload is of no use, or is not that of the runs; and where no login works at
/// a target.
pub fn explain(
    comparison: &mut Comparison,
    request: &Request,
    targets: &PlanTargets,
) -> Result<(), Failure> {
    let PlanTargets {
        before,
        after,
        workload,
    } = targets;
    let reader = keys::open(workload)?;
    let statements = comparison.statements.iter().enumerate();
    let mut chosen: Vec<(usize, Fingerprint)> = statements
        .map(|(place, statement)| (place, statement.fingerprint))
        .collect();
    // Those first of which a difference is known; the others in the order of what they add.
    let finding = |place: usize| comparison.statements[place].service.finding;
    chosen.sort_by_key(|(place, _)| finding(*place).measure().is_none());
    chosen.truncate(observe::PLANS_MAX);
    let wanted = chosen.iter().map(|(_, fingerprint)| *fingerprint).collect();
    let mut examples = observe::examples(&reader, &wanted)?;
    let wanted: Vec<(ServiceTime, Option<Example>)> = chosen
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
    let ask = |side: &str, target: &str, runs: &[PathBuf]| -> Result<Vec<PlanFact>, Failure> {
        let runs: Vec<RunReader> = runs
            .iter()
            .map(|run| RunReader::open(run))
            .collect::<Result<_, _>>()?;
        let run = runs.first().expect("a side has a run");
        // A run of a part of a workload has the part's id, and the name of the whole.
        let (of, name) = (&run.info().workload, workload.display().to_string());
        if of.id != reader.id() && of.name != name {
            return Err(Failure::usage(format!(
                "{} is not the workload of the run {}; give the one that was replayed, {}",
                reader.path().display(),
                run.path().display(),
                of.name
            )));
        }
        let target = Target::parse(target, |name| std::env::var(name).ok())?;
        let logins = LoginMap::of_described(&run.info().options);
        let login_of = |example: &Example| login_of(&target, &logins, example);
        let answers = observe::plans(&target, &wanted, &login_of, &SystemClock::start());
        if answers.logins == 0 && !answers.failures.is_empty() {
            return Err(Failure::could_not(format!(
                "the target {side} could not be asked for plans: {}; check --{side}-target, or leave \
                 --explain out to see the plans that the runs know",
                answers.failures.join("; ")
            )));
        }
        let told = told(&answers);
        let (found, kept) = with_known(answers.plans, &plans(&runs)?);
        let kept = match kept {
            0 => String::new(),
            kept => format!(" Those that the run knows stay: {kept}."),
        };
        notes::note(&format!("The target {side}. {told}{kept}"));
        Ok(found)
    };
    let before = ask("before", before, &request.before)?;
    let after = ask("after", after, &request.after)?;
    for ((place, _), (before, after)) in chosen.iter().zip(before.iter().zip(&after)) {
        comparison.statements[*place].plans =
            statement_plans(Some(before), Some(after), comparison.literals);
    }
    Ok(())
}

/// The answers, but what a run knows where nothing was asked; and how often that is so.
fn with_known(
    answers: Vec<PlanFact>,
    known: &HashMap<Fingerprint, PlanFact>,
) -> (Vec<PlanFact>, u64) {
    let is_asked = |plan: &PlanFact| !matches!(plan.outcome, PlanOutcome::Unasked(_));
    let mut kept = 0;
    let all = answers.into_iter().map(|answer| {
        let known = known.get(&answer.fingerprint);
        match known.filter(|known| is_asked(known) && !is_asked(&answer)) {
            Some(known) => {
                kept += 1;
                known.clone()
            }
            None => answer,
        }
    });
    (all.collect(), kept)
}

fn facts(runs: &[RunReader]) -> Result<Vec<Facts>, ArchiveError> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(run.facts()?);
    }
    Ok(all)
}

/// By fingerprint.
fn plans(runs: &[RunReader]) -> Result<HashMap<Fingerprint, PlanFact>, ArchiveError> {
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
    fn what_a_run_knows_stays_where_nothing_was_asked() {
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
        let (found, kept) = with_known(answers, &known);
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
