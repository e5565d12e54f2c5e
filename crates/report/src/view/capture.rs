//! How a capture went: what became of every line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::view::fitness::FitnessView;
use crate::view::mask::MaskView;
use crate::view::slice::SliceView;
use crate::view::sources::SourcesView;

/// What became of every line of a capture's sources, and what was made of them. The part that the
/// capture itself counts is read from its own JSON; the rest the program fills in.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CaptureView {
    /// `rehearse/capture/1`.
    #[serde(default = "schema_name")]
    pub schema: String,
    /// The workload that was made; empty where the lines were only accounted for.
    #[serde(default)]
    pub workload: String,
    /// From its first event to its last, in microseconds.
    #[serde(default)]
    pub span_us: i64,
    /// Sessions in it.
    #[serde(default)]
    pub sessions: u64,
    /// Statements in it.
    #[serde(default)]
    pub statements: u64,
    /// Lines read. `lines_in_events` + those skipped + those unreadable.
    pub lines: u64,
    /// Lines that became events.
    pub lines_in_events: u64,
    /// Events made of them.
    pub events: u64,
    /// Things that the server did, made of them too: temporary files, lock waits, checkpoints …
    #[serde(default)]
    pub server_events: u64,
    /// What was left out on purpose, by reason.
    #[serde(default)]
    pub skipped: BTreeMap<String, SkippedView>,
    /// What could not be read.
    #[serde(default)]
    pub unreadable: UnreadableView,
    /// What the log is good for, where it was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitness: Option<FitnessView>,
    /// What was read, and how it fits together.
    #[serde(default)]
    pub sources: SourcesView,
    /// What became of the events, where only a slice was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<SliceView>,
    /// What became of the values, where they were masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskView>,
}

/// What was left out for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SkippedView {
    /// Lines.
    pub lines: u64,
    /// The reason in words; empty where its name says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explanation: String,
}

/// What could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UnreadableView {
    /// Lines.
    pub lines: u64,
    /// The first of them.
    #[serde(default)]
    pub first: Vec<UnreadableLineView>,
}

/// One line that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UnreadableLineView {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

fn schema_name() -> String {
    "rehearse/capture/1".to_owned()
}

impl CaptureView {
    /// Reads the capture's own count. What the program fills in is empty or 0 after it.
    pub fn from_reconciliation(json: &serde_json::Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(json)
    }

    /// Lines left out on purpose.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped.values().map(|skipped| skipped.lines).sum()
    }

    /// Whether every line is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.lines_in_events + self.skipped_lines() + self.unreadable.lines == self.lines
    }
}
