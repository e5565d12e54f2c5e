//! Histograms with fixed bounds, each with one writer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::add;

/// Upper bounds of the cells, in nanoseconds: 10 µs to 100 s, three per decade. One more cell holds longer
/// durations.
pub const BOUNDS_NS: [u64; 22] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// Histogram that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Cells {
    /// Counts a duration; a negative one as 0.
    #[inline]
    pub(super) fn count(&self, ns: i64) {
        let ns = ns.max(0) as u64;
        // A bound belongs to the cell below it.
        let cell = BOUNDS_NS.partition_point(|&bound| bound < ns);
        add(&self.cells[cell], 1);
        add(&self.sum_ns, ns);
    }
}

/// Histogram of durations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Durations of at most each of [`BOUNDS_NS`] and above the previous bound; in the last cell, those above
    /// all bounds.
    pub cells: [u64; BOUNDS_NS.len() + 1],
    /// Sum of the durations, in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    pub(super) fn sum<'c>(all: impl Iterator<Item = &'c Cells>) -> Self {
        let mut total = Histogram::default();
        for one in all {
            for (sum, cell) in total.cells.iter_mut().zip(&one.cells) {
                *sum += cell.load(Ordering::Relaxed);
            }
            total.sum_ns = total
                .sum_ns
                .wrapping_add(one.sum_ns.load(Ordering::Relaxed));
        }
        total
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }
}
