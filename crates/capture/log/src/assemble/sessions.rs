//! Finds the sessions that may continue by process number.
//!
//! This runs for every entry, and a process that wrote one often writes the next: a small table of
//! recent numbers avoids the map.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::held_entries::OwnedEntry;
use super::session::LiveSession;

/// Hasher for process numbers, which are small and not chosen by anybody, so one multiplication
/// spreads them enough.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessHasher(u64);

impl Hasher for ProcessHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 over the golden ratio.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// Number of entries in the small table.
const RECENT_SLOTS: usize = 256;

/// Index that no session has.
const NO_INDEX: u32 = u32::MAX;

/// The sessions; see the module documentation.
#[derive(Debug)]
pub(super) struct Sessions {
    places: HashMap<u32, u32, BuildHasherDefault<ProcessHasher>>,
    lives: Vec<Option<Box<LiveSession>>>,
    free: Vec<u32>,
    /// Process number and index, by the last bits of the process number.
    recent: Box<[(u32, u32); RECENT_SLOTS]>,
    /// Entries of processes that may be no clients.
    pub(super) held: BTreeMap<u32, Vec<OwnedEntry>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            places: HashMap::default(),
            lives: Vec::new(),
            free: Vec::new(),
            recent: Box::new([(0, NO_INDEX); RECENT_SLOTS]),
            held: BTreeMap::new(),
        }
    }
}

impl Sessions {
    /// Returns whether entries are held.
    #[inline(always)]
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the index of a process's session.
    #[inline(always)]
    pub(super) fn index_of(&mut self, pid: u32) -> Option<u32> {
        let (near, place) = self.recent[pid as usize % RECENT_SLOTS];
        if near == pid && place != NO_INDEX {
            return Some(place);
        }
        self.index_in_map(pid)
    }

    #[inline(never)]
    fn index_in_map(&mut self, pid: u32) -> Option<u32> {
        let place = *self.places.get(&pid)?;
        self.recent[pid as usize % RECENT_SLOTS] = (pid, place);
        Some(place)
    }

    /// Returns the session at a current index.
    #[inline(always)]
    pub(super) fn at(&mut self, place: u32) -> &mut Box<LiveSession> {
        self.lives[place as usize]
            .as_mut()
            .expect("it has this place")
    }

    /// Returns a process's session.
    pub(super) fn get(&mut self, pid: u32) -> Option<&mut Box<LiveSession>> {
        let place = self.index_of(pid)?;
        Some(self.at(place))
    }

    /// Adds a session of a process that has none; returns its index.
    pub(super) fn insert(&mut self, pid: u32, live: Box<LiveSession>) -> u32 {
        debug_assert!(!self.places.contains_key(&pid));
        let place = self.free.pop().unwrap_or_else(|| {
            self.lives.push(None);
            u32::try_from(self.lives.len() - 1).expect("fewer sessions than process numbers")
        });
        self.lives[place as usize] = Some(live);
        self.places.insert(pid, place);
        place
    }

    /// Removes a process's session.
    pub(super) fn remove(&mut self, pid: u32) -> Option<Box<LiveSession>> {
        let place = self.places.remove(&pid)?;
        let near = &mut self.recent[pid as usize % RECENT_SLOTS];
        if near.0 == pid {
            near.1 = NO_INDEX;
        }
        self.free.push(place);
        self.lives[place as usize].take()
    }

    /// Returns all sessions, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LiveSession> {
        self.lives.iter().flatten().map(AsRef::as_ref)
    }

    /// Removes all sessions, in no order.
    #[expect(clippy::vec_box, reason = "they are in their boxes already")]
    pub(super) fn drain(&mut self) -> Vec<Box<LiveSession>> {
        let all = std::mem::take(self);
        all.lives.into_iter().flatten().collect()
    }
}
