//! The few charts of the whole: how it went over time, and how times are spread.

use analyse::{Comparison, Details, SideStretch, StretchTimes};

use crate::html::chart::lines::{Line, Scale, lines};
use crate::text::amount::{count, duration, duration_change, duration_ns, rate};
use crate::text::times_text::{change, p50, p99};

/// Numbers of the style for lines: before and after, and the same with dashes.
const BEFORE: u8 = 0x11;
const AFTER: u8 = 0x12;
const BEFORE_DASHED: u8 = 0x13;
const AFTER_DASHED: u8 = 0x14;

const TWO: [(&str, &str); 2] = [("before", "before"), ("after", "after")];
const FOUR: [(&str, &str); 4] = [
    ("before", "p50 before"),
    ("after", "p50 after"),
    ("before dashed", "p99 before"),
    ("after dashed", "p99 after"),
];

/// One chart.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    /// Alternative text of the chart.
    pub(super) alt_text: String,
    /// Classes of the style, and what they mean.
    pub(super) legend: &'static [(&'static str, &'static str)],
    pub(super) svg: String,
}

/// The numbers of the charts over time.
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

/// The width of a stretch. Charts are in microseconds.
fn width_us(view: &Comparison) -> f64 {
    view.over_time.width_ns as f64 / 1e3
}

/// A line through the middles of the stretches.
fn line(
    view: &Comparison,
    stretches: &[SideStretch],
    colour: u8,
    value: impl Fn(&SideStretch) -> Option<f64>,
) -> Line {
    let width_us = width_us(view);
    let places = (0..).map(|at| (f64::from(at) + 0.5) * width_us);
    Line {
        colour,
        points: places
            .zip(stretches)
            .map(|(at, stretch)| (at, value(stretch)))
            .collect(),
    }
}

fn span(view: &Comparison) -> Scale {
    let stretches = view.over_time.before.len().max(view.over_time.after.len());
    Scale::Time {
        to_us: width_us(view) * stretches as f64,
    }
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    let points = lines.iter().flat_map(|line| &line.points);
    points.filter_map(|(_, value)| *value)
}

fn over_time(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let of = |get: fn(&StretchTimes) -> u64| {
        move |stretch: &SideStretch| Some(get(stretch.service.as_ref()?) as f64 / 1e3)
    };
    let (median, tail) = (of(|times| times.p50_ns), of(|times| times.p99_ns));
    let drawn = [
        line(view, &over.before, BEFORE_DASHED, tail),
        line(view, &over.after, AFTER_DASHED, tail),
        line(view, &over.before, BEFORE, median),
        line(view, &over.after, AFTER, median),
    ];
    let scale = Scale::durations(values(&drawn))?;
    Some(Chart {
        title: "Latency over time",
        note: "service time",
        alt_text: format!(
            "in all, p50 {} and p99 {}",
            change(&view.all, p50),
            change(&view.all, p99)
        ),
        legend: &FOUR,
        svg: lines(&span(view), &scale, &drawn),
    })
}

/// Where a bin begins, in microseconds.
fn edge_us(bin: usize) -> f64 {
    10f64.powf(bin as f64 / 10.0) / 1e3
}

/// The service times of all statements, as the share of calls in each bin from the first.
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
    let across = Scale::durations([edge_us(first), edge_us(last)].into_iter())?;
    let most = sides.iter().flatten().copied().fold(0.0, f64::max);
    let outline = |side: &[f64], colour| {
        let share = |bin: usize| side.get(bin).copied().unwrap_or(0.0);
        let mut points = vec![(edge_us(first), Some(0.0))];
        for bin in first..last {
            points.push((edge_us(bin), Some(share(bin))));
            points.push((edge_us(bin + 1), Some(share(bin))));
        }
        points.push((edge_us(last), Some(0.0)));
        Line { colour, points }
    };
    let drawn = [outline(&sides[0], BEFORE), outline(&sides[1], AFTER)];
    let up = Scale::Even {
        to: most,
        text: |share| format!("{:.0} %", share * 100.0),
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
        title: "How long calls took",
        note: "by service time",
        alt_text: format!(
            "most calls took {} before and {} after",
            mode(&sides[0]),
            mode(&sides[1])
        ),
        legend: &TWO,
        svg: lines(&across, &up, &drawn),
    })
}

fn per_second(view: &Comparison, stretch: &SideStretch) -> f64 {
    stretch.sent as f64 * 1e6 / width_us(view)
}

fn arrivals(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let sent = |stretch: &SideStretch| Some(per_second(view, stretch));
    let drawn = [
        line(view, &over.before, BEFORE, sent),
        line(view, &over.after, AFTER, sent),
    ];
    let most = values(&drawn).fold(0.0, f64::max);
    (most > 0.0).then(|| Chart {
        title: "Statements a second",
        note: "by when they were due",
        alt_text: format!("at most {} a second", rate(most)),
        legend: &TWO,
        svg: lines(
            &span(view),
            &Scale::Even {
                to: most,
                text: |value| match value.fract() == 0.0 {
                    true => count(value as u64),
                    false => rate(value),
                },
            },
            &drawn,
        ),
    })
}

fn tool_lag(view: &Comparison) -> Option<Chart> {
    let over = &view.over_time;
    let tail = |stretch: &SideStretch| Some(stretch.tool_lag?.p99_ns as f64 / 1e3);
    let drawn = [
        line(view, &over.before, BEFORE_DASHED, tail),
        line(view, &over.after, AFTER_DASHED, tail),
    ];
    let scale = Scale::durations(values(&drawn))?;
    let [before, after] = [&view.before, &view.after].map(|side| side.tool_lag.as_ref().map(p99));
    Some(Chart {
        title: "Tool lag",
        note: "the replaying program's own delay",
        alt_text: format!("p99 {}", duration_change(before, after)),
        legend: &FOUR[2..],
        svg: lines(&span(view), &scale, &drawn),
    })
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
