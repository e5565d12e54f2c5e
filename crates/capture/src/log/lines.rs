//! Where lines end. Newlines are looked for many at a time: a call for each line costs more than
//! the looking.

/// How many ends are looked up at a time.
const AHEAD_MAX: usize = 64;

/// The ends of the lines that come, for a reader that is given the bytes from where its last find
/// ended. What it took must be told with [`Self::take`].
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    /// Behind each newline; counted, as all here, from where the first of them was looked for.
    ends: Vec<usize>,
    /// The first end that was not taken.
    next: usize,
    /// The end that was asked for last.
    asked: usize,
    /// What was taken.
    taken: usize,
    /// What was looked at.
    looked: usize,
}

impl LineEnds {
    /// The end of the first line, behind its newline.
    #[inline]
    pub(super) fn first(&mut self, bytes: &[u8]) -> Option<usize> {
        self.asked = self.next;
        self.asked_end(bytes)
    }

    /// The end of the line behind the one that was asked for last.
    #[inline]
    pub(super) fn behind(&mut self, bytes: &[u8]) -> Option<usize> {
        self.asked += 1;
        self.asked_end(bytes)
    }

    /// The reader is done with so many bytes, which end with a line or with the input. Where the
    /// bytes were `complete`, all is forgotten: other bytes may follow, or these again and more (a
    /// log that is followed, a wrapper's messages).
    #[inline]
    pub(super) fn take(&mut self, length: usize, complete: bool) {
        if complete {
            self.ends.clear();
            (self.next, self.taken, self.looked) = (0, 0, 0);
            return;
        }
        self.taken += length;
        while self
            .ends
            .get(self.next)
            .is_some_and(|end| *end <= self.taken)
        {
            self.next += 1;
        }
    }

    #[inline]
    fn asked_end(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.asked == self.ends.len() {
            self.look(bytes)?;
        }
        Some(self.ends[self.asked] - self.taken)
    }

    #[inline(never)]
    fn look(&mut self, bytes: &[u8]) -> Option<()> {
        self.ends.drain(..self.next);
        self.asked -= self.next;
        for end in &mut self.ends {
            *end -= self.taken;
        }
        self.looked = self.looked.saturating_sub(self.taken);
        (self.next, self.taken) = (0, 0);
        let from = self.looked;
        let found = memchr::memchr_iter(b'\n', &bytes[from..])
            .take(AHEAD_MAX)
            .map(|at| from + at + 1);
        self.ends.extend(found);
        self.looked = match self.ends.get(self.asked) {
            Some(_) => *self.ends.last().expect("one was found"),
            None => bytes.len(),
        };
        (self.asked < self.ends.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Entries of some lines each, from a window that shows a little more each time.
        #[test]
        fn the_ends_are_those_of_the_lines(
            lines in prop::collection::vec(0usize..40, 1..300),
            entries in prop::collection::vec((1usize..5, 1usize..200, prop::bool::ANY), 1..40),
        ) {
            let text: String = lines.iter().map(|length| "x".repeat(*length) + "\n").collect();
            let bytes = text.as_bytes();
            let mut ends = LineEnds::default();
            let (mut start, mut shown) = (0, 0);
            for (count, more, complete) in entries.iter().cycle().take(2_000) {
                shown = bytes.len().min(shown + more);
                let window = &bytes[start..shown];
                let expected: Vec<usize> = memchr::memchr_iter(b'\n', window).map(|at| at + 1).collect();
                let mut last = None;
                for place in 0..*count {
                    let end = match place {
                        0 => ends.first(window),
                        _ => ends.behind(window),
                    };
                    prop_assert_eq!(end, expected.get(place).copied());
                    if end.is_none() {
                        break;
                    }
                    last = end;
                }
                if let Some(length) = last {
                    ends.take(length, *complete);
                    start += length;
                }
            }
        }
    }
}
