//! Flame graphs: stacks as boxes, a box as wide as its part of the whole ([Gregg 2016]).
//!
//! [inferno](https://docs.rs/inferno) draws them as SVG, which searches and zooms by its own script. The page
//! around one ([`flame_page`]) has that for the keyboard too.
//!
//! [Gregg 2016]: https://queue.acm.org/detail.cfm?id=2927301

mod waits;

use std::io;

use inferno::differential;
use inferno::flamegraph::{
    self, Options, TextTruncateDirection, color::BasicPalette, color::Palette,
};

pub use crate::html::flame_page::flame_page;
pub use waits::{WAIT_UNIT, folded_waits, wait_notes};

/// How wide a picture within a page is, in units of the drawing.
const PICTURE_WIDTH: usize = 1_200;

/// What a flame graph says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlameTitles {
    /// Above it.
    pub title: String,
    /// Below that.
    pub subtitle: String,
    /// What its widths are (`samples`).
    pub unit: String,
    /// What is to be known about it, a sentence or two each; on a page.
    pub notes: Vec<String>,
    /// What it is of.
    pub of: FlameOf,
}

/// What a flame graph is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FlameOf {
    /// What processors did: drawn in warm colours. Of two, the first is scaled to as many samples as the
    /// second has, since how long was recorded says nothing.
    #[default]
    Processor,
    /// What was waited for: drawn in a cold colour. Of two, times stand as they are: more waiting is what one looks
    /// for.
    Waiting,
}

/// The SVG of folded stacks: lines of functions from the outermost to the innermost, joined by `;`, and a
/// whole number behind a blank.
///
/// # Errors
/// Where there are no stacks.
pub fn flame_svg(folded: &[String], titles: &FlameTitles) -> io::Result<String> {
    let mut lines: Vec<&str> = folded.iter().map(String::as_str).collect();
    lines.sort_unstable();
    let mut options = options(titles);
    options.colors = Palette::Basic(match titles.of {
        FlameOf::Processor => BasicPalette::Hot,
        FlameOf::Waiting => BasicPalette::Aqua,
    });
    draw(&mut options, lines)
}

/// The same as a picture of a fixed width that stands within a page: it has no script, and its texts are as long
/// as their boxes allow.
///
/// # Errors
/// Where there are no stacks.
pub fn flame_picture(folded: &[String], titles: &FlameTitles) -> io::Result<String> {
    let mut lines: Vec<&str> = folded.iter().map(String::as_str).collect();
    lines.sort_unstable();
    let mut options = options(titles);
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.image_width = Some(PICTURE_WIDTH);
    options.no_javascript = true;
    draw(&mut options, lines)
}

/// The SVG of the second of two profiles, coloured by the difference: red where it has more than the first,
/// blue where it has less.
///
/// # Errors
/// Where there are no stacks.
pub fn flame_difference_svg(
    before: &[String],
    after: &[String],
    titles: &FlameTitles,
) -> io::Result<String> {
    let lines = difference(before, after, titles.of)?;
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    draw(&mut options(titles), lines)
}

/// The stacks of both, each with its number before and after.
///
/// # Errors
/// Where a line is no folded stack.
pub fn difference(before: &[String], after: &[String], of: FlameOf) -> io::Result<String> {
    let mut folded = Vec::new();
    let options = differential::Options {
        normalize: of == FlameOf::Processor,
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
    options.name_type = match titles.of {
        FlameOf::Processor => "Function:",
        FlameOf::Waiting => "Wait:",
    }
    .to_owned();
    options.deterministic = true;
    // The beginning of a name says more than its end, of a statement above all.
    options.text_truncate_direction = TextTruncateDirection::Right;
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
