//! Accounts for all bytes that were read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why a connection, or the rest of it, could not be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum UnreadableReason {
    /// TLS encryption.
    Tls,
    /// GSSAPI encryption.
    Gssapi,
    /// Replication, which is skipped on purpose.
    Replication,
    /// Another protocol than version 3, or a violation of it.
    NotTheProtocol,
    /// Lost bytes, without a resynchronisation before the connection ended.
    Lost,
}

/// Account of all bytes that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecoderAccount {
    /// Number of connections, including those with a cancel request only.
    pub connections: u64,
    /// Number of connections that ended without data, such as those of health checks.
    #[serde(default)]
    pub empty: u64,
    /// Number of connections that the server rejected: wrong password, unknown database, too many
    /// clients.
    #[serde(default)]
    pub refused: u64,
    /// Number of recorded sessions.
    pub sessions: u64,
    /// Number of cancel requests.
    pub cancels: u64,
    /// Number of cancel requests for sessions that are not recorded.
    pub cancels_for_nobody: u64,
    /// Number of events passed to the sink.
    pub events: u64,
    /// Number of those events that are statements.
    pub statements: u64,
    /// Number of statements that were seen and not recorded: the recording had not begun, had
    /// ended, or their session was in a transaction that began before it.
    pub statements_unrecorded: u64,
    /// Number of statements whose text is in a lost or unseen part of the connection.
    pub statements_unknown: u64,
    /// Number of messages longer than the limit (64 MiB), whose effect cannot be replayed.
    #[serde(default)]
    pub too_long: u64,
    /// Number of FunctionCall messages, as libpq's for large objects.
    #[serde(default)]
    pub function_calls: u64,
    /// Number of bytes from clients.
    pub client_bytes: u64,
    /// Number of bytes from servers.
    pub server_bytes: u64,
    /// Number of lost pieces.
    pub gaps: u64,
    /// Number of lost bytes, as far as known.
    pub lost_bytes: u64,
    /// Number of bytes that could not be read, because they are encrypted or follow a loss.
    pub unreadable_bytes: u64,
    /// Number of connections that could not be read, or not to their end, by reason.
    pub unreadable: BTreeMap<UnreadableReason, u64>,
}
