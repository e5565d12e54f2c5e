//! Charts of a page: their values and axes as data. The page's script (`templates/chart.js`) draws all of them.

use serde::Serialize;

use super::data::short;

/// Colours of series that have none of their own, neighbours as different as possible.
const COLOURS: [&str; 8] = ["c1", "c4", "c3", "c2", "c5", "c6", "c7", "c8"];

/// Series of a chart that are drawn: as many as there are colours.
pub(super) const SERIES_MAX: usize = COLOURS.len();

/// The colour (a class of the style) of the series at that place, if it is drawn.
pub(super) fn colour(place: usize) -> Option<&'static str> {
    COLOURS.get(place).copied()
}

/// A chart. Its text stands in its place on a page whose script does not run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) alt_text: String,
    /// Pixels.
    pub(super) height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<Layout>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// How several series share a chart, where they do not simply lie over each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layout {
    Stacked,
    /// A lane for each series, as high as its greatest value.
    Lanes,
}

/// What an axis counts, and how its values are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// A time of day: microseconds since 1970-01-01 UTC.
    Clock,
    /// Microseconds since the start.
    Elapsed,
    /// Microseconds that something took.
    Us,
    #[default]
    Count,
    Rate,
    Bytes,
    /// From 0 to 1.
    Share,
    Ratio,
}

/// An axis. Without ends it holds what is drawn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Axis {
    unit: Unit,
    /// Equal lengths are equal ratios.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<f64>,
    /// Where the first of [`Series::values`] lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<f64>,
    /// How far one of these is from the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<f64>,
    /// Labels are whole numbers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    /// Values with a label of their own; only these have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 up.
    pub(super) fn linear(unit: Unit) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// From 0 up, of what is counted in whole numbers.
    pub(super) fn whole() -> Self {
        Self {
            whole: true,
            ..Self::linear(Unit::Count)
        }
    }

    pub(super) fn logarithmic(unit: Unit) -> Self {
        Self {
            unit,
            log: true,
            ..Self::default()
        }
    }

    /// Time from 0 to an end.
    pub(super) fn elapsed(to_us: f64) -> Self {
        Self {
            from: Some(0.0),
            to: Some(to_us),
            ..Self::linear(Unit::Elapsed)
        }
    }

    /// Time from the start on, in `count` steps; values belong to the middles of steps.
    pub(super) fn elapsed_steps(step_us: f64, count: usize) -> Self {
        Self {
            first: Some(step_us / 2.0),
            step: Some(step_us),
            ..Self::elapsed(step_us * count as f64)
        }
    }

    /// Times of day, in `count` steps from the first on.
    pub(super) fn clock_steps(start_wall_us: i64, step_us: i64, count: usize) -> Self {
        let start = start_wall_us as f64;
        Self {
            from: Some(start),
            to: Some(start + step_us as f64 * count as f64),
            first: Some(start),
            step: Some(step_us as f64),
            ..Self::linear(Unit::Clock)
        }
    }

    /// The same with a label at each of these values.
    pub(super) fn labelled(self, labels: Vec<(f64, String)>) -> Self {
        Self { labels, ..self }
    }
}

/// How a series is drawn. The last three are steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Line,
    /// A line with a dot at each point, and the point's interval.
    Points,
    Bars,
    Area,
    Outline,
}

/// Values in one colour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Series {
    pub(super) label: String,
    /// A class of the style.
    pub(super) colour: &'static str,
    /// A line of dashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dash: Option<&'static str>,
    pub(super) shape: Shape,
    /// Where it is not the axis's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<Unit>,
    #[serde(flatten)]
    pub(super) values: Values,
}

/// The values of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) enum Values {
    /// One for each step of the axis across; `None` is a gap.
    #[serde(rename = "values")]
    Steps(Vec<Option<f64>>),
    /// Across and up.
    #[serde(rename = "points")]
    Points(Vec<(f64, f64)>),
    #[serde(rename = "points")]
    Estimates(Vec<Estimate>),
}

/// Across, up, the ends of its interval, and whether it has a ring around it.
pub(super) type Estimate = (f64, f64, Option<f64>, Option<f64>, bool);

impl Values {
    pub(super) fn steps(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::Steps(values.into_iter().map(|value| value.map(short)).collect())
    }

    pub(super) fn points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::Points(points.into_iter().map(|(x, y)| (x, short(y))).collect())
    }

    /// Where each lies, its value, its interval, and whether it has a ring around it.
    pub(super) fn estimates(
        estimates: impl IntoIterator<Item = (f64, f64, Option<(f64, f64)>, bool)>,
    ) -> Self {
        let point = |(x, y, interval, is_ringed): (f64, f64, Option<(f64, f64)>, bool)| {
            let (low, high) = interval.unzip();
            (x, short(y), low.map(short), high.map(short), is_ringed)
        };
        Self::Estimates(estimates.into_iter().map(point).collect())
    }

    /// Whether there is any above 0.
    pub(super) fn any(&self) -> bool {
        match self {
            Self::Steps(values) => values.iter().flatten().any(|value| *value > 0.0),
            Self::Points(points) => points.iter().any(|(_, value)| *value > 0.0),
            Self::Estimates(points) => points.iter().any(|point| point.1 > 0.0),
        }
    }
}
