//! Charts as SVG within a page: bars on a time axis here, lines in [`lines`].
//!
//! Colours are numbers here, and the page's style gives each its colour, light or dark, and lines
//! their dashes: the style has a rule for `[fill="#000001"]` and so on (`templates/style.css`).

pub(super) mod curves;
pub(super) mod lines;

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

/// Size in the units of the drawing; the page scales it.
pub(super) const WIDTH: u32 = 1_100;
/// Where the plot begins and ends, from the left. The script that reads values off needs it.
pub(super) const LEFT: u32 = 90;
pub(super) const RIGHT: u32 = WIDTH - 36;

const TEXT: RGBColor = RGBColor(0, 0, 0xf0);
const GRID: RGBColor = RGBColor(0, 0, 0xf1);

/// An axis with its ticks where they are wanted.
struct Ticks {
    from: f64,
    to: f64,
    at: Vec<f64>,
    /// Equal lengths are equal ratios; then `from` is more than 0.
    logarithmic: bool,
}

impl Ticks {
    /// An even axis from 0.
    fn even(to: f64, at: Vec<f64>) -> Self {
        Self {
            from: 0.0,
            to,
            at,
            logarithmic: false,
        }
    }
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let length = f64::from(limit.1 - limit.0);
        let part = match self.logarithmic {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        limit.0 + (length * part).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.at.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// A colour of the page's style, by its number from 1.
pub(super) fn colour(number: u8) -> RGBColor {
    RGBColor(0, 0, number)
}

/// The time axis that charts share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeAxis {
    /// Where it begins, in microseconds since 1970-01-01 UTC.
    pub(super) start_wall_us: i64,
    /// What one value covers.
    pub(super) width_us: i64,
    /// How many values.
    pub(super) count: usize,
}

/// Steps between the labels of the time axis, in seconds.
const STEPS_S: [i64; 19] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 604_800,
];
/// As many labels as there is room for.
const LABELS_MAX: i64 = 10;

impl TimeAxis {
    /// Where the labels are, as numbers of values from the start, and what they say. Times are
    /// round ones of the clock; a span below some seconds has its milliseconds from the start.
    fn labels(&self) -> Vec<(f64, String)> {
        let span_us = self.width_us * self.count as i64;
        let step = STEPS_S
            .into_iter()
            .find(|step| span_us / (step * 1_000_000) < LABELS_MAX)
            .unwrap_or(span_us / LABELS_MAX / 1_000_000 + 1)
            * 1_000_000;
        let place = |us: i64| us as f64 / self.width_us as f64;
        if span_us < 3_000_000 {
            let step = (span_us / 5).max(1);
            let label = |us| (place(us), clock::duration_text(us * 1_000));
            return (0..=5).map(|number| label(number * step)).collect();
        }
        let first = self.start_wall_us.div_euclid(step) * step + step;
        let mut labels = Vec::new();
        let mut at = first;
        while at < self.start_wall_us + span_us {
            // `2026-03-01 09:30:05 UTC`
            let text = clock::utc_text(at);
            let shown = match step {
                86_400_000_000.. => text.get(5..10),
                3_600_000_000.. => text.get(5..16),
                60_000_000.. => text.get(11..16),
                _ => text.get(11..19),
            };
            labels.push((
                place(at - self.start_wall_us),
                shown.unwrap_or(&text).to_owned(),
            ));
            at += step;
        }
        labels
    }
}

/// What a chart draws of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A bar for each.
    Bars,
    /// An outline with what is below it, for what goes on between the values.
    Steps,
}

/// Values over time, in one colour.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) colour: u8,
    pub(super) values: Vec<f64>,
}

/// A chart of series that are stacked on each other. `label` writes a value of the axis.
pub(super) fn stacked(
    axis: TimeAxis,
    series: &[Series],
    shape: Shape,
    height: u32,
    label: &dyn Fn(f64) -> String,
) -> String {
    let mut tops = vec![0.0; axis.count];
    for one in series {
        for (top, value) in tops.iter_mut().zip(&one.values) {
            *top += value;
        }
    }
    let most = tops.iter().copied().fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let ticks = vec![0.0, most / 2.0, most];
    draw(
        axis,
        most * 1.06,
        (ticks, &|value| label(*value)),
        height,
        |bar| {
            let mut bottoms = vec![0.0; axis.count];
            for one in series {
                for (place, value) in one.values.iter().enumerate().take(axis.count) {
                    let bottom = bottoms[place];
                    if *value > 0.0 {
                        bar(place, bottom, bottom + value, one.colour, shape);
                    }
                    bottoms[place] = bottom + value;
                }
            }
        },
    )
}

/// Lanes above each other, the first at the top; the bars of each are as high as the most of it.
pub(super) fn lanes(axis: TimeAxis, lanes: &[(&str, Series)], height: u32) -> String {
    let count = lanes.len();
    let ticks: Vec<f64> = (0..count).map(|lane| lane as f64 + 0.5).collect();
    let name = |value: &f64| {
        let lane = count - 1 - (*value as usize).min(count - 1);
        lanes[lane].0.to_owned()
    };
    draw(axis, count as f64, (ticks, &name), height, |bar| {
        for (place, (_, series)) in lanes.iter().enumerate() {
            let floor = (count - 1 - place) as f64;
            let most = series.values.iter().copied().fold(0.0, f64::max);
            for (at, value) in series.values.iter().enumerate().take(axis.count) {
                if *value > 0.0 {
                    // What is more than nothing is seen.
                    let part = (value / most * 0.8).max(0.15);
                    bar(
                        at,
                        floor + 0.05,
                        floor + 0.05 + part,
                        series.colour,
                        Shape::Bars,
                    );
                }
            }
        }
    })
}

/// What a tick says.
type TickText<'a> = &'a dyn Fn(&f64) -> String;

type Bar<'a> = dyn FnMut(usize, f64, f64, u8, Shape) + 'a;

fn draw(
    axis: TimeAxis,
    top: f64,
    (ticks, label): (Vec<f64>, TickText<'_>),
    height: u32,
    fill: impl FnOnce(&mut Bar<'_>),
) -> String {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let times = axis.labels();
        let written = |place: &f64| {
            let found = times.iter().find(|(at, _)| (at - place).abs() < 1e-9);
            found.map_or_else(String::new, |(_, text)| text.clone())
        };
        let places: Vec<f64> = times.iter().map(|(at, _)| *at).collect();
        let across = Ticks::even(axis.count as f64, places);
        let up = Ticks::even(top, ticks);
        let drawn = ChartBuilder::on(&root)
            .margin_right(WIDTH - RIGHT)
            .margin_top(4)
            .set_label_area_size(LabelAreaPosition::Left, LEFT)
            .set_label_area_size(LabelAreaPosition::Bottom, 22)
            .build_cartesian_2d(across, up)
            .and_then(|mut chart| {
                chart
                    .configure_mesh()
                    .light_line_style(TRANSPARENT)
                    .bold_line_style(GRID)
                    .axis_style(GRID)
                    .label_style(("sans-serif", 13).into_font().color(&TEXT))
                    .x_label_formatter(&written)
                    .y_label_formatter(&label)
                    .draw()?;
                let mut bars = Vec::new();
                fill(&mut |at, bottom, height, number, shape| {
                    // A hair between bars, none within an outline.
                    let gap = if shape == Shape::Bars { 0.1 } else { 0.0 };
                    let corners = [(at as f64 + gap, bottom), ((at + 1) as f64 - gap, height)];
                    bars.push(Rectangle::new(corners, colour(number).filled()));
                });
                chart.draw_series(bars)?;
                root.present()
            });
        // Drawing into a text does not fail.
        debug_assert!(drawn.is_ok());
    }
    within_page(&svg)
}

/// Within a page the namespace is known, and a page names no address.
fn within_page(svg: &str) -> String {
    svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
}
