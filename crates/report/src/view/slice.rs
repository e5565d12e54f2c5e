//! What became of every event when a workload, or what a capture read, was sliced.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{SliceAccount, WorkloadInfo};

use crate::view::mask::MaskView;

/// What became of every event: `events` = `kept` + `prelude` + all of `left_out`.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SliceView {
    /// `rehearse/slice/1`.
    pub schema: String,
    /// The workload that was sliced; empty for a capture.
    #[serde(default)]
    pub of: String,
    /// The workload that was made; empty where none was.
    #[serde(default)]
    pub workload: String,
    /// Its start, in microseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub start_wall_us: i64,
    /// From its start to its last event, in microseconds.
    #[serde(default)]
    pub span_us: i64,
    /// Statements in it.
    #[serde(default)]
    pub statements: u64,
    /// From when on was asked for, in microseconds since 1970-01-01 UTC.
    pub from_us: Option<i64>,
    /// Before when.
    pub to_us: Option<i64>,
    /// Sessions met.
    pub sessions: u64,
    /// Sessions that something was kept of.
    pub sessions_kept: u64,
    /// Of these, those that were there before the slice.
    pub sessions_before: u64,
    /// Events met.
    pub events: u64,
    /// Kept, due within the slice.
    pub kept: u64,
    /// Of these, those that were not asked for, and that carry their session's state.
    pub kept_for_state: u64,
    /// Done before the slice and put at its start.
    pub prelude: u64,
    /// Left out, by reason.
    pub left_out: BTreeMap<String, SliceReasonView>,
    /// Transactions that were open at the start and are begun again at it.
    pub transactions_resumed: u64,
    /// Transactions that are open at the end.
    pub transactions_open: u64,
    /// Sessions whose state would have been too much to hold.
    pub preludes_cut: u64,
    /// Temporary objects that are made anew, without what was in them.
    pub temporary_objects: u64,
    /// What became of the values, where they were masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskView>,
}

/// What was left out for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SliceReasonView {
    /// Events.
    pub events: u64,
    /// The reason in words.
    pub explanation: String,
}

impl SliceView {
    /// The view of an account.
    pub fn new(account: &SliceAccount) -> Self {
        let left_out = account.left_out.iter().map(|(reason, events)| {
            let name = serde_json::to_value(reason).expect("plain data");
            let view = SliceReasonView {
                events: *events,
                explanation: reason.explanation().to_owned(),
            };
            (name.as_str().unwrap_or_default().to_owned(), view)
        });
        SliceView {
            schema: "rehearse/slice/1".to_owned(),
            from_us: account.from_us,
            to_us: account.to_us,
            sessions: account.sessions,
            sessions_kept: account.sessions_kept,
            sessions_before: account.sessions_before,
            events: account.events,
            kept: account.kept,
            kept_for_state: account.kept_for_state,
            prelude: account.prelude,
            left_out: left_out.collect(),
            transactions_resumed: account.transactions_resumed,
            transactions_open: account.transactions_open,
            preludes_cut: account.preludes_cut,
            temporary_objects: account.temporary_objects,
            ..SliceView::default()
        }
    }

    /// With the workload that was sliced and the one that was made.
    pub fn of(self, of: &str, workload: &str, info: &WorkloadInfo) -> Self {
        SliceView {
            of: of.to_owned(),
            workload: workload.to_owned(),
            start_wall_us: info.provenance.start_wall_us,
            span_us: info.span_us,
            statements: info.statements,
            ..self
        }
    }

    /// Events left out, for all reasons.
    pub fn events_left_out(&self) -> u64 {
        self.left_out.values().map(|left_out| left_out.events).sum()
    }

    /// Whether every event is accounted for exactly once.
    pub fn adds_up(&self) -> bool {
        self.events == self.kept + self.prelude + self.events_left_out()
    }
}
