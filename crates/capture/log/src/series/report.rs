//! Describes how the files of a capture fit together.

use schemars::JsonSchema;
use serde::Serialize;

/// A time without lines between two consecutive files of a series, longer than is usual for
/// consecutive files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Gap {
    /// Name of the file before the gap.
    pub before: String,
    /// Name of the file after the gap.
    pub after: String,
    /// The last time before the gap, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// The first time after the gap.
    pub to_us: i64,
}

/// A file that begins before the end of a file that was read earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overlap {
    /// Name of the file.
    pub file: String,
    /// Number of files of its series that overlap; `file` is the first of them.
    pub files: u64,
    /// Name of the file that it overlaps with.
    pub other: String,
    /// Start of the overlap, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// End of the overlap.
    pub to_us: i64,
    /// Both files have the same messages. Otherwise they are treated as logs of different servers.
    pub same: bool,
    /// Number of lines of `file` left out because `other` has them.
    pub lines: u64,
}

/// Gaps, overlaps and missing files of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeriesReport {
    /// Times without lines between files.
    pub gaps: Vec<Gap>,
    /// Files that overlap.
    pub overlaps: Vec<Overlap>,
    /// Names of a numbered series that were expected and not read.
    pub missing: Vec<String>,
}
