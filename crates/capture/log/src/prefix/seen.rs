//! Beginnings of lines that were matched before. Behind the time, the lines of one session mostly
//! begin alike, up to the severity: what was read from that once need not be read again.
//!
//! Where a prefix holds what changes from line to line (`%l`), this finds nothing, notices, and is
//! no longer asked.

use super::matching::Matched;
use crate::scan::word;

/// How many beginnings are remembered; the sessions that write at one time are seldom more.
const PLACES: usize = 512;
const PLACES_BITS: u32 = PLACES.trailing_zeros();

/// Longer beginnings are not remembered.
const BYTES_MAX: usize = 80;

/// A word, and `LOG:  ` behind it.
const WORD_AND_LABEL: usize = 8 + 6;

/// After so many looks, at least half must have found something.
const LOOKS_MAX: u32 = 4_096;

/// A beginning, from behind the time to behind the label.
#[derive(Debug, Clone)]
struct Beginning {
    bytes: [u8; BYTES_MAX],
    length: usize,
    time_length: usize,
    matched: Matched,
}

/// The beginnings.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    places: Vec<Beginning>,
    /// Of the first beginning that was remembered.
    length: usize,
    looks: u32,
    found: u32,
}

impl Seen {
    /// For single lines: remembers nothing.
    pub(super) fn off() -> Self {
        Seen {
            looks: LOOKS_MAX,
            ..Seen::default()
        }
    }

    /// Whether it is worth asking.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.looks < LOOKS_MAX
    }

    /// Three words of eight bytes tell beginnings apart: the session's number is near the first byte,
    /// near the label, or between. Where the label is, the first beginning showed.
    #[inline(always)]
    fn place(&self, rest: &[u8]) -> Option<usize> {
        let last = self.length.saturating_sub(WORD_AND_LABEL);
        let (one, two, three) = (word(rest, 2)?, word(rest, last / 2)?, word(rest, last)?);
        // 2^64 over the golden ratio, turned.
        let mixed = one.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ two.wrapping_mul(0x7f4a_7c15_9e37_79b9)
            ^ three.wrapping_mul(0xc15f_39cc_0605_cedd);
        Some((mixed >> (64 - PLACES_BITS)) as usize)
    }

    /// What a line that begins like this one behind its time was matched to.
    #[inline(always)]
    pub(super) fn find(&mut self, line: &[u8], time_length: usize) -> Option<&Matched> {
        let rest = line.get(time_length..)?;
        let beginning = self.places.get(self.place(rest)?)?;
        if beginning.time_length == time_length
            && rest.starts_with(&beginning.bytes[..beginning.length])
        {
            self.found += 1;
            return Some(&beginning.matched);
        }
        None
    }

    /// Remembers what a line was matched to; [`Self::find`] had not found it.
    pub(super) fn remember(&mut self, line: &[u8], time_length: usize, matched: &Matched) {
        self.looks += 1;
        if self.looks == LOOKS_MAX && self.found >= LOOKS_MAX {
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
        let Some(place) = self.place(&line[time_length..]) else {
            return;
        };
        let mut new = Beginning {
            bytes: [0; BYTES_MAX],
            length: beginning.len(),
            time_length,
            matched: *matched,
        };
        new.bytes[..beginning.len()].copy_from_slice(beginning);
        if self.places.is_empty() {
            // A length that no time has, so that nothing is found before it was remembered.
            let nothing = Beginning {
                time_length: usize::MAX,
                ..new.clone()
            };
            self.places.resize(PLACES, nothing);
        }
        self.places[place] = new;
    }
}
