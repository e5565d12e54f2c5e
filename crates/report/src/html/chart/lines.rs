//! Lines: how times went before and after, and how they are spread.

use plotters::prelude::*;

use super::{GRID, TEXT, Ticks, colour, within_page};

/// Size in the units of the drawing; the page scales it. Two stand beside each other on a wide page.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 210;
const LEFT: u32 = 64;
/// The most ticks of an axis of times that have a label.
const LABELS_MAX: usize = 7;

/// One line. Where a value is missing, it has a gap.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// A number of the style, which may give it dashes.
    pub(crate) colour: u8,
    /// Where, and how high.
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// An axis of a chart of lines.
#[derive(Debug, Clone)]
pub(crate) enum Scale {
    /// Microseconds from the start, evenly.
    Time { to_us: f64 },
    /// Microseconds that something took, in ratios.
    Durations { from_us: f64, to_us: f64 },
    /// From 0, evenly; the last says how values are written.
    Even { to: f64, text: fn(f64) -> String },
    /// Levels of something, from 0 on, one as far from the next as any other.
    Levels { labels: Vec<String> },
}

impl Scale {
    /// The durations that these lines have, to the next 1, 2 or 5 on either side; `None` where
    /// they have none.
    pub(crate) fn durations(values: impl Iterator<Item = f64>) -> Option<Self> {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (high > 0.0).then(|| {
            let from_us = round_ones().take_while(|one| *one <= low).last();
            let to_us = round_ones().find(|one| *one >= high && *one > low);
            Self::Durations {
                from_us: from_us.unwrap_or(low),
                to_us: to_us.unwrap_or(high),
            }
        })
    }

    fn ticks(&self) -> (Ticks, Vec<String>) {
        let (ticks, text): (Ticks, Box<dyn Fn(f64) -> String>) = match self {
            Self::Time { to_us } => {
                let step = step_us(*to_us);
                let count = (to_us / step).floor() as usize;
                let at = (0..=count).map(|number| number as f64 * step).collect();
                (Ticks::even(*to_us, at), Box::new(from_start))
            }
            Self::Durations { from_us, to_us } => {
                let within: Vec<f64> = round_ones()
                    .filter(|one| *one >= from_us * 0.999 && *one <= to_us * 1.001)
                    .collect();
                let decades = |one: &f64| (one.log10() - one.log10().round()).abs() < 1e-6;
                let at = match within.len() > LABELS_MAX {
                    true => within.into_iter().filter(decades).collect(),
                    false => within,
                };
                let ticks = Ticks {
                    from: *from_us,
                    to: *to_us,
                    at,
                    logarithmic: true,
                };
                (ticks, Box::new(round_duration))
            }
            Self::Even { to, text } => {
                let most = if *to > 0.0 { *to } else { 1.0 };
                let at = vec![0.0, most / 2.0, most];
                (Ticks::even(most * 1.06, at), Box::new(text))
            }
            Self::Levels { labels } => {
                let at = (0..labels.len()).map(|place| place as f64).collect();
                let last = labels.len().saturating_sub(1).max(1) as f64;
                let labels = labels.clone();
                let text = move |at: f64| labels.get(at as usize).cloned().unwrap_or_default();
                (Ticks::even(last, at), Box::new(text))
            }
        };
        let labels = ticks.at.iter().map(|at| text(*at)).collect();
        (ticks, labels)
    }
}

/// 1, 2 and 5 with any number of zeros, from a nanosecond to days, in microseconds.
fn round_ones() -> impl Iterator<Item = f64> {
    (-3..12).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)))
}

/// A duration that is a round number, without decimals: `200 µs`, `5 s`.
fn round_duration(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 0.999 => (us * 1e3, "ns"),
        us if us < 999.0 => (us, "µs"),
        us if us < 999_000.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{value:.0} {unit}")
}

/// A time from the start: `0`, `30 s`, `1 min 30 s`.
fn from_start(us: f64) -> String {
    if us < 1.0 {
        return "0".to_owned();
    }
    let seconds = (us / 1e6).round() as u64;
    let of = |whole: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {small}"),
    };
    match seconds {
        _ if us < 1e6 => round_duration(us),
        0..60 => format!("{} s", us / 1e6),
        60..3_600 => of(seconds / 60, "min", seconds % 60, "s"),
        _ => of(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
    }
}

/// The step between ticks of a time axis.
fn step_us(to_us: f64) -> f64 {
    let seconds = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0,
        7_200.0, 14_400.0, 28_800.0, 86_400.0, 604_800.0,
    ];
    let below = round_ones().filter(|one| *one < 1e6);
    let mut steps = below.chain(seconds.map(|second| second * 1e6));
    steps
        .find(|step| to_us / step <= LABELS_MAX as f64)
        .unwrap_or(to_us)
}

/// Lines over an area; a later one is over an earlier one.
pub(crate) fn lines(across: &Scale, up: &Scale, lines: &[Line]) -> String {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let (across, across_labels) = across.ticks();
        let (up, up_labels) = up.ticks();
        let written = |ticks: &Ticks, labels: &[String]| {
            let (at, labels) = (ticks.at.clone(), labels.to_vec());
            move |value: &f64| {
                let found = at.iter().position(|one| (one - value).abs() < 1e-9);
                found.map_or_else(String::new, |place| labels[place].clone())
            }
        };
        let across_text = written(&across, &across_labels);
        let up_text = written(&up, &up_labels);
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
                    .x_label_formatter(&across_text)
                    .y_label_formatter(&up_text)
                    .draw()?;
                for line in lines {
                    let style = colour(line.colour).stroke_width(2);
                    for part in line.points.split(|(_, value)| value.is_none()) {
                        let known = |(at, value): &(f64, Option<f64>)| Some((*at, (*value)?));
                        let part: Vec<(f64, f64)> = part.iter().filter_map(known).collect();
                        match part[..] {
                            [] => {}
                            // A line of one point would not be seen.
                            [one] => {
                                let dot = Circle::new(one, 2, colour(line.colour).filled());
                                chart.draw_series([dot])?;
                            }
                            _ => {
                                chart.draw_series([PathElement::new(part, style)])?;
                            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::amount::duration;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().1
    }

    #[test]
    fn an_axis_has_round_labels_that_hold_what_is_shown() {
        let scale = Scale::durations([150.0, 30_000.0].into_iter()).unwrap();
        let held = matches!(
            scale,
            Scale::Durations {
                from_us: 100.0,
                to_us: 50_000.0
            }
        );
        assert!(held, "{scale:?}");
        assert_eq!(labels(&scale), ["100 µs", "1 ms", "10 ms"]);
        let near = Scale::durations([150.0, 160.0].into_iter()).unwrap();
        assert_eq!(labels(&near), ["100 µs", "200 µs"]);
        let one = Scale::durations([200.0].into_iter()).unwrap();
        assert_eq!(labels(&one), ["200 µs", "500 µs"]);
        assert!(Scale::durations([0.0].into_iter()).is_none());
        assert!(Scale::durations([].into_iter()).is_none());
    }

    #[test]
    fn times_from_the_start_are_round() {
        let of = |seconds: f64| {
            labels(&Scale::Time {
                to_us: seconds * 1e6,
            })
        };
        assert_eq!(of(25.0), ["0", "5 s", "10 s", "15 s", "20 s", "25 s"]);
        assert_eq!(
            of(100.0),
            [
                "0",
                "15 s",
                "30 s",
                "45 s",
                "1 min",
                "1 min 15 s",
                "1 min 30 s"
            ]
        );
        assert_eq!(of(7_000.0), ["0", "30 min", "1 h", "1 h 30 min"]);
        assert_eq!(
            of(0.012),
            ["0", "2 ms", "4 ms", "6 ms", "8 ms", "10 ms", "12 ms"]
        );
    }

    #[test]
    fn levels_stand_as_far_from_each_other() {
        let of = |names: &[&str]| Scale::Levels {
            labels: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(labels(&of(&["1", "50", "500"])), ["1", "50", "500"]);
        assert_eq!(of(&["1", "50", "500"]).ticks().0.at, [0.0, 1.0, 2.0]);
        assert_eq!(of(&["1"]).ticks().0.to, 1.0);
    }

    #[test]
    fn a_missing_value_is_a_gap() {
        let points = [
            Some(1.0),
            Some(2.0),
            None,
            Some(1.0),
            Some(1.5),
            None,
            Some(1.0),
        ];
        let line = Line {
            colour: 1,
            points: points
                .into_iter()
                .enumerate()
                .map(|(at, value)| (at as f64 * 1e6, value))
                .collect(),
        };
        let up = Scale::Even {
            to: 2.0,
            text: duration,
        };
        let svg = lines(&Scale::Time { to_us: 6e6 }, &up, &[line]);
        assert_eq!(svg.matches("stroke=\"#000001\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("http"));
    }
}
