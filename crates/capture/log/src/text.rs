//! Finds line ends and validates UTF-8 once for all bytes of a window, as they arrive. Doing either
//! for each line would cost more than all other work on the line.
//!
//! [`super::input::Window`] fills a [`Buffer`] and has it scanned; readers receive the [`Text`] in
//! it. Bytes that were not scanned are scanned when a reader asks, so a text may be made of any
//! bytes.

use std::ops::Deref;

/// Bytes that were read, the start of the unconsumed ones, and the results of the scan.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Position after each newline, counted from the first byte; `ends_known` of them are set.
    ends: Vec<u32>,
    ends_known: usize,
    /// The first of them that is after `start`.
    next_end: usize,
    /// All line ends up to here are known.
    scanned: usize,
    /// The bytes from `start` up to here are UTF-8, if `start` is a character boundary.
    valid: usize,
}

/// Bytes for a reader, with the results of the scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    /// Position after each newline, offset by `base` from `bytes`.
    ends: &'a [u32],
    base: u32,
    /// All line ends up to here are in `ends`.
    scanned: usize,
    /// The bytes are UTF-8 up to here, if they start at a character boundary.
    valid: usize,
}

#[cold]
#[inline(never)]
fn search_line_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(b'\n', &bytes[from..]).map(|at| from + at + 1)
}

/// Makes a text of unscanned bytes.
impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Text {
            bytes,
            ends: &[],
            base: 0,
            scanned: 0,
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

    /// Returns the end, after its newline, of line `number` (from 0), which starts at `from`.
    #[inline(always)]
    pub(super) fn line_end(self, number: usize, from: usize) -> Option<usize> {
        match self.ends.get(number) {
            Some(end) => Some((end - self.base) as usize),
            None => search_line_end(self.bytes, from.max(self.scanned)),
        }
    }

    /// Returns the first bytes as text; `None` if they are not UTF-8.
    #[inline(always)]
    pub(super) fn first_as_str(self, length: usize) -> Option<&'a str> {
        let bytes = &self.bytes[..length];
        let continues = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xc0 == 0x80);
        if length > self.valid || continues(self.bytes.first()) || continues(self.bytes.get(length))
        {
            return simdutf8::basic::from_utf8(bytes).ok();
        }
        // SAFETY: `Buffer::look` has validated `bytes[..self.valid]` as part of a longer text,
        // whose bytes are borrowed since; only it makes a text with `valid` above 0. The part
        // starts and ends at character boundaries, as was just checked, so it is valid UTF-8.
        Some(unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

impl Buffer {
    /// Creates an empty buffer of `size` bytes.
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
            scanned: start,
            valid: start,
        }
    }

    /// Total size in bytes, used or not.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes read and not yet consumed.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The same bytes with the results of the scan.
    #[inline(always)]
    pub(super) fn text(&self) -> Text<'_> {
        Text {
            bytes: &self.bytes[self.start..self.end],
            ends: &self.ends[self.next_end..self.ends_known],
            base: self.start as u32,
            scanned: self.scanned.saturating_sub(self.start),
            valid: self.valid.saturating_sub(self.start),
        }
    }

    /// Consumes the first bytes, which are `lines` lines as far as the caller knows.
    #[inline(always)]
    pub(super) fn consume(&mut self, length: usize, lines: usize) {
        self.start += length;
        debug_assert!(self.start <= self.end);
        // A loop alone would have an exit that no branch predictor foresees.
        let next = self.next_end.saturating_add(lines);
        if lines > 0 && next <= self.ends_known && self.ends[next - 1] as usize == self.start {
            self.next_end = next;
            return;
        }
        while self.next_end < self.ends_known && self.ends[self.next_end] as usize <= self.start {
            self.next_end += 1;
        }
    }

    /// The free space that more bytes can be read into.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Declares that `length` bytes were read into the space.
    pub(super) fn commit(&mut self, length: usize) {
        self.end += length;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Moves the unconsumed bytes to the front.
    pub(super) fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.reset_scan();
    }

    /// Resizes the buffer to `size` bytes, at least the number of unconsumed ones.
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

    /// Position of the first unconsumed byte in the memory.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.start
    }

    /// Declares that the memory holds only `length` new bytes, from `start` on.
    pub(super) fn renew(&mut self, start: usize, length: usize) {
        (self.start, self.end) = (start, start + length);
        debug_assert!(self.end <= self.bytes.len());
        self.reset_scan();
    }

    /// The bytes that were read to `start` and after it, consumed or not.
    pub(super) fn bytes_from(&self, start: usize) -> &[u8] {
        &self.bytes[start..self.end]
    }

    /// The memory from `start` on.
    pub(super) fn memory_from(&mut self, start: usize) -> &mut [u8] {
        &mut self.bytes[start..]
    }

    /// Continues with another buffer, whose bytes from `begin` on follow the unconsumed ones. It has
    /// space for those before `begin`, and its scan began at the line that starts at `scanned_from`.
    /// Returns the old buffer.
    pub(super) fn continue_with(
        &mut self,
        mut next: Buffer,
        begin: usize,
        scanned_from: usize,
    ) -> Buffer {
        let left = self.bytes();
        next.start = begin - left.len();
        next.bytes[next.start..begin].copy_from_slice(left);
        let unscanned = &next.bytes[next.start..scanned_from];
        let ends = memchr::memchr_iter(b'\n', unscanned).map(|at| (next.start + at + 1) as u32);
        let ends: Vec<u32> = ends.collect();
        next.ends.truncate(next.ends_known);
        next.ends.splice(0..0, ends);
        (next.ends_known, next.next_end) = (next.ends.len(), 0);
        if let Err(error) = simdutf8::compat::from_utf8(unscanned) {
            next.valid = next.start + error.valid_up_to();
        }
        std::mem::replace(self, next)
    }

    /// Discards the results of the scan after the bytes have moved.
    fn reset_scan(&mut self) {
        (self.ends_known, self.next_end) = (0, 0);
        (self.scanned, self.valid) = (self.start, self.start);
    }

    /// Scans the bytes that were added since the last scan.
    pub(super) fn scan(&mut self) {
        if self.scanned < self.start {
            self.scanned = self.start;
        }
        self.valid = self.valid.max(self.start);
        // Line ends are kept in 32 bits; later bytes are scanned on demand.
        let end = self.end.min(u32::MAX as usize);
        if self.scanned >= end {
            return;
        }
        let ascii = self.find_line_ends(end);
        let was_valid = self.valid == self.scanned;
        self.scanned = end;
        if ascii && was_valid {
            self.valid = end;
            return;
        }
        self.valid += match simdutf8::compat::from_utf8(&self.bytes[self.valid..end]) {
            Ok(_) => end - self.valid,
            Err(error) => error.valid_up_to(),
        };
    }

    /// Finds the line ends up to `end`. Returns whether all the bytes are ASCII.
    fn find_line_ends(&mut self, end: usize) -> bool {
        let bytes = &self.bytes[self.scanned..end];
        let mut found = LineEnds {
            places: &mut self.ends,
            known: self.ends_known,
            non_ascii: false,
        };
        found.scan(bytes, self.scanned as u32);
        self.ends_known = found.known;
        !found.non_ascii
    }
}

/// Collector of line ends.
struct LineEnds<'a> {
    places: &'a mut Vec<u32>,
    known: usize,
    /// There are non-ASCII bytes.
    non_ascii: bool,
}

/// Number of bytes scanned together.
#[cfg(target_arch = "x86_64")]
const BLOCK_BYTES: usize = 64;

impl LineEnds<'_> {
    /// Finds the line ends in bytes that start at `at`.
    fn scan(&mut self, bytes: &[u8], at: u32) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
        {
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { self.scan_avx2(bytes, at) };
        }
        self.scan_portable(bytes, at);
    }

    /// Finds the line ends without special instructions.
    fn scan_portable(&mut self, bytes: &[u8], at: u32) {
        self.non_ascii |= !bytes.is_ascii();
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
    fn scan_avx2(&mut self, bytes: &[u8], mut at: u32) {
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
        self.non_ascii |= _mm256_movemask_epi8(any) != 0;
        self.scan_portable(rest, at);
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
        // Two are written whether they exist or not: no branch predictor foresees whether a
        // block has a newline.
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
        /// Checks that a text agrees with its bytes after any sequence of filling, scanning and
        /// consuming.
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
                    let mut next = Buffer::new(0);
                    next.bytes = memory;
                    next.renew(headroom, fill);
                    // Its scan may begin at any line.
                    let line = memchr::memchr_iter(b'\n', new).nth(take % 3);
                    let scanned_from = headroom + line.map_or(fill, |newline| newline + 1);
                    next.consume(scanned_from - headroom, 0);
                    next.scan();
                    next.consume(next.bytes().len() / 2, 0);
                    buffer.continue_with(next, headroom, scanned_from);
                } else {
                    buffer.compact();
                    buffer.resize(buffer.bytes().len() + fill);
                    buffer.space()[..fill].copy_from_slice(new);
                    buffer.commit(fill);
                }
                read += fill;
                if looks {
                    buffer.scan();
                }
                let text = buffer.text();
                prop_assert!(all[..read].ends_with(text.bytes()));
                let mut from = 0;
                for number in 0.. {
                    let found = text.line_end(number, from);
                    let expected = memchr::memchr(b'\n', &text[from..]).map(|at| from + at + 1);
                    prop_assert_eq!(found, expected);
                    let Some(end) = found else { break };
                    prop_assert_eq!(text.first_as_str(end), std::str::from_utf8(&text[..end]).ok());
                    from = end;
                }
                for length in [0, 1, text.len() / 2, text.len()].map(|length| length.min(text.len())) {
                    prop_assert_eq!(text.first_as_str(length), std::str::from_utf8(&text[..length]).ok());
                }
                let length = take.min(text.len());
                let lines = [0, 1, memchr::memchr_iter(b'\n', &text[..length]).count()];
                buffer.consume(length, lines[length % 3]);
            }
        }

        #[test]
        fn ends_are_found_alike_on_every_processor(bytes in prop::collection::vec(prop_oneof![8u8..13, any::<u8>()], 0..400), ascii in any::<bool>()) {
            let bytes: Vec<u8> = bytes.iter().map(|byte| byte & if ascii { 0x7f } else { 0xff }).collect();
            let found = |anywhere: bool| {
                let (mut places, at) = (Vec::new(), 7);
                let mut ends = LineEnds { places: &mut places, known: 0, non_ascii: false };
                match anywhere {
                    true => ends.scan_portable(&bytes, at),
                    false => ends.scan(&bytes, at),
                }
                let (known, others) = (ends.known, ends.non_ascii);
                places.truncate(known);
                (places, others)
            };
            prop_assert_eq!(found(false), found(true));
            prop_assert_eq!(found(true).1, !bytes.is_ascii());
        }
    }
}
