//! Times for which a file of a log may be missing.

use serde::{Deserialize, Serialize};

use super::{GAPS_MAX, SeriesInfo};

/// A time range without lines between two files of a log. It is not known whether nothing was logged, or a file is missing.
/// Sessions continue after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PossibleGap {
    /// Time of the last line before it, in microseconds since 1970-01-01 UTC.
    pub from_us: i64,
    /// Time of the first line after it.
    pub to_us: i64,
}

impl PossibleGap {
    /// Returns the part of it between these times, if there is one.
    fn within(self, from_us: i64, to_us: i64) -> Option<Self> {
        let (from_us, to_us) = (self.from_us.max(from_us), self.to_us.min(to_us));
        (from_us < to_us).then_some(PossibleGap { from_us, to_us })
    }

    /// Returns the part of it that a capture adds to what the earlier ones have up to `recorded_to_us`.
    pub fn since(self, recorded_to_us: Option<i64>) -> Option<Self> {
        self.within(recorded_to_us.unwrap_or(i64::MIN), i64::MAX)
    }
}

impl SeriesInfo {
    /// Sets the possible gaps. Those that touch become one. Of too many, the earliest become one, since it is not known that the
    /// series has what is between them.
    pub fn set_possible_gaps(&mut self, mut gaps: Vec<PossibleGap>) {
        gaps.sort_unstable();
        let mut joined: Vec<PossibleGap> = Vec::new();
        for gap in gaps {
            match joined.last_mut().filter(|last| gap.from_us <= last.to_us) {
                Some(last) => last.to_us = last.to_us.max(gap.to_us),
                None => joined.push(gap),
            }
        }
        if let Some(excess) = joined
            .len()
            .checked_sub(GAPS_MAX)
            .filter(|excess| *excess > 0)
        {
            joined[0].to_us = joined[excess].to_us;
            joined.drain(1..=excess);
        }
        self.possible_gaps = joined;
    }

    /// Forgets what a capture that was killed has noted of later files: the next one reads them.
    pub fn limit_possible_gaps(&mut self) {
        let recorded_to_us = self.recorded_to_us().unwrap_or(i64::MIN);
        let gaps = self.possible_gaps.iter();
        let limited = gaps.filter_map(|gap| gap.within(i64::MIN, recorded_to_us));
        self.possible_gaps = limited.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(from_us: i64, to_us: i64) -> PossibleGap {
        PossibleGap { from_us, to_us }
    }

    #[test]
    fn possible_gaps_that_touch_or_are_too_many_become_one() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.set_possible_gaps(vec![gap(30, 40), gap(10, 20), gap(20, 25), gap(10, 15)]);
        assert_eq!(info.possible_gaps, [gap(10, 25), gap(30, 40)]);
        let many = (0..1_003).map(|index| gap(10 * index, 10 * index + 5));
        info.set_possible_gaps(many.collect());
        assert_eq!(info.possible_gaps.len(), GAPS_MAX);
        assert_eq!(info.possible_gaps[..2], [gap(0, 35), gap(40, 45)]);
    }

    #[test]
    fn possible_gaps_of_a_killed_capture_end_at_what_is_recorded() {
        let mut info = SeriesInfo::new("id".to_owned(), "log", 60_000_000, 0);
        info.captured_to_us = Some(50_000_000);
        let second = |from: i64, to: i64| gap(from * 1_000_000, to * 1_000_000);
        info.set_possible_gaps(vec![second(10, 20), second(40, 51), second(60, 70)]);
        info.limit_possible_gaps();
        assert_eq!(info.possible_gaps, [second(10, 20), second(40, 50)]);
        let since = second(40, 60).since(info.recorded_to_us());
        assert_eq!(since, Some(second(50, 60)));
    }
}
