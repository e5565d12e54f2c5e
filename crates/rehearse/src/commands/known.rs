//! What the runs of a comparison know of their targets and of plans, put into its view.

use std::collections::HashMap;
use std::path::PathBuf;

use analyse::plan::statement_plans;
use analyse::targets::compare_targets;
use archive::ArchiveError;
use report::{CompareView, Literals, PlanChangeView, TargetNoteView, TargetsView};
use run::{Facts, PlanFact, RunReader};

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
