//! Flame graphs: stacks as boxes whose width is their share of the whole ([Gregg 2016]).
//!
//! [inferno](https://docs.rs/inferno) draws them as SVG with a script for search and zoom. The page
//! around one ([`flame_page`]) adds keyboard access.
//!
//! [Gregg 2016]: https://queue.acm.org/detail.cfm?id=2927301

mod exported;
mod pprof;
mod speedscope;
mod waits;

use std::io;

use inferno::differential;
use inferno::flamegraph::{
    self, Options, TextTruncateDirection, color::BasicPalette, color::Palette,
};

pub use crate::html::flame_page::flame_page;
pub use exported::{
    ExportedProfile, ExportedStack, ExportedStatement, SampledQuantity, exported_waits,
};
pub use pprof::pprof;
pub use speedscope::speedscope;
pub use waits::{WAIT_UNIT, folded_waits, wait_notes};

/// Width of a picture within a page, in units of the drawing.
const PICTURE_WIDTH: usize = 1_200;

/// Texts of a flame graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlameTitles {
    /// Title.
    pub title: String,
    /// Subtitle.
    pub subtitle: String,
    /// Unit of the widths (`samples`).
    pub unit: String,
    /// Notes of a sentence or two each; shown on a page, and a comment in a picture.
    pub notes: Vec<String>,
    /// Kind of flame graph.
    pub kind: FlameKind,
}

/// Kind of flame graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FlameKind {
    /// Processor time, drawn in warm colours. In a difference, the first profile is scaled to as
    /// many samples as the second, because recording times differ.
    #[default]
    Processor,
    /// Waits, drawn in a cold colour. In a difference, times are not scaled: more waiting is what
    /// the reader looks for.
    Waiting,
}

/// Draws folded stacks as SVG. Each line has the functions from the outermost to the innermost,
/// joined by `;`, then a blank and a whole number.
///
/// # Errors
/// If there are no stacks.
pub fn flame_svg(folded: &[String], titles: &FlameTitles) -> io::Result<String> {
    let mut lines: Vec<&str> = folded.iter().map(String::as_str).collect();
    lines.sort_unstable();
    let mut options = options(titles);
    options.colors = Palette::Basic(match titles.kind {
        FlameKind::Processor => BasicPalette::Hot,
        FlameKind::Waiting => BasicPalette::Aqua,
    });
    draw(&mut options, lines)
}

/// Draws folded stacks as a picture of fixed width within a page. It has no script, and its texts
/// fit into their boxes.
///
/// # Errors
/// If there are no stacks.
pub fn flame_picture(folded: &[String], titles: &FlameTitles) -> io::Result<String> {
    let mut lines: Vec<&str> = folded.iter().map(String::as_str).collect();
    lines.sort_unstable();
    let mut options = options(titles);
    options.colors = Palette::Basic(BasicPalette::Hot);
    options.image_width = Some(PICTURE_WIDTH);
    options.no_javascript = true;
    draw(&mut options, lines)
}

/// Draws the second of two profiles as SVG, coloured by the difference: red if it has more than the
/// first, blue if it has less.
///
/// # Errors
/// If there are no stacks.
pub fn flame_difference_svg(
    before: &[String],
    after: &[String],
    titles: &FlameTitles,
) -> io::Result<String> {
    let lines = difference(before, after, titles.kind)?;
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    draw(&mut options(titles), lines)
}

/// Merges the stacks of two profiles; each gets its numbers before and after.
///
/// # Errors
/// If a line is not a folded stack.
pub fn difference(before: &[String], after: &[String], of: FlameKind) -> io::Result<String> {
    let mut folded = Vec::new();
    let options = differential::Options {
        normalize: of == FlameKind::Processor,
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
    options.name_type = match titles.kind {
        FlameKind::Processor => "Function:",
        FlameKind::Waiting => "Wait:",
    }
    .to_owned();
    options.deterministic = true;
    // They become a comment of the picture, which ends at two hyphens.
    options.notes = titles.notes.join(" ").replace("--", "- -");
    // The beginning of a name is more informative than its end, above all for statements.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // Use the width of the window.
    options.image_width = None;
    options.min_width = 0.1;
    options
}

fn draw(options: &mut Options<'_>, lines: Vec<&str>) -> io::Result<String> {
    let mut svg = Vec::new();
    flamegraph::from_lines(options, lines, &mut svg)?;
    String::from_utf8(svg).map_err(io::Error::other)
}
