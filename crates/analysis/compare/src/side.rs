//! The two sides of a comparison.

use schemars::JsonSchema;
use serde::Serialize;

/// Side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Before the change.
    Before,
    /// After the change.
    After,
}

impl Side {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Side::Before => "before",
            Side::After => "after",
        }
    }
}
