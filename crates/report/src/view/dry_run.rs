//! What a replay would do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// What a replay would do. Those to be sent + those skipped = `statements`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DryRunView {
    /// `rehearse/dry-run/1`.
    pub schema: &'static str,
    /// The workload's name.
    pub workload: String,
    /// The server's address.
    pub target: String,
    /// The server's version.
    pub server_version: String,
    /// Everything that was asked for, by option.
    pub options: BTreeMap<String, String>,
    /// Sessions that would connect.
    pub sessions: u64,
    /// Statements of the replay.
    pub statements: u64,
    /// Statements that would be sent.
    pub sent: u64,
    /// Of those, the ones that may write, as their first words tell.
    pub writes: u64,
    /// The server would refuse to write.
    pub read_only: bool,
    /// Statements that would not be sent, by reason.
    pub skipped: BTreeMap<String, DryRunSkippedView>,
    /// When the last event would be due, in microseconds; `null` at full speed.
    pub span_us: Option<f64>,
    /// Silence that would be cut, in microseconds of captured time.
    pub idle_skipped_us: i64,
}

/// Why statements would not be sent.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DryRunSkippedView {
    /// The reason in words.
    pub explanation: &'static str,
    /// How many.
    pub count: u64,
}
