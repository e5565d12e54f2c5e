//! Gaps of a series that a replay follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Range of captured time of which a followed series has nothing. All sessions end at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesGap {
    /// Start, in microseconds since 1970-01-01 UTC, in captured time.
    pub from_us: i64,
    /// End.
    pub to_us: i64,
    /// Reason, as the end of a sentence.
    pub reason: String,
}

impl SeriesGap {
    /// Describes it in a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "Gap from {} to {}: {}.",
            clock::utc_text(self.from_us),
            clock::utc_text(self.to_us),
            self.reason
        )
    }
}
