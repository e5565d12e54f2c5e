//! JSON document on a dry run of a replay.

use std::collections::BTreeMap;

use run::SkipReason;
use schemars::JsonSchema;
use serde::Serialize;

/// What a replay would do. `sent` + those skipped = `statements`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DryRun {
    /// `rehearse/dry-run/1`.
    pub schema: &'static str,
    /// Name of the workload.
    pub workload: String,
    /// Address of the server.
    pub target: String,
    /// Version of the server.
    pub server_version: String,
    /// Everything that was asked for, by option.
    pub options: BTreeMap<String, String>,
    /// Sessions that would connect.
    pub sessions: u64,
    /// Statements of the replay.
    pub statements: u64,
    /// Statements that would be sent.
    pub sent: u64,
    /// Statements that would be sent and may write, by their first words.
    pub writes: u64,
    /// The server would refuse to write.
    pub read_only: bool,
    /// Statements that would not be sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Time at which the last event would be due, from the start; `null` at full speed.
    pub span_ns: Option<i64>,
    /// Silence that would be cut, in microseconds of captured time.
    pub idle_skipped_us: i64,
}
