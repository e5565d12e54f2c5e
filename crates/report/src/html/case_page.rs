//! Page of a lab case: context, hypothesis, measurements, cure.

use std::fmt::Write;

use askama::Template;

use super::chart::{Axis, Chart, SERIES_MAX, Series, Shape, Unit, Values, colour};
use super::data::script_json;
use super::frame::{Frame, render};
use crate::view::case::{CaseChart, CaseFlame, CaseReport};

struct Flame<'v> {
    view: &'v CaseFlame,
    /// The picture as a data URL, so that its content cannot run scripts.
    address: String,
}

#[derive(Template)]
#[template(path = "case.html")]
struct Page<'v> {
    frame: Frame,
    view: &'v CaseReport,
    charts: Vec<Chart>,
    flames: Vec<Flame<'v>>,
}

/// Renders the case as a complete HTML file. `drawn` returns the SVG of a flame graph by its file
/// name; a missing one is only named.
pub fn render_html(view: &CaseReport, drawn: &dyn Fn(&str) -> Option<String>) -> String {
    let flames = view.flames.iter().filter_map(|flame| {
        let address = address(&drawn(&flame.file)?);
        Some(Flame {
            view: flame,
            address,
        })
    });
    let charts: Vec<Chart> = view.charts.iter().map(chart).collect();
    let page = Page {
        frame: Frame::new(vec![("data-charts", script_json(&charts))]),
        view,
        charts,
        flames: flames.collect(),
    };
    render(&page)
}

/// Encodes an SVG as a data URL (RFC 2397).
fn address(svg: &str) -> String {
    let mut address = "data:image/svg+xml,".to_owned();
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'=' | b'/' | b':' => {
                address.push(char::from(byte));
            }
            _ => {
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

fn chart(view: &CaseChart) -> Chart {
    let points = || view.lines.iter().flat_map(|line| &line.points);
    let mut levels: Vec<f64> = points().map(|(at, _)| *at).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let (x, note) = match &view.x_categories {
        // Levels are drawn at equal distances.
        Some(categories) => {
            let labels = (0..).map(f64::from).zip(levels.iter().map(f64::to_string));
            (
                Axis::linear(Unit::Count).labelled(labels.collect()),
                format!("{}, by {categories}", view.unit),
            )
        }
        None => (
            Axis::elapsed(levels.last().copied().unwrap_or(0.0).max(1.0) * 1e6),
            view.unit.clone(),
        ),
    };
    let place = |at: f64| match &view.x_categories {
        Some(_) => levels.partition_point(|level| *level < at) as f64,
        None => (at * 1e6).round(),
    };
    let series = view.lines.iter().take(SERIES_MAX).enumerate();
    Chart {
        title: view.title.clone(),
        note,
        alt_text: view.alt_text.clone(),
        height: 210,
        layout: None,
        x,
        y: match view.durations {
            true => Axis::logarithmic(Unit::Us),
            false => Axis::linear(Unit::Count),
        },
        series: series
            .filter_map(|(at, line)| {
                let points = line.points.iter().map(|(at, value)| (place(*at), *value));
                Some(Series {
                    label: line.name.clone(),
                    colour: colour(at)?,
                    dash: None,
                    shape: Shape::Line,
                    unit: None,
                    values: Values::points(points),
                })
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::case::CaseLine;

    #[test]
    fn levels_are_equidistant_and_pictures_run_no_scripts() {
        let view = CaseChart {
            title: "CPU time of an event".to_owned(),
            unit: "µs".to_owned(),
            alt_text: String::new(),
            x_categories: Some("rows a statement".to_owned()),
            durations: true,
            lines: vec![CaseLine {
                name: "cold".to_owned(),
                points: vec![(1.0, 2_000.0), (50.0, 100.0), (500.0, 30.0)],
            }],
        };
        let chart = serde_json::to_value(chart(&view)).unwrap();
        assert_eq!(
            chart["x"]["labels"],
            serde_json::json!([[0.0, "1"], [1.0, "50"], [2.0, "500"]])
        );
        assert_eq!(
            chart["series"][0]["points"],
            serde_json::json!([[0.0, 2_000.0], [1.0, 100.0], [2.0, 30.0]])
        );
        assert_eq!(
            address("<svg a=\"b\">#%</svg>"),
            "data:image/svg+xml,%3Csvg%20a=%22b%22%3E%23%25%3C/svg%3E"
        );
    }
}
