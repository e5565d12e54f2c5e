//! JSON document on a dry run of a replay.

use std::collections::BTreeMap;

use run::SkipReason;
use schemars::JsonSchema;
use serde::Serialize;
use study::preflight::Preflight;
use workload::UnrepeatableStatement;

/// Result of a dry run. `sent` + those skipped = `statements`.
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
    /// All given options.
    pub options: BTreeMap<String, String>,
    /// Sessions that would connect.
    pub sessions: u64,
    /// Statements of the replay.
    pub statements: u64,
    /// Statements that would be sent.
    pub sent: u64,
    /// Statements that would be sent and may write, judged by their first words.
    pub writes: u64,
    /// Whether the server would reject writes.
    pub read_only: bool,
    /// Statements that would not be sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Statements that would be sent and whose conditions depend on the time, on chance or on the server, the most frequent
    /// first.
    pub unrepeatable: Vec<UnrepeatableStatement>,
    /// Due time of the last event, from the start; `null` at full speed.
    pub span_ns: Option<i64>,
    /// Idle time that would be cut, in microseconds of captured time.
    pub idle_skipped_us: i64,
    /// Checks of the target.
    pub preflight: Preflight,
}
