//! What the runs of a comparison know of their targets and of plans, put into its view.

use std::collections::HashMap;
use std::path::PathBuf;

use analyse::plan::statement_plans;
use analyse::targets::compare_targets;
use archive::ArchiveError;
use clock::SystemClock;
use observe::Example;
use replay::{LoginMap, Target};
use report::{CompareView, Literals, PlanChangeView, TargetNoteView, TargetsView};
use run::{Facts, PlanFact, PlanOutcome, RunReader, ServiceTime};
use workload::Fingerprint;

use crate::commands::asking::{login_of, told};
use crate::commands::compare::Request;
use crate::ending::Failure;
use crate::keys;
use crate::options::asking::ExplainArgs;
use crate::terminal;

/// Puts targets and plans into the view, as far as both sides know them: of each side, the first run
/// that does.
///
/// # Errors
/// Where a run cannot be read.
pub fn put_into(
    view: &mut CompareView,
    before: &[PathBuf],
    after: &[PathBuf],
    literals: Literals,
) -> Result<(), ArchiveError> {
    let open = |paths: &[PathBuf]| -> Result<Vec<RunReader>, ArchiveError> {
        paths.iter().map(|path| RunReader::open(path)).collect()
    };
    let (before, after) = (&open(before)?[..], &open(after)?[..]);
    let facts = [facts(before)?, facts(after)?];
    if let [[one, ..], [other, ..]] = [&facts[0][..], &facts[1][..]] {
        let mut targets = TargetsView::new(&compare_targets(one, other));
        for (side, all) in ["before", "after"].into_iter().zip(&facts) {
            if all
                .iter()
                .any(|other| !compare_targets(&all[0], other).is_same())
            {
                targets.notes.push(TargetNoteView {
                    side,
                    about: "target".to_owned(),
                    text:
                        "the runs of this side found targets that differ; the first one's is shown"
                            .to_owned(),
                    count: None,
                });
            }
        }
        view.targets = Some(targets);
    }
    let (before, after) = (plans(before)?, plans(after)?);
    for statement in &mut view.statements {
        let of = |plans: &'_ HashMap<String, PlanFact>| plans.get(&statement.fingerprint).cloned();
        let (before, after) = (of(&before), of(&after));
        let found = statement_plans(before.as_ref(), after.as_ref());
        statement.plan = found.map(|found| PlanChangeView::new(&found, literals));
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
    view: &mut CompareView,
    request: &Request,
    options: &ExplainArgs,
    literals: Literals,
) -> Result<(), Failure> {
    let (Some(before), Some(after), Some(workload)) = (
        &options.before_target,
        &options.after_target,
        &options.workload,
    ) else {
        return Ok(());
    };
    let reader = keys::open(workload)?;
    let mut chosen: Vec<(usize, Fingerprint)> = view
        .statements
        .iter()
        .enumerate()
        .filter_map(|(place, statement)| {
            let fingerprint = u64::from_str_radix(&statement.fingerprint, 16).ok()?;
            Some((place, Fingerprint(fingerprint)))
        })
        .collect();
    // Those first of which a difference is known; the others in the order of what they add.
    chosen.sort_by_key(|(place, _)| view.statements[*place].service.measure.is_none());
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
        terminal::note(&format!("The target {side}. {told}{kept}"));
        Ok(found)
    };
    let before = ask("before", before, &request.before)?;
    let after = ask("after", after, &request.after)?;
    for ((place, _), (before, after)) in chosen.iter().zip(before.iter().zip(&after)) {
        let found = statement_plans(Some(before), Some(after));
        view.statements[*place].plan = found.map(|found| PlanChangeView::new(&found, literals));
    }
    Ok(())
}

/// The answers, but what a run knows where nothing was asked; and how often that is so.
fn with_known(answers: Vec<PlanFact>, known: &HashMap<String, PlanFact>) -> (Vec<PlanFact>, u64) {
    let is_asked = |plan: &PlanFact| !matches!(plan.outcome, PlanOutcome::Unasked(_));
    let mut kept = 0;
    let all = answers.into_iter().map(|answer| {
        let known = known.get(&answer.fingerprint.to_string());
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
fn plans(runs: &[RunReader]) -> Result<HashMap<String, PlanFact>, ArchiveError> {
    for run in runs {
        if let Some(plans) = run.plans()? {
            let by_name = plans.into_iter();
            return Ok(by_name
                .map(|plan| (plan.fingerprint.to_string(), plan))
                .collect());
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
        let known: HashMap<String, PlanFact> = [
            plan(1, planned("old")),
            plan(2, planned("old")),
            plan(3, planned("old")),
            plan(4, utility()),
        ]
        .into_iter()
        .map(|plan| (plan.fingerprint.to_string(), plan))
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
