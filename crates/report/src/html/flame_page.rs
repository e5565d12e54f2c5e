//! Page of a flame graph, with a search and boxes that are reachable by keyboard.

use askama::Template;

use super::frame::{Frame, render};
use crate::flame::{FlameKind, FlameTitles};

#[derive(Template)]
#[template(path = "flame.html")]
struct Page<'a> {
    frame: Frame,
    titles: &'a FlameTitles,
    /// Meaning of a box.
    what: &'static str,
    svg: &'a str,
}

/// Renders a page around an SVG from [`flame_svg`](crate::flame::flame_svg) or
/// [`flame_difference_svg`](crate::flame::flame_difference_svg), as a complete HTML file.
pub fn flame_page(svg: &str, titles: &FlameTitles) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    let page = Page {
        frame: Frame::new(Vec::new()),
        titles,
        what: match titles.kind {
            FlameKind::Processor => "functions",
            FlameKind::Waiting => "waits and statements",
        },
        svg: &svg[start..],
    };
    render(&page)
}
