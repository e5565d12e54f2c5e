//! Checks of the case *heap*, and texts of measurements.

use compare::proof::Verdict;
use cpu_profile::phases::Phase;
use report::CaseCheck;

use super::measurements::{IngestProfile, Measurements};
use super::{BATCH, Backlog, Caches, PATTERNS};
use crate::report_parts::{check, finding_text, percent};

/// Smallest factor by which a batch reduces the CPU time of an event, with cold caches.
const BATCH_GAIN_MIN: f64 = 8.0;
/// Smallest factor by which the replay of batches reduces opening indexes. Its backends are new.
const OPENING_GAIN_MIN: f64 = 4.0;
/// Smallest factor by which a few patterns too many make a row more expensive.
const RECOMPILATION_MIN: f64 = 3.0;

pub(super) fn us(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} µs"),
        value => format!("{value:.0} µs"),
    }
}

pub(super) fn batch_gain_text(seen: &Measurements, caches: Caches) -> String {
    match seen.batch_gain(caches) {
        Some((single, batched, times)) => format!(
            "{} with single rows, {} in batches of {BATCH}, {times:.1} times less",
            us(single),
            us(batched)
        ),
        None => "not measured".to_owned(),
    }
}

pub(super) fn phases_text(profile: &IngestProfile) -> String {
    let working = profile.phases.working();
    let whole: u64 = working.iter().map(|(_, samples)| samples).sum();
    let largest: Vec<String> = working
        .iter()
        .take(3)
        .map(|(phase, samples)| {
            let share = *samples as f64 / whole.max(1) as f64;
            format!("{} {}", phase.title(), percent(share))
        })
        .collect();
    largest.join(", ")
}

pub(super) fn proof_text(seen: &Measurements) -> String {
    let Some(side) = seen.proof.sides.first() else {
        return "nothing was proved".to_owned();
    };
    match &side.effect {
        Some(effect) => format!(
            "{}: with batches the server's processors work {:.3} times as long ({:.3} to {:.3}), by {} blocks",
            side.verdict.name(),
            effect.ratio,
            effect.low,
            effect.high,
            side.blocks
        ),
        None => side.verdict.name().to_owned(),
    }
}

/// Returns the checks. Adds measurements that were not possible to `unseen`.
pub(super) fn checks(seen: &Measurements, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let by_index = seen.asked.iter().filter(|one| one.uses_all()).count();
    let mut checks = vec![check(
        "questions over definitions are answered by the definitions' indexes",
        by_index == seen.asked.len() && by_index > 0,
        format!("{by_index} of {} plans (EXPLAIN)", seen.asked.len()),
    )];
    match seen.batch_gain(Caches::Cold) {
        None => unseen.push(
            "the CPU time of an event: the server's processes cannot be seen from here".to_owned(),
        ),
        Some((_, _, times)) => checks.push(check(
            "with cold caches an event costs at least 8 times less CPU time in batches of 50",
            times >= BATCH_GAIN_MIN,
            batch_gain_text(seen, Caches::Cold),
        )),
    }
    checks.extend(profile_checks(seen, unseen));
    checks.extend(diagnosis_checks(seen, unseen));
    let side = seen.proof.sides.first();
    checks.push(check(
        "batches are proved to win: CPU time of the server, by turns with single rows",
        side.is_some_and(|side| side.verdict == Verdict::Won),
        proof_text(seen),
    ));
    checks.push(backlog_check(&seen.backlog));
    if let Some((kept, exceeded)) = seen.recompilation() {
        checks.push(check(
            "past 32 regular expressions a backend compiles them for every row",
            exceeded >= RECOMPILATION_MIN * kept,
            format!(
                "a row costs {} with {} expressions, {} with {}",
                us(kept),
                PATTERNS[0],
                us(exceeded),
                PATTERNS[1]
            ),
        ));
    }
    checks
}

fn profile_checks(seen: &Measurements, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let (single, batched) = match &seen.profiles {
        [Ok(single), Ok(batched)] => (single, batched),
        [Err(reason), _] | [_, Err(reason)] => {
            unseen.push(format!("flame graphs ({reason})"));
            return Vec::new();
        }
    };
    vec![
        check(
            "while single rows are written, opening indexes is the largest phase",
            single.phases.is_largest(Phase::OpenIndexes),
            stacks_text(single),
        ),
        check(
            "while batches are written, evaluating the indexes' predicates is: the real work",
            batched.phases.is_largest(Phase::IndexPredicate),
            stacks_text(batched),
        ),
    ]
}

fn stacks_text(profile: &IngestProfile) -> String {
    format!(
        "{}; ExecOpenIndices is in {} of the stacks",
        phases_text(profile),
        percent(profile.share_within("ExecOpenIndices"))
    )
}

fn diagnosis_checks(seen: &Measurements, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let findings = &seen.diagnosis.findings;
    let found = finding_text(findings.first(), |finding| {
        let gain = percent(finding.max_gain.unwrap_or(0.0));
        format!(" (at most {gain} to win)")
    });
    let (before, after) = match &seen.replays {
        [Ok(before), Ok(after)] => (before, after),
        [Err(reason), _] | [_, Err(reason)] => {
            unseen.push(format!(
                "phases of the replays ({reason}), without which a diagnosis cannot tell opening indexes from evaluating their expressions"
            ));
            return vec![check(
                "the diagnosis, which was told nothing, finds the tax of opening indexes",
                findings.iter().any(|one| one.rule == "index-open-tax"),
                found,
            )];
        }
    };
    let events = seen.captured.events;
    let single = before.us_per_event(Phase::OpenIndexes, events);
    let batched = after.us_per_event(Phase::OpenIndexes, events);
    vec![
        check(
            "the phases of the replays name the cause, before and after",
            before.is_largest(Phase::OpenIndexes) && single >= OPENING_GAIN_MIN * batched,
            format!(
                "opening indexes is the largest phase with single rows, {} an event; in batches it takes {}",
                us(single),
                us(batched)
            ),
        ),
        check(
            "the first finding of the diagnosis, which was told nothing, is the tax of opening indexes",
            findings
                .first()
                .is_some_and(|one| one.rule == "index-open-tax"),
            found,
        ),
    ]
}

fn backlog_check(backlog: &Backlog) -> CaseCheck {
    check(
        "a backlog that single rows let grow clears in batches",
        backlog.at_switch > 0 && backlog.cleared_s.is_some(),
        format!(
            "{} events waiting after {:.0} s of single rows; {}",
            backlog.at_switch,
            backlog.switched_s,
            match backlog.cleared_s {
                Some(at) => format!(
                    "a tenth of that or less {:.1} s after batches began",
                    at - backlog.switched_s
                ),
                None => format!("{} were left at the end", backlog.at_end),
            }
        ),
    )
}
