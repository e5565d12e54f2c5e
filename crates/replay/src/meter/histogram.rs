//! Histograms with fixed bounds, one writer each.

use std::sync::atomic::{AtomicU64, Ordering};

use super::add;

/// Upper bounds, in nanoseconds: 10 µs to 100 s, three a decade. What is longer comes behind the
/// last.
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

/// What one thread counts.
#[derive(Debug, Default)]
pub(super) struct Cells {
    cells: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

impl Cells {
    /// Counts a time; one below 0 as 0.
    #[inline]
    pub(super) fn count(&self, ns: i64) {
        let ns = ns.max(0) as u64;
        // A bound belongs to its bucket.
        let cell = BOUNDS_NS.partition_point(|&bound| bound < ns);
        add(&self.cells[cell], 1);
        add(&self.sum_ns, ns);
    }
}

/// Times, counted by size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many are at most each of [`BOUNDS_NS`] and more than the one before it; last, those that
    /// are more than all.
    pub cells: [u64; BOUNDS_NS.len() + 1],
    /// Their sum, in nanoseconds.
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

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }
}
