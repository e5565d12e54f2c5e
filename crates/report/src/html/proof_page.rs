//! Page of a proof: the verdicts, the narrowing of the intervals, other changes, and every run.

use askama::Template;
use compare::StatementComparison;
use compare::proof::Verdict;
use study::proof::ProofRecord;

use super::chart::{Axis, Chart, Series, Shape, Unit, Values};
use super::data::script_json;
use super::frame::{Frame, render};
use super::interval::{Part, RatioAxis};
use super::status::Status;
use crate::text::line::one_line;
use crate::text::proof_text::{
    candidate_cells, candidates_sentence, first_of_sides, number_cells, side_by_side,
    statement_text, verdict_text, with_interval,
};
use crate::text::units::{bytes, count, duration, percent, quantity, ratio};

use study::proof::{Movement, ProofEnd, ProofReport, ProofSideReport, SizeChange};

/// Maximum number of statements in each list.
const STATEMENTS_MAX: usize = 200;

struct Section {
    id: String,
    name: String,
    status: Status,
    verdict: String,
    sentence: String,
    /// Interval of the effect, and its ratio's place.
    interval: Option<(Part, f64)>,
    changes: Vec<String>,
    rewritten: Vec<String>,
    numbers: Vec<([String; 4], &'static str)>,
    groups: Vec<Group>,
    errors: Vec<[String; 5]>,
    sizes: Vec<[String; 4]>,
    looks: Vec<[String; 4]>,
    rest: String,
    page: String,
}

/// Statements with the same finding.
struct Group {
    head: String,
    statements: Vec<String>,
    more: usize,
}

#[derive(Template)]
#[template(path = "proof.html")]
struct Page<'a> {
    frame: Frame,
    view: &'a ProofReport,
    facts: Vec<(&'static str, String)>,
    axis: RatioAxis,
    charts: Vec<Chart>,
    /// Warnings of the comparisons that come before the verdicts.
    first: Vec<String>,
    candidates: String,
    candidate_rows: Vec<[String; 5]>,
    side_by_side: (Vec<String>, Vec<Vec<String>>),
    sections: Vec<Section>,
    runs: Vec<[String; 10]>,
    started: String,
    margin: String,
}

/// Renders the proof as a complete HTML file.
pub fn render_html(view: &ProofReport) -> String {
    let effects = view.sides.iter().filter_map(|side| side.effect.as_ref());
    let axis = RatioAxis::new(
        effects.flat_map(|effect| [effect.low, effect.ratio, effect.high]),
        view.margin,
    );
    let sections: Vec<Section> = (0..)
        .zip(&view.sides)
        .map(|(at, side)| section(view, at, side, &axis))
        .collect();
    let charts: Vec<Chart> = view
        .sides
        .iter()
        .filter_map(|side| chart(view, side))
        .collect();
    let page = Page {
        frame: Frame::new(vec![("data-charts", script_json(&charts))]),
        view,
        facts: facts(view),
        first: first_of_sides(view),
        candidates: match view.candidates.is_empty() {
            true => String::new(),
            false => candidates_sentence(view),
        },
        candidate_rows: view.candidates.iter().map(candidate_cells).collect(),
        side_by_side: match view.sides.len() {
            0 | 1 => (Vec::new(), Vec::new()),
            _ => side_by_side(view),
        },
        sections,
        axis,
        charts,
        runs: view.runs.iter().map(|run| run_cells(view, run)).collect(),
        started: clock::utc_text(view.started_wall_us),
        margin: percent(view.margin, 1.0),
    };
    render(&page)
}

fn facts(view: &ProofReport) -> Vec<(&'static str, String)> {
    let blocks = view
        .runs
        .iter()
        .map(|run| run.trial.block)
        .max()
        .unwrap_or(0);
    let mut facts = vec![
        ("the goal", view.goal.words().to_owned()),
        (
            "blocks, of at most",
            format!("{blocks} of {}", view.blocks_planned),
        ),
        ("runs", count(view.runs.len() as u64)),
        ("with restoring", duration(view.took_s * 1e6)),
    ];
    if let Some(noise) = view.noise {
        facts.push(("unchanged runs differ by", percent(noise, 1.0)));
    }
    if let Some(shows) = view.shows {
        facts.push((
            "from about this change on all blocks show it",
            format!(
                "× {} or × {}",
                ratio(1.0 / (1.0 + shows)),
                ratio(1.0 + shows)
            ),
        ));
    }
    facts
}

/// Creates the chart of a side's effect with its interval at each look, if it looked more than once.
fn chart(view: &ProofReport, side: &ProofSideReport) -> Option<Chart> {
    let looks = &side.interim_analyses;
    let blocks = looks.iter().map(|look| look.effect.blocks);
    let labels = blocks.map(|blocks| (f64::from(blocks), blocks.to_string()));
    let estimates = looks.iter().map(|look| {
        let effect = &look.effect;
        let interval = Some((effect.low, effect.high));
        let is_clear = look.verdict.is_clear();
        (f64::from(effect.blocks), effect.ratio, interval, is_clear)
    });
    (looks.len() > 1).then(|| Chart {
        title: format!(
            "{}: with the change divided by without",
            one_line(&side.name, 80)
        ),
        note: format!(
            "over blocks that were done, in ratios; a ring is a clear verdict; the margin is {}",
            percent(view.margin, 1.0)
        ),
        alt_text: verdict_text(view, side),
        height: 250,
        layout: None,
        x: Axis::logarithmic(Unit::Count).labelled(labels.collect()),
        y: Axis::logarithmic(Unit::Ratio),
        series: vec![Series {
            label: one_line(&side.name, 200),
            colour: "before",
            dash: None,
            shape: Shape::Points,
            unit: None,
            values: Values::estimates(estimates),
        }],
    })
}

fn section(view: &ProofReport, place: usize, side: &ProofSideReport, axis: &RatioAxis) -> Section {
    let group = |what: &str, statements: &[StatementComparison]| Group {
        head: format!("{}: {what}", count(statements.len() as u64)),
        statements: statements
            .iter()
            .take(STATEMENTS_MAX)
            .map(statement_text)
            .collect(),
        more: statements.len().saturating_sub(STATEMENTS_MAX),
    };
    let groups = [
        group("statements that got slower", &side.slower),
        group("that look slower, which may be chance", &side.suspected),
        group("statements that got faster", &side.faster),
    ];
    let errors = side.errors.iter().map(|error| {
        [
            format!(
                "{}{}",
                error.direction.name(),
                if error.regression { ", worse" } else { "" }
            ),
            error.sqlstate.to_string(),
            format!("{} → {}", count(error.before), count(error.after)),
            one_line(error.message.as_deref().unwrap_or_default(), 200),
            one_line(error.sql.as_deref().unwrap_or_default(), 400),
        ]
    });
    let looks = side.interim_analyses.iter().map(|look| {
        [
            look.effect.blocks.to_string(),
            format!("× {}", with_interval(&look.effect)),
            percent(look.effect.error, 1.0),
            look.verdict.name().to_owned(),
        ]
    });
    Section {
        id: format!("side-{place}"),
        name: one_line(&side.name, 200),
        status: match (side.verdict, side.worse) {
            (Verdict::Won | Verdict::Same, false) => Status::Good,
            (Verdict::Lost, _) => Status::Bad,
            _ => Status::Unsure,
        },
        verdict: capitalised(side.verdict.name()),
        interval: side.effect.as_ref().map(|effect| {
            let reach = axis.part(effect.low, effect.high);
            (reach, axis.place(effect.ratio))
        }),
        sentence: verdict_text(view, side),
        changes: side.changes.iter().map(|one| one_line(one, 300)).collect(),
        rewritten: side.rewritten.clone(),
        numbers: side
            .numbers
            .iter()
            .map(|one| {
                (
                    number_cells(one),
                    if one.moved == Some(Movement::Worse) {
                        "bad"
                    } else {
                        ""
                    },
                )
            })
            .collect(),
        groups: groups
            .into_iter()
            .filter(|one| !one.statements.is_empty())
            .collect(),
        errors: errors.collect(),
        sizes: side.sizes.iter().map(size_cells).collect(),
        looks: looks.collect(),
        rest: format!(
            "{} statements were as before or not told apart, {} were on one side only, {} had other rows than before.",
            count(side.others),
            count(side.one_sided),
            count(side.other_rows)
        ),
        page: side.page.clone().unwrap_or_default(),
    }
}

/// Capitalises a word.
fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_uppercase(), characters.as_str())
    })
}

fn size_cells(size: &SizeChange) -> [String; 4] {
    let text = |size: Option<u64>| size.map_or_else(|| "not there".to_owned(), bytes);
    [
        one_line(&size.name, 120),
        if size.is_index { "index" } else { "table" }.to_owned(),
        text(size.before_bytes),
        text(size.after_bytes),
    ]
}

fn run_cells(view: &ProofReport, record: &ProofRecord) -> [String; 10] {
    let dash = || "–".to_owned();
    let (trial, numbers) = (record.trial, &record.numbers);
    let after_us = record.started_wall_us - view.started_wall_us;
    let side = trial.side.checked_sub(1).map(|at| &view.sides[at].name);
    let value = numbers.of(view.goal, view.statements);
    let not_done = numbers.failures() + numbers.skipped.values().sum::<u64>();
    [
        trial.number.to_string(),
        match trial.block {
            0 => dash(),
            block => block.to_string(),
        },
        clock::duration_text(after_us.max(0).saturating_mul(1_000)),
        side.map_or_else(|| "unchanged".to_owned(), |name| one_line(name, 80)),
        value.map_or_else(dash, |value| {
            quantity(view.goal.in_unit(value), view.goal.unit())
        }),
        duration(numbers.elapsed_s * 1e6),
        count(numbers.done),
        count(not_done),
        numbers
            .server_cpu_s
            .map_or_else(dash, |seconds| duration(seconds * 1e6)),
        duration(numbers.tool_lag_p99_us),
    ]
}
