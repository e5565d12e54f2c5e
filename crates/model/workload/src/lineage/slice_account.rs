//! What became of every event that a slicing met.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why an event is not in a slice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Due before the slice, and not needed in it.
    Before,
    /// Due at the slice's end or later.
    After,
    /// Of another database.
    Database,
    /// Of another role.
    User,
    /// Of another application.
    Application,
    /// A statement of another kind.
    Kind,
    /// A statement that matches no pattern.
    Statement,
    /// The coming and going, and the settings, of sessions of which no statement was kept.
    NothingKept,
    /// Settings and the like, undone or done anew before their session's first kept statement.
    Superseded,
    /// Of transactions of which no statement was kept.
    EmptyTransaction,
}

impl LeftOut {
    /// The reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            LeftOut::Before => "due before the slice",
            LeftOut::After => "due after the slice",
            LeftOut::Database => "of other databases",
            LeftOut::User => "of other users",
            LeftOut::Application => "of other applications",
            LeftOut::Kind => "statements of other kinds",
            LeftOut::Statement => "statements that match no pattern",
            LeftOut::NothingKept => "of sessions of which no statement was kept",
            LeftOut::Superseded => {
                "settings and the like, undone or done anew before their session's first kept statement"
            }
            LeftOut::EmptyTransaction => "of transactions of which no statement was kept",
        }
    }
}

/// What became of every event: `events` = `kept` + `prelude` + all `left_out`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SliceAccount {
    /// Where the slice begins, in microseconds since 1970-01-01 UTC, where it was asked for.
    pub from_us: Option<i64>,
    /// Where it ends, itself not in it.
    pub to_us: Option<i64>,
    /// Events met.
    pub events: u64,
    /// Kept, due within the slice.
    pub kept: u64,
    /// Of these, those that no filter asked for, and that were kept because sessions hold what
    /// they did: settings, transactions and the like.
    pub kept_for_state: u64,
    /// Done before the slice and put at its start, for what they did to their sessions.
    pub prelude: u64,
    /// Left out.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Sessions met.
    pub sessions: u64,
    /// Sessions that something was kept of.
    pub sessions_kept: u64,
    /// Of these, those that were there before the slice.
    pub sessions_before: u64,
    /// Transactions that were open at the slice's start and are begun again at it.
    pub transactions_resumed: u64,
    /// Transactions that are open at the slice's end, or at the end of what was read.
    pub transactions_open: u64,
    /// Sessions whose prelude lacks something because it would have been too long.
    pub preludes_cut: u64,
    /// Temporary objects that are made anew at the start; what was in them is not there.
    pub temporary_objects: u64,
    /// Things met that the server did. They are no events.
    #[serde(default)]
    pub server_events: u64,
    /// Those of them that were left out: outside of the slice's time, or of sessions that no filter
    /// takes.
    #[serde(default)]
    pub server_events_left_out: u64,
}

impl SliceAccount {
    /// Events that were left out, for all reasons.
    pub fn events_left_out(&self) -> u64 {
        self.left_out.values().sum()
    }

    /// Whether every event is accounted for. It must be; the caller may assert it.
    pub fn adds_up(&self) -> bool {
        self.events == self.kept + self.prelude + self.events_left_out()
    }

    /// Counts events that were left out.
    pub fn leave_out(&mut self, reason: LeftOut, events: u64) {
        if events > 0 {
            *self.left_out.entry(reason).or_default() += events;
        }
    }
}
