//! What is told of the case *heap*.

use lab::heap;
use lab::heap::Caches;
use report::{CaseChart, CaseFile, CaseFlame, CaseLine, CaseNumber, CaseReport};

use super::super::{file, new_report, number};
use super::checks::{checks, fall, fall_text, percent, phase_words, proof_words, thrashing, us};
use super::{BATCH, MORE, PARTITIONS, PATTERNS, POOL, Phase, Profiled, REWRITE, Seen};

/// Puts it together.
pub fn view(seen: Seen) -> CaseReport {
    let mut unseen = Vec::new();
    let checks = checks(&seen, &mut unseen);
    CaseReport {
        context: "Customer analytics. Every interaction is captured raw; customers define events over the raw data (a “login” is a form submitted on /login), and each definition is a partial index on the customer's table, so that its events come back at once. Tables are sharded by customer. Events come from a queue's partitions, through a pool of connections that take turns, one row a statement. At peak, ingest was hours behind.".to_owned(),
        hypothesis: "That the regular expressions cost the processor: nearly every definition has a CSS selector, as a regular expression, in its index's predicate.".to_owned(),
        measured: measured(&seen),
        cure: format!(
            "Rows of one table are collected, and up to {BATCH} are written by one statement: every index is opened once for all of them. The diagnosis suggests it, as a rewriting of the captured workload ({REWRITE}), and the proof replays both by turns."
        ),
        checks,
        numbers: numbers(&seen),
        charts: charts(&seen),
        flames: flames(&seen),
        unseen,
        done: seen.steps.clone(),
        files: files(&seen),
        ..new_report(&heap::CASE, seen.scale, &seen.version)
    }
}

fn measured(seen: &Seen) -> Vec<String> {
    let size = seen.store.size;
    let mut all = vec![format!(
        "{} customers with {} definitions each: {} partial indexes, made of the rows of a table. A question over a definition reads that definition's index and nothing else.",
        size.customers,
        size.definitions,
        seen.store.definitions.len()
    )];
    all.push(format!(
        "An event costs the server's processors, where backends have not seen its table: {}; where they have: {}.",
        fall_text(seen, Caches::Cold),
        fall_text(seen, Caches::Warm)
    ));
    if let [Ok(single), Ok(batched)] = &seen.profiles {
        all.push(format!(
            "The suspects were looked at. Opening indexes took {} of an event with single rows and {} in batches; evaluating their predicates, regular expressions among them, {} and {}. It was not the expressions: a predicate's cheap parts stand first, and few rows reach its expression.",
            us(single.of_event(Phase::OpenIndexes)),
            us(batched.of_event(Phase::OpenIndexes)),
            us(single.of_event(Phase::IndexPredicate)),
            us(batched.of_event(Phase::IndexPredicate)),
        ));
    }
    all.push(format!(
        "{} single-row inserts were captured from the log, and replayed. In batches the same rows are {} statements, questions among them. {}.",
        seen.captured.events,
        seen.rewritten.statements,
        proof_words(seen)
    ));
    let backlog = &seen.backlog;
    all.push(format!(
        "{PARTITIONS} consumers wrote {:.0} single rows a second, while {:.0} came ({MORE} times as many as they had written when they were timed). In batches they wrote {:.0} a second until the backlog was gone.",
        backlog.single_per_s,
        seen.single_row_rate * MORE,
        backlog.batched_per_s
    ));
    if let Some((fit, more)) = thrashing(seen) {
        let gain = |patterns: u32| {
            let of = |rows: u32| {
                let mut all = seen.patterns.iter();
                let found = all.find(|one| one.patterns == patterns && one.rows == rows);
                found.map(|one| one.cpu_us)
            };
            let times = of(1)? / of(BATCH)?.max(1e-9);
            Some(format!("{times:.1} times with {patterns}"))
        };
        let gains: Vec<String> = PATTERNS.into_iter().filter_map(gain).collect();
        all.push(format!(
            "Expressions can cost as much as was believed, in another place: where every row reaches every expression, {} of them cost {} a row, and {} cost {}, since a backend keeps {} compiled. Batches then win less: {}.",
            PATTERNS[0],
            us(fit),
            PATTERNS[1],
            us(more),
            PATTERNS[0],
            gains.join(", ")
        ));
    }
    all
}

fn numbers(seen: &Seen) -> Vec<CaseNumber> {
    let in_stacks = |profiled: &Result<Profiled, String>, function: &str| match profiled {
        Ok(profiled) => percent(profiled.share_within(function)),
        Err(_) => "not looked at".to_owned(),
    };
    let [single, batched] = &seen.profiles;
    let backlog = &seen.backlog;
    vec![
        number(
            "ExecOpenIndices, of the stacks while single rows are written",
            Some("about 55 %"),
            in_stacks(single, "ExecOpenIndices"),
            "Theirs had hundreds to thousands of indexes a table and far more tables; how often a backend meets a table that it does not know decides.",
        ),
        number(
            "RelationGetIndexPredicate, below it",
            Some("about 20 %"),
            in_stacks(single, "RelationGetIndexPredicate"),
            "As above. A backend that has read a predicate once keeps it, and copies it at each use.",
        ),
        number(
            "ExecOpenIndices, while batches are written",
            Some("a small part: mostly ExecQual"),
            in_stacks(batched, "ExecOpenIndices"),
            "",
        ),
        number(
            "CPU time in batches of 50",
            Some("10 times less"),
            match (fall(seen, Caches::Cold), fall(seen, Caches::Warm)) {
                (Some((_, _, cold)), Some((_, _, warm))) => {
                    format!("{cold:.1} times less with cold caches, {warm:.1} with warm ones")
                }
                _ => "not measured".to_owned(),
            },
            "Cold here is colder than in production: no statement meets a backend that has seen its table.",
        ),
        number(
            "ingest in batches",
            Some("about 10 times as much, in production"),
            format!(
                "{:.1} times as much",
                backlog.batched_per_s / backlog.single_per_s.max(1e-9)
            ),
            "Clients, their consumers among them, run on the same machine here, and batches grow no larger than what has come meanwhile.",
        ),
        number(
            "a backlog",
            Some("an hour's, cleared in minutes"),
            match backlog.cleared_s {
                Some(at) => format!(
                    "{:.0} s of falling behind, cleared in {:.1} s",
                    backlog.switched_s,
                    at - backlog.switched_s
                ),
                None => "not cleared".to_owned(),
            },
            "While it clears, more goes on coming than single rows could take.",
        ),
    ]
}

fn charts(seen: &Seen) -> Vec<CaseChart> {
    let mut charts = Vec::new();
    let of = |caches: Caches, name: &str| CaseLine {
        name: name.to_owned(),
        points: seen
            .costs
            .iter()
            .filter(|one| one.caches == caches)
            .map(|one| (f64::from(one.rows), one.cpu_us))
            .collect(),
    };
    if !seen.costs.is_empty() {
        charts.push(CaseChart {
            title: "CPU time of the server for each event".to_owned(),
            unit: "microseconds".to_owned(),
            alt_text: format!("cold caches: {}", fall_text(seen, Caches::Cold)),
            x_categories: Some("rows a statement".to_owned()),
            durations: true,
            lines: vec![
                of(Caches::Cold, "backends that have not seen the table"),
                of(Caches::Warm, "backends that have"),
            ],
        });
    }
    let backlog = &seen.backlog;
    charts.push(CaseChart {
        title: format!(
            "Lag of each partition; batches begin after {:.0} s",
            backlog.switched_s
        ),
        unit: "events produced and not written yet".to_owned(),
        alt_text: format!(
            "it grows to {} in all while rows are written singly, and is {} at the end",
            backlog.at_switch, backlog.at_end
        ),
        x_categories: None,
        durations: false,
        lines: (0..PARTITIONS)
            .map(|partition| CaseLine {
                name: format!("partition {partition}"),
                points: backlog
                    .points
                    .iter()
                    .map(|point| (point.at_s, point.lag[partition] as f64))
                    .collect(),
            })
            .collect(),
    });
    charts
}

fn flames(seen: &Seen) -> Vec<CaseFlame> {
    let [single, batched] = &seen.profiles;
    [(1, single), (BATCH, batched)]
        .into_iter()
        .filter_map(|(rows, profiled)| {
            let profiled = profiled.as_ref().ok()?;
            Some(CaseFlame {
                title: match rows {
                    1 => "Processor time while single rows are written".to_owned(),
                    rows => format!("Processor time while batches of {rows} rows are written"),
                },
                file: format!("flame-rows-{rows}.svg"),
                alt_text: format!(
                    "ExecOpenIndices is in {} of the stacks. The phases: {}.",
                    percent(profiled.share_within("ExecOpenIndices")),
                    phase_words(profiled)
                ),
            })
        })
        .collect()
}

fn files(seen: &Seen) -> Vec<CaseFile> {
    let mut all = vec![
        file("postgresql.csv", "the server's log of single rows"),
        file("events.workload", "what was captured of it"),
        file(
            "single-rows.run",
            format!(
                "its replay, from a pool of {POOL} connections; `rehearse diagnose` and `rehearse cpu` read it"
            ),
        ),
        file(
            "batches.workload",
            format!("the same, rewritten: {REWRITE}"),
        ),
        file("batches.run", "its replay"),
        file(
            "batches.proof/report.html",
            "the proof: both by turns, with the verdict",
        ),
    ];
    if seen.profiles.iter().all(Result::is_ok) {
        all.extend([
            file(
                "rows-1.run",
                "what was recorded while single rows were written",
            ),
            file("rows-50.run", "and while batches were"),
            file(
                "flame-rows-1.svg",
                "the flame graph of single rows: click to zoom",
            ),
            file("flame-rows-50.svg", "the flame graph of batches"),
        ]);
    }
    all
}
