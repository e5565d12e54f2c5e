//! Events near the end of what a series has, which a log that is read again repeats.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{SESSIONS_PER_CAPTURE, is_zero};
use crate::event::Event;

/// Time before the end of what a series has from which its events are known one by one, in microseconds. Time stamps of a
/// log have milliseconds or seconds, and processes write their lines in another order than that of their time stamps.
const MARGIN_US: i64 = 1_000_000;

/// An event that ended near the time up to which the series has everything, or later. A log that is read again has it, too,
/// with the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunningEvent {
    /// Time at which it was sent, in microseconds since 1970-01-01 UTC.
    pub due_us: i64,
    /// Time at which it ended; that at which it was sent if its duration is unknown.
    pub ended_us: i64,
    /// Hash of its text, before masks and redaction; 0 if it has none or that is unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub text: u64,
    /// Identity of the server process of its session, as the source states it; 0 if that is unknown or not noted. It
    /// distinguishes equal statements of the same time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub process: u64,
}

impl RunningEvent {
    /// Describes an event that was sent at `due_us`, in microseconds, by the text of its source.
    pub fn new(due_us: i64, duration_us: Option<u64>, sql: Option<&str>) -> Self {
        RunningEvent {
            due_us,
            ended_us: due_us.saturating_add_unsigned(duration_us.unwrap_or(0)),
            text: sql.map_or(0, |sql| xxh3_64(sql.as_bytes())),
            process: 0,
        }
    }

    /// Returns the event as one of the session of this server process.
    pub fn with_process(self, process: u64) -> Self {
        RunningEvent { process, ..self }
    }

    /// Returns the event as it was while its duration was not known.
    pub fn unended(self) -> Self {
        RunningEvent {
            ended_us: self.due_us,
            ..self
        }
    }

    fn without_text(self) -> Self {
        RunningEvent { text: 0, ..self }
    }
}

/// Number of the session of a held event whose session has not begun.
pub const NO_SESSION: u64 = u64::MAX;

/// An event that a source has read and not delivered. Its session shows whether it was delivered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HeldEvent {
    /// Its times.
    #[serde(flatten)]
    pub event: RunningEvent,
    /// Number of its session in the series; from the source, that in the capture; [`NO_SESSION`] if it has not begun.
    pub session: u64,
    /// Number of the last part that had events of the session; 0 if there was none, and from the source.
    pub part: u64,
    /// Number of events of the session in that part, with those of its prelude.
    pub sequence: u64,
}

impl HeldEvent {
    /// Describes an event that a source holds.
    pub fn of_source(session: u64, event: RunningEvent) -> Self {
        HeldEvent {
            event,
            session,
            part: 0,
            sequence: 0,
        }
    }

    /// Whether an event of a source is this one, which may have got a duration since then.
    pub fn is(&self, event: RunningEvent) -> bool {
        self.event == event || self.event == event.unended()
    }

    /// Whether an event of part `part` can be this one: it was delivered later, by its session or by a later capture.
    /// `recovered` has its times and, unless it is masked, its text.
    pub(crate) fn can_be(&self, part: u64, event: &Event, recovered: RunningEvent) -> bool {
        let is_later = (part, event.sequence) >= (self.part, self.sequence);
        let capture = |session: u64| session / SESSIONS_PER_CAPTURE;
        let same = |held: RunningEvent, found: RunningEvent| {
            let text = match found.text {
                0 => 0,
                _ => held.text,
            };
            RunningEvent { text, ..held }.with_process(0) == found
        };
        let is_its = self.session == NO_SESSION
            || event.session == self.session && is_later
            || capture(event.session) > capture(self.session);
        is_its && (same(self.event, recovered) || same(self.event, recovered.unended()))
    }
}

/// Returns the time before which all events that ended are in a series that has everything up to `recorded_to_us`.
pub fn settled_us(recorded_to_us: i64) -> i64 {
    recorded_to_us.saturating_sub(MARGIN_US)
}

/// Returns how often each event occurs.
pub fn count_events(events: impl IntoIterator<Item = RunningEvent>) -> HashMap<RunningEvent, u32> {
    let mut counts = HashMap::new();
    for event in events {
        *counts.entry(event).or_insert(0) += 1;
    }
    counts
}

/// Returns the events that one can be: an event without a known duration may have got one since it was noted, and the texts
/// of recovered events can be masked.
fn notes_of(event: RunningEvent) -> [RunningEvent; 4] {
    let unended = event.unended();
    let unknown = event.without_text();
    [event, unknown, unended, unended.without_text()]
}

/// Whether an event is among these.
pub fn is_among(counts: &HashMap<RunningEvent, u32>, event: RunningEvent) -> bool {
    let mut notes = notes_of(event).into_iter();
    !counts.is_empty() && notes.any(|note| counts.contains_key(&note))
}

/// Takes an event out of these. Returns it as it was noted, if it was among them: it may have got a duration since then.
pub fn take_event(
    counts: &mut HashMap<RunningEvent, u32>,
    event: RunningEvent,
) -> Option<RunningEvent> {
    if counts.is_empty() {
        return None;
    }
    let mut notes = notes_of(event).into_iter();
    notes.find(|note| take_exactly(counts, *note))
}

/// Takes an event out of these, with the same times and text. Returns whether it was among them.
pub fn take_exactly(counts: &mut HashMap<RunningEvent, u32>, event: RunningEvent) -> bool {
    let Some(count) = counts.get_mut(&event) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&event);
    }
    true
}

/// Events that ended after the settled time of a part. Holds about twice these.
#[derive(Debug)]
pub struct RunningEvents {
    settled_us: i64,
    events: Vec<RunningEvent>,
    prune_at: usize,
}

impl Default for RunningEvents {
    fn default() -> Self {
        RunningEvents::since(i64::MIN)
    }
}

impl RunningEvents {
    /// Creates a list of the events that ended at this time or later.
    pub fn since(settled_us: i64) -> Self {
        RunningEvents {
            settled_us,
            events: Vec::new(),
            prune_at: 1024,
        }
    }

    /// Moves the settled time ahead.
    pub fn advance(&mut self, settled_us: i64) {
        self.settled_us = self.settled_us.max(settled_us);
    }

    /// Adds an event.
    pub fn add(&mut self, event: RunningEvent) {
        if event.ended_us < self.settled_us {
            return;
        }
        self.events.push(event);
        if self.events.len() > self.prune_at {
            self.prune();
            self.prune_at = 1024 + self.events.len() * 2;
        }
    }

    fn prune(&mut self) {
        let settled_us = self.settled_us;
        self.events.retain(|event| event.ended_us >= settled_us);
    }

    /// Returns the events.
    pub fn finish(mut self) -> Vec<RunningEvent> {
        self.prune();
        self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_end_from_the_settled_time_on_are_returned() {
        let mut running = RunningEvents::default();
        for due_us in 0..5000 {
            let duration_us = match due_us % 1000 {
                0 => 10_000,
                _ => 1,
            };
            running.add(RunningEvent::new(due_us, Some(duration_us), None));
            running.advance(due_us);
        }
        running.add(RunningEvent::new(4_000, None, None));
        running.add(RunningEvent::new(4_999, None, None));
        let events = running.finish();
        let dues: Vec<i64> = events.iter().map(|event| event.due_us).collect();
        assert_eq!(dues, [0, 1000, 2000, 3000, 4000, 4998, 4999, 4999]);
    }
}
