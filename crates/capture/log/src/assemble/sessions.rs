//! The sessions that may go on, by process number.
//!
//! They are asked for with every entry, and a process that wrote one often writes the next: a
//! small table of the numbers asked for last spares the map.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::session::Live;

/// Process numbers are small and nobody's choice, so one multiplication spreads them enough.
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

/// How many numbers the small table has.
const NEAR: usize = 256;

/// A place that no session has.
const NOWHERE: u32 = u32::MAX;

/// The sessions. See the module's text.
#[derive(Debug)]
pub(super) struct Sessions {
    places: HashMap<u32, u32, BuildHasherDefault<ProcessHasher>>,
    lives: Vec<Option<Box<Live>>>,
    free: Vec<u32>,
    /// Process and place, at the process's last bits.
    near: Box<[(u32, u32); NEAR]>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            places: HashMap::default(),
            lives: Vec::new(),
            free: Vec::new(),
            near: Box::new([(0, NOWHERE); NEAR]),
        }
    }
}

impl Sessions {
    /// Where a process's session is.
    #[inline(always)]
    pub(super) fn place(&mut self, pid: u32) -> Option<u32> {
        let (near, place) = self.near[pid as usize % NEAR];
        if near == pid && place != NOWHERE {
            return Some(place);
        }
        self.far_place(pid)
    }

    #[inline(never)]
    fn far_place(&mut self, pid: u32) -> Option<u32> {
        let place = *self.places.get(&pid)?;
        self.near[pid as usize % NEAR] = (pid, place);
        Some(place)
    }

    /// The session at a place that it has now.
    #[inline(always)]
    pub(super) fn at(&mut self, place: u32) -> &mut Box<Live> {
        self.lives[place as usize]
            .as_mut()
            .expect("it has this place")
    }

    /// A process's session.
    pub(super) fn get(&mut self, pid: u32) -> Option<&mut Box<Live>> {
        let place = self.place(pid)?;
        Some(self.at(place))
    }

    /// Adds a process's session, which has none; returns its place.
    pub(super) fn insert(&mut self, pid: u32, live: Box<Live>) -> u32 {
        debug_assert!(!self.places.contains_key(&pid));
        let place = self.free.pop().unwrap_or_else(|| {
            self.lives.push(None);
            u32::try_from(self.lives.len() - 1).expect("fewer sessions than process numbers")
        });
        self.lives[place as usize] = Some(live);
        self.places.insert(pid, place);
        place
    }

    /// Takes a process's session away.
    pub(super) fn remove(&mut self, pid: u32) -> Option<Box<Live>> {
        let place = self.places.remove(&pid)?;
        let near = &mut self.near[pid as usize % NEAR];
        if near.0 == pid {
            near.1 = NOWHERE;
        }
        self.free.push(place);
        self.lives[place as usize].take()
    }

    /// Takes all away, in no order.
    #[expect(clippy::vec_box, reason = "they are in their boxes already")]
    pub(super) fn drain(&mut self) -> Vec<Box<Live>> {
        let all = std::mem::take(self);
        all.lives.into_iter().flatten().collect()
    }
}
