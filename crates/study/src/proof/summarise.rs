//! Report of a proof, computed from its journal and its runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::compare::proof::{
    ERROR, Effect, Goal, Verdict, WorkSupport, effect, support_by_work, verdict,
};
use ::compare::{
    CompareOptions, Comparison, Direction, Finding, InsufficientData, StatementComparison,
};
use statistics::Unit;
use workload::{Literals, RewriteNote};

use super::hidden_command::shown_options;
use super::report::{
    InterimAnalysis, Movement, ProofEnd, ProofNumber, ProofReport, ProofSideReport, SizeChange,
};
use super::{ProofJournal, ProofNumbers, ProofRecord, SideResult};
use crate::compare_runs::{ComparisonRequest, compare_runs};
use crate::failure::Failure;
use crate::keys;
use crate::runner::EndReason;
use crate::screened_candidate::ScreenedCandidate;
use crate::stalled_share::{TrialStalls, stall_note};

/// Smallest relative size difference of a table or index that is shown.
const SIZE_DIFFERENCE: f64 = 0.1;
/// Smallest absolute size difference that is shown, in bytes.
const SIZE_BYTES: u64 = 256 << 10;

/// Screened index candidates in a proof's directory.
pub const CANDIDATES: &str = "candidates.json";

/// Renders the parts of a proof's report that are texts.
pub trait SideRenderer {
    /// Writes the comparison of a side with the unchanged one to this file in the proof's directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn comparison(&mut self, file: &str, comparison: &Comparison) -> Result<(), Failure>;

    /// Describes a rewriting of the workload in sentences.
    fn rewriting(&self, note: &RewriteNote) -> Vec<String>;
}

/// Computes the report of a proof. `renderer` receives the comparison of each side.
///
/// # Errors
/// If a run cannot be read, or the renderer fails.
pub fn summarise(
    journal: &ProofJournal,
    ended: EndReason,
    literals: Literals,
    renderer: &mut dyn SideRenderer,
) -> Result<ProofReport, Failure> {
    let plan = journal.plan();
    let goal: Goal = plan.goal.parse().map_err(Failure::could_not)?;
    let statements = statements(journal)?;
    let results = journal.side_results(goal, statements);
    let decision = journal.decision();
    let noise = decision.and_then(|one| one.deviation);
    let planned = decision.map_or(0, |one| one.blocks);
    let shows = journal.smallest_ratio(goal).map(|ratio| ratio - 1.0);
    let is_clear = results.iter().all(|one| one.verdict().is_clear());
    let done = journal.records().map(|one| one.trial.block).max();
    let ended = match (ended, decision.and_then(|one| one.ended)) {
        _ if is_clear => ProofEnd::Clear,
        (EndReason::TimeOver, _) | (_, Some(_)) => ProofEnd::TimeOver,
        (EndReason::Interrupted, _) => ProofEnd::Stopped,
        _ if done == Some(planned) => ProofEnd::AllBlocks,
        _ => ProofEnd::Stopped,
    };
    let mut sides = Vec::new();
    for (number, result) in (1..).zip(&results) {
        sides.push(side(
            journal,
            statements,
            (number, result),
            literals,
            renderer,
        )?);
    }
    let options = &journal.manifest().options;
    let name = |name: &str| options.get(name).cloned().unwrap_or_default();
    let (workload, place) = (name("workload-name"), name("place-name"));
    let options = shown_options(options);
    Ok(ProofReport {
        schema: "rehearse/proof/2",
        name: journal.path().display().to_string(),
        workload,
        statements,
        place,
        started_wall_us: journal.manifest().started_wall_us,
        seed: plan.seed,
        goal,
        margin: plan.margin,
        within_s: plan.within_s,
        took_s: journal.spent_s(),
        noise_runs: plan.noise_runs,
        noise,
        goal_noise: journal.goal_noise(statements),
        shows,
        blocks_planned: planned,
        ended,
        sides,
        runs: journal.records().cloned().collect(),
        candidates: candidates(journal)?,
        options,
        notes: notes(journal),
    })
}

/// Reads the index candidates that were screened, if the changes are from them.
fn candidates(journal: &ProofJournal) -> Result<Vec<ScreenedCandidate>, Failure> {
    let file = journal.path().join(CANDIDATES);
    match std::fs::read_to_string(&file) {
        Err(_) => Ok(Vec::new()),
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Failure::could_not(format!("{} is damaged: {error}", file.display()))),
    }
}

/// Returns the number of statements of the unchanged workload, as its runs counted them.
fn statements(journal: &ProofJournal) -> Result<u64, Failure> {
    match journal.records().find(|one| one.trial.side == 0) {
        Some(first) => {
            let reader = run::RunReader::open(&journal.run_path(first.trial.number))?;
            Ok(reader.info().workload.statements)
        }
        None => Ok(0),
    }
}

/// Returns what could not be measured, without duplicates.
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
    let stalls: Vec<TrialStalls> = journal.records().map(|one| one.numbers.stalls).collect();
    notes.extend(stall_note(
        &stalls,
        "a verdict on times that rests on such runs and that no work supports is not proven",
    ));
    let lag = journal
        .records()
        .map(|one| one.numbers.tool_lag_p99_us)
        .fold(0.0, f64::max);
    if lag * 1e3 > ::compare::TOOL_LAG_P99_HIGH_NS as f64 {
        notes.push(format!(
            "our own delay was up to {} (p99 of a run): response times have it in them",
            clock::duration_text((lag * 1e3) as i64)
        ));
    }
    notes
}

/// Returns the runs of a side from a first to a last block.
fn records(journal: &ProofJournal, side: usize, (first, last): (u32, u32)) -> Vec<&ProofRecord> {
    let is_in = |record: &&ProofRecord| {
        record.trial.side == side && (first..=last).contains(&record.trial.block)
    };
    journal.records().filter(is_in).collect()
}

/// Returns the unchanged runs and those of a side that are compared, to a last block. Of a harmful change there may be no unchanged
/// run in a block, so those that showed the noise are compared, too.
pub(super) fn compared_records(
    journal: &ProofJournal,
    (side, is_harmful): (usize, bool),
    last: u32,
) -> (Vec<&ProofRecord>, Vec<&ProofRecord>) {
    let first = u32::from(!is_harmful);
    (
        records(journal, 0, (first, last)),
        records(journal, side, (1, last)),
    )
}

fn side(
    journal: &ProofJournal,
    statements: u64,
    (number, result): (usize, &SideResult),
    literals: Literals,
    renderer: &mut dyn SideRenderer,
) -> Result<ProofSideReport, Failure> {
    let plan = &journal.plan().sides[number];
    let compared = (number, result.harmful_in.is_some());
    let (before, after) = compared_records(journal, compared, result.blocks);
    let looks = result.looks.iter();
    let interim_analyses: Vec<InterimAnalysis> = looks
        .map(|look| InterimAnalysis {
            effect: look.effect,
            verdict: look.verdict,
            support: look.support,
        })
        .collect();
    let mut side = ProofSideReport {
        name: plan.name.clone(),
        changes: plan.changes.iter().map(|one| one.name()).collect(),
        verdict: result.verdict(),
        effect: interim_analyses.last().map(|one| one.effect),
        interim_analyses,
        blocks: result.blocks,
        is_harmful: result.harmful_in.is_some(),
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
        let notes = keys::open_workload(&rewritten)?;
        let notes = &notes.info().provenance.rewrites;
        side.rewritten = notes
            .iter()
            .flat_map(|note| renderer.rewriting(note))
            .collect();
    }
    if !before.is_empty() && !after.is_empty() {
        let comparison = compare_sides(journal, (&before, &after), literals)?;
        let page = format!("compare-{number}.html");
        renderer.comparison(&page, &comparison)?;
        side.page = Some(page);
        add_comparison(&mut side, comparison);
    }
    Ok(side)
}

/// Compares all complete blocks of a side, and whether it is harmful, with the unchanged one; `None` if there are none.
///
/// # Errors
/// If a run cannot be read.
pub(crate) fn compare_side(
    journal: &ProofJournal,
    side: (usize, bool),
    literals: Literals,
) -> Result<Option<Comparison>, Failure> {
    let (before, after) = compared_records(journal, side, u32::MAX);
    if before.is_empty() || after.is_empty() {
        return Ok(None);
    }
    compare_sides(journal, (&before, &after), literals).map(Some)
}

/// Compares several runs of each side statement by statement.
fn compare_sides(
    journal: &ProofJournal,
    (before, after): (&[&ProofRecord], &[&ProofRecord]),
    literals: Literals,
) -> Result<Comparison, Failure> {
    let paths = |records: &[&ProofRecord]| -> Vec<PathBuf> {
        let path = |record: &&ProofRecord| journal.run_path(record.trial.number);
        records.iter().map(path).collect()
    };
    compare_runs(&ComparisonRequest {
        before: paths(before),
        after: paths(after),
        noise: Vec::new(),
        options: CompareOptions {
            margin: journal.plan().margin,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            literals,
            ..CompareOptions::default()
        },
        ..ComparisonRequest::default()
    })
}

/// Adds the statements, errors and warnings of a comparison.
fn add_comparison(side: &mut ProofSideReport, comparison: Comparison) {
    side.worse |= comparison.has_regression();
    side.other_rows = comparison.other_rows() as u64;
    side.warnings = comparison.warnings;
    side.errors = comparison.errors;
    for mut statement in comparison.statements {
        statement.details = None;
        if statement.change.is_cause(Direction::Slower) {
            side.slower.push(statement);
        } else if statement.change.is_cause(Direction::Faster) {
            side.faster.push(statement);
        } else if statement.change.is_suspected() {
            side.suspected.push(statement);
        } else {
            let one_sided = Finding::InsufficientData {
                reason: InsufficientData::OneSided,
            };
            match statement.service.finding == one_sided {
                true => side.one_sided += 1,
                false => side.others += 1,
            }
        }
    }
    let added = |one: &StatementComparison| one.service.added_ns.unwrap_or(0.0);
    side.faster.sort_by(|a, b| added(a).total_cmp(&added(b)));
}

/// Reads a number of a run; `None` if it was not measured.
type NumberOf = dyn Fn(&ProofNumbers) -> Option<f64>;

/// Number that is compared between whole runs.
struct Measure {
    name: &'static str,
    label: &'static str,
    unit: Unit,
    /// Goal with the same direction of improvement.
    like: Goal,
    /// Whether runs of the same block are compared with each other.
    is_paired: bool,
    of: Box<NumberOf>,
}

/// Returns the numbers to compare, the goals first. `statements` are those of the unchanged
/// workload.
fn measures(statements: u64) -> impl Iterator<Item = Measure> {
    let goals = Goal::ALL.into_iter().map(move |goal| Measure {
        name: goal.name(),
        label: goal.words(),
        unit: goal.unit(),
        like: goal,
        is_paired: true,
        of: Box::new(move |run| Some(goal.in_unit(run.of(goal, statements)?))),
    });
    let less = |name, label, unit, is_paired, of: fn(&ProofNumbers) -> Option<f64>| Measure {
        name,
        label,
        unit,
        like: Goal::Total,
        is_paired,
        of: Box::new(of),
    };
    let (ns, bytes) = (Unit::Nanoseconds, Unit::Bytes);
    goals.chain([
        less("reads", "service times of reads", ns, true, |run| {
            Some(run.reads()? * 1e9)
        }),
        less("writes", "service times of writes", ns, true, |run| {
            Some(run.writes()? * 1e9)
        }),
        less(
            "indexes",
            "size of indexes afterwards",
            bytes,
            false,
            |run| Some(run.bytes(true)? as f64),
        ),
        less("tables", "size of tables afterwards", bytes, false, |run| {
            Some(run.bytes(false)? as f64)
        }),
    ])
}

fn numbers(
    journal: &ProofJournal,
    statements: u64,
    side: usize,
    (before, after): (&[&ProofRecord], &[&ProofRecord]),
) -> Vec<ProofNumber> {
    let margin = journal.plan().margin;
    let number = |measure: Measure| {
        let of = |record: &ProofRecord| (measure.of)(&record.numbers);
        let blocks = (measure.is_paired).then(|| {
            let mut blocks = journal.blocks_with(side, &measure.of);
            if !measure.like.is_work() {
                journal.add_loads(side, &mut blocks);
            }
            blocks
        });
        let effect = blocks.and_then(|blocks| effect(&blocks, ERROR));
        let moved = effect.as_ref().and_then(|effect| {
            let work = journal.work_effects(side, effect.blocks as usize);
            let support = support_by_work(measure.like, effect.ratio, &work, None, margin);
            movement(effect, measure.like, margin, support)
        });
        Some(ProofNumber {
            name: measure.name,
            label: measure.label,
            unit: measure.unit,
            more_is_better: measure.like.more_is_better(),
            before: geometric_mean(before, of)?,
            after: geometric_mean(after, of)?,
            moved,
            effect,
        })
    };
    let mut all: Vec<ProofNumber> = measures(statements).filter_map(number).collect();
    let hot = |records: &[&ProofRecord]| -> Option<f64> {
        let shares: Option<Vec<f64>> = records.iter().map(|one| one.numbers.hot_share()).collect();
        let shares = shares.filter(|shares| !shares.is_empty())?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    };
    if let (Some(one), Some(other)) = (hot(before), hot(after)) {
        all.push(ProofNumber {
            name: "hot",
            label: "updates that were HOT",
            unit: Unit::Share,
            more_is_better: true,
            before: one,
            after: other,
            effect: None,
            moved: match other - one {
                by if by < -margin => Some(Movement::Worse),
                by if by > margin => Some(Movement::Better),
                _ => None,
            },
        });
    }
    all
}

/// Returns the direction of an effect beyond the margin.
fn movement(found: &Effect, goal: Goal, margin: f64, support: WorkSupport) -> Option<Movement> {
    match verdict(found, goal, margin, support) {
        Verdict::Won => Some(Movement::Better),
        Verdict::Lost => Some(Movement::Worse),
        Verdict::Same | Verdict::NotProven => None,
    }
}

/// Returns the geometric mean; `None` if a number is missing or there is none.
fn geometric_mean(
    records: &[&ProofRecord],
    of: impl Fn(&ProofRecord) -> Option<f64>,
) -> Option<f64> {
    let logs: Option<Vec<f64>> = records
        .iter()
        .map(|record| of(record).map(|value| value.max(1e-9).ln()))
        .collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Sizes in bytes without and with the change.
type SizePair = (Option<u64>, Option<u64>);

fn sizes(before: Option<&&ProofRecord>, after: Option<&&ProofRecord>) -> Vec<SizeChange> {
    let (Some(before), Some(after)) = (before, after) else {
        return Vec::new();
    };
    let mut all: BTreeMap<(&str, bool), SizePair> = BTreeMap::new();
    for size in &before.numbers.sizes {
        all.entry((&size.name, size.is_index)).or_default().0 = Some(size.bytes);
    }
    for size in &after.numbers.sizes {
        all.entry((&size.name, size.is_index)).or_default().1 = Some(size.bytes);
    }
    let differs = |(before, after): &SizePair| match (before, after) {
        (Some(before), Some(after)) => {
            let by = before.abs_diff(*after);
            by >= SIZE_BYTES && by as f64 >= SIZE_DIFFERENCE * *before as f64
        }
        _ => true,
    };
    let mut named: Vec<SizeChange> = all
        .into_iter()
        .filter(|(_, sizes)| differs(sizes))
        .map(
            |((name, is_index), (before_bytes, after_bytes))| SizeChange {
                name: name.to_owned(),
                is_index,
                before_bytes,
                after_bytes,
            },
        )
        .collect();
    let by = |one: &SizeChange| {
        one.before_bytes
            .unwrap_or(0)
            .abs_diff(one.after_bytes.unwrap_or(0))
    };
    named.sort_by_key(|one| std::cmp::Reverse(by(one)));
    named
}
