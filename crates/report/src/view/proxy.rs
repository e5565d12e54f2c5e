//! How a capture by the proxy went: what became of every byte that passed.

use capture::proxy::{Finished, Incomplete, ProxyStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::view::conversation::ConversationView;

/// How a proxy did.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProxyView {
    /// `rehearse/capture-proxy/1`.
    pub schema: String,
    /// Where connections led.
    pub upstream: String,
    /// Connections that were taken.
    pub connections: u64,
    /// Those of them that could not be led to the upstream.
    pub refused: u64,
    /// Bytes of clients that passed, whether recorded or not.
    pub client_bytes: u64,
    /// Bytes of servers that passed.
    pub server_bytes: u64,
    /// What was recorded, in order.
    pub recordings: Vec<RecordingView>,
    /// Why the capture broke down, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_down: Option<String>,
}

/// One recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RecordingView {
    /// The workload that was made.
    pub workload: String,
    /// Whether it is complete.
    pub complete: bool,
    /// Whether it ended early, and what was written by then is there; where it is neither, that lies at
    /// its name with `.partial` behind.
    pub recovered: bool,
    /// Whether nothing is left of it: it was taken away while it was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// When it ended.
    pub to_us: i64,
    /// Sessions in it.
    pub sessions: u64,
    /// Statements in it.
    pub statements: u64,
    /// Events in it.
    pub events: u64,
    /// Bytes that passed meanwhile: `read_bytes` + `lost_bytes` + `passed_bytes`.
    pub forwarded_bytes: u64,
    /// Those that were read.
    pub read_bytes: u64,
    /// Those whose copies were dropped.
    pub lost_bytes: u64,
    /// Those of replication connections, which are not read.
    pub passed_bytes: u64,
    /// From when to when copies were dropped.
    pub incomplete: Vec<IncompleteView>,
    /// What was made of what was read.
    pub conversation: ConversationView,
}

/// A stretch of time that is not all there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct IncompleteView {
    /// From when, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// To when.
    pub to_us: i64,
    /// So many bytes of it are missing.
    pub bytes: u64,
}

/// How far a proxy is.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProxyStatusView {
    /// `rehearse/capture-proxy-status/1`.
    pub schema: String,
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were taken.
    pub accepted: u64,
    /// Those of them that could not be led to the upstream.
    pub refused: u64,
    /// Bytes of clients that passed.
    pub client_bytes: u64,
    /// Bytes of servers that passed.
    pub server_bytes: u64,
    /// Bytes whose copies were dropped, whether something was recorded or not.
    pub lost_bytes: u64,
    /// What is being recorded; null where nothing is.
    pub recording: Option<RecordingStatusView>,
    /// What was recorded before.
    pub recorded: Vec<String>,
    /// Why the capture broke down, if it did.
    pub broken_down: Option<String>,
}

/// A recording that is being made.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RecordingStatusView {
    /// Where it will lie.
    pub workload: String,
    /// When it began, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Sessions so far.
    pub sessions: u64,
    /// Statements so far.
    pub statements: u64,
    /// Events so far.
    pub events: u64,
    /// Bytes whose copies were dropped.
    pub lost_bytes: u64,
    /// From when to when.
    pub incomplete: Vec<IncompleteView>,
}

impl ProxyView {
    /// The view of a proxy that has ended, which led to `upstream`.
    pub fn new(upstream: &str, status: &ProxyStatus) -> Self {
        ProxyView {
            schema: "rehearse/capture-proxy/1".to_owned(),
            upstream: upstream.to_owned(),
            connections: status.accepted,
            refused: status.refused,
            client_bytes: status.client_bytes,
            server_bytes: status.server_bytes,
            recordings: status
                .capture
                .finished
                .iter()
                .map(RecordingView::new)
                .collect(),
            broken_down: status.capture.broken_down.clone(),
        }
    }
}

impl RecordingView {
    /// The view of one that has ended.
    pub fn new(finished: &Finished) -> Self {
        let account = &finished.account;
        let failed = account.failure.is_some();
        let recovered = finished.info.as_ref().filter(|_| failed);
        let conversation = &account.conversation;
        let seen = |count: u64| if finished.gone { 0 } else { count };
        RecordingView {
            workload: finished.name.clone(),
            complete: finished.info.is_some() && !failed,
            recovered: recovered.is_some(),
            gone: finished.gone,
            failure: account.failure.clone(),
            from_us: account.from_us,
            to_us: account.to_us,
            sessions: recovered.map_or(seen(conversation.sessions), |info| info.sessions),
            statements: recovered.map_or(seen(conversation.statements), |info| info.statements),
            events: recovered.map_or(seen(conversation.events), |info| info.events),
            forwarded_bytes: account.forwarded_bytes,
            read_bytes: account.read_bytes,
            lost_bytes: account.lost_bytes,
            passed_bytes: account.passed_bytes,
            incomplete: account.incomplete.iter().map(stretch).collect(),
            conversation: ConversationView::new(conversation),
        }
    }

    /// Whether every byte is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.read_bytes + self.lost_bytes + self.passed_bytes == self.forwarded_bytes
    }
}

impl ProxyStatusView {
    /// The view of a proxy that runs.
    pub fn new(status: &ProxyStatus) -> Self {
        let recording = status.capture.recording.as_ref();
        ProxyStatusView {
            schema: "rehearse/capture-proxy-status/1".to_owned(),
            connections: status.connections as u64,
            accepted: status.accepted,
            refused: status.refused,
            client_bytes: status.client_bytes,
            server_bytes: status.server_bytes,
            lost_bytes: status.lost_bytes,
            recording: recording.map(|recording| RecordingStatusView {
                workload: recording.name.clone(),
                from_us: recording.from_us,
                sessions: recording.account.sessions,
                statements: recording.account.statements,
                events: recording.account.events,
                lost_bytes: recording.lost_bytes,
                incomplete: recording.incomplete.iter().map(stretch).collect(),
            }),
            recorded: status
                .capture
                .finished
                .iter()
                .map(|finished| finished.name.clone())
                .collect(),
            broken_down: status.capture.broken_down.clone(),
        }
    }
}

fn stretch(incomplete: &Incomplete) -> IncompleteView {
    IncompleteView {
        from_us: incomplete.from_us,
        to_us: incomplete.to_us,
        bytes: incomplete.bytes,
    }
}
