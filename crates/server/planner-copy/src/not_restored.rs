//! Parts of an export that a private server does not have.

/// Part of an export that the private server does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRestored {
    /// Kind and name.
    pub subject: String,
    /// Reason.
    pub reason: String,
}
