//! Page of a sweep: the knees, curves with their intervals, the numbers, and every trial.

use askama::Template;
use compare::sweep::Estimate;
use study::sweep::{Record, Setting};

use super::chart;
use super::chart::{Chart, SERIES_MAX, Series, Shape, Unit, Values, colour};
use super::data::script_json;
use super::frame::{Frame, render};
use crate::text::line::one_line;
use crate::text::sweep_text::{cells, heads, knee_sentence, level_number, level_text, trial_text};
use crate::text::units::{count, duration, percent, rate};
use study::sweep::{Axis, LoadUnit, SweepCurve, SweepPoint, SweepReport};

/// Maximum number of trials.
const TRIALS_MAX: usize = 500;

/// Section of a curve.
struct Section {
    name: String,
    /// CSS class of its colour; empty if it is not drawn.
    class: &'static str,
    sentence: String,
    found: bool,
    rows: Vec<Vec<String>>,
}

struct TrialRow {
    number: u32,
    block: u32,
    when: String,
    what: String,
    /// Reason why there are no numbers.
    failed: String,
    cells: Vec<String>,
}

#[derive(Template)]
#[template(path = "sweep.html")]
struct Page<'a> {
    frame: Frame,
    view: &'a SweepReport,
    title: String,
    facts: Vec<(&'static str, String)>,
    axis: &'static str,
    charts: Vec<Chart>,
    undrawn: usize,
    heads: Vec<&'static str>,
    sections: Vec<Section>,
    trials: Vec<TrialRow>,
    trials_more: usize,
    not_done: Vec<String>,
    options: Vec<(String, String)>,
    started: String,
}

/// Renders the sweep as a complete HTML file.
pub fn render_html(view: &SweepReport) -> String {
    let trials = view
        .trials
        .iter()
        .take(TRIALS_MAX)
        .map(|trial| trial_row(view, trial));
    let charts = charts(view);
    let page = Page {
        frame: Frame::new(vec![("data-charts", script_json(&charts))]),
        view,
        title: one_line(&view.load, 120),
        facts: facts(view),
        axis: match view.axis {
            Some(Axis::Rate) => "transactions a second that were asked for",
            Some(Axis::Speed) => "speed",
            Some(Axis::Clients) | None => "clients",
        },
        charts,
        undrawn: view.curves.len().saturating_sub(SERIES_MAX),
        heads: heads(view),
        sections: sections(view),
        trials: trials.collect(),
        trials_more: view.trials.len().saturating_sub(TRIALS_MAX),
        not_done: (view.not_done.iter())
            .map(|trial| trial_text(trial, &view.variants))
            .collect(),
        options: view
            .options
            .iter()
            .map(|(name, value)| (name.clone(), one_line(value, 300)))
            .collect(),
        started: clock::utc_text(view.started_wall_us),
    };
    render(&page)
}

fn facts(view: &SweepReport) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let best = view
        .curves
        .iter()
        .flat_map(|curve| &curve.points)
        .filter_map(|point| point.per_s)
        .map(|estimate| estimate.centre)
        .fold(0.0, f64::max);
    let most = match view.unit {
        LoadUnit::Transactions => "the most transactions a second",
        LoadUnit::Statements => "the most statements a second",
    };
    facts.push((most, rate(best)));
    facts.push((
        "trials done",
        format!(
            "{} of {}",
            count(view.trials_done),
            count(view.trials_planned)
        ),
    ));
    facts.push(("trials of each combination", count(view.repeat.into())));
    let failed: u64 = view
        .curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|point| point.failed)
        .sum();
    facts.push(("failed statements", count(failed)));
    facts.push(("seed of the order", view.seed.to_string()));
    facts
}

fn sections(view: &SweepReport) -> Vec<Section> {
    let axis = view.axis.unwrap_or(Axis::Clients);
    let of = |(place, curve): (usize, &SweepCurve)| Section {
        name: match curve.name.as_str() {
            "" => "All trials".to_owned(),
            name => one_line(name, 200),
        },
        class: colour(place).unwrap_or_default(),
        sentence: knee_sentence(curve, axis).unwrap_or_default(),
        found: knee(curve).is_some(),
        rows: curve
            .points
            .iter()
            .map(|point| cells(view, curve, point))
            .collect(),
    };
    view.curves.iter().enumerate().map(of).collect()
}

/// Returns the level of a curve's knee.
fn knee(curve: &SweepCurve) -> Option<f64> {
    Some(curve.bend.as_ref()?.knee?.level)
}

type Get = fn(&SweepPoint) -> Option<Estimate>;
type Written = fn(f64) -> String;

fn charts(view: &SweepReport) -> Vec<Chart> {
    let Some(axis) = view.axis else {
        return Vec::new();
    };
    let wanted: [(&str, &str, Get, chart::Axis, Written); 5] = [
        (
            "Throughput",
            "a second, with 95 % intervals; a ring is a knee",
            |point| point.per_s,
            chart::Axis::linear(Unit::Rate),
            rate,
        ),
        (
            "Response time, p50",
            "in ratios, with 95 % intervals",
            |point| point.p50_us,
            chart::Axis::logarithmic(Unit::Us),
            duration,
        ),
        (
            "Response time, p99",
            "in ratios, with 95 % intervals",
            |point| point.p99_us,
            chart::Axis::logarithmic(Unit::Us),
            duration,
        ),
        (
            "The server's CPU time for a statement",
            "of all its processes",
            |point| point.server_cpu_us,
            chart::Axis::linear(Unit::Us),
            duration,
        ),
        (
            "Our own CPU time for a statement",
            "what measuring costs",
            |point| point.client_cpu_us,
            chart::Axis::linear(Unit::Us),
            duration,
        ),
    ];
    let mut levels: Vec<f64> = (view.curves.iter().flat_map(|curve| &curve.points))
        .map(|point| point.level)
        .collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let labels: Vec<(f64, String)> = (levels.into_iter())
        .map(|level| (level, level_number(level)))
        .collect();
    let chart = |(title, note, get, y, written): (&str, &str, Get, chart::Axis, Written)| {
        let series: Vec<Series> = (view.curves.iter().enumerate())
            .filter_map(|(place, curve)| {
                Some(Series {
                    label: curve.name.clone(),
                    colour: colour(place)?,
                    dash: None,
                    shape: Shape::Points,
                    unit: None,
                    values: points(curve, get, title == "Throughput"),
                })
            })
            .collect();
        let any = series.iter().any(|one| one.values.any());
        any.then(|| Chart {
            title: title.to_owned(),
            note: note.to_owned(),
            alt_text: alt_text(view, axis, get, written),
            height: 240,
            layout: None,
            x: chart::Axis::logarithmic(Unit::Count).labelled(labels.clone()),
            y,
            series,
        })
    };
    wanted.into_iter().filter_map(chart).collect()
}

fn points(curve: &SweepCurve, get: Get, with_knee: bool) -> Values {
    let of = |point: &SweepPoint| {
        let estimate = get(point)?;
        let is_knee = with_knee && knee(curve) == Some(point.level);
        Some((point.level, estimate.centre, estimate.interval, is_knee))
    };
    Values::estimates(curve.points.iter().filter_map(of))
}

/// Describes each curve by its first and last value.
fn alt_text(view: &SweepReport, axis: Axis, get: Get, written: Written) -> String {
    let ends = |curve: &SweepCurve| {
        let known: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter_map(|point| Some((point.level, get(point)?.centre)))
            .collect();
        let (first, last) = (known.first()?, known.last()?);
        Some(format!(
            "{} from {} at {} to {} at {}",
            curve.name,
            written(first.1),
            level_text(axis, first.0),
            written(last.1),
            level_text(axis, last.0)
        ))
    };
    let all: Vec<String> = view
        .curves
        .iter()
        .take(SERIES_MAX)
        .filter_map(ends)
        .collect();
    all.join("; ")
}

fn trial_row(view: &SweepReport, trial: &Record) -> TrialRow {
    let after_us = trial.started_wall_us - view.started_wall_us;
    let mut row = TrialRow {
        number: trial.trial.number,
        block: trial.trial.block,
        when: clock::duration_text(after_us.max(0).saturating_mul(1_000)),
        what: trial_text(&trial.trial, &view.variants),
        failed: trial
            .failed
            .as_deref()
            .map_or_else(String::new, |why| one_line(why, 300)),
        cells: Vec::new(),
    };
    if let Some(numbers) = &trial.numbers {
        let dash = || "–".to_owned();
        let time = |us: Option<f64>| us.map_or_else(dash, duration);
        row.cells = vec![
            rate(numbers.per_s),
            time(numbers.response.map(|times| times.p50_us)),
            time(numbers.response.map(|times| times.p99_us)),
            time(numbers.response.map(|times| times.max_us)),
            time(numbers.server_cpu_us),
            time(numbers.client_cpu_us),
            numbers
                .machine_busy
                .map_or_else(dash, |share| percent(share, 1.0)),
            format!("{:.1}", numbers.busy),
            count(numbers.failed.values().sum()),
        ];
    }
    row
}

/// Returns the settings of each variant.
impl Page<'_> {
    fn settings(&self) -> Vec<(String, String)> {
        let text = |settings: &[Setting]| {
            let pairs: Vec<String> = settings
                .iter()
                .map(|one| format!("{} = {}", one.name, one.value))
                .collect();
            match pairs.is_empty() {
                true => "nothing".to_owned(),
                false => pairs.join("; "),
            }
        };
        let named = self
            .view
            .variants
            .iter()
            .filter(|one| !one.name.is_empty() || !one.settings.is_empty());
        named
            .map(|one| {
                let name = match one.name.as_str() {
                    "" => "every trial".to_owned(),
                    name => name.to_owned(),
                };
                (name, text(&one.settings))
            })
            .collect()
    }
}
