//! What had to be seen.

use compare::proof::Verdict;
use diagnose::Finding;
use lab::planning;
use lab::planning::COUNTINGS;
use report::CaseCheck;
use study::sweep::{Mode, Numbers, Record};

use super::super::proving::verdict;
use super::{Seen, Stacks};

/// Prepared, a statement is planned at most at so small a part of its calls.
const FEW: f64 = 0.05;
/// So small a part of calls may have been under way at the beginning or the end.
const UNDER_WAY: f64 = 0.02;
/// With track_planning the area behind planning is so many times as large as what is met there without.
const AREA: f64 = 2.0;
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Of all time, where that can be said.
pub fn max_gain(finding: &Finding) -> String {
    finding
        .max_gain
        .map_or_else(|| "an unknown share".to_owned(), percent)
}

/// Numbers of trials of a way of counting, in a mode.
pub fn of(records: &[Record], variant: usize, mode: Mode) -> impl Iterator<Item = (u32, &Numbers)> {
    records.iter().filter_map(move |record| {
        let cell = &record.trial.cell;
        let numbers = record.numbers.as_ref()?;
        (cell.variant == variant && cell.mode == mode)
            .then_some((cell.clients.unwrap_or(1), numbers))
    })
}

/// Plans and calls that were counted.
fn counts(records: &[Record], variant: usize, mode: Mode) -> (Option<u64>, Option<u64>) {
    let (mut plans, mut calls) = (None, None);
    for (_, numbers) in of(records, variant, mode) {
        if let Some(counted) = numbers.counted {
            *calls.get_or_insert(0) += counted.calls;
            if let Some(of_trial) = counted.plans {
                *plans.get_or_insert(0) += of_trial;
            }
        }
    }
    (plans, calls)
}

/// A plan for each call, but for those that were under way when it was looked.
fn each(plans: u64, calls: u64) -> bool {
    calls > 0 && plans.abs_diff(calls) as f64 <= UNDER_WAY * calls as f64
}

fn counted_text((plans, calls): (Option<u64>, Option<u64>)) -> String {
    match (plans, calls) {
        (_, None) => "nothing is counted".to_owned(),
        (None, Some(calls)) => format!("{calls} calls, plans unknown"),
        (Some(plans), Some(calls)) => format!("{plans} plans of {calls} calls"),
    }
}

/// All of them; what could not be looked at goes to `unseen`.
pub fn checks(seen: &Seen, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let mut checks = Vec::new();
    let mut check = |what: &str, holds: bool, measured: String| {
        checks.push(super::super::check(what, holds, measured));
    };
    let all = seen.reads.iter().chain(&seen.writes);
    let failed = all.filter(|record| record.numbers.is_none()).count();
    check(
        "every trial was done",
        failed == 0,
        format!(
            "{} trials, {failed} failed",
            seen.reads.len() + seen.writes.len()
        ),
    );
    let ways = [0, 1, 2].map(|way| counts(&seen.reads, way, Mode::Simple));
    let told = matches!(
        ways,
        [(None, None), (None, Some(1..)), (Some(plans), Some(calls))] if each(plans, calls)
    );
    check(
        "the three configurations are told apart by plans: nothing, calls without plans, a plan for each call",
        told,
        COUNTINGS
            .iter()
            .zip(ways)
            .map(|(counting, counts)| format!("{}: {}", counting.name, counted_text(counts)))
            .collect::<Vec<_>>()
            .join("; "),
    );
    let stacks: Vec<&Stacks> = seen.stacks.iter().flatten().collect();
    match (
        stacks.as_slice(),
        seen.stacks.iter().find_map(|one| one.as_ref().err()),
    ) {
        ([without, with, planning], _) => {
            let area = |one: &Stacks| one.statistics.planning_share();
            check(
                "and by their stacks: none within pg_stat_statements, one area, and a second behind planning",
                without.statistics.execution + without.statistics.planning == 0
                    && with.statistics.execution > 0
                    && planning.statistics.execution > 0
                    && planning.statistics.planning > 0
                    && area(planning) > AREA * area(with),
                COUNTINGS
                    .iter()
                    .zip(&stacks)
                    .map(|(counting, one)| {
                        format!(
                            "{}: {} behind execution, {} behind planning",
                            counting.name,
                            percent(one.statistics.execution_share()),
                            percent(one.statistics.planning_share())
                        )
                    })
                    .collect::<Vec<_>>()
                    .join("; "),
            );
        }
        (_, why) => unseen.push(format!(
            "the stacks of the three configurations ({})",
            why.map_or("no profile", String::as_str)
        )),
    }
    let [simple, prepared] = seen.counted;
    check(
        "prepared, a statement is planned a few times a session, and not at each call",
        simple.plans == simple.calls
            && prepared.calls == simple.calls
            && prepared.plans > 0
            && (prepared.plans as f64) < FEW * prepared.calls as f64,
        format!(
            "{} sessions: as texts {} plans of {} calls, prepared {} of {}",
            prepared.sessions, simple.plans, simple.calls, prepared.plans, prepared.calls
        ),
    );
    let extended = counts(&seen.reads, 2, Mode::Extended);
    check(
        "the extended protocol alone does not spare planning: parsed each time, it is planned each time",
        matches!(extended, (Some(plans), Some(calls)) if each(plans, calls)),
        counted_text(extended),
    );
    let found = seen
        .diagnosis
        .findings
        .iter()
        .find(|one| one.rule == "planning-blind-spot");
    check(
        "the diagnosis of an application, given this machine's ceiling, says what the meter says",
        found.is_some() == (seen.headroom.advice() == planning::Advice::Count),
        match found {
            Some(found) => format!("{}: {}", found.rule, found.title),
            None => "it does not advise to count planning".to_owned(),
        },
    );
    let proved = &seen.proved;
    check(
        "the first finding of the diagnosis of a replay, which was told nothing, is planning",
        proved
            .first()
            .is_some_and(|one| one.rule == "planning-dominated"),
        match proved.first() {
            Some(one) => format!(
                "{}: {} (at most {} to win)",
                one.rule,
                one.title,
                max_gain(one)
            ),
            None => "nothing was found".to_owned(),
        },
    );
    check(
        "what it suggests is proved: the same reads prepared cost the server less processor time",
        proved
            .prepared()
            .is_some_and(|side| side.verdict == Verdict::Won),
        verdict(proved.prepared()),
    );
    checks
}
