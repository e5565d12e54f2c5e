//! Charts over time, and their numbers.

use inspect::{Inspection, TimeBucket};

use crate::html::chart::{Axis, Chart, Layout, Series, Shape, Unit, Values};
use crate::sqlstate::{code_label, condition_name};
use crate::text::units::{bytes, count, duration, rate};

/// Colours of the most frequent errors.
const COLOURS: [&str; 4] = ["c4", "c5", "c6", "c7"];
/// Height in pixels.
const HEIGHT: u32 = 120;

/// Formats a number with its unit.
type Amount = fn(u64) -> String;
/// Reads a number of a time bucket.
type Measure = fn(&TimeBucket) -> u64;

/// Numbers of all charts.
pub(super) struct Numbers {
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

fn values(view: &Inspection, measure: impl Fn(&TimeBucket) -> u64) -> Vec<u64> {
    view.over_time.moments.iter().map(measure).collect()
}

/// Divides each value.
fn divided(values: &[u64], by: f64) -> Values {
    Values::steps(values.iter().map(|value| Some(*value as f64 / by)))
}

/// Creates a chart of one series, or of several stacked ones.
fn chart(view: &Inspection, (title, note, alt_text): (&str, &str, String), y: Axis) -> Chart {
    let over = &view.over_time;
    Chart {
        title: title.to_owned(),
        note: note.to_owned(),
        alt_text,
        height: HEIGHT,
        layout: None,
        x: Axis::clock_steps(
            view.start_wall_us.saturating_add(over.start_us),
            over.width_us,
            over.moments.len(),
        ),
        y,
        series: Vec::new(),
    }
}

pub(super) fn charts(view: &Inspection) -> Vec<Chart> {
    let over = &view.over_time;
    let seconds = over.width_us as f64 / 1e6;
    let single = |(title, note, unit): (&str, &str, &str), colour, measure: Measure, by, shape| {
        let values = values(view, measure);
        let most = values.iter().max().filter(|most| **most > 0)?;
        let alt_text = format!("at most {} {unit}", rate(*most as f64 / by));
        Some(Chart {
            series: vec![Series {
                label: String::new(),
                colour,
                dash: None,
                shape,
                unit: None,
                values: divided(&values, by),
            }],
            ..chart(view, (title, note, alt_text), Axis::linear(Unit::Rate))
        })
    };
    let work = "service time of the statements sent in a column, divided by its width";
    [
        single(
            ("Statements a second", "", "a second"),
            "c1",
            |one| one.statements,
            seconds,
            Shape::Bars,
        ),
        single(
            ("Statements in progress", work, "in progress"),
            "c2",
            |one| one.time_us,
            over.width_us as f64,
            Shape::Bars,
        ),
        single(
            ("Sessions open", "the most at one time", "at once"),
            "c3",
            |one| one.open_max,
            1.0,
            Shape::Area,
        ),
        single(
            ("Connections a second", "new sessions", "a second"),
            "c8",
            |one| one.opened,
            seconds,
            Shape::Bars,
        ),
        errors(view),
        server(view),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn errors(view: &Inspection) -> Option<Chart> {
    let mut rest = values(view, TimeBucket::errors);
    let all: u64 = rest.iter().sum();
    let stacked = |label, colour, values: &[u64]| Series {
        label,
        colour,
        dash: None,
        shape: Shape::Bars,
        unit: None,
        values: divided(values, 1.0),
    };
    let mut series = Vec::new();
    for (colour, (code, error)) in COLOURS.iter().zip(view.errors_by_count()) {
        let values = values(view, |one| one.errors.get(&code).copied().unwrap_or(0));
        for (rest, value) in rest.iter_mut().zip(&values) {
            *rest -= value;
        }
        let name = condition_name(code.as_str());
        let code = code_label(code.as_str());
        let label = format!("{code} {name} × {}", count(error.count)).replace("  ", " ");
        series.push(stacked(label, colour, &values));
    }
    let others: u64 = rest.iter().sum();
    if others > 0 {
        series.push(stacked(format!("others × {}", count(others)), "c8", &rest));
    }
    (all > 0).then(|| Chart {
        layout: Some(Layout::Stacked),
        series,
        ..chart(
            view,
            ("Errors", "", format!("{} in all", count(all))),
            Axis::whole(),
        )
    })
}

/// Creates the chart of server events, with a lane for each kind that occurs.
fn server(view: &Inspection) -> Option<Chart> {
    let all: [(&str, &str, Measure, Unit, Amount); 8] = [
        (
            "temp files",
            "c5",
            |one| one.temporary_bytes,
            Unit::Bytes,
            bytes,
        ),
        ("lock waits", "c6", |one| one.lock_waits, Unit::Count, count),
        (
            "time waited",
            "c6",
            |one| one.lock_waited_us,
            Unit::Us,
            |us| duration(us as f64),
        ),
        ("deadlocks", "c4", |one| one.deadlocks, Unit::Count, count),
        (
            "checkpoints",
            "c1",
            |one| one.checkpoints,
            Unit::Count,
            count,
        ),
        ("vacuums", "c3", |one| one.autovacuums, Unit::Count, count),
        ("analyzes", "c8", |one| one.autoanalyzes, Unit::Count, count),
        ("other", "c7", |one| one.others, Unit::Count, count),
    ];
    let mut series = Vec::new();
    let mut most_of_each = Vec::new();
    for (name, colour, measure, unit, text) in all {
        let values = values(view, measure);
        let most = values.iter().copied().max().unwrap_or(0);
        if most > 0 {
            most_of_each.push(format!("{name} at most {}", text(most)));
            series.push(Series {
                label: name.to_owned(),
                colour,
                dash: None,
                shape: Shape::Bars,
                unit: Some(unit),
                values: divided(&values, 1.0),
            });
        }
    }
    let alt_text = most_of_each.join(", ");
    let note = format!("in a column: {alt_text}");
    (!series.is_empty()).then(|| Chart {
        layout: Some(Layout::Lanes),
        height: 36 + 26 * series.len() as u32,
        series,
        ..chart(view, ("The server", &note, alt_text), Axis::default())
    })
}

pub(super) fn numbers(view: &Inspection) -> Numbers {
    let over = &view.over_time;
    let time: Amount = |us| duration(us as f64);
    let all: [(&str, Measure, Amount); 14] = [
        ("statements", |one| one.statements, count),
        ("their time", |one| one.time_us, time),
        ("errors", TimeBucket::errors, count),
        ("open", |one| one.open_max, count),
        ("opened", |one| one.opened, count),
        ("closed", |one| one.closed, count),
        ("temp files", |one| one.temporary_files, count),
        ("their size", |one| one.temporary_bytes, bytes),
        ("lock waits", |one| one.lock_waits, count),
        ("waited", |one| one.lock_waited_us, time),
        ("deadlocks", |one| one.deadlocks, count),
        ("checkpoints", |one| one.checkpoints, count),
        ("vacuums", |one| one.autovacuums, count),
        ("analyzes", |one| one.autoanalyzes, count),
    ];
    let used: Vec<_> = all
        .into_iter()
        .filter(|(_, measure, _)| over.moments.iter().any(|one| measure(one) > 0))
        .collect();
    let row = |(place, moment): (usize, &TimeBucket)| {
        let at_us = over.start_us + place as i64 * over.width_us;
        let mut cells = vec![clock::utc_text(view.start_wall_us.saturating_add(at_us))];
        if over.width_us < 1_000_000 {
            cells[0] = format!("+{}", duration(at_us as f64));
        }
        cells.extend(used.iter().map(|(_, measure, text)| match measure(moment) {
            0 => String::new(),
            value => text(value),
        }));
        cells
    };
    // Open sessions alone do not count as activity.
    let happened = |(_, moment): &(usize, &TimeBucket)| {
        let mut what = used.iter().filter(|(name, ..)| *name != "open");
        what.any(|(_, measure, _)| measure(moment) > 0)
    };
    Numbers {
        heads: used.iter().map(|(name, ..)| *name).collect(),
        rows: (over.moments.iter().enumerate())
            .filter(happened)
            .map(row)
            .collect(),
    }
}
