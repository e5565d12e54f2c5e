//! Curves over levels: points with their intervals, joined by lines, and the knee with a ring.

use plotters::prelude::*;

use super::{GRID, TEXT, Ticks, colour, within_page};

/// Size in the units of the drawing; the page scales it. Two stand beside each other on a wide page.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 250;
const LEFT: u32 = 64;
/// As many levels have a label.
const LABELS_MAX: usize = 12;

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) level: f64,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) is_knee: bool,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// A number of the style, which may give it dashes.
    pub(crate) colour: u8,
    pub(crate) points: Vec<Point>,
}

/// Levels in ratios from left to right, values from 0 on evenly, or in ratios too.
pub(crate) fn curves(
    curves: &[Curve],
    logarithmic: bool,
    level: &dyn Fn(f64) -> String,
    value: &dyn Fn(f64) -> String,
) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut levels: Vec<f64> = points().map(|point| point.level).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let (Some(&first), Some(&last)) = (levels.first(), levels.last()) else {
        return String::new();
    };
    let step = levels.len().div_ceil(LABELS_MAX);
    let across = Ticks {
        from: first / 1.12,
        to: last * 1.12,
        at: levels.into_iter().step_by(step).collect(),
        logarithmic: true,
    };
    let ends = points().flat_map(|point| {
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        [low, high]
    });
    let (low, high) = ends.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let up = match logarithmic && low > 0.0 {
        true => in_ratios(low, high),
        false => evenly(high),
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let (level_text, value_text) = (
            |at: &f64| level(*at),
            |at: &f64| {
                if *at == 0.0 {
                    "0".to_owned()
                } else {
                    value(*at)
                }
            },
        );
        let drawn = ChartBuilder::on(&root)
            .margin_right(26)
            .margin_top(10)
            .set_label_area_size(LabelAreaPosition::Left, LEFT)
            .set_label_area_size(LabelAreaPosition::Bottom, 24)
            .build_cartesian_2d(across, up)
            .and_then(|mut chart| {
                chart
                    .configure_mesh()
                    .light_line_style(TRANSPARENT)
                    .bold_line_style(GRID)
                    .axis_style(GRID)
                    .label_style(("sans-serif", 13).into_font().color(&TEXT))
                    .x_label_formatter(&level_text)
                    .y_label_formatter(&value_text)
                    .draw()?;
                for curve in curves {
                    let ink = colour(curve.colour);
                    let line: Vec<(f64, f64)> = curve
                        .points
                        .iter()
                        .map(|one| (one.level, one.value))
                        .collect();
                    if line.len() > 1 {
                        chart.draw_series([PathElement::new(line, ink.stroke_width(2))])?;
                    }
                    for point in &curve.points {
                        let at = (point.level, point.value);
                        if let Some((low, high)) = point.interval {
                            let ends = vec![(point.level, low), (point.level, high)];
                            chart.draw_series([PathElement::new(ends, ink.stroke_width(1))])?;
                        }
                        chart.draw_series([Circle::new(at, 3, ink.filled())])?;
                        if point.is_knee {
                            chart.draw_series([Circle::new(at, 8, ink.stroke_width(2))])?;
                        }
                    }
                }
                root.present()
            });
        // Drawing into a text does not fail.
        debug_assert!(drawn.is_ok());
    }
    within_page(&svg)
}

/// From 0, in steps of 1, 2 or 5, about five of them.
fn evenly(high: f64) -> Ticks {
    let high = if high > 0.0 { high } else { 1.0 };
    let step = round_ones().find(|step| high / step <= 6.0).unwrap_or(high);
    let steps = (high / step).floor() as u32;
    let at = (0..=steps).map(|number| f64::from(number) * step).collect();
    Ticks::even(high * 1.06, at)
}

/// 1, 2 and 5 with any number of zeros.
fn round_ones() -> impl Iterator<Item = f64> {
    (-3..13).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)))
}

/// From the 1, 2 or 5 below to the one above.
fn in_ratios(low: f64, high: f64) -> Ticks {
    let from = round_ones()
        .take_while(|one| *one <= low)
        .last()
        .unwrap_or(low);
    let to = round_ones()
        .find(|one| *one >= high && *one > low)
        .unwrap_or(high);
    let within = round_ones().filter(|one| (from * 0.999..=to * 1.001).contains(one));
    Ticks {
        from,
        to,
        at: within.collect(),
        logarithmic: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::amount::count;

    #[test]
    fn points_have_intervals_and_the_knee_a_ring() {
        let point = |level: f64, value: f64, is_knee| Point {
            level,
            value,
            interval: Some((value * 0.9, value * 1.1)),
            is_knee,
        };
        let curve = Curve {
            colour: 1,
            points: vec![
                point(1.0, 100.0, false),
                point(2.0, 190.0, true),
                point(4.0, 200.0, false),
            ],
        };
        let number = |value: f64| count(value as u64);
        let svg = curves(&[curve], false, &number, &number);
        assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
        // The curve, and three intervals.
        assert_eq!(svg.matches("<polyline").count() - grid(&svg), 4, "{svg}");
        let labels: Vec<f64> = evenly(6_457.0).at;
        assert_eq!(labels, [0.0, 2_000.0, 4_000.0, 6_000.0]);
        assert_eq!(curves(&[], true, &number, &number), "");
    }

    fn grid(svg: &str) -> usize {
        let lines = svg.lines().filter(|line| line.contains("<polyline"));
        lines.filter(|line| line.contains("#0000F1")).count()
    }
}
