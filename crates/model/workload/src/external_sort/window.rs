//! In-memory part of the external sort: a window of events, kept in the batches that they arrived in.
//!
//! [`super::EventSorter`] notes the key of each event, sorts the window, and takes the earliest events. Late
//! events and files are not handled here.

use std::collections::VecDeque;

use crate::event_batch::{EventBatch, Key};
use crate::event_ref::EventRef;

/// Prefetch distance, in events. An event's head is prefetched this far ahead, its texts half as far. A
/// window is larger than a processor's cache.
const AHEAD: usize = 16;

/// Maximum moves per event of the insertion sort. More moves cost more than a sort that ignores the order of
/// arrival.
const MOVES_MAX: usize = 6;

/// Key of an event of the window, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    key: Key,
    chunk: u32,
    index: u32,
}

/// Events that have not yet left, in the batches that they arrived in.
#[derive(Default)]
pub(super) struct Window {
    chunks: VecDeque<Chunk>,
    /// Number of the first of `chunks`.
    first_chunk: u32,
    bytes: usize,
    /// Keys of the events. Those before `begins` have left; those up to `sorted` are in order; the rest are
    /// in the order of arrival.
    order: Vec<Position>,
    begins: usize,
    sorted: usize,
    free: Vec<EventBatch>,
}

struct Chunk {
    events: EventBatch,
    /// Number of its events that are still in the window.
    remaining: usize,
}

impl Window {
    /// Number of events.
    pub(super) fn len(&self) -> usize {
        self.order.len() - self.begins
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns batches whose events have all left, for reuse.
    pub(super) fn take_free(&mut self) -> Vec<EventBatch> {
        std::mem::take(&mut self.free)
    }

    /// Notes the key of the event at `index` of the chunk that will be added next.
    pub(super) fn note(&mut self, key: Key, index: usize) {
        self.order.push(Position {
            key,
            chunk: self.first_chunk + self.chunks.len() as u32,
            index: index as u32,
        });
    }

    /// Adds the chunk whose events were noted, including those that were not.
    pub(super) fn add(&mut self, events: EventBatch) {
        self.bytes += events.bytes();
        let number = self.first_chunk + self.chunks.len() as u32;
        let remaining = self
            .order
            .iter()
            .rev()
            .take_while(|position| position.chunk == number)
            .count();
        self.chunks.push_back(Chunk { events, remaining });
    }

    /// Sorts the events that arrived since the last call, and merges them with the sorted ones that they
    /// overlap. A log is nearly in order, so the overlap is short.
    pub(super) fn sort(&mut self) {
        let (before, new) = self.order[self.begins..].split_at_mut(self.sorted - self.begins);
        if !sort_nearly_sorted(new) {
            new.sort_unstable();
        }
        if let Some(first) = new.first() {
            let from = before.partition_point(|position| position < first);
            self.order[self.begins + from..].sort();
        }
        self.sorted = self.order.len();
    }

    /// Returns the number of sorted events that are due by `up_to_us`.
    pub(super) fn count_due_by(&self, up_to_us: i64) -> usize {
        self.order[self.begins..self.sorted].partition_point(|position| position.key.0 <= up_to_us)
    }

    /// Returns the event at this position of the order, with its key.
    #[inline]
    pub(super) fn get(&self, at: usize) -> (Key, EventRef<'_>) {
        let order = &self.order[self.begins..];
        if let Some(position) = order.get(at + AHEAD) {
            let (chunk, index) = self.locate(position);
            chunk.events.prefetch_head(index);
        }
        if let Some(position) = order.get(at + AHEAD / 2) {
            let (chunk, index) = self.locate(position);
            chunk.events.prefetch_texts(index);
        }
        let (chunk, index) = self.locate(&order[at]);
        (order[at].key, chunk.events.get(index))
    }

    #[inline]
    fn locate(&self, position: &Position) -> (&Chunk, usize) {
        let chunk = (position.chunk - self.first_chunk) as usize;
        (&self.chunks[chunk], position.index as usize)
    }

    /// Removes the first `count` events of the order.
    pub(super) fn remove_first(&mut self, count: usize) {
        for position in &self.order[self.begins..self.begins + count] {
            self.chunks[(position.chunk - self.first_chunk) as usize].remaining -= 1;
        }
        self.begins += count;
        if self.begins > self.order.len() / 2 {
            self.order.drain(..self.begins);
            self.sorted -= self.begins;
            self.begins = 0;
        }
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.remaining == 0)
        {
            let chunk = self.chunks.pop_front().expect("just seen");
            self.first_chunk += 1;
            self.bytes -= chunk.events.bytes();
            self.free.push(chunk.events);
        }
    }
}

/// Sorts by insertion; returns `false` if that takes too many moves. A statement arrives when it has ended,
/// so only a few short ones come before it.
fn sort_nearly_sorted(positions: &mut [Position]) -> bool {
    let mut moves_left = positions.len() * MOVES_MAX;
    for at in 1..positions.len() {
        let position = positions[at];
        let mut to = at;
        while to > 0 && position < positions[to - 1] {
            positions[to] = positions[to - 1];
            to -= 1;
        }
        positions[to] = position;
        let Some(left) = moves_left.checked_sub(at - to) else {
            return false;
        };
        moves_left = left;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;
    use crate::event_ref::KindRef;
    use proptest::prelude::*;

    fn chunk(of: &[i64], from: u64) -> EventBatch {
        let mut events = EventBatch::default();
        for (sequence, due_us) in (from..).zip(of) {
            events.push(&EventRef {
                session: 1,
                sequence,
                due_us: *due_us,
                kind: KindRef::Simple { sql: "select 1" },
                outcome: Outcome::default(),
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            });
        }
        events
    }

    proptest! {
        #[test]
        fn window_removes_the_earliest_events_first(
            chunks in prop::collection::vec((prop::collection::vec(0i64..60, 1..20), 0usize..30), 1..20),
        ) {
            let mut window = Window::default();
            let mut remaining: Vec<(i64, u64)> = Vec::new();
            let mut met = 0;
            for (of, leaving) in chunks {
                let events = chunk(&of, met);
                for index in 0..of.len() {
                    window.note(events.key(index), index);
                }
                window.add(events);
                remaining.extend(of.iter().zip(met..).map(|(due_us, sequence)| (*due_us, sequence)));
                met += of.len() as u64;
                remaining.sort_unstable();
                window.sort();
                prop_assert_eq!(window.len(), remaining.len());
                let due = remaining.iter().filter(|(due_us, _)| *due_us <= 30).count();
                prop_assert_eq!(window.count_due_by(30), due);
                let leaving = leaving.min(remaining.len());
                for (at, expected) in remaining.drain(..leaving).enumerate() {
                    let (key, event) = window.get(at);
                    prop_assert_eq!((event.due_us, event.sequence), expected);
                    prop_assert_eq!((key.0, key.2), expected);
                }
                window.remove_first(leaving);
                prop_assert_eq!(window.len(), remaining.len());
            }
            window.remove_first(remaining.len());
            prop_assert_eq!((window.len(), window.bytes()), (0, 0));
            prop_assert!(window.chunks.is_empty());
        }
    }
}
