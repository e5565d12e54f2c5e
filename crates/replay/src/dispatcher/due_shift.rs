//! Shift of due times after rounds that took longer than captured, and after a resumption.

/// Delay of all further due times. It only grows, so that due times never go back.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueShift {
    late_ns: i64,
}

impl DueShift {
    /// Returns a captured due time with the delay, in nanoseconds.
    pub(super) fn shifted(self, due_ns: i64) -> i64 {
        due_ns + self.late_ns
    }

    /// Delays this due time and all further ones until `now_ns`, if they are not late enough already.
    pub(super) fn not_before(&mut self, due_ns: i64, now_ns: i64) {
        self.late_ns += (now_ns - self.shifted(due_ns)).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumption_keeps_the_delay_of_earlier_rounds() {
        let mut shift = DueShift::default();
        // The second round begins 40 later than captured.
        shift.not_before(100, 140);
        assert_eq!(shift.shifted(100), 140);
        // The run ended at 150. The first remaining event was due at 105.
        shift.not_before(105, 150);
        assert_eq!((shift.shifted(105), shift.shifted(106)), (150, 151));
        // A run that ended earlier changes nothing.
        shift.not_before(110, 120);
        assert_eq!(shift.shifted(110), 155);
    }
}
