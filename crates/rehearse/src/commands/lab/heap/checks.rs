//! What has to be seen in the case *heap*.

use compare::proof::Verdict;
use cpu_profile::phases::Phase;
use lab::heap::{Caches, Cost};
use report::CaseCheck;

use super::{BATCH, PATTERNS, Profiled, Seen, largest, of_event};

/// What the issue of the case asks for: with cold caches an event costs so many times less in batches of 50.
const FALLS: f64 = 8.0;
/// In the replay of batches opening indexes takes so many times less of an event, at least: there backends are new.
const OPENS: f64 = 4.0;
/// A few patterns too many make every row so many times as dear, at least.
const THRASHES: f64 = 3.0;

pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub fn us(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1} µs"),
        value => format!("{value:.0} µs"),
    }
}

/// What an event costs with so many rows a statement.
fn cost_of(costs: &[Cost], rows: u32, caches: Caches) -> Option<f64> {
    let mut all = costs.iter();
    let found = all.find(|one| one.rows == rows && one.caches == caches);
    found.map(|one| one.cpu_us)
}

/// With one row and with fifty, and how many times less.
pub fn fall(seen: &Seen, caches: Caches) -> Option<(f64, f64, f64)> {
    let single = cost_of(&seen.costs, 1, caches)?;
    let batched = cost_of(&seen.costs, BATCH, caches)?;
    Some((single, batched, single / batched.max(1e-9)))
}

pub fn fall_text(seen: &Seen, caches: Caches) -> String {
    match fall(seen, caches) {
        Some((single, batched, times)) => format!(
            "{} with single rows, {} in batches of {BATCH}, {times:.1} times less",
            us(single),
            us(batched)
        ),
        None => "not measured".to_owned(),
    }
}

/// What a row costs with as many expressions as are kept compiled, and with a few more.
pub fn thrashing(seen: &Seen) -> Option<(f64, f64)> {
    let of = |patterns: u32| {
        let mut all = seen.patterns.iter();
        let found = all.find(|one| one.patterns == patterns && one.rows == BATCH);
        found.map(|one| one.cpu_us)
    };
    Some((of(PATTERNS[0])?, of(PATTERNS[1])?))
}

pub fn phase_words(profiled: &Profiled) -> String {
    let all = profiled.account.all().largest_first();
    let working: Vec<_> = all
        .into_iter()
        .filter(|(phase, _)| *phase != Phase::Idle)
        .collect();
    let whole: u64 = working.iter().map(|(_, samples)| samples).sum();
    let three: Vec<String> = working
        .iter()
        .take(3)
        .map(|(phase, samples)| {
            let share = *samples as f64 / whole.max(1) as f64;
            format!("{} {}", phase.title(), percent(share))
        })
        .collect();
    three.join(", ")
}

pub fn proof_words(seen: &Seen) -> String {
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

/// All of them; what could not be looked at goes to `unseen`.
pub fn checks(seen: &Seen, unseen: &mut Vec<String>) -> Vec<CaseCheck> {
    let mut checks = Vec::new();
    let mut check = |what: &str, holds: bool, measured: String| {
        checks.push(super::super::check(what, holds, measured));
    };
    let by_index = seen.asked.iter().filter(|one| one.uses_all()).count();
    check(
        "questions over definitions are answered by the definitions' indexes",
        by_index == seen.asked.len() && by_index > 0,
        format!("{by_index} of {} plans (EXPLAIN)", seen.asked.len()),
    );
    match fall(seen, Caches::Cold) {
        None => unseen.push(
            "the CPU time of an event: the server's processes cannot be seen from here".to_owned(),
        ),
        Some((_, _, times)) => check(
            "with cold caches an event costs at least 8 times less CPU time in batches of 50",
            times >= FALLS,
            fall_text(seen, Caches::Cold),
        ),
    }
    match &seen.profiles {
        [Ok(single), Ok(batched)] => {
            check(
                "while single rows are written, opening indexes is the largest phase",
                single.largest() == Some(Phase::OpenIndexes),
                stacks_words(single),
            );
            check(
                "while batches are written, evaluating the indexes' predicates is: the real work",
                batched.largest() == Some(Phase::IndexPredicate),
                stacks_words(batched),
            );
        }
        [Err(why), _] | [_, Err(why)] => unseen.push(format!("flame graphs ({why})")),
    }
    let first = seen.diagnosis.findings.first();
    let first_words = first.map_or_else(
        || "nothing was found".to_owned(),
        |one| {
            let won = percent(one.max_gain.unwrap_or(0.0));
            format!("{}: {} (at most {won} to win)", one.rule, one.title)
        },
    );
    match &seen.replays {
        [Ok((before, hz)), Ok((after, _))] => {
            let events = seen.captured.events;
            let cost = |account| of_event(account, Phase::OpenIndexes, *hz, events);
            let (single, batched) = (cost(before), cost(after));
            check(
                "the phases of the replays name the cause, before and after",
                largest(before) == Some(Phase::OpenIndexes) && single >= OPENS * batched,
                format!(
                    "opening indexes is the largest phase with single rows, {} an event; in batches it takes {}",
                    us(single),
                    us(batched)
                ),
            );
            check(
                "the first finding of the diagnosis, which was told nothing, is the tax of opening indexes",
                first.is_some_and(|one| one.rule == "index-open-tax"),
                first_words,
            );
        }
        [Err(why), _] | [_, Err(why)] => {
            unseen.push(format!(
                "phases of the replays ({why}), without which a diagnosis cannot tell opening indexes from evaluating their expressions"
            ));
            let mut all = seen.diagnosis.findings.iter();
            check(
                "the diagnosis, which was told nothing, finds the tax of opening indexes",
                all.any(|one| one.rule == "index-open-tax"),
                first_words,
            );
        }
    }
    let side = seen.proof.sides.first();
    check(
        "batches are proved to win: CPU time of the server, by turns with single rows",
        side.is_some_and(|side| side.verdict == Verdict::Won),
        proof_words(seen),
    );
    let backlog = &seen.backlog;
    check(
        "a backlog that single rows let grow clears in batches",
        backlog.at_switch > 0 && backlog.cleared_s.is_some(),
        format!(
            "{} events behind after {:.0} s of single rows; {}",
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
    );
    if let Some((fit, more)) = thrashing(seen) {
        check(
            "past 32 regular expressions a backend compiles them for every row",
            more >= THRASHES * fit,
            format!(
                "a row costs {} with {} expressions, {} with {}",
                us(fit),
                PATTERNS[0],
                us(more),
                PATTERNS[1]
            ),
        );
    }
    checks
}

fn stacks_words(profiled: &Profiled) -> String {
    format!(
        "{}; ExecOpenIndices is in {} of the stacks",
        phase_words(profiled),
        percent(profiled.share_within("ExecOpenIndices"))
    )
}
