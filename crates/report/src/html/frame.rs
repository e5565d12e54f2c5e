//! What every page has.

/// What the frame (`templates/frame.html`) needs.
pub(super) struct Frame {
    pub(super) version: &'static str,
    /// Data for scripts: the element's id and its JSON.
    pub(super) data: Vec<(&'static str, String)>,
}

impl Frame {
    pub(super) fn new(data: Vec<(&'static str, String)>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            data,
        }
    }
}
