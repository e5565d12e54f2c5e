//! A run's time, cut in stretches for the bootstrap.
//!
//! Stretches have equal width, a power of two of nanoseconds. When a later time comes than the
//! slots can hold, two neighbours become one and the width doubles, so that a run of any length
//! has between 64 and 128 stretches and nothing about it must be known ahead. Two runs of one
//! workload at one speed have the same stretches, which is what makes them comparable pairwise.

/// The most stretches of a run. Between the half of it and all of it are used: enough for a
/// steady interval, few enough that each is long compared with the disturbances (a checkpoint, a
/// vacuum) that make neighbouring executions alike.
pub const STRETCHES_MAX: usize = 128;

/// The narrowest stretch, as a power of two of nanoseconds: about a millisecond.
const WIDTH_BITS_MIN: u32 = 20;

/// Which stretch a time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    width_bits: u32,
}

impl Timeline {
    /// A timeline with the shortest stretches.
    pub fn new() -> Self {
        Self {
            width_bits: WIDTH_BITS_MIN,
        }
    }

    /// How often the width must double before `at_ns` has a slot.
    pub fn doublings_for(self, at_ns: i64) -> u32 {
        let bits = u64::BITS - (at_ns.max(0) as u64).leading_zeros();
        bits.saturating_sub(self.width_bits + STRETCHES_MAX.ilog2())
    }

    /// The slot of a time that has one.
    pub fn slot(self, at_ns: i64) -> u8 {
        (at_ns.max(0) >> self.width_bits).min(STRETCHES_MAX as i64 - 1) as u8
    }

    /// How wide a stretch is, in nanoseconds.
    pub fn width_ns(self) -> u64 {
        1 << self.width_bits
    }

    /// The wider of the two.
    pub fn wider(self, other: Self) -> Self {
        Self {
            width_bits: self.width_bits.max(other.width_bits),
        }
    }

    /// Doubles the length of the stretches.
    pub fn double(&mut self) {
        self.width_bits += 1;
    }

    /// How often this one must double to be as wide as the other.
    pub fn doublings_to(self, other: Self) -> u32 {
        other.width_bits.saturating_sub(self.width_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_half_and_all_of_the_slots_are_used() {
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
    fn a_time_before_the_start_is_in_the_first_stretch() {
        assert_eq!(Timeline::new().slot(-5), 0);
        assert_eq!(Timeline::new().doublings_for(-5), 0);
    }
}
