//! Numbers of events by the result of a slicing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason why an event is not in a slice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionReason {
    /// Due before the slice, and not needed in it.
    Before,
    /// Due at the slice's end or later.
    After,
    /// Belongs to another database.
    Database,
    /// Belongs to another role.
    User,
    /// Belongs to another application.
    Application,
    /// A statement of another kind.
    Kind,
    /// A statement that matches no pattern.
    Statement,
    /// A statement with another context, or without one.
    Context,
    /// Connection, disconnection or setting of a session without a kept statement.
    NothingKept,
    /// Setting or the like that was undone or replaced before the session's first kept statement.
    Superseded,
    /// Part of a transaction without a kept statement.
    EmptyTransaction,
}

impl ExclusionReason {
    /// Returns the reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            ExclusionReason::Before => "due before the slice",
            ExclusionReason::After => "due after the slice",
            ExclusionReason::Database => "of other databases",
            ExclusionReason::User => "of other users",
            ExclusionReason::Application => "of other applications",
            ExclusionReason::Kind => "statements of other kinds",
            ExclusionReason::Statement => "statements that match no pattern",
            ExclusionReason::Context => "statements of other contexts",
            ExclusionReason::NothingKept => "of sessions of which no statement was kept",
            ExclusionReason::Superseded => {
                "settings and the like, undone or done anew before their session's first kept statement"
            }
            ExclusionReason::EmptyTransaction => "of transactions of which no statement was kept",
        }
    }
}

/// Numbers of events: `events` = `kept` + `prelude` + all `left_out`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SliceAccount {
    /// Start of the slice, in microseconds since 1970-01-01 UTC, if it was given.
    pub from_us: Option<i64>,
    /// End of the slice (exclusive), if it was given.
    pub to_us: Option<i64>,
    /// Number of events.
    pub events: u64,
    /// Number of events kept that are due within the slice.
    pub kept: u64,
    /// Number of these that no filter selects. They are kept because they affect the state of their session,
    /// such as settings and transactions.
    pub kept_for_state: u64,
    /// Number of events before the slice that are placed at its start, since they affect the state of their
    /// session.
    pub prelude: u64,
    /// Number of events left out, by reason.
    pub left_out: BTreeMap<ExclusionReason, u64>,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of sessions with a kept event.
    pub sessions_kept: u64,
    /// Number of these that began before the slice.
    pub sessions_before: u64,
    /// Number of transactions that were open at the slice's start and are begun again there.
    pub transactions_resumed: u64,
    /// Number of transactions that are open at the slice's end, or at the end of the source.
    pub transactions_open: u64,
    /// Number of sessions whose prelude is incomplete because of the size limit.
    pub preludes_cut: u64,
    /// Number of temporary objects that are recreated at the start, without their contents.
    pub temporary_objects: u64,
    /// Number of server events. They are no events of clients.
    #[serde(default)]
    pub server_events: u64,
    /// Number of server events left out: outside of the slice's time, or of sessions that no filter selects.
    #[serde(default)]
    pub server_events_left_out: u64,
}

impl SliceAccount {
    /// Returns the number of events left out, for all reasons.
    pub fn events_left_out(&self) -> u64 {
        self.left_out.values().sum()
    }

    /// Whether every event is accounted for. Callers may assert it.
    pub fn adds_up(&self) -> bool {
        self.events == self.kept + self.prelude + self.events_left_out()
    }

    /// Counts events left out for this reason.
    pub fn exclude(&mut self, reason: ExclusionReason, events: u64) {
        if events > 0 {
            *self.left_out.entry(reason).or_default() += events;
        }
    }
}
