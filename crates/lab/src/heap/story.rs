//! Report of the case *heap*.

use cpu_profile::phases::Phase;
use report::{CaseChart, CaseFile, CaseFlame, CaseLine, CaseNumber, CaseReport};

use super::checks::{batch_gain_text, checks, phases_text, proof_text, us};
use super::measurements::{IngestProfile, Measurements};
use super::{BATCH, CASE, Caches, MORE, PARTITIONS, PATTERNS, POOL, REWRITE};
use crate::case::Scale;
use crate::report_parts::{files, new_report, number, percent};

/// Builds the report, without the steps.
pub(super) fn report(seen: &Measurements, scale: Scale, version: &str) -> CaseReport {
    let mut unseen = Vec::new();
    let checks = checks(seen, &mut unseen);
    CaseReport {
        context: "Customer analytics. Every interaction is captured raw; customers define events over the raw data (a “login” is a form submitted on /login), and each definition is a partial index on the customer's table, so that its events come back at once. Tables are sharded by customer. Events come from a queue's partitions, through a pool of connections that take turns, one row a statement. At peak, ingest was hours late.".to_owned(),
        hypothesis: "That the regular expressions cost the processor: nearly every definition has a CSS selector, as a regular expression, in its index's predicate.".to_owned(),
        measured: measured(seen),
        cure: format!(
            "Rows of one table are collected, and up to {BATCH} are written by one statement: every index is opened once for all of them. The diagnosis suggests it, as a rewriting of the captured workload ({REWRITE}), and the proof replays both by turns."
        ),
        checks,
        numbers: numbers(seen),
        charts: charts(seen),
        flames: flames(seen),
        unseen,
        files: case_files(seen),
        ..new_report(&CASE, scale, version)
    }
}

fn measured(seen: &Measurements) -> Vec<String> {
    let size = seen.store.size;
    let mut all = vec![format!(
        "{} customers with {} definitions each: {} partial indexes, made of the rows of a table. A question over a definition reads that definition's index and nothing else.",
        size.customers,
        size.definitions,
        seen.store.definitions.len()
    )];
    all.push(format!(
        "An event costs the server's processors, where backends have not seen its table: {}; where they have: {}.",
        batch_gain_text(seen, Caches::Cold),
        batch_gain_text(seen, Caches::Warm)
    ));
    if let [Ok(single), Ok(batched)] = &seen.profiles {
        all.push(format!(
            "The suspects were looked at. Opening indexes took {} of an event with single rows and {} in batches; evaluating their predicates, regular expressions among them, {} and {}. It was not the expressions: a predicate's cheap parts stand first, and few rows reach its expression.",
            us(single.us_per_event(Phase::OpenIndexes)),
            us(batched.us_per_event(Phase::OpenIndexes)),
            us(single.us_per_event(Phase::IndexPredicate)),
            us(batched.us_per_event(Phase::IndexPredicate)),
        ));
    }
    all.push(format!(
        "{} single-row inserts were captured from the log, and replayed. In batches the same rows are {} statements, questions among them. {}.",
        seen.captured.events,
        seen.rewritten.statements,
        proof_text(seen)
    ));
    let backlog = &seen.backlog;
    all.push(format!(
        "{PARTITIONS} consumers wrote {:.0} single rows a second, while {:.0} came ({MORE} times as many as they had written when they were timed). In batches they wrote {:.0} a second until the backlog was gone.",
        backlog.single_per_s,
        seen.single_row_rate * MORE,
        backlog.batched_per_s
    ));
    if let Some((kept, exceeded)) = seen.recompilation() {
        let gain = |patterns: u32| {
            let batched = seen.pattern_cost(patterns, BATCH)?;
            let times = seen.pattern_cost(patterns, 1)? / batched.max(1e-9);
            Some(format!("{times:.1} times with {patterns}"))
        };
        let gains: Vec<String> = PATTERNS.into_iter().filter_map(gain).collect();
        all.push(format!(
            "Expressions can cost as much as was believed, in another place: where every row reaches every expression, {} of them cost {} a row, and {} cost {}, since a backend keeps {} compiled. Batches then win less: {}.",
            PATTERNS[0],
            us(kept),
            PATTERNS[1],
            us(exceeded),
            PATTERNS[0],
            gains.join(", ")
        ));
    }
    all
}

fn numbers(seen: &Measurements) -> Vec<CaseNumber> {
    let in_stacks = |profile: &Result<IngestProfile, String>, function: &str| match profile {
        Ok(profile) => percent(profile.share_within(function)),
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
            match (seen.batch_gain(Caches::Cold), seen.batch_gain(Caches::Warm)) {
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
                    "{:.0} s of growth, cleared in {:.1} s",
                    backlog.switched_s,
                    at - backlog.switched_s
                ),
                None => "not cleared".to_owned(),
            },
            "While it clears, more events arrive than single rows could take.",
        ),
    ]
}

fn charts(seen: &Measurements) -> Vec<CaseChart> {
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
            alt_text: format!("cold caches: {}", batch_gain_text(seen, Caches::Cold)),
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
        ..CaseChart::default()
    });
    charts
}

fn flames(seen: &Measurements) -> Vec<CaseFlame> {
    let [single, batched] = &seen.profiles;
    [(1, single), (BATCH, batched)]
        .into_iter()
        .filter_map(|(rows, profile)| {
            let profile = profile.as_ref().ok()?;
            Some(CaseFlame {
                title: match rows {
                    1 => "Processor time while single rows are written".to_owned(),
                    rows => format!("Processor time while batches of {rows} rows are written"),
                },
                file: format!("flame-rows-{rows}.svg"),
                alt_text: format!(
                    "ExecOpenIndices is in {} of the stacks. The phases: {}.",
                    percent(profile.share_within("ExecOpenIndices")),
                    phases_text(profile)
                ),
            })
        })
        .collect()
}

fn case_files(seen: &Measurements) -> Vec<CaseFile> {
    let replay = format!(
        "its replay, from a pool of {POOL} connections; `rehearse diagnose` and `rehearse cpu` read it"
    );
    let rewritten = format!("the same, rewritten: {REWRITE}");
    let mut all = files([
        ("postgresql.csv", "the server's log of single rows"),
        ("events.workload", "what was captured of it"),
        ("single-rows.run", &replay),
        ("batches.workload", &rewritten),
        ("batches.run", "its replay"),
        (
            "batches.proof/report.html",
            "the proof: both by turns, with the verdict",
        ),
    ]);
    if seen.profiles.iter().all(Result::is_ok) {
        all.extend(files([
            (
                "rows-1.run",
                "what was recorded while single rows were written",
            ),
            ("rows-50.run", "and while batches were"),
            (
                "flame-rows-1.svg",
                "the flame graph of single rows: click to zoom",
            ),
            ("flame-rows-50.svg", "the flame graph of batches"),
        ]));
    }
    all
}
