//! Flame graphs, drawn by inferno: an SVG that a browser searches (Ctrl-F) and zooms (click).

use std::io;

use inferno::differential;
use inferno::flamegraph::{self, Options, color::BasicPalette, color::Palette};

/// What a flame graph says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlameTitles {
    /// Above it.
    pub title: String,
    /// Below that.
    pub subtitle: String,
    /// What its widths are (`samples`).
    pub unit: String,
}

/// The SVG of folded stacks: lines of functions from the outermost to the innermost, joined by `;`, and a
/// number behind a blank.
///
/// # Errors
/// Where there are no stacks.
pub fn flame_svg(folded: &[String], titles: &FlameTitles) -> io::Result<String> {
    let mut lines: Vec<&str> = folded.iter().map(String::as_str).collect();
    lines.sort_unstable();
    let mut options = options(titles);
    options.colors = Palette::Basic(BasicPalette::Hot);
    draw(&mut options, lines)
}

/// The SVG of the second of two profiles, coloured by the difference: red where it has more than the first,
/// blue where it has less. The first is scaled to as many samples as the second has.
///
/// # Errors
/// Where there are no stacks.
pub fn flame_difference_svg(
    before: &[String],
    after: &[String],
    titles: &FlameTitles,
) -> io::Result<String> {
    let lines = difference(before, after)?;
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    draw(&mut options(titles), lines)
}

/// The stacks of both, each with its number before and after.
///
/// # Errors
/// Where a line is no folded stack.
pub fn difference(before: &[String], after: &[String]) -> io::Result<String> {
    let mut folded = Vec::new();
    let options = differential::Options {
        normalize: true,
        strip_hex: false,
    };
    let (before, after) = (before.join("\n"), after.join("\n"));
    differential::from_readers(options, before.as_bytes(), after.as_bytes(), &mut folded)?;
    Ok(String::from_utf8_lossy(&folded).into_owned())
}

fn options(titles: &FlameTitles) -> Options<'static> {
    let mut options = Options::default();
    options.title = titles.title.clone();
    options.subtitle = Some(titles.subtitle.clone()).filter(|text| !text.is_empty());
    options.count_name = titles.unit.clone();
    options.deterministic = true;
    // As wide as the window is.
    options.image_width = None;
    options.min_width = 0.1;
    options
}

fn draw(options: &mut Options<'_>, lines: Vec<&str>) -> io::Result<String> {
    let mut svg = Vec::new();
    flamegraph::from_lines(options, lines, &mut svg)?;
    String::from_utf8(svg).map_err(io::Error::other)
}

/// A page around an SVG of ours.
pub fn flame_page(svg: &str, titles: &FlameTitles) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    let title = titles.title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>body {{ margin: 0; background: #f8f8f8; }} svg {{ display: block; width: 100%; }}</style>\n</head>\n<body>\n{}\n</body>\n</html>\n",
        &svg[start..]
    )
}
