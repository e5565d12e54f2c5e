//! Plans without data: compares the plans of a workload's statements on two private servers that plan with an export.

mod conditions;
mod doubts;
mod examples;
mod explainable;
mod masked_values;
mod open_sessions;
mod overridden_settings;
mod perturbed;
mod plan_gaps;
mod result;
mod side;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::sandbox::{Dirs, ServerRequirements};
use planner_copy::{NotRestored, PlannerCopyError, PlannerExport};
use plans::{PlanSide, StatementPlans, compare_plans, plan_risks};
use workload::{Literals, WorkloadReader};

use crate::change_script::ChangeScript;
use crate::environment::FindInstallation;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes;

pub use conditions::PlanCondition;
use doubts::Doubts;
use examples::CheckedExamples;
use overridden_settings::overridden_settings;
use perturbed::compare_copies;
use plan_gaps::PlanGaps;
pub use result::{
    CheckedSide, CheckedStatement, ConditionHolds, Coverage, Limitation, LimitedSide,
    PerturbedPlans, PlanCheck, PlanPair, PlanValues, PlanVerdict, PlannerSource,
    UncheckedStatement,
};
use side::{SidePlans, plan_side};

/// One side of a check.
#[derive(Debug, Clone, Default)]
pub struct SideRequest {
    /// Major version; `None` for that of the export.
    pub version: Option<u16>,
    /// Change of the schema.
    pub change: Option<ChangeScript>,
    /// Settings in addition to those of the export.
    pub settings: Vec<(String, String)>,
    /// Export that this side plans with; `None` for that of the request.
    pub planner: Option<PathBuf>,
}

/// Parameters of a check.
pub struct PlanCheckRequest<'a> {
    /// File of the export.
    pub planner: &'a Path,
    /// Side before.
    pub before: SideRequest,
    /// Side after.
    pub after: SideRequest,
    /// Finds installations.
    pub find: FindInstallation,
    /// Whether values are shown.
    pub literals: Literals,
    /// Number of perturbed copies of the statistics, with which all statements are planned again.
    pub perturbed_copies: u32,
    /// Conditions of the user.
    pub conditions: &'a [PlanCondition],
}

impl From<PlannerCopyError> for Failure {
    fn from(error: PlannerCopyError) -> Self {
        match error {
            PlannerCopyError::Usage(sentence) => Failure::usage(sentence),
            PlannerCopyError::Sandbox(error) => error.into(),
            error => Failure::could_not(error),
        }
    }
}

/// Compares the plans of all statements that have one.
///
/// # Errors
/// If a file cannot be read, a server cannot be created, or the change fails.
pub fn check_plans(
    request: &PlanCheckRequest<'_>,
    workload: &WorkloadReader,
    interrupt: &Interrupt,
) -> Result<PlanCheck, Failure> {
    let export = PlannerExport::read(request.planner)?;
    let chosen = CheckedExamples::read(workload, &export)?;
    if chosen.statements.is_empty() {
        return Err(Failure::usage(format!(
            "{} has no statement that could be planned in the database {} of the export; give the export of the database \
             that was captured",
            workload.path().display(),
            export.database
        )));
    }
    let own = |side: &SideRequest| side.planner.as_deref().map(PlannerExport::read).transpose();
    let own = [own(&request.before)?, own(&request.after)?];
    let overridden =
        overridden_settings(&request.after.settings, own[1].as_ref().unwrap_or(&export))?;
    let dirs = Dirs::from_environment()?;
    let version = |side: &SideRequest| side.version.unwrap_or_else(|| export.major());
    let find = |side| (request.find)(&ServerRequirements::major(version(side)), &dirs);
    let installations = [find(&request.before)?, find(&request.after)?];
    notes::note(&format!(
        "Planning {} statements on private servers of PostgreSQL {} and {}.",
        chosen.statements.len(),
        installations[0].version,
        installations[1].version
    ));
    let (sides, literals) = ([&request.before, &request.after], request.literals);
    let [before, after] = std::thread::scope(|scope| {
        [0, 1]
            .map(|at| {
                let (chosen, installation) = (&chosen, &installations[at]);
                let export = own[at].as_ref().unwrap_or(&export);
                let (side, dirs) = (sides[at], &dirs);
                scope.spawn(move || {
                    plan_side(
                        side,
                        (export, chosen),
                        (installation, dirs),
                        (literals, request.perturbed_copies),
                        interrupt,
                    )
                })
            })
            .map(|thread| thread.join().expect("a side does not panic"))
    });
    let (before, mut after) = (before?, after?);
    after.left_out.extend(overridden);
    if interrupt.is_requested() {
        return Err(Failure::could_not("the check was stopped"));
    }
    Ok(assemble(
        request,
        (workload, &export, &own),
        chosen,
        before,
        after,
    ))
}

fn assemble(
    request: &PlanCheckRequest<'_>,
    (workload, export, own): (&WorkloadReader, &PlannerExport, &[Option<PlannerExport>; 2]),
    chosen: CheckedExamples,
    before: SidePlans,
    after: SidePlans,
) -> PlanCheck {
    let unknown_users = chosen.unknown_users(export);
    let mut gaps = PlanGaps::default();
    for (side, own) in [&before, &after].into_iter().zip(own) {
        gaps.add(
            own.as_ref().unwrap_or(export),
            &side.left_out,
            &side.created,
        );
    }
    let mut statements = Vec::new();
    let mut unchecked = chosen.unchecked;
    let mut doubts = Doubts::default();
    let is_masked = !workload.info().masked.is_empty();
    let outcomes = before.outcomes.into_iter().zip(after.outcomes);
    let copies = || before.perturbed.iter().zip(&after.perturbed);
    for (at, (statement, (befores, afters))) in
        chosen.statements.into_iter().zip(outcomes).enumerate()
    {
        let pairs: Vec<PlanPair> = statement
            .tasks
            .iter()
            .zip(befores.into_iter().zip(afters))
            .enumerate()
            .filter_map(|(task_at, (task, (one, other)))| {
                let sides = (one?, other?);
                let copies: Vec<_> = copies()
                    .map(|(one, other)| (one[at][task_at].as_ref(), other[at][task_at].as_ref()))
                    .collect();
                let perturbed = compare_copies((&sides.0, &sides.1), &copies);
                Some(pair(task.values(), sides, perturbed))
            })
            .collect();
        let checked = CheckedStatement::new(&statement, pairs);
        match doubts.unchecked_reason(&checked, &gaps) {
            Some(reason) => {
                let cause = is_masked.then(|| masked_values::cause(&checked, export));
                unchecked.push(UncheckedStatement {
                    fingerprint: checked.fingerprint,
                    sql: checked.sql,
                    executions: checked.executions,
                    captured_us: checked.captured_us,
                    reason: match cause.flatten() {
                        Some(cause) => format!("{reason}: {cause}"),
                        None => reason,
                    },
                });
            }
            None => statements.push(checked),
        }
    }
    statements.sort_by_key(|one| std::cmp::Reverse(one.order()));
    unchecked.sort_by_key(|one| std::cmp::Reverse((one.captured_us, one.executions)));
    let conditions: Vec<ConditionHolds> = request
        .conditions
        .iter()
        .map(|condition| condition.check(&statements, &unchecked))
        .collect();
    let coverage = Coverage::of(&statements, &unchecked, chosen.without_plan);
    let is_restored_after = |one: &NotRestored| {
        after
            .left_out
            .iter()
            .all(|other| other.subject != one.subject)
    };
    let missing = before.left_out.iter();
    doubts.missing_before = missing.filter(|one| is_restored_after(one)).count();
    PlanCheck {
        workload: workload.path().display().to_string(),
        planner: PlannerSource::of(request.planner, export),
        before: CheckedSide::new(&request.before, before.version, own[0].as_ref()),
        after: CheckedSide::new(&request.after, after.version, own[1].as_ref()),
        undecided: doubts.undecided(&conditions, &coverage),
        coverage,
        limitations: limitations(
            (export, own),
            &before.left_out,
            &after.left_out,
            [
                chosen.note.map(|note| ("database", note)),
                unknown_users.map(|note| ("users", note)),
                mask_note(workload, export).map(|note| ("masking", note)),
            ],
        ),
        statements,
        unchecked,
        perturbed_copies: request.perturbed_copies,
        conditions,
    }
}

/// Returns the difference between the masking of the workload and that of the export, if there is one.
fn mask_note(workload: &WorkloadReader, export: &PlannerExport) -> Option<String> {
    let masks = &workload.info().masked;
    let keys: Vec<&str> = masks.iter().map(|note| note.key.as_str()).collect();
    const EFFECT: &str = "so its values are not those of the statistics, and estimates differ";
    match (&export.mask_key, &keys[..]) {
        (None, []) => None,
        (Some(key), [only]) if key == only => None,
        (Some(key), []) => Some(format!(
            "the export is masked with the key {key} and the workload is not, {EFFECT}; mask the workload with the same key"
        )),
        (Some(key), _) => Some(format!(
            "the export is masked with the key {key} and the workload with {}, {EFFECT}; mask both with the same key",
            keys.join(" and ")
        )),
        (None, _) => Some(format!(
            "the workload is masked with the key {} and the export is not, {EFFECT}; export with --mask and the same key",
            keys.join(" and ")
        )),
    }
}

fn pair(
    values: PlanValues,
    (before, after): (PlanSide, PlanSide),
    perturbed: Option<PerturbedPlans>,
) -> PlanPair {
    let both = before.plan().zip(after.plan());
    let comparison = both.map(|(one, other)| compare_plans(one, other));
    let risks = match (both, &comparison) {
        (Some((one, other)), Some(comparison)) => plan_risks(one, other, comparison),
        _ => Vec::new(),
    };
    let cost = |side: &PlanSide| side.plan().map(|plan| plan.root.cost);
    let (cost_before, cost_after) = (cost(&before), cost(&after));
    let cost_ratio = cost_before
        .zip(cost_after)
        .map(|(before, after)| result::cost_ratio(before, after));
    PlanPair {
        values,
        cost_before,
        cost_after,
        cost_ratio,
        risks,
        perturbed,
        plans: StatementPlans {
            before,
            after,
            comparison,
        },
    }
}

/// Returns what both sides lack, once each.
fn limitations(
    (export, own): (&PlannerExport, &[Option<PlannerExport>; 2]),
    before: &[NotRestored],
    after: &[NotRestored],
    notes: [Option<(&str, String)>; 3],
) -> Vec<Limitation> {
    let mut known = BTreeSet::new();
    let exported = export.not_exported.iter();
    let exported = exported.map(|one| (LimitedSide::Export, &one.subject, &one.reason));
    let sides = [LimitedSide::Before, LimitedSide::After].into_iter();
    let of_side = sides.zip(own).flat_map(|(side, export)| {
        let parts = export.iter().flat_map(|export| &export.not_exported);
        parts.map(move |one| (side, &one.subject, &one.reason))
    });
    let restored = [(LimitedSide::Before, before), (LimitedSide::After, after)];
    let restored = restored
        .into_iter()
        .flat_map(|(side, all)| all.iter().map(move |one| (side, &one.subject, &one.reason)));
    let mut limits: Vec<Limitation> = notes
        .into_iter()
        .flatten()
        .map(|(subject, reason)| Limitation {
            side: LimitedSide::Export,
            subject: subject.to_owned(),
            reason,
        })
        .collect();
    for (side, subject, reason) in exported.chain(of_side).chain(restored) {
        if known.insert((subject.clone(), reason.clone())) {
            limits.push(Limitation {
                side,
                subject: subject.clone(),
                reason: reason.clone(),
            });
        } else if let Some(same) = limits
            .iter_mut()
            .find(|one| one.subject == *subject && one.reason == *reason)
        {
            same.side = LimitedSide::Both;
        }
    }
    limits
}
