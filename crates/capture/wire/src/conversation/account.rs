//! What became of all that was read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a connection, or the rest of it, could not be read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Unreadable {
    /// It is encrypted with TLS.
    Tls,
    /// It is encrypted with GSSAPI.
    Gssapi,
    /// It replicates: it was passed over on purpose.
    Replication,
    /// It does not speak version 3 of the protocol, or broke it.
    NotTheProtocol,
    /// Bytes were lost, and it ended before its messages could be told again.
    Lost,
}

/// What became of all that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Connections, those that only asked for a cancel among them.
    pub connections: u64,
    /// Connections that ended before anybody said anything, such as a health check's.
    #[serde(default)]
    pub empty: u64,
    /// Connections that the server did not take: a wrong password, no such database, too many clients.
    #[serde(default)]
    pub refused: u64,
    /// Sessions that were recorded.
    pub sessions: u64,
    /// Requests to cancel.
    pub cancels: u64,
    /// Requests to cancel a session that is not recorded.
    pub cancels_for_nobody: u64,
    /// Events given to the sink.
    pub events: u64,
    /// Those of them that are statements.
    pub statements: u64,
    /// Statements that were seen and not recorded, because the recording had not begun, had ended, or
    /// their session was in a transaction that began before it.
    pub statements_unrecorded: u64,
    /// Statements whose text the connection's lost or unseen part has.
    pub statements_unknown: u64,
    /// Messages longer than is kept (64 MiB); what they would have done cannot be replayed.
    #[serde(default)]
    pub too_long: u64,
    /// Calls of functions by message, as libpq's for large objects: they are no events.
    #[serde(default)]
    pub function_calls: u64,
    /// Bytes that clients sent.
    pub client_bytes: u64,
    /// Bytes that the server sent.
    pub server_bytes: u64,
    /// Pieces that were lost.
    pub gaps: u64,
    /// Bytes that were lost, as far as that is known.
    pub lost_bytes: u64,
    /// Bytes that were there and could not be read, because they are encrypted, or stand behind
    /// something lost.
    pub unreadable_bytes: u64,
    /// Connections that could not be read, or not to their end, by reason.
    pub unreadable: BTreeMap<Unreadable, u64>,
}
