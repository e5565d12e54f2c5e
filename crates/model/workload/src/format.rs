//! A workload's part of the manifest, apart from the list of files.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lineage::{MaskNote, RewriteNote, SliceNote};
use crate::series::PartAccount;
use crate::session_logins::SessionLogin;
use crate::starting_point::StartingPoint;

/// Value of `kind` in the manifest.
pub const KIND: &str = "workload";

/// Version of the format that this build writes. A reader refuses a higher one.
/// - 2: events have a column `prelude`. Events of format 1 are no prelude.
/// - 3: events may have columns with details of a wire capture ([`crate::WireDetails`], binary parameters). A
///   file without them, such as a log's, does not report them.
/// - 4: function calls, and the columns `parsed` and `messages`. An event of format 3 has neither.
/// - 5: events have the column `context`, and there is a table `contexts`. Before, nothing knows the contexts.
pub const FORMAT: u32 = 5;

/// Provenance of a workload: the facts that are known before the capture reads anything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Kind of source, such as `log`.
    pub source_kind: String,
    /// Sources in time order. [`crate::Event::source`] is an index into it.
    pub sources: Vec<SourceFile>,
    /// Options that affected the capture, by name.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Start of the workload (`due_us` = 0), in microseconds since 1970-01-01 UTC.
    pub start_wall_us: i64,
    /// Numbers of items read and left out, in the form that the crate of the capture documents.
    #[serde(default)]
    pub reconciliation: serde_json::Value,
    /// Slicings of the source or of another workload, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceNote>,
    /// Rewritings, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<RewriteNote>,
    /// Servers that the traffic went to, as far as the source identifies them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<CapturedServer>,
    /// State of the captured server at the start of the capture, if a connection for it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_point: Option<StartingPoint>,
}

impl WorkloadInfo {
    /// Returns the bytes of traffic that a wire capture could not read. Their messages are missing.
    pub fn lost_bytes(&self) -> u64 {
        let account = &self.provenance.reconciliation;
        account["lost_bytes"].as_u64().unwrap_or(0)
    }
}

/// A server that captured traffic went to. A replay onto it is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CapturedServer {
    /// Host name, address or socket directory that the capture connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// IP addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Port.
    pub port: u16,
    /// Name of the machine on which the loopback addresses and directories are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_directory: Option<String>,
    /// System identifier of the cluster, which physical copies have, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<u64>,
}

/// One source file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceFile {
    /// As the user passed it; `-` for standard input.
    pub name: String,
    /// Detected format, such as `stderr` or `csvlog`.
    pub format: String,
    /// Bytes read, after decompression.
    pub bytes: u64,
}

/// A workload's part of the manifest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Provenance.
    pub provenance: Provenance,
    /// Time span: the last event's `due_us`, in microseconds.
    pub span_us: i64,
    /// Number of sessions.
    pub sessions: u64,
    /// Maximum number of sessions open at the same time.
    pub sessions_at_once: u64,
    /// Number of events.
    pub events: u64,
    /// Number of events that are statements.
    pub statements: u64,
    /// Number of statements that may write, judged by their first word (see [`sql::classify`]).
    pub writes: u64,
    /// Number of statements with a captured duration.
    pub with_duration: u64,
    /// Number of server events.
    #[serde(default)]
    pub server_events: u64,
    /// The first of them, in microseconds from the workload's start; negative before it.
    #[serde(default)]
    pub server_from_us: i64,
    /// Time of the last server event, in microseconds from the workload's start.
    #[serde(default)]
    pub server_to_us: i64,
    /// Databases and roles of the sessions, in the order in which the first session of each ended. `None` in a workload of
    /// an earlier version, or with more than a thousand pairs ([`crate::WorkloadReader::logins`] reads the sessions then).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logins: Option<Vec<SessionLogin>>,
    /// Maskings, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<MaskNote>,
    /// The workload was recovered from an unfinished one and ends early.
    #[serde(default)]
    pub recovered: bool,
    /// Account of a part of a series; `None` for any other workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartAccount>,
}
