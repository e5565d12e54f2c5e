//! Scale of a case.

/// Scale of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A minute or two on two processors.
    Small,
    /// The published duration and size, for a real machine.
    Full,
}
