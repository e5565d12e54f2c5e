//! What a capture was read from, and how its files fit together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The inputs of a capture.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SourcesView {
    /// Those that were read, in that order.
    #[serde(default)]
    pub files: Vec<SourceView>,
    /// Those that were named or found and not read.
    #[serde(default)]
    pub left_out: Vec<LeftOutView>,
    /// Silences between files that are out of proportion.
    #[serde(default)]
    pub gaps: Vec<GapView>,
    /// Files that begin before the end of another.
    #[serde(default)]
    pub overlaps: Vec<OverlapView>,
    /// Names that a numbered series lacks.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// One input that was read.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SourceView {
    /// As the user gave it.
    pub name: String,
    /// stderr, csvlog, …; `empty` where it has no lines.
    pub format: String,
    /// Bytes read, after decompression.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// Its first time, in microseconds since 1970-01-01 UTC.
    pub first_us: Option<i64>,
    /// Its last time.
    pub last_us: Option<i64>,
    /// What was wrong with a compressed file, of which only the beginning was read then.
    pub damage: Option<String>,
}

/// Something that was not read.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LeftOutView {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// No line for long between two files.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct GapView {
    /// The file before it.
    pub before: String,
    /// The file behind it.
    pub after: String,
    /// The last time before it, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// The first time behind it.
    pub to_us: i64,
}

/// Two files with lines of the same time.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OverlapView {
    /// The later one.
    pub file: String,
    /// How many files of its series do so; `file` is the first of them.
    pub files: u64,
    /// The one that was read before it.
    pub other: String,
    /// From when both have lines, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Until when.
    pub to_us: i64,
    /// Both have the same messages, which count once. If not, `file` is taken for the log of
    /// another server, and its sessions are kept apart.
    pub same: bool,
    /// Lines of these files that `other` has as well.
    pub lines: u64,
}
