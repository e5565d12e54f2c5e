//! Charts of a page as data: values and axes. The page's script (`templates/chart.js`) draws them.

use serde::Serialize;

use super::data::short;

/// Default colours of series; neighbours differ as much as possible.
const COLOURS: [&str; 8] = ["c1", "c4", "c3", "c2", "c5", "c6", "c7", "c8"];

/// Maximum number of series in a chart: one for each colour.
pub(super) const SERIES_MAX: usize = COLOURS.len();

/// Returns the colour (a CSS class) of a series, if it is drawn.
pub(super) fn colour(place: usize) -> Option<&'static str> {
    COLOURS.get(place).copied()
}

/// Chart. Its text is shown if the page's script does not run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) alt_text: String,
    /// Height in pixels.
    pub(super) height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<Layout>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

/// Arrangement of several series that do not simply overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layout {
    Stacked,
    /// A lane for each series, scaled to its maximum.
    Lanes,
}

/// Quantity of an axis, which determines how values are formatted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Time of day: microseconds since 1970-01-01 UTC.
    Clock,
    /// Time since the start, in microseconds.
    Elapsed,
    /// Duration in microseconds.
    Us,
    #[default]
    Count,
    Rate,
    Bytes,
    /// Share, from 0 to 1.
    Share,
    Ratio,
}

/// Axis. Without ends it covers the drawn values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Axis {
    unit: Unit,
    /// Whether the scale is logarithmic.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    log: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<f64>,
    /// Position of the first of [`Series::values`].
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<f64>,
    /// Distance between two values.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<f64>,
    /// Whether labels are whole numbers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    /// Values with labels; if there are any, only these are labelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<(f64, String)>,
}

impl Axis {
    /// Creates a linear axis from 0.
    pub(super) fn linear(unit: Unit) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// Creates a linear axis from 0 for whole numbers.
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

    /// Creates an axis of elapsed time from 0 to an end.
    pub(super) fn elapsed(to_us: f64) -> Self {
        Self {
            from: Some(0.0),
            to: Some(to_us),
            ..Self::linear(Unit::Elapsed)
        }
    }

    /// Creates an axis of elapsed time with `count` steps; values belong to the middles of steps.
    pub(super) fn elapsed_steps(step_us: f64, count: usize) -> Self {
        Self {
            first: Some(step_us / 2.0),
            step: Some(step_us),
            ..Self::elapsed(step_us * count as f64)
        }
    }

    /// Creates an axis of times of day with `count` steps.
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

    /// Sets the labelled values.
    pub(super) fn labelled(self, labels: Vec<(f64, String)>) -> Self {
        Self { labels, ..self }
    }
}

/// Shape of a series. The last three are drawn as steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    Line,
    /// A line with a dot and an interval at each point.
    Points,
    Bars,
    Area,
    Outline,
}

/// Series of values in one colour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Series {
    pub(super) label: String,
    /// CSS class of the colour.
    pub(super) colour: &'static str,
    /// Dash pattern of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dash: Option<&'static str>,
    pub(super) shape: Shape,
    /// Unit, if it differs from the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<Unit>,
    #[serde(flatten)]
    pub(super) values: Values,
}

/// Values of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) enum Values {
    /// A value for each step of the x axis; `None` is a gap.
    #[serde(rename = "values")]
    Steps(Vec<Option<f64>>),
    /// Points: x and y.
    #[serde(rename = "points")]
    Points(Vec<(f64, f64)>),
    #[serde(rename = "points")]
    Estimates(Vec<Estimate>),
}

/// x, y, the ends of the interval, and whether the point is circled.
pub(super) type Estimate = (f64, f64, Option<f64>, Option<f64>, bool);

impl Values {
    pub(super) fn steps(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::Steps(values.into_iter().map(|value| value.map(short)).collect())
    }

    pub(super) fn points(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::Points(points.into_iter().map(|(x, y)| (x, short(y))).collect())
    }

    /// Creates points with intervals from `Estimate` tuples.
    pub(super) fn estimates(
        estimates: impl IntoIterator<Item = (f64, f64, Option<(f64, f64)>, bool)>,
    ) -> Self {
        let point = |(x, y, interval, is_ringed): (f64, f64, Option<(f64, f64)>, bool)| {
            let (low, high) = interval.unzip();
            (x, short(y), low.map(short), high.map(short), is_ringed)
        };
        Self::Estimates(estimates.into_iter().map(point).collect())
    }

    /// Whether any value is above 0.
    pub(super) fn any(&self) -> bool {
        match self {
            Self::Steps(values) => values.iter().flatten().any(|value| *value > 0.0),
            Self::Points(points) => points.iter().any(|(_, value)| *value > 0.0),
            Self::Estimates(points) => points.iter().any(|point| point.1 > 0.0),
        }
    }
}
