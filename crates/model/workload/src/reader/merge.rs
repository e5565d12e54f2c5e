//! Merges the rows of several parts by time. A part is opened when the rows before its first one have been read, so that
//! few parts are open at the same time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use archive::ArchiveError;

use super::Rows;

/// Order of a row: its time, and a number that orders rows of the same time.
pub(super) type MergeKey = (i64, u64);

/// A part that is opened later.
pub(super) struct WaitingPart<T> {
    /// Number of the part.
    pub(super) number: u64,
    /// Time of its first row.
    pub(super) start_us: i64,
    /// Opens its rows.
    pub(super) open: Box<dyn FnOnce() -> Result<Rows<T>, ArchiveError> + Send>,
}

/// Rows of several parts by key, then by number of the part.
pub(super) struct MergedRows<T> {
    /// Parts to be opened, by the time of their first row.
    waiting: VecDeque<WaitingPart<T>>,
    open: BinaryHeap<Reverse<OpenPart<T>>>,
    key: fn(&T) -> MergeKey,
}

/// An open part with its next row.
struct OpenPart<T> {
    key: MergeKey,
    number: u64,
    next: T,
    rows: Rows<T>,
}

impl<T> MergedRows<T> {
    /// Merges parts, which are in any order.
    pub(super) fn new(mut waiting: Vec<WaitingPart<T>>, key: fn(&T) -> MergeKey) -> Self {
        waiting.sort_by_key(|part| (part.start_us, part.number));
        MergedRows {
            waiting: waiting.into(),
            open: BinaryHeap::new(),
            key,
        }
    }

    /// Opens the parts whose first row may be the next.
    fn open_parts(&mut self) -> Result<(), ArchiveError> {
        loop {
            let next_us = self.open.peek().map(|Reverse(part)| part.key.0);
            let is_due = |part: &WaitingPart<T>| next_us.is_none_or(|next| part.start_us <= next);
            let Some(part) = self.waiting.front().filter(|part| is_due(part)) else {
                return Ok(());
            };
            let number = part.number;
            let Some(part) = self.waiting.pop_front() else {
                return Ok(());
            };
            let mut rows = (part.open)()?;
            if let Some(next) = rows.next().transpose()? {
                self.open.push(Reverse(OpenPart {
                    key: (self.key)(&next),
                    number,
                    next,
                    rows,
                }));
            }
        }
    }

    fn next_row(&mut self) -> Result<Option<(u64, T)>, ArchiveError> {
        self.open_parts()?;
        let Some(mut first) = self.open.peek_mut() else {
            return Ok(None);
        };
        let Reverse(part) = &mut *first;
        let number = part.number;
        match part.rows.next().transpose()? {
            Some(next) => {
                part.key = (self.key)(&next);
                let row = std::mem::replace(&mut part.next, next);
                Ok(Some((number, row)))
            }
            None => {
                let Reverse(part) = std::collections::binary_heap::PeekMut::pop(first);
                Ok(Some((number, part.next)))
            }
        }
    }
}

impl<T> Iterator for MergedRows<T> {
    /// Number of the part, and the row.
    type Item = Result<(u64, T), ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_row();
        if next.is_err() {
            // Nothing follows an error.
            self.waiting.clear();
            self.open.clear();
        }
        next.transpose()
    }
}

impl<T> PartialEq for OpenPart<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<T> Eq for OpenPart<T> {}
impl<T> PartialOrd for OpenPart<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for OpenPart<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.key, self.number).cmp(&(other.key, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, times: &'static [i64]) -> WaitingPart<i64> {
        WaitingPart {
            number,
            start_us: times[0],
            open: Box::new(move || Ok(Box::new(times.iter().map(|time| Ok(*time))))),
        }
    }

    #[test]
    fn merge_rows_of_overlapping_parts_are_in_order() {
        let parts = vec![
            part(1, &[0, 5, 9]),
            part(3, &[3, 5, 30]),
            part(2, &[10, 20]),
        ];
        let merged: Vec<(u64, i64)> = MergedRows::new(parts, |time| (*time, 0))
            .map(Result::unwrap)
            .collect();
        let expected = [
            (1, 0),
            (3, 3),
            (1, 5),
            (3, 5),
            (1, 9),
            (2, 10),
            (2, 20),
            (3, 30),
        ];
        assert_eq!(merged, expected);
    }

    #[test]
    fn merge_parts_are_opened_only_when_they_are_needed() {
        let never = WaitingPart {
            number: 2,
            start_us: 100,
            open: Box::new(|| panic!("opened too early")),
        };
        let mut merged = MergedRows::new(vec![part(1, &[0, 99]), never], |time| (*time, 0));
        assert_eq!(merged.next().unwrap().unwrap(), (1, 0));
        assert_eq!(merged.next().unwrap().unwrap(), (1, 99));
    }
}
