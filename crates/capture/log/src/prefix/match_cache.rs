//! Caches beginnings of lines that were matched before. After the time, the lines of one session
//! mostly begin alike, up to the severity, so their match can be reused.
//!
//! If a prefix contains a value that changes with each line (`%l`), the cache finds nothing and
//! disables itself.

use super::matching::LineMatch;
use crate::byte_search::word_at;

/// Number of cached beginnings; rarely do more sessions write at one time.
const SLOTS: usize = 512;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// Maximum length of a cached beginning, in bytes.
const BYTES_MAX: usize = 80;

/// Length of a word, and `LOG:  ` after it.
const WORD_AND_LABEL: usize = 8 + 6;

/// After this number of look-ups, at least half must have been hits.
const LOOKUPS_MAX: u32 = 4_096;

/// A line's beginning, from after the time to after the label.
#[derive(Debug, Clone)]
struct CachedBeginning {
    bytes: [u8; BYTES_MAX],
    length: usize,
    time_length: usize,
    matched: LineMatch,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct MatchCache {
    places: Vec<CachedBeginning>,
    /// Length of the first cached beginning.
    length: usize,
    looks: u32,
    found: u32,
}

impl MatchCache {
    /// Creates a disabled cache, for single lines.
    pub(super) fn disabled() -> Self {
        MatchCache {
            looks: LOOKUPS_MAX,
            ..MatchCache::default()
        }
    }

    /// Returns whether the cache is enabled.
    #[inline(always)]
    pub(super) fn is_enabled(&self) -> bool {
        self.looks < LOOKUPS_MAX
    }

    /// Computes the slot of a beginning from three words of eight bytes: the session's number is
    /// near the first byte, near the label, or between. The first cached beginning gives the
    /// label's position.
    #[inline(always)]
    fn slot_of(&self, rest: &[u8]) -> Option<usize> {
        let last = self.length.saturating_sub(WORD_AND_LABEL);
        let (one, two, three) = (
            word_at(rest, 2)?,
            word_at(rest, last / 2)?,
            word_at(rest, last)?,
        );
        // 2^64 over the golden ratio, rotated.
        let mixed = one.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ two.wrapping_mul(0x7f4a_7c15_9e37_79b9)
            ^ three.wrapping_mul(0xc15f_39cc_0605_cedd);
        Some((mixed >> (64 - SLOT_BITS)) as usize)
    }

    /// Returns the match of a line that begins like this one after its time.
    #[inline(always)]
    pub(super) fn find(&mut self, line: &[u8], time_length: usize) -> Option<&LineMatch> {
        let rest = line.get(time_length..)?;
        let beginning = self.places.get(self.slot_of(rest)?)?;
        if beginning.time_length == time_length
            && rest.starts_with(&beginning.bytes[..beginning.length])
        {
            self.found += 1;
            return Some(&beginning.matched);
        }
        None
    }

    /// Caches the match of a line that [`Self::find`] did not find.
    pub(super) fn insert(&mut self, line: &[u8], time_length: usize, matched: &LineMatch) {
        self.looks += 1;
        if self.looks == LOOKUPS_MAX && self.found >= LOOKUPS_MAX {
            (self.looks, self.found) = (0, 0);
        }
        let Some(beginning) = line.get(time_length..matched.text) else {
            return;
        };
        if beginning.len() > BYTES_MAX {
            return;
        }
        if self.places.is_empty() {
            self.length = beginning.len();
        }
        let Some(place) = self.slot_of(&line[time_length..]) else {
            return;
        };
        let mut new = CachedBeginning {
            bytes: [0; BYTES_MAX],
            length: beginning.len(),
            time_length,
            matched: *matched,
        };
        new.bytes[..beginning.len()].copy_from_slice(beginning);
        if self.places.is_empty() {
            // No time has this length, so an empty slot never matches.
            let nothing = CachedBeginning {
                time_length: usize::MAX,
                ..new.clone()
            };
            self.places.resize(SLOTS, nothing);
        }
        self.places[place] = new;
    }
}
