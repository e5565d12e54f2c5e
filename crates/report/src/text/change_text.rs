//! Text on causes, on what slowed with them, and on the verdict of a comparison.

use compare::{
    COMMON_NOTICEABLE, CommonChange, Comparison, Direction, ErrorDirection, ErrorOrigin, Evidence,
    Finding, InconclusiveReason, InsufficientData, StatementChange, StatementComparison,
    StatementRole, TimesComparison, Verdict, WorkChange, WorkCounter,
};

use plans::StatementPlans;

use crate::text::plan_text;
use crate::text::times_text::finding;
use crate::text::units::{added, counted, duration_ns, percent, ratio};

/// Names the change of a statement in a word or two.
pub(crate) fn change_word(one: &StatementComparison) -> String {
    match one.role {
        StatementRole::Application => {}
        StatementRole::Catalogue => return "catalogue query".to_owned(),
        StatementRole::Dump => return "pg_dump".to_owned(),
    }
    word_of(&one.change, &one.service)
}

/// Returns the statements that a comparison names first: those that got slower independently, those that look slower, and
/// those that got faster independently.
pub(crate) fn named_first(view: &Comparison) -> Vec<&StatementComparison> {
    let suspects = view.statements.iter();
    let suspects = suspects.filter(|one| one.change.is_suspected());
    view.causes(Direction::Slower)
        .chain(suspects)
        .chain(view.causes(Direction::Faster))
        .collect()
}

/// Names a change of times in a word or two.
pub(crate) fn word_of(change: &StatementChange, times: &TimesComparison) -> String {
    match (change, times.finding) {
        (StatementChange::Independent { direction, .. }, _) => direction.name().to_owned(),
        (StatementChange::Along { direction }, _) => {
            format!("{} with the others", direction.name())
        }
        (StatementChange::Unproven { direction, .. }, _) => format!("looks {}", direction.name()),
        (StatementChange::None, Finding::Slower { .. } | Finding::Faster { .. }) => {
            format!("{}, too little to matter", times.finding.name())
        }
        (StatementChange::None, _) => finding(times),
    }
}

/// Counts statements by the words that name their changes, the most important first.
pub(crate) fn count_changes<'s>(
    statements: impl IntoIterator<Item = &'s StatementComparison>,
) -> Vec<(&'static str, u64)> {
    let mut counts = [
        "slower independently",
        "look slower",
        "slower with the others",
        "faster independently",
        "look faster",
        "faster with the others",
        "the same",
        "without enough data",
        "of drivers and pg_dump, not judged",
    ]
    .map(|name| (name, 0));
    for one in statements {
        let of = |direction: &Direction| match direction {
            Direction::Slower => 0,
            Direction::Faster => 3,
        };
        let place = match &one.change {
            _ if one.role != StatementRole::Application => 8,
            StatementChange::Independent { direction, .. } => of(direction),
            StatementChange::Unproven { direction, .. } => of(direction) + 1,
            StatementChange::Along { direction } => of(direction) + 2,
            StatementChange::None => match one.service.finding {
                Finding::InsufficientData { .. } => 7,
                _ => 6,
            },
        };
        counts[place].1 += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Returns the counts of [`count_changes`] in words.
pub(crate) fn counts_text(counts: &[(&'static str, u64)]) -> String {
    let parts = counts.iter().map(|(name, count)| {
        let name = match *count {
            1 => name.replace("look ", "looks "),
            _ => (*name).to_owned(),
        };
        format!("{} {name}", crate::text::units::count(*count))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Describes why a statement changed, without its plan: `blocks 4 → 1,200 a call; execution time × 27`.
pub(crate) fn evidence_text(change: &StatementChange) -> String {
    let part = |evidence: &Evidence| match evidence {
        Evidence::OtherPlan => "other plan".to_owned(),
        Evidence::Work(WorkChange {
            counter,
            before,
            after,
        }) => format!(
            "{} a call {} → {}",
            counter.name(),
            amount(*before),
            amount(*after)
        ),
        Evidence::ParallelWorkers {
            planned_before,
            planned_after,
            launched_before,
            launched_after,
        } => format!(
            "parallel workers a call {} of {} planned → {} of {}",
            amount(*launched_before),
            amount(*planned_before),
            amount(*launched_after),
            amount(*planned_after)
        ),
        Evidence::ExecutionTime { relative } => {
            format!(
                "execution time × {} relative to the others",
                ratio(turned(change, *relative))
            )
        }
        Evidence::ServiceTime { relative } => {
            format!(
                "time × {} relative to the others",
                ratio(turned(change, *relative))
            )
        }
    };
    let parts: Vec<String> = change.evidence().iter().map(part).collect();
    parts.join("; ")
}

/// Returns a ratio as after / before.
fn turned(change: &StatementChange, relative: f64) -> f64 {
    match change {
        StatementChange::Independent { direction, .. }
        | StatementChange::Unproven { direction, .. }
            if *direction == Direction::Faster =>
        {
            1.0 / relative
        }
        _ => relative,
    }
}

/// Formats a mean of blocks or records.
fn amount(value: f64) -> String {
    match value < 100.0 {
        true => format!("{value:.1}"),
        false => crate::text::units::count(value.round() as u64),
    }
}

/// Describes why a statement changed, its plan, and the time that it adds.
pub(crate) fn reasons_text(one: &StatementComparison) -> String {
    let is_changed = one.plans.as_ref().is_some_and(StatementPlans::is_changed);
    let plan = plan_line(one).filter(|_| is_changed);
    let parts = [
        Some(evidence_text(&one.change)),
        compilation_text(one),
        plan,
        one.service
            .added_ns
            .map(|ns| format!("{} in all", added(ns))),
    ];
    let parts = parts.into_iter().flatten();
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns the time of JIT compilation on both sides, if it explains the change.
fn compilation_text(one: &StatementComparison) -> Option<String> {
    let is_compilation = |evidence: &Evidence| match evidence {
        Evidence::Work(change) => change.counter == WorkCounter::JitFunctions,
        _ => false,
    };
    one.change
        .evidence()
        .iter()
        .find(|one| is_compilation(one))?;
    let work = one.work.as_ref()?;
    let (before, after) = work.before.jit_ns.zip(work.after.jit_ns)?;
    Some(format!(
        "JIT compilation {} → {} a call",
        duration_ns(before),
        duration_ns(after)
    ))
}

/// Describes the change of a statement's plan, if it deserves a line.
pub(crate) fn plan_line(statement: &StatementComparison) -> Option<String> {
    let plans = statement.plans.as_ref()?;
    let same = plans.comparison.as_ref().map(|found| found.same)?;
    let asked = statement.change.importance() > 1;
    (!same || asked).then(|| plan_text::line(plans))
}

/// Describes the change that all statements share.
pub(crate) fn common_text(common: &CommonChange) -> String {
    let measure = match common.execution {
        Some(_) => "execution time",
        None => "time",
    };
    format!(
        "the {measure} of {} with the same work changed by × {}",
        counted(common.statements as u64, "statement"),
        ratio(common.factor())
    )
}

/// Returns the verdict in a few words, and its reasons; sentences without full stops.
pub(crate) fn verdict_words(view: &Comparison) -> (&'static str, String) {
    match view.verdict {
        Verdict::Regression {
            causes,
            along,
            errors,
            overall,
        } => (
            "Regression",
            regression_reasons(view, causes, along, errors, overall).join("; "),
        ),
        Verdict::NoRegression { faster } => {
            let mut news = Vec::new();
            if faster > 0 {
                news.push(format!(
                    "{} got faster",
                    counted(faster as u64, "statement")
                ));
            }
            let is_unknown =
                |times: &TimesComparison| matches!(times.finding, Finding::InsufficientData { .. });
            let mut times = view.statements.iter().map(|one| &one.service);
            if is_unknown(&view.all) && times.all(is_unknown) {
                news.push(
                    "the servers' execution times exclude that most statements take twice as long; the times of clients vary too much to show less"
                        .to_owned(),
                );
            }
            news.extend(common_note(view));
            news.extend(side_notes(view));
            ("No regression was found", news.join("; "))
        }
        Verdict::Inconclusive { reason, along, .. } => {
            let (head, why) = inconclusive_words(view, reason, along);
            let mut reasons = vec![why];
            reasons.extend(side_notes(view));
            reasons.retain(|reason| !reason.is_empty());
            (head, reasons.join("; "))
        }
    }
}

fn regression_reasons(
    view: &Comparison,
    causes: usize,
    along: usize,
    errors: usize,
    overall: bool,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if causes > 0 {
        let causes = counted(causes as u64, "statement");
        reasons.push(format!("{causes} got slower independently"));
    }
    if along > 0 {
        let along = counted(along as u64, "statement");
        reasons.push(format!("{along} with the same work slowed with the others"));
    }
    if errors > 0 {
        let are = if errors == 1 { "is" } else { "are" };
        let errors = counted(errors as u64, "error");
        let worse = view.errors.iter().filter(|one| one.regression);
        let times: u64 = worse.map(|one| one.after).sum();
        let times = counted(times, "time");
        reasons.push(format!("{errors} {are} new or more frequent ({times})"));
    }
    if overall {
        reasons.push("all statements together take longer".to_owned());
    }
    reasons.extend(side_notes(view));
    reasons
}

/// Names the common change if it is great enough to notice.
fn common_note(view: &Comparison) -> Option<String> {
    let common = view.common.as_ref()?;
    let factor = common.factor();
    let is_noticeable = factor >= COMMON_NOTICEABLE || factor <= 1.0 / COMMON_NOTICEABLE;
    is_noticeable.then(|| common_text(common))
}

/// Returns notes that do not affect the verdict but must not be overlooked.
fn side_notes(view: &Comparison) -> Vec<String> {
    let mut news = Vec::new();
    let suspected = view.suspected();
    if suspected > 0 {
        let looks = if suspected == 1 { "looks" } else { "look" };
        let suspected = counted(suspected as u64, "statement");
        news.push(format!("{suspected} {looks} slower, which is not proven"));
    }
    let new_errors = view.errors.iter().filter(|one| {
        one.direction == ErrorDirection::New
            && !one.regression
            && one.origin != ErrorOrigin::OtherMoment
    });
    let new_errors = new_errors.count();
    if new_errors > 0 {
        let are = if new_errors == 1 { "is" } else { "are" };
        let new_errors = counted(new_errors as u64, "error");
        news.push(format!("{new_errors} {are} new, and may be chance"));
    }
    let other_rows = view.other_rows();
    if other_rows > 0 {
        let other = counted(other_rows as u64, "statement");
        news.push(format!("{other} returned other rows than before"));
    }
    news
}

fn inconclusive_words(
    view: &Comparison,
    reason: InconclusiveReason,
    along: usize,
) -> (&'static str, String) {
    match reason {
        InconclusiveReason::RunAsAWhole => {
            let whole = match view.common.as_ref() {
                Some(common) if common.factor() >= COMMON_NOTICEABLE => common_text(common),
                _ => "all statements together took longer, with the same work".to_owned(),
            };
            let along = match along {
                0 => String::new(),
                along => format!(
                    ", {} of them clearly",
                    crate::text::units::count(along as u64)
                ),
            };
            (
                "Inconclusive",
                format!("{whole}{along}: that is the server as a whole, or a busy machine"),
            )
        }
        InconclusiveReason::MachineBusier => {
            let whole = match view.common.as_ref() {
                Some(common) if common.factor() >= COMMON_NOTICEABLE => common_text(common),
                _ => "all statements together took longer, with the same work".to_owned(),
            };
            let more = view.machine_lost.unwrap_or(0.0);
            (
                "Inconclusive",
                format!(
                    "{whole}, while others used {} more of the machine than before",
                    percent(more, 1.0)
                ),
            )
        }
        InconclusiveReason::RowsOfAnotherMoment => {
            let worse = view.errors.iter();
            let worse = worse.filter(|one| one.origin == ErrorOrigin::OtherMoment);
            let count = worse.count() as u64;
            let come = if count == 1 { "comes" } else { "come" };
            let errors = counted(count, "error");
            (
                "Inconclusive",
                format!(
                    "{errors} {come} from data of another moment: the targets hold other rows or sequence values"
                ),
            )
        }
        InconclusiveReason::Suspects => ("Inconclusive", String::new()),
        InconclusiveReason::TooLittleData => too_little(view),
    }
}

/// Returns what would settle an inconclusive comparison; a sentence without a full stop.
pub(crate) fn settling_text(view: &Comparison) -> Option<&'static str> {
    let Verdict::Inconclusive { reason, .. } = view.verdict else {
        return None;
    };
    let several = view.before.runs.len().min(view.after.runs.len()) > 2;
    match (reason, several) {
        (InconclusiveReason::TooLittleData, _) => None,
        (InconclusiveReason::MachineBusier, _) => Some(
            "To settle it, replay on a machine that does nothing else: use another machine for the replay, or run again in pairs (rehearse replay NAME.workload --against BEFORE --against AFTER --runs 3)",
        ),
        (InconclusiveReason::RowsOfAnotherMoment, _) => Some(
            "To settle it, restore both targets from one copy, with its sequence values, before each replay",
        ),
        (_, false) => Some(
            "To settle it, replay on both servers in pairs (rehearse replay NAME.workload --against BEFORE --against AFTER --runs 3), on a machine that does nothing else",
        ),
        (_, true) => {
            Some("To settle it, replay on a machine that does nothing else, or more often a side")
        }
    }
}

/// Returns the verdict for insufficient data, with the remedy for too few calls or for noise.
fn too_little(view: &Comparison) -> (&'static str, String) {
    let has = |times: &TimesComparison, wanted: &[InsufficientData]| matches!(times.finding, Finding::InsufficientData { reason } if wanted.contains(&reason));
    let any = |wanted: &[InsufficientData]| {
        has(&view.all, wanted) || view.statements.iter().any(|one| has(&one.service, wanted))
    };
    if any(&[InsufficientData::Unclear, InsufficientData::MayBeChance]) {
        return (
            "Inconclusive",
            "the runs vary too much to show anything, neither slower nor the same. More runs would tell"
                .to_owned(),
        );
    }
    if any(&[InsufficientData::ToolStalled]) {
        return (
            "Inconclusive",
            "the replay itself was stopped or starved, and too little is outside of these times. \
             Replay again on a machine that is not throttled"
                .to_owned(),
        );
    }
    (
        "Inconclusive",
        "there is not enough data to say anything".to_owned(),
    )
}
