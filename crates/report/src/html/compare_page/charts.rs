//! The few charts of the whole: how it went over time, and how times are spread.

use crate::html::chart::lines::{Line, Scale, lines};
use crate::text::amount::{count, duration, duration_change, rate};
use crate::view::compare::{CompareView, DetailsView, StretchTimesView, StretchView};

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
    /// What it says, for those who do not see it.
    pub(super) spoken: String,
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

pub(super) fn charts(view: &CompareView) -> Vec<Chart> {
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

/// A line through the middles of the stretches.
fn line(
    view: &CompareView,
    stretches: &[StretchView],
    colour: u8,
    value: impl Fn(&StretchView) -> Option<f64>,
) -> Line {
    let width_us = view.over_time.width_us;
    let places = (0..).map(|at| (f64::from(at) + 0.5) * width_us);
    Line {
        colour,
        points: places
            .zip(stretches)
            .map(|(at, stretch)| (at, value(stretch)))
            .collect(),
    }
}

fn span(view: &CompareView) -> Scale {
    let stretches = view.over_time.before.len().max(view.over_time.after.len());
    Scale::Time {
        to_us: view.over_time.width_us * stretches as f64,
    }
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    let points = lines.iter().flat_map(|line| &line.points);
    points.filter_map(|(_, value)| *value)
}

fn over_time(view: &CompareView) -> Option<Chart> {
    let over = &view.over_time;
    let of = |get: fn(&StretchTimesView) -> f64| {
        move |stretch: &StretchView| stretch.service.as_ref().map(get)
    };
    let (p50, p99) = (of(|times| times.p50_us), of(|times| times.p99_us));
    let drawn = [
        line(view, &over.before, BEFORE_DASHED, p99),
        line(view, &over.after, AFTER_DASHED, p99),
        line(view, &over.before, BEFORE, p50),
        line(view, &over.after, AFTER, p50),
    ];
    let scale = Scale::durations(values(&drawn))?;
    let all = &view.all;
    Some(Chart {
        title: "Latency over time",
        note: "service time",
        spoken: format!(
            "in all, p50 {} and p99 {}",
            duration_change(
                all.before.map(|one| one.p50_us),
                all.after.map(|one| one.p50_us)
            ),
            duration_change(
                all.before.map(|one| one.p99_us),
                all.after.map(|one| one.p99_us)
            ),
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
fn shares(view: &CompareView, bins: fn(&DetailsView) -> &[u64]) -> Vec<f64> {
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

fn spread(view: &CompareView) -> Option<Chart> {
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
        spoken: format!(
            "most calls took {} before and {} after",
            mode(&sides[0]),
            mode(&sides[1])
        ),
        legend: &TWO,
        svg: lines(&across, &up, &drawn),
    })
}

fn per_second(view: &CompareView, stretch: &StretchView) -> f64 {
    stretch.sent as f64 * 1e6 / view.over_time.width_us
}

fn arrivals(view: &CompareView) -> Option<Chart> {
    let over = &view.over_time;
    let sent = |stretch: &StretchView| Some(per_second(view, stretch));
    let drawn = [
        line(view, &over.before, BEFORE, sent),
        line(view, &over.after, AFTER, sent),
    ];
    let most = values(&drawn).fold(0.0, f64::max);
    (most > 0.0).then(|| Chart {
        title: "Statements a second",
        note: "by when they were due",
        spoken: format!("at most {} a second", rate(most)),
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

fn tool_lag(view: &CompareView) -> Option<Chart> {
    let over = &view.over_time;
    let p99 = |stretch: &StretchView| stretch.tool_lag.map(|lag| lag.p99_us);
    let drawn = [
        line(view, &over.before, BEFORE_DASHED, p99),
        line(view, &over.after, AFTER_DASHED, p99),
    ];
    let scale = Scale::durations(values(&drawn))?;
    let side = |lag: Option<crate::view::latency::LatencyView>| lag.map(|lag| lag.p99_us);
    Some(Chart {
        title: "Tool lag",
        note: "the replaying program's own delay",
        spoken: format!(
            "p99 {}",
            duration_change(side(view.before.tool_lag), side(view.after.tool_lag))
        ),
        legend: &FOUR[2..],
        svg: lines(&span(view), &scale, &drawn),
    })
}

pub(super) fn numbers(view: &CompareView) -> Numbers {
    let over = &view.over_time;
    let row = |at: usize, before: &StretchView, after: &StretchView| {
        let times =
            |get: &dyn Fn(&StretchView) -> Option<f64>| duration_change(get(before), get(after));
        let both = |get: fn(&StretchView) -> u64| match (get(before), get(after)) {
            (0, 0) => String::new(),
            (before, after) => format!("{} → {}", count(before), count(after)),
        };
        vec![
            duration(at as f64 * over.width_us),
            both(|stretch| stretch.sent),
            both(|stretch| stretch.failed),
            times(&|stretch| stretch.service.map(|times| times.p50_us)),
            times(&|stretch| stretch.service.map(|times| times.p99_us)),
            times(&|stretch| stretch.response.map(|times| times.p99_us)),
            times(&|stretch| stretch.tool_lag.map(|times| times.p99_us)),
        ]
    };
    let stretches = over.before.iter().zip(&over.after).enumerate();
    Numbers {
        width: duration(over.width_us),
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
