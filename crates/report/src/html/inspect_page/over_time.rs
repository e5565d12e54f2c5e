//! The charts, and their numbers.

use crate::html::chart::{Series, Shape, TimeAxis, lanes, stacked};
use crate::text::amount::{bytes, count, duration, rate};
use crate::view::inspect::{InspectView, OverTimeView};

/// Codes of errors that have a colour of their own.
const CODES_MAX: usize = 4;
const HEIGHT: u32 = 120;

/// Writes a number with its unit.
type Amount = fn(u64) -> String;

/// One chart.
pub(super) struct Strip {
    pub(super) title: &'static str,
    pub(super) note: String,
    /// What it says, for those who do not see it.
    pub(super) spoken: String,
    /// Classes of the style, and what they mean.
    pub(super) legend: Vec<(String, String)>,
    pub(super) svg: String,
}

/// The numbers of all charts.
pub(super) struct Numbers {
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) fn strips(view: &InspectView) -> Vec<Strip> {
    let over = &view.over_time;
    let axis = TimeAxis {
        start_wall_us: view.start_wall_us.saturating_add(over.start_us),
        width_us: over.width_us,
        count: over.statements.len(),
    };
    let mut strips = Vec::new();
    let seconds = over.width_us as f64 / 1e6;
    let any = |values: &[u64]| values.iter().any(|value| *value > 0);
    let floats = |values: &[u64], by: f64| values.iter().map(|value| *value as f64 / by).collect();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mut single = |title, unit: &str, colour, values: Vec<f64>, shape, note: &str| {
        strips.push(Strip {
            title,
            note: note.to_owned(),
            spoken: format!("at most {} {unit}", rate(most(&values))),
            legend: Vec::new(),
            svg: stacked(axis, &[Series { colour, values }], shape, HEIGHT, &tick),
        });
    };
    if any(&over.statements) {
        let values = floats(&over.statements, seconds);
        single(
            "Statements a second",
            "a second",
            1,
            values,
            Shape::Bars,
            "",
        );
    }
    if any(&over.time_us) {
        let values = floats(&over.time_us, over.width_us as f64);
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
    if any(&over.open) {
        let note = "the most at one time";
        let values = floats(&over.open, 1.0);
        single("Sessions open", "at once", 3, values, Shape::Steps, note);
        let values = floats(&over.opened, seconds);
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
    if any(&over.errors) {
        strips.push(errors(view, axis));
    }
    strips.extend(server(over, axis));
    strips
}

fn errors(view: &InspectView, axis: TimeAxis) -> Strip {
    let over = &view.over_time;
    let mut series = Vec::new();
    let mut legend = Vec::new();
    let mut rest: Vec<u64> = over.errors.clone();
    for (colour, error) in (4u8..).zip(view.error_examples.iter().take(CODES_MAX)) {
        let Some(values) = over.errors_by_code.get(&error.sqlstate) else {
            continue;
        };
        for (rest, value) in rest.iter_mut().zip(values) {
            *rest -= value;
        }
        legend.push((
            format!("c{colour}"),
            format!("{} {} × {}", error.sqlstate, error.name, count(error.count)),
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
    let all: u64 = over.errors.iter().sum();
    Strip {
        title: "Errors",
        note: String::new(),
        spoken: format!("{} in all", count(all)),
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
fn server(over: &OverTimeView, axis: TimeAxis) -> Option<Strip> {
    let all: [(&str, u8, &[u64], Amount); 8] = [
        ("temp files", 5, &over.temporary_bytes, bytes),
        ("lock waits", 6, &over.lock_waits, count),
        ("time waited", 6, &over.lock_waited_us, |us| {
            duration(us as f64)
        }),
        ("deadlocks", 4, &over.deadlocks, count),
        ("checkpoints", 1, &over.checkpoints, count),
        ("vacuums", 3, &over.autovacuums, count),
        ("analyzes", 8, &over.autoanalyzes, count),
        ("other", 7, &over.others, count),
    ];
    let mut shown = Vec::new();
    let mut spoken = Vec::new();
    for (name, colour, values, text) in all {
        let most = values.iter().copied().max().unwrap_or(0);
        if most > 0 {
            spoken.push(format!("{name} at most {}", text(most)));
            let values = values.iter().map(|value| *value as f64).collect();
            shown.push((name, Series { colour, values }));
        }
    }
    if shown.is_empty() {
        return None;
    }
    let height = 30 + 26 * shown.len() as u32;
    let spoken = spoken.join(", ");
    Some(Strip {
        title: "The server",
        note: format!("in a column: {spoken}"),
        spoken,
        legend: Vec::new(),
        svg: lanes(axis, &shown, height),
    })
}

pub(super) fn numbers(view: &InspectView) -> Numbers {
    let over = &view.over_time;
    let time: Amount = |us| duration(us as f64);
    let all: [(&str, &[u64], Amount); 14] = [
        ("statements", &over.statements, count),
        ("their time", &over.time_us, time),
        ("errors", &over.errors, count),
        ("open", &over.open, count),
        ("opened", &over.opened, count),
        ("closed", &over.closed, count),
        ("temp files", &over.temporary_files, count),
        ("their size", &over.temporary_bytes, bytes),
        ("lock waits", &over.lock_waits, count),
        ("waited", &over.lock_waited_us, time),
        ("deadlocks", &over.deadlocks, count),
        ("checkpoints", &over.checkpoints, count),
        ("vacuums", &over.autovacuums, count),
        ("analyzes", &over.autoanalyzes, count),
    ];
    let used: Vec<_> = all
        .into_iter()
        .filter(|(_, values, _)| values.iter().any(|value| *value > 0))
        .collect();
    let row = |place: usize| {
        let at_us = over.start_us + place as i64 * over.width_us;
        let mut cells = vec![clock::utc_text(view.start_wall_us.saturating_add(at_us))];
        if over.width_us < 1_000_000 {
            cells[0] = format!("+{}", duration(at_us as f64));
        }
        cells.extend(used.iter().map(|(_, values, text)| match values[place] {
            0 => String::new(),
            value => text(value),
        }));
        cells
    };
    // Sessions that are only open are nothing that happened.
    let happened = |place: &usize| {
        let mut what = used.iter().filter(|(name, ..)| *name != "open");
        what.any(|(_, values, _)| values[*place] > 0)
    };
    Numbers {
        heads: used.iter().map(|(name, ..)| *name).collect(),
        rows: (0..over.statements.len())
            .filter(happened)
            .map(row)
            .collect(),
    }
}
