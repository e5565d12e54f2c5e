//! A case of the lab as a page: what they had, what everyone believed, what was measured, the cure.

use askama::Template;

use super::chart::lines::{Line, Scale, lines};
use super::frame::Frame;
use crate::text::amount::count;
use crate::view::case::{CaseChartView, CaseView};

/// Colours of lines begin behind this number of the style (`sweep.css`), and the class of each there.
const FIRST_COLOUR: u8 = 0x20;
const CLASSES: [&str; 8] = ["c1", "c4", "c3", "c2", "c5", "c6", "c7", "c8"];

struct Chart<'v> {
    view: &'v CaseChartView,
    svg: String,
    /// Class and name of each line.
    legend: Vec<(&'static str, &'v str)>,
}

#[derive(Template)]
#[template(path = "case.html")]
struct Page<'v> {
    frame: Frame,
    view: &'v CaseView,
    charts: Vec<Chart<'v>>,
}

/// The case as a page: a whole HTML file.
pub fn render_html(view: &CaseView) -> String {
    let page = Page {
        frame: Frame::new(Vec::new()),
        view,
        charts: view.charts.iter().map(chart).collect(),
    };
    page.render().expect("rendering into a text does not fail")
}

fn chart(view: &CaseChartView) -> Chart<'_> {
    let points = || view.lines.iter().flat_map(|line| &line.points);
    let to_us = points().map(|(seconds, _)| *seconds).fold(1.0, f64::max) * 1e6;
    let most = points().map(|(_, value)| *value).fold(1.0, f64::max);
    let up = Scale::Even {
        to: round_above(most),
        text: |value| count(value.round().max(0.0) as u64),
    };
    let drawn: Vec<Line> = view
        .lines
        .iter()
        .take(CLASSES.len())
        .zip(1..)
        .map(|(line, place)| Line {
            colour: FIRST_COLOUR + place,
            points: line
                .points
                .iter()
                .map(|(seconds, value)| (seconds * 1e6, Some(*value)))
                .collect(),
        })
        .collect();
    let names = view.lines.iter().map(|line| line.name.as_str());
    Chart {
        view,
        svg: lines(&Scale::Time { to_us }, &up, &drawn),
        legend: CLASSES.into_iter().zip(names).collect(),
    }
}

/// The next even number of tens, hundreds … above: half of it is round as well.
fn round_above(most: f64) -> f64 {
    let step = 2.0 * 10_f64.powf(most.max(1.0).log10().floor());
    (most / step).ceil().max(1.0) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (most, to) in [
            (0.0, 2.0),
            (3.0, 4.0),
            (314.0, 400.0),
            (400.0, 400.0),
            (1_301.0, 2_000.0),
        ] {
            assert_eq!(round_above(most), to, "{most}");
        }
    }
}
