//! The bytes of a window, looked at once as they come: where their lines end, and how far they are
//! UTF-8. Each of that for each line would cost more than all else that is done with it.
//!
//! Who drives: [`super::input::Window`] fills a [`Buffer`] and has it looked at; readers are given
//! the [`Text`] in it. What was not looked at is looked at when a reader asks, so a text may be made of
//! any bytes.

use std::ops::Deref;

/// Bytes that were read, the first of them taken, and what is known of the others.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Behind each newline, counted from the first byte; `ends_known` of them.
    ends: Vec<u32>,
    ends_known: usize,
    /// The first of them that lies behind `start`.
    next_end: usize,
    /// Up to here all ends are known.
    looked: usize,
    /// From `start` up to here it is UTF-8, if `start` is where a character starts.
    valid: usize,
}

/// What a reader is given: bytes, and what is known of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    /// Behind each newline, `base` more than in `bytes`.
    ends: &'a [u32],
    base: u32,
    /// All ends up to here are in `ends`.
    looked: usize,
    /// It is UTF-8 up to here, if it starts with a character.
    valid: usize,
}

#[cold]
#[inline(never)]
fn far_line_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at + 1)
}

/// Bytes that nothing is known of.
impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Text {
            bytes,
            ends: &[],
            base: 0,
            looked: 0,
            valid: 0,
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<'a> Text<'a> {
    /// The bytes.
    #[inline(always)]
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Where a line ends, behind its newline: the line of that number, from 0, which starts at `from`.
    #[inline(always)]
    pub(super) fn line_end(self, number: usize, from: usize) -> Option<usize> {
        match self.ends.get(number) {
            Some(end) => Some((end - self.base) as usize),
            None => far_line_end(self.bytes, from.max(self.looked)),
        }
    }

    /// The first bytes as text; `None` where they are not UTF-8.
    #[inline(always)]
    pub(super) fn first(self, length: usize) -> Option<&'a str> {
        let bytes = &self.bytes[..length];
        let continues = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xc0 == 0x80);
        if length > self.valid || continues(self.bytes.first()) || continues(self.bytes.get(length))
        {
            return simdutf8::basic::from_utf8(bytes).ok();
        }
        // SAFETY: `Buffer::look` has validated `bytes[..self.valid]` as part of a longer text, whose
        // bytes are borrowed since; only it makes a text with `valid` above 0. The part starts and
        // ends where characters do, as was just checked, so it is UTF-8 by itself.
        Some(unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

impl Buffer {
    /// An empty one with space for so many bytes.
    pub(super) fn new(size: usize) -> Self {
        Self::on(vec![0; size], 0, 0)
    }

    fn on(bytes: Vec<u8>, start: usize, end: usize) -> Self {
        Buffer {
            bytes,
            start,
            end,
            ends: Vec::new(),
            ends_known: 0,
            next_end: 0,
            looked: start,
            valid: start,
        }
    }

    /// Space for so many bytes, used or not.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// What was read and not yet taken.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The same, with what is known of it.
    #[inline(always)]
    pub(super) fn text(&self) -> Text<'_> {
        Text {
            bytes: &self.bytes[self.start..self.end],
            ends: &self.ends[self.next_end..self.ends_known],
            base: self.start as u32,
            looked: self.looked.saturating_sub(self.start),
            valid: self.valid.saturating_sub(self.start),
        }
    }

    /// Done with the first bytes, which are so many lines, as far as the caller knows.
    #[inline(always)]
    pub(super) fn take(&mut self, length: usize, lines: usize) {
        self.start += length;
        debug_assert!(self.start <= self.end);
        // The loop below would end at a place that is foreseen by no processor.
        let next = self.next_end.saturating_add(lines);
        if lines > 0 && next <= self.ends_known && self.ends[next - 1] as usize == self.start {
            self.next_end = next;
            return;
        }
        while self.next_end < self.ends_known && self.ends[self.next_end] as usize <= self.start {
            self.next_end += 1;
        }
    }

    /// Where more can be read to.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// So many bytes were read into the space.
    pub(super) fn filled(&mut self, length: usize) {
        self.end += length;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Moves what is there to the front.
    pub(super) fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.forget();
    }

    /// Makes room for so many bytes in all; not fewer than are there.
    pub(super) fn resize(&mut self, size: usize) {
        let size = size.max(self.end);
        let shrinks = size < self.bytes.len();
        let more = size.saturating_sub(self.bytes.len());
        self.bytes.reserve_exact(more);
        self.bytes.resize(size, 0);
        if shrinks {
            self.bytes.shrink_to_fit();
        }
    }

    /// Changes to memory that holds, from `headroom` on, `length` bytes that follow what is there, and
    /// before them room for that. Returns the memory that was used before.
    pub(super) fn change_to(
        &mut self,
        mut bytes: Vec<u8>,
        headroom: usize,
        length: usize,
    ) -> Vec<u8> {
        let left = &self.bytes[self.start..self.end];
        let start = headroom - left.len();
        bytes[start..headroom].copy_from_slice(left);
        (self.start, self.end) = (start, headroom + length);
        debug_assert!(self.end <= bytes.len());
        self.forget();
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Other bytes lie where those lay that were looked at.
    fn forget(&mut self) {
        (self.ends_known, self.next_end) = (0, 0);
        (self.looked, self.valid) = (self.start, self.start);
    }

    /// Looks at what was filled in since the last look.
    pub(super) fn look(&mut self) {
        if self.looked < self.start {
            self.looked = self.start;
        }
        self.valid = self.valid.max(self.start);
        // Ends are kept in 32 bits; what lies behind is looked at when it is asked for.
        let end = self.end.min(u32::MAX as usize);
        if self.looked >= end {
            return;
        }
        let ascii = self.look_for_ends(end);
        let was_valid = self.valid == self.looked;
        self.looked = end;
        if ascii && was_valid {
            self.valid = end;
            return;
        }
        self.valid += match simdutf8::compat::from_utf8(&self.bytes[self.valid..end]) {
            Ok(_) => end - self.valid,
            Err(error) => error.valid_up_to(),
        };
    }

    /// Finds the ends of lines up to `end`. Whether all the bytes are ASCII.
    fn look_for_ends(&mut self, end: usize) -> bool {
        let bytes = &self.bytes[self.looked..end];
        let mut found = Ends {
            places: &mut self.ends,
            known: self.ends_known,
            others: false,
        };
        found.look(bytes, self.looked as u32);
        self.ends_known = found.known;
        !found.others
    }
}

/// The ends that are found.
struct Ends<'a> {
    places: &'a mut Vec<u32>,
    known: usize,
    /// There are bytes that are no ASCII.
    others: bool,
}

/// Bytes looked at together.
const BLOCK_BYTES: usize = 64;

impl Ends<'_> {
    /// Finds the ends in bytes that start at `at`.
    fn look(&mut self, bytes: &[u8], at: u32) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
        {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.look_with_avx2(bytes, at) };
        }
        self.look_anywhere(bytes, at);
    }

    /// As [`Self::look`], on any processor.
    fn look_anywhere(&mut self, bytes: &[u8], at: u32) {
        self.others |= !bytes.is_ascii();
        for newline in memchr::memchr_iter(b'\n', bytes) {
            self.make_room(1);
            self.places[self.known] = at + newline as u32 + 1;
            self.known += 1;
        }
    }

    #[inline(always)]
    fn make_room(&mut self, count: usize) {
        if self.places.len() < self.known + count {
            let length = (2 * self.places.len()).max(self.known + 16 * count);
            self.places.resize(length, 0);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1")]
    fn look_with_avx2(&mut self, bytes: &[u8], mut at: u32) {
        use std::arch::x86_64::{
            __m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set_epi64x,
            _mm256_set1_epi8, _mm256_setzero_si256,
        };

        let newline = _mm256_set1_epi8(b'\n' as i8);
        let mut any = _mm256_setzero_si256();
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            let word = |index: usize| i64::from_le_bytes(words[index]);
            let first = _mm256_set_epi64x(word(3), word(2), word(1), word(0));
            let second = _mm256_set_epi64x(word(7), word(6), word(5), word(4));
            let mask =
                |part: __m256i| _mm256_movemask_epi8(_mm256_cmpeq_epi8(part, newline)) as u32;
            let newlines = u64::from(mask(first)) | u64::from(mask(second)) << 32;
            any = _mm256_or_si256(any, _mm256_or_si256(first, second));
            self.add(newlines, at);
            at += BLOCK_BYTES as u32;
        }
        self.others |= _mm256_movemask_epi8(any) != 0;
        self.look_anywhere(rest, at);
    }

    /// Adds the newlines of a block that starts at `at`, the first in the lowest bit.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn add(&mut self, mut newlines: u64, at: u32) {
        self.make_room(BLOCK_BYTES);
        let Some(slots) = self.places[self.known..].first_chunk_mut::<BLOCK_BYTES>() else {
            return;
        };
        let mut count = 0;
        // Two are written whether they are there or not: whether a block has a newline is foreseen by
        // no processor.
        for _ in 0..2 {
            slots[count] = at.wrapping_add(newlines.trailing_zeros() + 1);
            count += usize::from(newlines != 0);
            newlines &= newlines.wrapping_sub(1);
        }
        while newlines != 0 {
            slots[count % BLOCK_BYTES] = at + newlines.trailing_zeros() + 1;
            count += 1;
            newlines &= newlines - 1;
        }
        self.known += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pieces of text, of noise, and of characters of several bytes, which a cut may split.
    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let piece = prop_oneof![
            4 => "[a-z\n]{0,90}".prop_map(String::into_bytes),
            2 => "[ä€😀\n]{0,40}".prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..20),
            1 => Just(vec![b'\n'; 130]),
        ];
        prop::collection::vec(piece, 0..12)
    }

    proptest! {
        /// Whatever is filled in, looked at and taken in whatever order: a text says what its bytes
        /// say.
        #[test]
        fn a_text_says_of_its_bytes_what_they_are(
            pieces in pieces(),
            steps in prop::collection::vec((0usize..200, 0usize..150, any::<bool>(), any::<bool>()), 1..40),
        ) {
            let all = pieces.concat();
            let mut buffer = Buffer::new(16);
            let mut read = 0;
            for (fill, take, looks, changes) in steps {
                let fill = fill.min(all.len() - read);
                let new = &all[read..read + fill];
                if changes {
                    let headroom = buffer.bytes().len() + 3;
                    let mut memory = vec![0xff; headroom];
                    memory.extend_from_slice(new);
                    buffer.change_to(memory, headroom, fill);
                } else {
                    buffer.compact();
                    buffer.resize(buffer.bytes().len() + fill);
                    buffer.space()[..fill].copy_from_slice(new);
                    buffer.filled(fill);
                }
                read += fill;
                if looks {
                    buffer.look();
                }
                let text = buffer.text();
                prop_assert!(all[..read].ends_with(text.bytes()));
                let mut from = 0;
                for number in 0.. {
                    let found = text.line_end(number, from);
                    let expected = memchr::memchr(b'\n', &text[from..]).map(|at| from + at + 1);
                    prop_assert_eq!(found, expected);
                    let Some(end) = found else { break };
                    prop_assert_eq!(text.first(end), std::str::from_utf8(&text[..end]).ok());
                    from = end;
                }
                for length in [0, 1, text.len() / 2, text.len()].map(|length| length.min(text.len())) {
                    prop_assert_eq!(text.first(length), std::str::from_utf8(&text[..length]).ok());
                }
                let length = take.min(text.len());
                let lines = [0, 1, memchr::memchr_iter(b'\n', &text[..length]).count()];
                buffer.take(length, lines[length % 3]);
            }
        }

        #[test]
        fn ends_are_found_alike_on_every_processor(bytes in prop::collection::vec(prop_oneof![8u8..13, any::<u8>()], 0..400), ascii in any::<bool>()) {
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte & if ascii { 0x7f } else { 0xff }).collect();
            let found = |anywhere: bool| {
                let (mut places, at) = (Vec::new(), 7);
                let mut ends = Ends { places: &mut places, known: 0, others: false };
                match anywhere {
                    true => ends.look_anywhere(&bytes, at),
                    false => ends.look(&bytes, at),
                }
                let (known, others) = (ends.known, ends.others);
                places.truncate(known);
                (places, others)
            };
            prop_assert_eq!(found(false), found(true));
            prop_assert_eq!(found(true).1, !bytes.is_ascii());
        }
    }
}
