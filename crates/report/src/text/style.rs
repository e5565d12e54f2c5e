//! How wide, and whether in colour.

/// How a text is to be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns. Statements are shortened to it; below 60 it is taken as 60.
    pub width: usize,
    /// ANSI colours. Nothing is said by colour alone.
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

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Good,
    Care,
    Heading,
    Aside,
}

/// Tables need this many columns.
const WIDTH_MIN: usize = 60;

impl TextStyle {
    pub(crate) fn columns(self) -> usize {
        self.width.max(WIDTH_MIN)
    }

    /// The text in the tone's colour, where there are colours.
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
