//! A case of the lab as a page: what they had, what everyone believed, what was measured, the cure.

use std::fmt::Write;

use askama::Template;

use super::chart::lines::{Line, Scale, lines};
use super::frame::Frame;
use crate::text::amount::count;
use crate::view::case::{CaseChart, CaseFlame, CaseReport};

/// Colours of lines begin behind this number of the style (`sweep.css`), and the class of each there.
const FIRST_COLOUR: u8 = 0x20;
const CLASSES: [&str; 8] = ["c1", "c4", "c3", "c2", "c5", "c6", "c7", "c8"];

struct Chart<'v> {
    view: &'v CaseChart,
    svg: String,
    /// Class and name of each line.
    legend: Vec<(&'static str, &'v str)>,
}

struct Flame<'v> {
    view: &'v CaseFlame,
    /// The picture as an address: what is in it can do nothing then.
    address: String,
}

#[derive(Template)]
#[template(path = "case.html")]
struct Page<'v> {
    frame: Frame,
    view: &'v CaseReport,
    charts: Vec<Chart<'v>>,
    flames: Vec<Flame<'v>>,
}

/// The case as a page: a whole HTML file. `drawn` gives the SVG of a flame graph by its file's name; one that it
/// does not have is named only.
pub fn render_html(view: &CaseReport, drawn: &dyn Fn(&str) -> Option<String>) -> String {
    let flames = view.flames.iter().filter_map(|flame| {
        let address = address(&drawn(&flame.file)?);
        Some(Flame {
            view: flame,
            address,
        })
    });
    let page = Page {
        frame: Frame::new(Vec::new()),
        view,
        charts: view.charts.iter().map(chart).collect(),
        flames: flames.collect(),
    };
    page.render().expect("rendering into a text does not fail")
}

/// An SVG as the address of a picture (RFC 2397).
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

fn chart(view: &CaseChart) -> Chart<'_> {
    let points = || view.lines.iter().flat_map(|line| &line.points);
    let mut levels: Vec<f64> = points().map(|(at, _)| *at).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let across = match &view.x_categories {
        Some(_) => Scale::Levels {
            labels: levels.iter().map(f64::to_string).collect(),
        },
        None => Scale::Time {
            to_us: levels.last().copied().unwrap_or(0.0).max(1.0) * 1e6,
        },
    };
    let place = |at: f64| match &view.x_categories {
        Some(_) => levels.partition_point(|level| *level < at) as f64,
        None => at * 1e6,
    };
    let most = points().map(|(_, value)| *value).fold(1.0, f64::max);
    let durations = Scale::durations(points().map(|(_, value)| *value));
    let up = match durations.filter(|_| view.durations) {
        Some(durations) => durations,
        None => Scale::Even {
            to: round_above(most),
            text: |value| count(value.round().max(0.0) as u64),
        },
    };
    let drawn: Vec<Line> = view
        .lines
        .iter()
        .take(CLASSES.len())
        .zip(1..)
        .map(|(line, number)| Line {
            colour: FIRST_COLOUR + number,
            points: line
                .points
                .iter()
                .map(|(at, value)| (place(*at), Some(*value)))
                .collect(),
        })
        .collect();
    let names = view.lines.iter().map(|line| line.name.as_str());
    Chart {
        view,
        svg: lines(&across, &up, &drawn),
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
    use crate::view::case::CaseLine;

    #[test]
    fn levels_are_drawn_side_by_side_and_pictures_can_do_nothing() {
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
        let svg = chart(&view).svg;
        for label in [">1<", ">50<", ">500<", "1 ms"] {
            assert!(
                svg.contains(label) || svg.replace('\n', "").contains(label),
                "{label}: {svg}"
            );
        }
        assert_eq!(
            address("<svg a=\"b\">#%</svg>"),
            "data:image/svg+xml,%3Csvg%20a=%22b%22%3E%23%25%3C/svg%3E"
        );
    }

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
