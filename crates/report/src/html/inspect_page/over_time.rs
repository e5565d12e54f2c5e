//! The charts, and their numbers.

use std::collections::BTreeMap;

use analyse::{Inspection, Moment, OverTime};
use serde::Serialize;

use crate::html::chart::{Series, Shape, TimeAxis, lanes, stacked};
use crate::sqlstate::condition_name;
use crate::text::amount::{bytes, count, duration, rate};

/// Codes of errors that have a colour of their own.
const CODES_MAX: usize = 4;
const HEIGHT: u32 = 120;

/// Writes a number with its unit.
type Amount = fn(u64) -> String;
/// A number of a moment.
type Measure = fn(&Moment) -> u64;

/// Numbers by their names, each with a value for each moment.
const COLUMNS: [(&str, Measure); 12] = [
    ("statements", |one| one.statements),
    ("time_us", |one| one.time_us),
    ("errors", Moment::errors),
    ("opened", |one| one.opened),
    ("open", |one| one.open_max),
    ("temporary_files", |one| one.temporary_files),
    ("lock_waits", |one| one.lock_waits),
    ("deadlocks", |one| one.deadlocks),
    ("checkpoints", |one| one.checkpoints),
    ("autovacuums", |one| one.autovacuums),
    ("autoanalyzes", |one| one.autoanalyzes),
    ("others", |one| one.others),
];

/// What the page's script reads off the charts, in a form that is shorter than a list of moments.
#[derive(Serialize)]
pub(super) struct Columns {
    start_us: i64,
    width_us: i64,
    #[serde(flatten)]
    columns: BTreeMap<&'static str, Vec<u64>>,
}

pub(super) fn columns(over: &OverTime) -> Columns {
    let column = |(name, measure): (&'static str, Measure)| (name, values(over, measure));
    Columns {
        start_us: over.start_us,
        width_us: over.width_us,
        columns: COLUMNS.into_iter().map(column).collect(),
    }
}

fn values(over: &OverTime, measure: Measure) -> Vec<u64> {
    over.moments.iter().map(measure).collect()
}

/// One chart.
pub(super) struct Strip {
    pub(super) title: &'static str,
    pub(super) note: String,
    /// Alternative text of the chart.
    pub(super) alt_text: String,
    /// Classes of the style, and what they mean.
    pub(super) legend: Vec<(String, String)>,
    pub(super) svg: String,
}

/// The numbers of all charts.
pub(super) struct Numbers {
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) fn strips(view: &Inspection) -> Vec<Strip> {
    let over = &view.over_time;
    let axis = TimeAxis {
        start_wall_us: view.start_wall_us.saturating_add(over.start_us),
        width_us: over.width_us,
        count: over.moments.len(),
    };
    let mut strips = Vec::new();
    let seconds = over.width_us as f64 / 1e6;
    let any = |measure: Measure| over.moments.iter().any(|one| measure(one) > 0);
    let floats = |measure: Measure, by: f64| {
        let moments = over.moments.iter();
        moments.map(|one| measure(one) as f64 / by).collect()
    };
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mut single = |title, unit: &str, colour, values: Vec<f64>, shape, note: &str| {
        strips.push(Strip {
            title,
            note: note.to_owned(),
            alt_text: format!("at most {} {unit}", rate(most(&values))),
            legend: Vec::new(),
            svg: stacked(axis, &[Series { colour, values }], shape, HEIGHT, &tick),
        });
    };
    if any(|one| one.statements) {
        let values = floats(|one| one.statements, seconds);
        single(
            "Statements a second",
            "a second",
            1,
            values,
            Shape::Bars,
            "",
        );
    }
    if any(|one| one.time_us) {
        let values = floats(|one| one.time_us, over.width_us as f64);
        let note = "the server's time for what was sent then, by the time that passed";
        single(
            "Statements at work",
            "at work",
            2,
            values,
            Shape::Bars,
            note,
        );
    }
    if any(|one| one.open_max) {
        let note = "the most at one time";
        let values = floats(|one| one.open_max, 1.0);
        single("Sessions open", "at once", 3, values, Shape::Steps, note);
        let values = floats(|one| one.opened, seconds);
        let note = "new sessions";
        single(
            "Connections a second",
            "a second",
            8,
            values,
            Shape::Bars,
            note,
        );
    }
    if any(Moment::errors) {
        strips.push(errors(view, axis));
    }
    strips.extend(server(over, axis));
    strips
}

fn errors(view: &Inspection, axis: TimeAxis) -> Strip {
    let over = &view.over_time;
    let mut series = Vec::new();
    let mut legend = Vec::new();
    let mut rest: Vec<u64> = values(over, Moment::errors);
    let all: u64 = rest.iter().sum();
    for (colour, (code, error)) in (4u8..).zip(view.errors_by_count().into_iter().take(CODES_MAX)) {
        let of_code = |one: &Moment| one.errors.get(&code).copied().unwrap_or(0);
        let values: Vec<u64> = over.moments.iter().map(of_code).collect();
        for (rest, value) in rest.iter_mut().zip(&values) {
            *rest -= value;
        }
        let name = condition_name(code.as_str());
        legend.push((
            format!("c{colour}"),
            format!("{code} {name} × {}", count(error.count)),
        ));
        let values = values.iter().map(|value| *value as f64).collect();
        series.push(Series { colour, values });
    }
    let others: u64 = rest.iter().sum();
    if others > 0 {
        legend.push(("c8".to_owned(), format!("others × {}", count(others))));
        let values = rest.iter().map(|value| *value as f64).collect();
        series.push(Series { colour: 8, values });
    }
    Strip {
        title: "Errors",
        note: String::new(),
        alt_text: format!("{} in all", count(all)),
        legend,
        svg: stacked(axis, &series, Shape::Bars, HEIGHT, &|value| {
            if value.fract() == 0.0 {
                count(value as u64)
            } else {
                String::new()
            }
        }),
    }
}

/// A value of an axis: whole numbers without decimals.
fn tick(value: f64) -> String {
    match value.fract() == 0.0 {
        true => count(value as u64),
        false => rate(value),
    }
}

/// What the server did: a lane for each kind that occurs.
fn server(over: &OverTime, axis: TimeAxis) -> Option<Strip> {
    let time: Amount = |us| duration(us as f64);
    let all: [(&str, u8, Measure, Amount); 8] = [
        ("temp files", 5, |one| one.temporary_bytes, bytes),
        ("lock waits", 6, |one| one.lock_waits, count),
        ("time waited", 6, |one| one.lock_waited_us, time),
        ("deadlocks", 4, |one| one.deadlocks, count),
        ("checkpoints", 1, |one| one.checkpoints, count),
        ("vacuums", 3, |one| one.autovacuums, count),
        ("analyzes", 8, |one| one.autoanalyzes, count),
        ("other", 7, |one| one.others, count),
    ];
    let mut shown = Vec::new();
    let mut told = Vec::new();
    for (name, colour, measure, text) in all {
        let values = values(over, measure);
        let most = values.iter().copied().max().unwrap_or(0);
        if most > 0 {
            told.push(format!("{name} at most {}", text(most)));
            let values = values.iter().map(|value| *value as f64).collect();
            shown.push((name, Series { colour, values }));
        }
    }
    if shown.is_empty() {
        return None;
    }
    let height = 30 + 26 * shown.len() as u32;
    let told = told.join(", ");
    Some(Strip {
        title: "The server",
        note: format!("in a column: {told}"),
        alt_text: told,
        legend: Vec::new(),
        svg: lanes(axis, &shown, height),
    })
}

pub(super) fn numbers(view: &Inspection) -> Numbers {
    let over = &view.over_time;
    let time: Amount = |us| duration(us as f64);
    let all: [(&str, Measure, Amount); 14] = [
        ("statements", |one| one.statements, count),
        ("their time", |one| one.time_us, time),
        ("errors", Moment::errors, count),
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
    let row = |(place, moment): (usize, &Moment)| {
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
    // Sessions that are only open are nothing that happened.
    let happened = |(_, moment): &(usize, &Moment)| {
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
