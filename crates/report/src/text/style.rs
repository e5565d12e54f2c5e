//! Width and colours of a text.

/// Width of a text that no terminal shows.
pub const UNLIMITED: usize = usize::MAX;

/// Width of wrapped sentences and of lists of names in an unlimited text, in columns.
const READABLE: usize = 100;

/// Largest width of wrapped sentences and of lists of names, in columns. Wider lines are hard to read.
const READABLE_MAX: usize = 140;

/// Returns the width for what is readable in short lines only. Renderers subtract columns from an unlimited width, or
/// divide it, so that it is recognised by its size.
pub(crate) fn readable(width: usize) -> usize {
    match width > UNLIMITED / 4 {
        true => READABLE,
        false => width.min(READABLE_MAX),
    }
}

/// Style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Width in columns, at least 60. Lines are cut to it. With [`UNLIMITED`] none is cut.
    pub width: usize,
    /// Whether to use ANSI colours. Colours never carry information alone.
    pub colour: bool,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
        }
    }
}

/// Meaning of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Good,
    Care,
    Heading,
    Aside,
}

/// Minimum width of tables.
const WIDTH_MIN: usize = 60;

impl TextStyle {
    pub(crate) fn columns(self) -> usize {
        self.width.max(WIDTH_MIN)
    }

    /// Adds the tone's colour to a text, if colours are enabled.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Bad => "1;31",
            Tone::Good => "1;32",
            Tone::Care => "33",
            Tone::Heading => "1",
            Tone::Aside => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
