//! What a workload's manifest says, beside the list of its files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lineage::{MaskNote, RewriteNote, SliceNote};

/// The manifest's kind.
pub const KIND: &str = "workload";

/// The version of the format that this build writes. A reader refuses a higher one.
/// 2: events have a column `prelude`; without it, as in format 1, none is one.
/// 3: events may have columns with what only a capture from the wire knows ([`crate::Particulars`],
/// binary parameters); a file without them, as a log's, says nothing of it.
pub const FORMAT: u32 = 3;

/// Where a workload comes from: what the capture knows before it has read anything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// What kind of source: `log`.
    pub source_kind: String,
    /// What was read, in time order. [`crate::Event::source`] points in here.
    pub sources: Vec<SourceFile>,
    /// Options that shaped the capture, by name.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The workload's start in microseconds since 1970-01-01 UTC: `due_us` = 0.
    pub start_wall_us: i64,
    /// The capture's own count of what it read and left out, in the form that the capture's
    /// crate documents.
    #[serde(default)]
    pub reconciliation: serde_json::Value,
    /// What was cut out of the source or of another workload, the first slicing first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceNote>,
    /// How it was rewritten, the first rewriting first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<RewriteNote>,
}

impl WorkloadInfo {
    /// Bytes that passed, and that a capture from the wire did not get to read: what was said in them is
    /// missing.
    pub fn lost_bytes(&self) -> u64 {
        let account = &self.provenance.reconciliation;
        account["lost_bytes"].as_u64().unwrap_or(0)
    }
}

/// One file that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceFile {
    /// As the user gave it; `-` for standard input.
    pub name: String,
    /// What it was recognised as, such as `stderr` or `csvlog`.
    pub format: String,
    /// Bytes read, after decompression.
    pub bytes: u64,
}

/// The manifest's own part of a workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Where it comes from.
    pub provenance: Provenance,
    /// Last event's `due_us`: the span in microseconds.
    pub span_us: i64,
    /// Sessions.
    pub sessions: u64,
    /// The most sessions that were open at one time.
    pub sessions_at_once: u64,
    /// All events.
    pub events: u64,
    /// Events that are statements.
    pub statements: u64,
    /// Statements that may write, as read from their first word (see [`sql::classify`]).
    pub writes: u64,
    /// Statements with a captured duration.
    pub with_duration: u64,
    /// Things that the server did.
    #[serde(default)]
    pub server_events: u64,
    /// The first of them, in microseconds from the workload's start; negative before it.
    #[serde(default)]
    pub server_from_us: i64,
    /// The last of them, in microseconds from the workload's start.
    #[serde(default)]
    pub server_to_us: i64,
    /// The maskings that it went through, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<MaskNote>,
    /// The workload was recovered from an unfinished one; it ends early.
    #[serde(default)]
    pub recovered: bool,
}
