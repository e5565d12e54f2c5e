//! Status of a page's headline: its colour and its icon, whose shape tells it without the colour.

/// Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Bad,
    Good,
    /// Good if listed conditions are met.
    Conditional,
    Unsure,
}

impl Status {
    /// Returns the CSS class.
    pub(super) fn class(self) -> &'static str {
        match self {
            Status::Bad => "bad",
            Status::Good | Status::Conditional => "good",
            Status::Unsure => "unsure",
        }
    }

    /// Returns the icon's path, for a view box of 24 units.
    pub(super) fn icon(self) -> &'static str {
        match self {
            Status::Bad => {
                r#"<path d="M12 1.5 23.5 22H.5zM11 9v6.5h2V9zm0 8v2.2h2V17z" fill-rule="evenodd"/>"#
            }
            Status::Good => {
                r#"<path d="M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22zm5.6 7.2 1.6 1.4-8.4 9.2-5.4-5 1.4-1.6 3.9 3.5z" fill-rule="evenodd"/>"#
            }
            Status::Conditional => {
                r#"<path d="M12 .5 23.5 12 12 23.5.5 12zm4.3 7.8-5.5 6.1-3-2.7-1.3 1.5 4.5 4.1 6.8-7.7z" fill-rule="evenodd"/>"#
            }
            Status::Unsure => {
                r#"<path d="M12 .5 23.5 12 12 23.5.5 12zM8.5 9.6h2.1c.1-1 .7-1.5 1.6-1.5.9 0 1.5.5 1.5 1.3 0 .8-.5 1.2-1.3 1.8-.9.6-1.4 1.3-1.4 2.6v.4h2v-.3c0-.7.3-1 1.1-1.6.9-.7 1.7-1.5 1.7-3 0-1.900-1.400-3.100-3.500-3.100-2.200 0-3.700 1.300-3.800 3.400zM11 15.600v2.300h2.100v-2.300z" fill-rule="evenodd"/>"#
            }
        }
    }
}
