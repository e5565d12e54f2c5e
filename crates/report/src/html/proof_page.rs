//! Page of a proof: the verdicts, the narrowing of the intervals, other changes, and every run.

use askama::Template;
use compare::StatementComparison;
use compare::proof::Verdict;
use study::proof::ProofRecord;

use super::chart::{Axis, Chart, Series, Shape, Unit, Values, colour};
use super::data::script_json;
use super::frame::{Frame, render};
use crate::text::line::one_line;
use crate::text::proof_text::{
    candidate_cells, candidates_sentence, number_cells, side_by_side, statement_text, verdict_text,
    with_interval,
};
use crate::text::units::{bytes, count, duration, percent, quantity};

use study::proof::{Movement, ProofEnd, ProofReport, ProofSideReport, SizeChange};

/// Maximum number of statements in each list.
const STATEMENTS_MAX: usize = 200;

struct Section {
    id: String,
    name: String,
    /// CSS class of its colour; empty if it is not drawn.
    class: &'static str,
    verdict: &'static str,
    tone: &'static str,
    sentence: String,
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
    charts: Vec<Chart>,
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
    let charts: Vec<Chart> = chart(view).into_iter().collect();
    let page = Page {
        frame: Frame::new(vec![("data-charts", script_json(&charts))]),
        view,
        facts: facts(view),
        charts,
        candidates: match view.candidates.is_empty() {
            true => String::new(),
            false => candidates_sentence(view),
        },
        candidate_rows: view.candidates.iter().map(candidate_cells).collect(),
        side_by_side: match view.sides.len() {
            0 | 1 => (Vec::new(), Vec::new()),
            _ => side_by_side(view),
        },
        sections: (0..)
            .zip(&view.sides)
            .map(|(at, side)| section(view, at, side))
            .collect(),
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
            "from about this difference on all blocks show it",
            percent(shows, 1.0),
        ));
    }
    facts
}

/// Creates the chart of the effect with its interval at each look.
fn chart(view: &ProofReport) -> Option<Chart> {
    let looks = || view.sides.iter().flat_map(|side| &side.interim_analyses);
    let mut blocks: Vec<u32> = looks().map(|look| look.effect.blocks).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let labels = (blocks.iter()).map(|blocks| (f64::from(*blocks), blocks.to_string()));
    let series = view.sides.iter().enumerate().filter_map(|(place, side)| {
        let estimates = side.interim_analyses.iter().map(|look| {
            let effect = &look.effect;
            let interval = Some((effect.low, effect.high));
            let is_clear = look.verdict.is_clear();
            (f64::from(effect.blocks), effect.ratio, interval, is_clear)
        });
        Some(Series {
            label: one_line(&side.name, 200),
            colour: colour(place)?,
            dash: None,
            shape: Shape::Points,
            unit: None,
            values: Values::estimates(estimates),
        })
    });
    (!blocks.is_empty()).then(|| Chart {
        title: "With the change divided by without".to_owned(),
        note: format!(
            "over blocks that were done, in ratios; a ring is a clear verdict; the margin is {}",
            percent(view.margin, 1.0)
        ),
        alt_text: (view.sides.iter())
            .map(|side| verdict_text(view, side))
            .collect::<Vec<_>>()
            .join("; "),
        height: 250,
        layout: None,
        x: Axis::logarithmic(Unit::Count).labelled(labels.collect()),
        y: Axis::logarithmic(Unit::Ratio),
        series: series.collect(),
    })
}

fn section(view: &ProofReport, place: usize, side: &ProofSideReport) -> Section {
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
        class: colour(place).unwrap_or_default(),
        verdict: side.verdict.name(),
        tone: match (side.verdict, side.worse) {
            (Verdict::Won | Verdict::Same, false) => "good",
            (Verdict::Lost, _) => "bad",
            _ => "",
        },
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
