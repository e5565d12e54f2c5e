//! How large a case is made.

/// How large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A minute or two on two processors.
    Small,
    /// For a real machine, and as long as was published.
    Full,
}
