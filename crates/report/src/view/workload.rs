//! JSON documents on a workload that was created, by a capture or from another workload.

use capture_sink::series::SeriesStatus;
use schemars::JsonSchema;
use serde::Serialize;
use workload::{MaskAccount, MaskNote, RewriteNote, SliceAccount, WorkloadInfo};

/// Result of a capture: the workload, and the account of what was read.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CaptureReport<R> {
    /// `rehearse/capture/1` or `rehearse/capture-pcap/1`.
    pub schema: &'static str,
    /// Path of the workload; `null` if the source was only checked.
    pub workload: Option<String>,
    /// Time from its first event to its last, in microseconds.
    pub span_us: i64,
    /// Sessions in it.
    pub sessions: u64,
    /// Statements in it.
    pub statements: u64,
    /// Account of what was read.
    #[serde(flatten)]
    pub report: R,
    /// Account of all events, if only a slice was kept.
    pub slice: Option<SliceAccount>,
    /// Account of all values, if they were masked. A series has it in each part.
    pub mask: Option<Masking>,
    /// Account of the parts, if a series was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_series: Option<SeriesStatus>,
}

/// Account of a masking, without the list of unmasked values.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Masking {
    /// Fingerprint of the key.
    pub key: String,
    /// Account of all values.
    #[serde(flatten)]
    pub account: MaskAccount,
}

impl From<MaskNote> for Masking {
    fn from(note: MaskNote) -> Self {
        Masking {
            key: note.key,
            account: note.account,
        }
    }
}

/// Account of all rewritings, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewritings {
    /// The rewritings.
    pub rewritings: Vec<RewriteNote>,
}

/// Result of creating a workload from another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransformReport<A> {
    /// `rehearse/slice/1`, `rehearse/mask/1` or `rehearse/rewrite/1`.
    pub schema: &'static str,
    /// Path of the workload that was read.
    pub source: String,
    /// Path of the workload that was made.
    pub workload: String,
    /// Start of the workload that was made, in microseconds since 1970-01-01 UTC.
    pub start_wall_us: i64,
    /// Time from its start to its last event, in microseconds.
    pub span_us: i64,
    /// Statements in it.
    pub statements: u64,
    /// Account of what was read.
    #[serde(flatten)]
    pub account: A,
    /// Account of all values, if a slice was masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<Masking>,
}

impl<A> TransformReport<A> {
    /// Creates a report from both workloads' paths and the manifest of the new one.
    pub fn new(
        schema: &'static str,
        [source, workload]: [String; 2],
        info: &WorkloadInfo,
        account: A,
    ) -> Self {
        TransformReport {
            schema,
            source,
            workload,
            start_wall_us: info.provenance.start_wall_us,
            span_us: info.span_us,
            statements: info.statements,
            account,
            mask: None,
        }
    }
}
