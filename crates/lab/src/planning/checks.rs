//! Checks of the case *planning*.

use compare::proof::Verdict;
use diagnose::Finding;
use report::CaseCheck;
use study::sweep::Mode;

use super::measurements::{Measurements, Stacks};
use super::{Advice, COUNTINGS};
use crate::report_parts::{check, finding_text, verdict_text};

/// Largest share of a prepared statement's calls that are planned.
const PREPARED_PLANS_MAX: f64 = 0.05;
/// Largest share of calls that may be in progress at the beginning or the end of a trial.
const IN_PROGRESS_MAX: f64 = 0.02;
/// Smallest factor by which tracking planning enlarges the extension's samples after planning.
const PLANNING_GROWTH_MIN: f64 = 2.0;

/// Formats a small share.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

pub(super) fn gain_text(finding: &Finding) -> String {
    finding
        .max_gain
        .map_or_else(|| "an unknown share".to_owned(), percent)
}

/// Whether each call was planned, except for those in progress at the beginning or the end.
fn is_each_planned(plans: u64, calls: u64) -> bool {
    calls > 0 && plans.abs_diff(calls) as f64 <= IN_PROGRESS_MAX * calls as f64
}

fn counts_text((plans, calls): (Option<u64>, Option<u64>)) -> String {
    match (plans, calls) {
        (_, None) => "nothing is counted".to_owned(),
        (None, Some(calls)) => format!("{calls} calls, plans unknown"),
        (Some(plans), Some(calls)) => format!("{plans} plans of {calls} calls"),
    }
}

/// Returns the checks. Adds measurements that were not possible to `unseen`.
pub(super) fn checks(seen: &Measurements, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let failed = seen.reads.failed() + seen.writes.failed();
    let trials = seen.reads.0.len() + seen.writes.0.len();
    let mut checks = vec![
        check(
            "every trial was done",
            failed == 0,
            format!("{trials} trials, {failed} failed"),
        ),
        counts_check(seen),
    ];
    match stacks_check(seen) {
        Ok(check) => checks.push(check),
        Err(reason) => unseen.push(format!("the stacks of the three configurations ({reason})")),
    }
    checks.extend(protocol_checks(seen));
    checks.extend(diagnosis_checks(seen));
    checks
}

fn counts_check(seen: &Measurements) -> CaseCheck {
    let counts = [0, 1, 2].map(|counting| seen.reads.counts(counting, Mode::Simple));
    let texts = COUNTINGS
        .iter()
        .zip(counts)
        .map(|(counting, counts)| format!("{}: {}", counting.name, counts_text(counts)));
    check(
        "the plans distinguish the three configurations: nothing, calls without plans, a plan for each call",
        matches!(
            counts,
            [(None, None), (None, Some(1..)), (Some(plans), Some(calls))]
                if is_each_planned(plans, calls)
        ),
        texts.collect::<Vec<_>>().join("; "),
    )
}

/// Checks the stacks. The error is the reason why there are none.
fn stacks_check(seen: &Measurements) -> Result<CaseCheck, &str> {
    let mut stacks: Vec<&Stacks> = Vec::new();
    for one in &seen.stacks {
        stacks.push(one.as_ref().map_err(String::as_str)?);
    }
    let [without, with, planning] = stacks[..] else {
        return Err("no profile");
    };
    let share = |one: &Stacks| one.statistics.planning_share();
    let texts = COUNTINGS.iter().zip(&stacks).map(|(counting, one)| {
        format!(
            "{}: {} after execution, {} after planning",
            counting.name,
            percent(one.statistics.execution_share()),
            percent(one.statistics.planning_share())
        )
    });
    Ok(check(
        "and so do their stacks: none within pg_stat_statements, one area, and a second after planning",
        without.statistics.execution + without.statistics.planning == 0
            && with.statistics.execution > 0
            && planning.statistics.execution > 0
            && planning.statistics.planning > 0
            && share(planning) > PLANNING_GROWTH_MIN * share(with),
        texts.collect::<Vec<_>>().join("; "),
    ))
}

fn protocol_checks(seen: &Measurements) -> [CaseCheck; 2] {
    let [simple, prepared] = seen.counted;
    let extended = seen.reads.counts(2, Mode::Extended);
    [
        check(
            "prepared, a statement is planned a few times a session, and not at each call",
            simple.plans == simple.calls
                && prepared.calls == simple.calls
                && prepared.plans > 0
                && (prepared.plans as f64) < PREPARED_PLANS_MAX * prepared.calls as f64,
            format!(
                "{} sessions: as texts {} plans of {} calls, prepared {} of {}",
                prepared.sessions, simple.plans, simple.calls, prepared.plans, prepared.calls
            ),
        ),
        check(
            "the extended protocol alone does not spare planning: parsed each time, it is planned each time",
            matches!(extended, (Some(plans), Some(calls)) if is_each_planned(plans, calls)),
            counts_text(extended),
        ),
    ]
}

fn diagnosis_checks(seen: &Measurements) -> [CaseCheck; 3] {
    let blind_spot = seen
        .diagnosis
        .findings
        .iter()
        .find(|one| one.rule == "planning-blind-spot");
    let first = seen.proof.first_finding();
    [
        check(
            "the diagnosis of an application, given this machine's ceiling, says what the meter says",
            blind_spot.is_some() == (seen.headroom.advice() == Advice::Count),
            match blind_spot {
                Some(found) => format!("{}: {}", found.rule, found.title),
                None => "it does not advise to count planning".to_owned(),
            },
        ),
        check(
            "the first finding of the diagnosis of a replay, which was told nothing, is planning",
            first.is_some_and(|one| one.rule == "planning-dominated"),
            finding_text(first, |one| format!(" (at most {} to win)", gain_text(one))),
        ),
        check(
            "what it suggests is proved: the same reads prepared cost the server less processor time",
            seen.prepared()
                .is_some_and(|side| side.verdict == Verdict::Won),
            verdict_text(seen.prepared()),
        ),
    ]
}
