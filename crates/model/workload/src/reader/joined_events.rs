//! Joins the events of several parts of a series into those of one workload.

use std::collections::VecDeque;

use archive::ArchiveError;
use sql::Fingerprint;

use super::merge::MergedRows;
use crate::event::Event;
use crate::series::{SESSIONS_PER_CAPTURE, SessionJoiner};

type EventRow = (Event, Option<Fingerprint>);

/// A gap, in which all sessions of the earlier parts end. Times are those of the whole, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionCut {
    /// Number of the first part after the gap.
    pub(super) before_part: u64,
    /// Time of the last event in the parts before the gap.
    pub(super) recorded_to_us: i64,
    /// Start of the gap.
    pub(super) gap_from_us: i64,
}

/// Events of all parts in the order of time, with the ends of the sessions that gaps have cut off.
pub(super) struct JoinedEvents {
    merged: MergedRows<EventRow>,
    joiner: SessionJoiner,
    /// Gaps that no event has followed so far, the earliest first.
    cuts: VecDeque<SessionCut>,
    /// Events to be returned next.
    ready: VecDeque<EventRow>,
}

impl JoinedEvents {
    pub(super) fn new(merged: MergedRows<EventRow>, cuts: Vec<SessionCut>) -> Self {
        JoinedEvents {
            merged,
            joiner: SessionJoiner::default(),
            cuts: cuts.into(),
            ready: VecDeque::new(),
        }
    }

    /// Ends the sessions that were cut off before this event of part `number`.
    fn end_cut_sessions(&mut self, number: u64, event: &Event) {
        while let Some(cut) = self.cuts.front()
            && cut.before_part <= number
            && cut.recorded_to_us < event.due_us
        {
            let due_us = (cut.gap_from_us).clamp(cut.recorded_to_us + 1, event.due_us);
            self.cuts.pop_front();
            let first = event.session - event.session % SESSIONS_PER_CAPTURE;
            let ends = self.joiner.disconnect_sessions_before(first, due_us);
            self.ready.extend(ends.into_iter().map(|end| (end, None)));
        }
    }
}

impl Iterator for JoinedEvents {
    type Item = Result<EventRow, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Some(Ok(row));
            }
            let (number, (event, fingerprint)) = match self.merged.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            self.end_cut_sessions(number, &event);
            if let Some(event) = self.joiner.join(number, event) {
                self.ready.push_back((event, fingerprint));
            }
        }
    }
}
