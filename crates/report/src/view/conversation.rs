//! What the two sides of connections said, and what of it could be read.

use std::collections::BTreeMap;

use capture::conversation::{Account, Unreadable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was read of all connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ConversationView {
    /// Connections, those that only asked for a cancel among them.
    pub connections: u64,
    /// Sessions that were recorded.
    pub sessions: u64,
    /// Connections that ended before anybody said anything.
    pub empty: u64,
    /// Connections that the server did not take.
    pub refused: u64,
    /// Requests to cancel.
    pub cancels: u64,
    /// Those of them that are for nobody who is recorded.
    pub cancels_for_nobody: u64,
    /// Events made.
    pub events: u64,
    /// Those of them that are statements.
    pub statements: u64,
    /// Statements that were seen and not recorded.
    pub statements_unrecorded: u64,
    /// Statements whose text lies in what was lost or not seen.
    pub statements_unknown: u64,
    /// Messages that are too long to be kept.
    pub too_long: u64,
    /// Calls of functions by message, which are no events.
    pub function_calls: u64,
    /// Bytes that clients sent.
    pub client_bytes: u64,
    /// Bytes that servers sent.
    pub server_bytes: u64,
    /// Pieces that were lost.
    pub gaps: u64,
    /// Their bytes, as far as that is known.
    pub lost_bytes: u64,
    /// Bytes that were there and could not be read.
    pub unreadable_bytes: u64,
    /// Connections that could not be read, or not to their end, by reason.
    pub unreadable: BTreeMap<String, UnreadableConnectionsView>,
}

/// Connections that could not be read for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UnreadableConnectionsView {
    /// How many.
    pub connections: u64,
    /// The reason, and what to do, as the rest of a sentence.
    pub explanation: String,
}

impl ConversationView {
    /// The view of an account.
    pub fn new(account: &Account) -> Self {
        let unreadable = account.unreadable.iter().map(|(reason, connections)| {
            let name = serde_json::to_value(reason).expect("plain data");
            let view = UnreadableConnectionsView {
                connections: *connections,
                explanation: explanation(*reason, *connections == 1).to_owned(),
            };
            (name.as_str().unwrap_or_default().to_owned(), view)
        });
        ConversationView {
            connections: account.connections,
            sessions: account.sessions,
            empty: account.empty,
            refused: account.refused,
            cancels: account.cancels,
            cancels_for_nobody: account.cancels_for_nobody,
            events: account.events,
            statements: account.statements,
            statements_unrecorded: account.statements_unrecorded,
            statements_unknown: account.statements_unknown,
            too_long: account.too_long,
            function_calls: account.function_calls,
            client_bytes: account.client_bytes,
            server_bytes: account.server_bytes,
            gaps: account.gaps,
            lost_bytes: account.lost_bytes,
            unreadable_bytes: account.unreadable_bytes,
            unreadable: unreadable.collect(),
        }
    }
}

fn explanation(reason: Unreadable, one: bool) -> &'static str {
    match (reason, one) {
        (Unreadable::Tls, true) => {
            "is encrypted with TLS: its statements cannot be read; capture with the proxy or from the log"
        }
        (Unreadable::Tls, false) => {
            "are encrypted with TLS: their statements cannot be read; capture with the proxy or from the log"
        }
        (Unreadable::Gssapi, true) => {
            "is encrypted with GSSAPI: its statements cannot be read; capture from the log"
        }
        (Unreadable::Gssapi, false) => {
            "are encrypted with GSSAPI: their statements cannot be read; capture from the log"
        }
        (Unreadable::Replication, true) => "replicates: it was passed over",
        (Unreadable::Replication, false) => "replicate: they were passed over",
        (Unreadable::NotTheProtocol, true) => "does not speak PostgreSQL's protocol, version 3",
        (Unreadable::NotTheProtocol, false) => "do not speak PostgreSQL's protocol, version 3",
        (Unreadable::Lost, true) => "lost bytes, and ended before its messages could be told again",
        (Unreadable::Lost, false) => {
            "lost bytes, and ended before their messages could be told again"
        }
    }
}
