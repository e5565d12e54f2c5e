//! Charts of the whole comparison: the course over time, and the distribution of times.

use compare::{Comparison, Details, SideStretch, StretchTimes};

use crate::html::chart::{Axis, Chart, Series, Shape, Unit, Values};
use crate::text::times_text::{change, p50, p99};
use crate::text::units::{count, duration, duration_change, duration_ns, rate};

/// Height in pixels.
const HEIGHT: u32 = 210;
const DASHED: Option<&str> = Some("dashed");

/// Numbers of the charts over time.
pub(super) struct Numbers {
    pub(super) width: String,
    pub(super) heads: [&'static str; 7],
    pub(super) rows: Vec<Vec<String>>,
}

pub(super) fn charts(view: &Comparison) -> Vec<Chart> {
    [
        over_time(view),
        spread(view),
        arrivals(view),
        tool_lag(view),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the width of a stretch in microseconds, the unit of the charts.
fn width_us(view: &Comparison) -> f64 {
    view.over_time.width_ns as f64 / 1e3
}

/// Creates a line through the middles of the stretches.
fn line(
    stretches: &[SideStretch],
    (label, colour, dash): (&str, &'static str, Option<&'static str>),
    value: impl Fn(&SideStretch) -> Option<f64>,
) -> Series {
    Series {
        label: label.to_owned(),
        colour,
        dash,
        shape: Shape::Line,
        unit: None,
        values: Values::steps(stretches.iter().map(value)),
    }
}

/// Creates a chart over the time of the runs, if there is anything to draw.
fn timeline(
    view: &Comparison,
    (title, note): (&str, &str),
    alt_text: String,
    y: Axis,
    series: Vec<Series>,
) -> Option<Chart> {
    let over = &view.over_time;
    let stretches = over.before.len().max(over.after.len());
    let is_drawn = series.iter().any(|one| one.values.any());
    is_drawn.then(|| Chart {
        title: title.to_owned(),
        note: note.to_owned(),
        alt_text,
        height: HEIGHT,
        layout: None,
        x: Axis::elapsed_steps(width_us(view), stretches),
        y,
        series,
    })
}

fn over_time(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let of = |get: fn(&StretchTimes) -> u64| {
        move |stretch: &SideStretch| Some(get(stretch.service.as_ref()?) as f64 / 1e3)
    };
    let (median, tail) = (of(|times| times.p50_ns), of(|times| times.p99_ns));
    timeline(
        view,
        ("Latency over time", "service time"),
        format!(
            "in all, p50 {} and p99 {}",
            change(&view.all, p50),
            change(&view.all, p99)
        ),
        Axis::logarithmic(Unit::Us),
        vec![
            line(&over.before, ("p50 before", "before", None), median),
            line(&over.after, ("p50 after", "after", None), median),
            line(&over.before, ("p99 before", "before", DASHED), tail),
            line(&over.after, ("p99 after", "after", DASHED), tail),
        ],
    )
}

/// Returns the lower bound of a bin, in microseconds.
fn edge_us(bin: usize) -> f64 {
    10f64.powf(bin as f64 / 10.0) / 1e3
}

/// Returns the share of calls in each bin, over the service times of all statements.
fn shares(view: &Comparison, bins: fn(&Details) -> &[u64]) -> Vec<f64> {
    let mut sums: Vec<f64> = Vec::new();
    for details in view
        .statements
        .iter()
        .filter_map(|one| one.details.as_ref())
    {
        for (bin, calls) in (details.first_bin as usize..).zip(bins(details)) {
            if sums.len() <= bin {
                sums.resize(bin + 1, 0.0);
            }
            sums[bin] += *calls as f64;
        }
    }
    let all: f64 = sums.iter().sum();
    if all > 0.0 {
        sums.iter_mut().for_each(|sum| *sum /= all);
    }
    sums
}

fn spread(view: &Comparison) -> Option<Chart> {
    let sides = [
        shares(view, |details| &details.bins_before),
        shares(view, |details| &details.bins_after),
    ];
    let any = |side: &Vec<f64>| side.iter().position(|share| *share > 0.0);
    let first = sides.iter().filter_map(any).min()?;
    let last = sides.iter().map(Vec::len).max()?;
    let outline = |side: &[f64], colour: &'static str| {
        let share = |bin: usize| side.get(bin).copied().unwrap_or(0.0);
        // Adds the upper end of the last bin.
        let edges = (first..=last).map(|bin| (edge_us(bin), share(bin)));
        Series {
            label: colour.to_owned(),
            colour,
            dash: None,
            shape: Shape::Outline,
            unit: None,
            values: Values::points(edges),
        }
    };
    let mode = |side: &[f64]| {
        let of = side.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        of.map_or_else(String::new, |(bin, _)| {
            format!(
                "{} to {}",
                duration(edge_us(bin)),
                duration(edge_us(bin + 1))
            )
        })
    };
    Some(Chart {
        title: "How long calls took".to_owned(),
        note: "by service time".to_owned(),
        alt_text: format!(
            "most calls took {} before and {} after",
            mode(&sides[0]),
            mode(&sides[1])
        ),
        height: HEIGHT,
        layout: None,
        x: Axis::logarithmic(Unit::Us),
        y: Axis::linear(Unit::Share),
        series: vec![outline(&sides[0], "before"), outline(&sides[1], "after")],
    })
}

fn arrivals(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let per_second = |stretch: &SideStretch| stretch.sent as f64 * 1e6 / width_us(view);
    let all = over.before.iter().chain(&over.after);
    let most = all.map(per_second).fold(0.0, f64::max);
    let sent = |stretch: &SideStretch| Some(per_second(stretch));
    let series = vec![
        line(&over.before, ("before", "before", None), sent),
        line(&over.after, ("after", "after", None), sent),
    ];
    let alt_text = format!("at most {} a second", rate(most));
    let title = ("Statements a second", "by when they were due");
    timeline(view, title, alt_text, Axis::linear(Unit::Rate), series)
}

fn tool_lag(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let tail = |stretch: &SideStretch| Some(stretch.tool_lag?.p99_ns as f64 / 1e3);
    let [before, after] = [&view.before, &view.after].map(|side| side.tool_lag.as_ref().map(p99));
    timeline(
        view,
        ("Tool lag", "the replaying program's own delay"),
        format!("p99 {}", duration_change(before, after)),
        Axis::logarithmic(Unit::Us),
        vec![
            line(&over.before, ("p99 before", "before", DASHED), tail),
            line(&over.after, ("p99 after", "after", DASHED), tail),
        ],
    )
}

pub(super) fn numbers(view: &Comparison) -> Numbers {
    let over = &view.over_time;
    let row = |at: usize, before: &SideStretch, after: &SideStretch| {
        let times = |get: fn(&SideStretch) -> Option<u64>| {
            let ns = |stretch| get(stretch).map(|ns| ns as f64);
            duration_change(ns(before), ns(after))
        };
        let both = |get: fn(&SideStretch) -> u64| match (get(before), get(after)) {
            (0, 0) => String::new(),
            (before, after) => format!("{} → {}", count(before), count(after)),
        };
        vec![
            duration_ns(at as f64 * over.width_ns as f64),
            both(|stretch| stretch.sent),
            both(|stretch| stretch.failed),
            times(|stretch| Some(stretch.service?.p50_ns)),
            times(|stretch| Some(stretch.service?.p99_ns)),
            times(|stretch| Some(stretch.response?.p99_ns)),
            times(|stretch| Some(stretch.tool_lag?.p99_ns)),
        ]
    };
    let stretches = over.before.iter().zip(&over.after).enumerate();
    Numbers {
        width: duration_ns(over.width_ns as f64),
        heads: [
            "from",
            "sent",
            "failed",
            "service p50",
            "service p99",
            "response p99",
            "tool lag p99",
        ],
        rows: stretches
            .filter(|(_, (before, after))| before.sent + after.sent > 0)
            .map(|(at, (before, after))| row(at, before, after))
            .collect(),
    }
}
