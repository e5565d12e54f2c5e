//! What is shown of a proof, from its journal and its runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use analyse::proof::{ERROR, Effect, Goal, Verdict, effect, half_width, looks, verdict};
use analyse::{CompareOptions, Finding, InsufficientData, StatementComparison};
use experiment::End;
use experiment::proof::{ProofJournal, ProofNumbers, ProofRecord, SideResult};
use report::{
    IndexCandidateView, ProofEffectView, ProofNumberView, ProofRunView, ProofSideView,
    ProofSizeView, ProofView, compare_page,
};

use crate::commands::compare::{self, Request};
use crate::commands::summary::literals;
use crate::commands::{known, outputs};
use crate::ending::Failure;
use crate::keys;

/// A table or index is named where its size differs by so much.
const SIZE_DIFFERENCE: f64 = 0.1;
/// …and by so many bytes.
const SIZE_BYTES: u64 = 256 << 10;

/// The indexes that the planner was asked of, in a proof's directory.
pub const CANDIDATES: &str = "candidates.json";

/// In which unit a goal's number is shown.
pub fn unit(goal: Goal) -> &'static str {
    match goal {
        Goal::Total | Goal::P50 | Goal::P99 | Goal::Cpu => "us",
        Goal::Wal => "bytes",
        Goal::Throughput => "per_s",
    }
}

/// A goal's number in the unit in which it is shown.
pub fn in_unit(goal: Goal, value: f64) -> f64 {
    match goal {
        Goal::Total | Goal::Cpu => value * 1e6,
        _ => value,
    }
}

/// The view, with the comparison of each side written beside the journal.
///
/// # Errors
/// Where a run cannot be read.
pub fn view(journal: &ProofJournal, ended: End, show_literals: bool) -> Result<ProofView, Failure> {
    let plan = journal.plan();
    let goal: Goal = plan.goal.parse().map_err(Failure::could_not)?;
    let statements = statements(journal)?;
    let results = journal.side_results(goal, statements);
    let decision = journal.decision();
    let noise = decision.and_then(|one| one.deviation);
    let planned = decision.map_or(0, |one| one.blocks);
    let last = looks(planned).last().map(|look| look.error);
    let shows = noise
        .zip(last)
        .map(|(noise, error)| (half_width(noise, planned, error) + plan.margin.ln_1p()).exp_m1());
    let is_clear = results.iter().all(|one| one.verdict().is_clear());
    let done = journal.records().map(|one| one.trial.block).max();
    let ended = match (ended, decision.and_then(|one| one.ended)) {
        _ if is_clear => "clear",
        (End::TimeOver, _) | (_, Some(_)) => "time_over",
        (End::Interrupted, _) => "stopped",
        _ if done == Some(planned) => "all_blocks",
        _ => "stopped",
    };
    let mut sides = Vec::new();
    for (number, result) in (1..).zip(&results) {
        sides.push(side(journal, statements, (number, result), show_literals)?);
    }
    let mut options = journal.manifest().options.clone();
    let name = |name: &str| options.get(name).cloned().unwrap_or_default();
    let (workload, place) = (name("workload-name"), name("place-name"));
    options.retain(|name, _| !name.ends_with("-name"));
    Ok(ProofView {
        schema: "rehearse/proof/2",
        name: journal.path().display().to_string(),
        workload,
        statements,
        place,
        started_wall_us: journal.manifest().started_wall_us,
        seed: plan.seed,
        goal: plan.goal.clone(),
        goal_words: goal.words(),
        margin: plan.margin,
        within_s: plan.within_s,
        took_s: journal.spent_s(),
        noise_runs: plan.noise_runs,
        noise,
        shows,
        blocks_planned: planned,
        ended,
        sides,
        runs: journal
            .records()
            .map(|record| run(journal, record, goal, statements))
            .collect(),
        candidates: candidates(journal)?,
        options,
        notes: notes(journal),
    })
}

/// What the planner was asked of before, where the changes are of that.
fn candidates(journal: &ProofJournal) -> Result<Vec<IndexCandidateView>, Failure> {
    let file = journal.path().join(CANDIDATES);
    match std::fs::read_to_string(&file) {
        Err(_) => Ok(Vec::new()),
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::could_not(format!("{} is damaged: {error}", file.display()))),
    }
}

/// Statements of the unchanged workload, as its runs know it.
fn statements(journal: &ProofJournal) -> Result<u64, Failure> {
    match journal.records().find(|one| one.trial.side == 0) {
        Some(first) => {
            let reader = run::RunReader::open(&journal.run_path(first.trial.number))?;
            Ok(reader.info().workload.statements)
        }
        None => Ok(0),
    }
}

fn run(journal: &ProofJournal, record: &ProofRecord, goal: Goal, statements: u64) -> ProofRunView {
    let numbers = &record.numbers;
    ProofRunView {
        number: record.trial.number,
        block: record.trial.block,
        side: journal.plan().sides[record.trial.side].name.clone(),
        started_wall_us: record.started_wall_us,
        took_s: record.took_s,
        elapsed_s: numbers.elapsed_s,
        value: numbers
            .of(goal, statements)
            .map(|value| in_unit(goal, value)),
        done: numbers.done,
        failed: numbers.failures(),
        skipped: numbers.skipped.values().sum(),
        tool_lag_p99_us: numbers.tool_lag_p99_us,
        server_cpu_s: numbers.server_cpu_s,
        wal_bytes: numbers.wal_bytes,
    }
}

/// What could not be measured, once each.
fn notes(journal: &ProofJournal) -> Vec<String> {
    let mut missing: BTreeMap<&str, &str> = BTreeMap::new();
    for record in journal.records() {
        for (what, why) in &record.numbers.missing {
            missing.entry(what).or_insert(why);
        }
    }
    let mut notes: Vec<String> = missing
        .iter()
        .map(|(what, why)| format!("not measured: {what} ({why})"))
        .collect();
    let lag = journal
        .records()
        .map(|one| one.numbers.tool_lag_p99_us)
        .fold(0.0, f64::max);
    if lag * 1e3 > analyse::TOOL_LAG_P99_HIGH_NS as f64 {
        notes.push(format!(
            "our own delay was up to {} (p99 of a run): response times have it in them",
            clock::duration_text((lag * 1e3) as i64)
        ));
    }
    notes
}

/// Runs of a side, or of the unchanged in the blocks that the side has whole.
fn records(journal: &ProofJournal, side: usize, blocks: u32) -> Vec<&ProofRecord> {
    let is_in = |record: &&ProofRecord| {
        record.trial.side == side && (1..=blocks).contains(&record.trial.block)
    };
    journal.records().filter(is_in).collect()
}

fn side(
    journal: &ProofJournal,
    statements: u64,
    (number, result): (usize, &SideResult),
    show_literals: bool,
) -> Result<ProofSideView, Failure> {
    let plan = &journal.plan().sides[number];
    let (before, after) = (
        records(journal, 0, result.blocks),
        records(journal, number, result.blocks),
    );
    let looks: Vec<ProofEffectView> = result
        .looks
        .iter()
        .map(|(effect, verdict)| ProofEffectView::new(effect, Some(*verdict)))
        .collect();
    let mut side = ProofSideView {
        name: plan.name.clone(),
        changes: plan.changes.iter().map(|one| one.name()).collect(),
        verdict: result.verdict().name(),
        effect: looks.last().copied(),
        looks,
        blocks: result.blocks,
        numbers: numbers(journal, statements, number, (&before, &after)),
        worse: result.verdict() == Verdict::Lost,
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: Vec::new(),
        others: 0,
        one_sided: 0,
        errors: Vec::new(),
        other_rows: 0,
        warnings: Vec::new(),
        sizes: sizes(before.last(), after.last()),
        rewritten: Vec::new(),
        page: None,
    };
    let rewritten = journal.rewritten_path(number);
    if rewritten.exists() {
        let notes = keys::open(&rewritten)?;
        let notes = &notes.info().provenance.rewrites;
        side.rewritten = notes
            .iter()
            .flat_map(report::rewrite_text::sentences)
            .collect();
    }
    if !before.is_empty() && !after.is_empty() {
        compared(journal, &mut side, number, (&before, &after), show_literals)?;
    }
    Ok(side)
}

/// Statement by statement, by the comparison of several runs a side; and its page.
fn compared(
    journal: &ProofJournal,
    side: &mut ProofSideView,
    number: usize,
    (before, after): (&[&ProofRecord], &[&ProofRecord]),
    show_literals: bool,
) -> Result<(), Failure> {
    let paths = |records: &[&ProofRecord]| -> Vec<PathBuf> {
        let path = |record: &&ProofRecord| journal.run_path(record.trial.number);
        records.iter().map(path).collect()
    };
    let request = Request {
        before: paths(before),
        after: paths(after),
        noise: Vec::new(),
        options: CompareOptions {
            margin: journal.plan().margin,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            literals: literals(show_literals),
            ..CompareOptions::default()
        },
    };
    let mut comparison = compare::compare(&request)?;
    known::put_into(&mut comparison, &request.before, &request.after)?;
    let page = format!("compare-{number}.html");
    let html = compare_page::render_html(&comparison);
    outputs::write(outputs::PAGE, &journal.path().join(&page), &html)?;
    side.page = Some(page);
    side.worse |= comparison.has_regression();
    side.other_rows = comparison.other_rows() as u64;
    side.warnings = comparison.warnings;
    side.errors = comparison.errors;
    for mut statement in comparison.statements {
        statement.details = None;
        if statement.regression {
            side.slower.push(statement);
        } else if statement.suspected {
            side.suspected.push(statement);
        } else {
            match statement.service.finding {
                Finding::Faster { .. } => side.faster.push(statement),
                Finding::InsufficientData {
                    reason: InsufficientData::OneSided,
                } => side.one_sided += 1,
                _ => side.others += 1,
            }
        }
    }
    let added = |one: &StatementComparison| one.service.added_ns.unwrap_or(0.0);
    side.faster.sort_by(|a, b| added(a).total_cmp(&added(b)));
    Ok(())
}

/// A number of a run that no goal is of.
type Number = fn(&ProofNumbers) -> Option<f64>;

/// Name, words, unit and number of what is measured beside the goals.
const MORE: [(&str, &str, &str, Number); 3] = [
    ("reads", "service times of reads", "us", |one| {
        one.reads().map(|seconds| seconds * 1e6)
    }),
    ("writes", "service times of writes", "us", |one| {
        one.writes().map(|seconds| seconds * 1e6)
    }),
    (
        "blocks",
        "blocks of tables and indexes read",
        "count",
        |one| one.blocks.map(|blocks| blocks as f64),
    ),
];

fn numbers(
    journal: &ProofJournal,
    statements: u64,
    side: usize,
    (before, after): (&[&ProofRecord], &[&ProofRecord]),
) -> Vec<ProofNumberView> {
    let mut all = Vec::new();
    for goal in Goal::ALL {
        let of = |record: &ProofRecord| record.numbers.of(goal, statements);
        let (Some(one), Some(other)) = (middle(before, of), middle(after, of)) else {
            continue;
        };
        let found = effect(&journal.blocks_of(side, goal, statements), ERROR);
        all.push(ProofNumberView {
            name: goal.name().to_owned(),
            words: goal.words().to_owned(),
            unit: unit(goal),
            more_is_better: goal.more_is_better(),
            before: in_unit(goal, one),
            after: in_unit(goal, other),
            moved: found
                .as_ref()
                .and_then(|found| moved(found, goal, journal.plan().margin)),
            effect: found.map(|found| ProofEffectView::new(&found, None)),
        });
    }
    let margin = journal.plan().margin;
    for (name, words, unit, of) in MORE {
        let number = |record: &ProofRecord| of(&record.numbers);
        let (Some(one), Some(other)) = (middle(before, number), middle(after, number)) else {
            continue;
        };
        let found = effect(&journal.blocks_with(side, &of), ERROR);
        all.push(ProofNumberView {
            name: name.to_owned(),
            words: words.to_owned(),
            unit,
            more_is_better: false,
            before: one,
            after: other,
            // Less of it is better, as of response times.
            moved: found
                .as_ref()
                .and_then(|found| moved(found, Goal::Total, margin)),
            effect: found.map(|found| ProofEffectView::new(&found, None)),
        });
    }
    let hot = |records: &[&ProofRecord]| -> Option<f64> {
        let shares: Option<Vec<f64>> = records.iter().map(|one| one.numbers.hot_share()).collect();
        let shares = shares.filter(|shares| !shares.is_empty())?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    };
    if let (Some(one), Some(other)) = (hot(before), hot(after)) {
        all.push(ProofNumberView {
            name: "hot".to_owned(),
            words: "updates that were HOT".to_owned(),
            unit: "share",
            more_is_better: true,
            before: one,
            after: other,
            effect: None,
            moved: match other - one {
                by if by < -margin => Some("worse"),
                by if by > margin => Some("better"),
                _ => None,
            },
        });
    }
    for (name, indexes) in [("indexes", true), ("tables", false)] {
        let of = |record: &ProofRecord| record.numbers.bytes(indexes).map(|bytes| bytes as f64);
        if let (Some(one), Some(other)) = (middle(before, of), middle(after, of)) {
            all.push(ProofNumberView {
                name: name.to_owned(),
                words: format!("size of {name} behind it"),
                unit: "bytes",
                more_is_better: false,
                before: one,
                after: other,
                effect: None,
                moved: None,
            });
        }
    }
    all
}

/// Where a number went beyond the margin.
fn moved(found: &Effect, goal: Goal, margin: f64) -> Option<&'static str> {
    match verdict(found, goal, margin) {
        Verdict::Won => Some("better"),
        Verdict::Lost => Some("worse"),
        Verdict::Same | Verdict::NotProven => None,
    }
}

/// The geometric mean; `None` where one was not measured, or there is none.
fn middle(records: &[&ProofRecord], of: impl Fn(&ProofRecord) -> Option<f64>) -> Option<f64> {
    let logs: Option<Vec<f64>> = records
        .iter()
        .map(|record| of(record).map(|value| value.max(1e-9).ln()))
        .collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Bytes without the change and with it.
type Both = (Option<u64>, Option<u64>);

fn sizes(before: Option<&&ProofRecord>, after: Option<&&ProofRecord>) -> Vec<ProofSizeView> {
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::new();
    };
    let mut all: BTreeMap<(&str, bool), Both> = BTreeMap::new();
    for size in &before.numbers.sizes {
        all.entry((&size.name, size.is_index)).or_default().0 = Some(size.bytes);
    }
    for size in &after.numbers.sizes {
        all.entry((&size.name, size.is_index)).or_default().1 = Some(size.bytes);
    }
    let differs = |(before, after): &Both| match (before, after) {
        (Some(before), Some(after)) => {
            let by = before.abs_diff(*after);
            by >= SIZE_BYTES && by as f64 >= SIZE_DIFFERENCE * *before as f64
        }
        _ => true,
    };
    let mut named: Vec<ProofSizeView> = all
        .into_iter()
        .filter(|(_, sizes)| differs(sizes))
        .map(
            |((name, is_index), (before_bytes, after_bytes))| ProofSizeView {
                name: name.to_owned(),
                is_index,
                before_bytes,
                after_bytes,
            },
        )
        .collect();
    let by = |one: &ProofSizeView| {
        one.before_bytes
            .unwrap_or(0)
            .abs_diff(one.after_bytes.unwrap_or(0))
    };
    named.sort_by_key(|one| std::cmp::Reverse(by(one)));
    named
}
