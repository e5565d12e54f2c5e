//! The events that are sorted in memory: those that have not yet left, in the pieces that they came in.
//!
//! Who drives: [`super::TimeOrder`], which notes where each belongs, has them sorted, and takes the
//! earliest. Deliberately absent: what comes too late, and the disk.

use std::collections::VecDeque;

use crate::event_ref::EventRef;
use crate::packed::{Key, PackedEvents};

/// An event's place in memory is asked for so many events before it is read, and its texts, which it names,
/// half as many: a window is larger than what a processor keeps near.
const AHEAD: usize = 16;

/// So many moves for each event are less work than sorting them without regard to how they came.
const MOVES_MAX: usize = 6;

/// Where an event of the window belongs, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: Key,
    chunk: u32,
    index: u32,
}

/// The events that have not yet left, in the pieces of memory that they came in.
#[derive(Default)]
pub(super) struct Window {
    chunks: VecDeque<Chunk>,
    /// The number of the first of `chunks`.
    first_chunk: u32,
    bytes: usize,
    /// Before `begins` those that have left, up to `sorted` the others in order, then as they came.
    order: Vec<Place>,
    begins: usize,
    sorted: usize,
    free: Vec<PackedEvents>,
}

struct Chunk {
    events: PackedEvents,
    /// How many of them are still in the window.
    inside: usize,
}

impl Window {
    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.order.len() - self.begins
    }

    /// What they take in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Space of events that have left.
    pub(super) fn take_free(&mut self) -> Vec<PackedEvents> {
        std::mem::take(&mut self.free)
    }

    /// An event at `index` of the chunk that will be added next.
    pub(super) fn note(&mut self, key: Key, index: usize) {
        self.order.push(Place {
            key,
            chunk: self.first_chunk + self.chunks.len() as u32,
            index: index as u32,
        });
    }

    /// Takes the events that were noted, and those of the same piece that were not.
    pub(super) fn add(&mut self, events: PackedEvents) {
        self.bytes += events.bytes();
        let number = self.first_chunk + self.chunks.len() as u32;
        let inside = self
            .order
            .iter()
            .rev()
            .take_while(|place| place.chunk == number)
            .count();
        self.chunks.push_back(Chunk { events, inside });
    }

    /// Sorts what came since the last time, and merges it with those before it that it belongs among: a log
    /// is nearly in order.
    pub(super) fn sort(&mut self) {
        let (before, new) = self.order[self.begins..].split_at_mut(self.sorted - self.begins);
        if !sort_nearly_sorted(new) {
            new.sort_unstable();
        }
        if let Some(first) = new.first() {
            let from = before.partition_point(|place| place < first);
            self.order[self.begins + from..].sort();
        }
        self.sorted = self.order.len();
    }

    /// How many are due by then, of those that are sorted.
    pub(super) fn due_by(&self, up_to_us: i64) -> usize {
        self.order[self.begins..self.sorted].partition_point(|place| place.key.0 <= up_to_us)
    }

    /// One of them in order, and where it belongs.
    #[inline]
    pub(super) fn get(&self, at: usize) -> (Key, EventRef<'_>) {
        let order = &self.order[self.begins..];
        if let Some(place) = order.get(at + AHEAD) {
            let (chunk, index) = self.place(place);
            chunk.events.ask_for_head(index);
        }
        if let Some(place) = order.get(at + AHEAD / 2) {
            let (chunk, index) = self.place(place);
            chunk.events.ask_for_texts(index);
        }
        let (chunk, index) = self.place(&order[at]);
        (order[at].key, chunk.events.get(index))
    }

    #[inline]
    fn place(&self, place: &Place) -> (&Chunk, usize) {
        let chunk = (place.chunk - self.first_chunk) as usize;
        (&self.chunks[chunk], place.index as usize)
    }

    /// The first ones of the order have left.
    pub(super) fn left(&mut self, count: usize) {
        for place in &self.order[self.begins..self.begins + count] {
            self.chunks[(place.chunk - self.first_chunk) as usize].inside -= 1;
        }
        self.begins += count;
        if self.begins > self.order.len() / 2 {
            self.order.drain(..self.begins);
            self.sorted -= self.begins;
            self.begins = 0;
        }
        while self.chunks.front().is_some_and(|chunk| chunk.inside == 0) {
            let chunk = self.chunks.pop_front().expect("just seen");
            self.first_chunk += 1;
            self.bytes -= chunk.events.bytes();
            self.free.push(chunk.events);
        }
    }
}

/// Puts each where it belongs by moving those before it that belong behind; `false`, where that is too much work. A
/// statement is taken when it has ended, and so only some that were short are before it.
fn sort_nearly_sorted(places: &mut [Place]) -> bool {
    let mut moves_left = places.len() * MOVES_MAX;
    for at in 1..places.len() {
        let place = places[at];
        let mut to = at;
        while to > 0 && place < places[to - 1] {
            places[to] = places[to - 1];
            to -= 1;
        }
        places[to] = place;
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

    fn chunk(of: &[i64], from: u64) -> PackedEvents {
        let mut events = PackedEvents::default();
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
                particulars: None,
            });
        }
        events
    }

    proptest! {
        #[test]
        fn whatever_leaves_is_the_earliest_of_what_is_there(
            chunks in prop::collection::vec((prop::collection::vec(0i64..60, 1..20), 0usize..30), 1..20),
        ) {
            let mut window = Window::default();
            let mut inside: Vec<(i64, u64)> = Vec::new();
            let mut met = 0;
            for (of, leaving) in chunks {
                let events = chunk(&of, met);
                for index in 0..of.len() {
                    window.note(events.key(index), index);
                }
                window.add(events);
                inside.extend(of.iter().zip(met..).map(|(due_us, sequence)| (*due_us, sequence)));
                met += of.len() as u64;
                inside.sort_unstable();
                window.sort();
                prop_assert_eq!(window.len(), inside.len());
                let due = inside.iter().filter(|(due_us, _)| *due_us <= 30).count();
                prop_assert_eq!(window.due_by(30), due);
                let leaving = leaving.min(inside.len());
                for (at, expected) in inside.drain(..leaving).enumerate() {
                    let (key, event) = window.get(at);
                    prop_assert_eq!((event.due_us, event.sequence), expected);
                    prop_assert_eq!((key.0, key.2), expected);
                }
                window.left(leaving);
                prop_assert_eq!(window.len(), inside.len());
            }
            window.left(inside.len());
            prop_assert_eq!((window.len(), window.bytes()), (0, 0));
            prop_assert!(window.chunks.is_empty());
        }
    }
}
