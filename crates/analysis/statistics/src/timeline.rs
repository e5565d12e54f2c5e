//! Divides a run's time into stretches for the bootstrap.
//!
//! Stretches have equal width, a power of two in nanoseconds. If a later time does not fit,
//! neighbouring stretches are merged and the width doubles. So a run of any length has between 64
//! and 128 stretches, and its length need not be known in advance. Two runs of one workload at one
//! speed have the same stretches, which makes them comparable pairwise.

/// Maximum number of stretches of a run; at least half of them are used. They are enough for a
/// steady interval, and few enough that each is long compared with the disturbances (a checkpoint,
/// a vacuum) that correlate neighbouring executions.
pub const STRETCHES_MAX: usize = 128;

/// Minimum width of a stretch, as a power of two in nanoseconds: about a millisecond.
const WIDTH_BITS_MIN: u32 = 20;

/// Mapping of times to stretches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    width_bits: u32,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeline {
    /// Creates a timeline with the shortest stretches.
    pub fn new() -> Self {
        Self {
            width_bits: WIDTH_BITS_MIN,
        }
    }

    /// Returns the number of doublings before `at_ns` has a slot.
    pub fn doublings_for(self, at_ns: i64) -> u32 {
        let bits = u64::BITS - (at_ns.max(0) as u64).leading_zeros();
        bits.saturating_sub(self.width_bits + STRETCHES_MAX.ilog2())
    }

    /// Returns the slot of a time that fits.
    pub fn slot(self, at_ns: i64) -> u8 {
        (at_ns.max(0) >> self.width_bits).min(STRETCHES_MAX as i64 - 1) as u8
    }

    /// Returns the width of a stretch, in nanoseconds.
    pub fn width_ns(self) -> u64 {
        1 << self.width_bits
    }

    /// Returns the wider of two timelines.
    pub fn wider(self, other: Self) -> Self {
        Self {
            width_bits: self.width_bits.max(other.width_bits),
        }
    }

    /// Doubles the width of the stretches.
    pub fn double(&mut self) {
        self.width_bits += 1;
    }

    /// Returns the number of doublings that make this timeline as wide as the other.
    pub fn doublings_to(self, other: Self) -> u32 {
        other.width_bits.saturating_sub(self.width_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_uses_at_least_half_of_the_slots() {
        for at_ns in [200_000_000i64, 1_000_000_000, 7_200_000_000_000, i64::MAX] {
            let mut timeline = Timeline::new();
            for _ in 0..timeline.doublings_for(at_ns) {
                timeline.double();
            }
            assert_eq!(timeline.doublings_for(at_ns), 0);
            let slot = usize::from(timeline.slot(at_ns));
            assert!((STRETCHES_MAX / 2..STRETCHES_MAX).contains(&slot), "{slot}");
        }
    }

    #[test]
    fn time_before_the_start_is_in_the_first_stretch() {
        assert_eq!(Timeline::new().slot(-5), 0);
        assert_eq!(Timeline::new().doublings_for(-5), 0);
    }
}
