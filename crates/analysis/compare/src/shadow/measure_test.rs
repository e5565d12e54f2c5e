//! Test of one measure of one statement, with what a reader wants to know of a difference: since when, and whether still.

use statistics::sequential::{SignTest, TestFamily};

use super::report::{ShadowMeasure, ShadowTest, ShadowVerdict};

/// Number of last windows that tell whether a proven difference is present: it is over if fewer than half of them have it,
/// and has returned if all have it.
pub const LAST_WINDOWS: u32 = 6;

/// State of a test. It has a threshold from its first observation on.
#[derive(Debug, Clone)]
pub(super) struct MeasureTest {
    test: SignTest,
    threshold: f64,
    with_difference: u64,
    /// Last signs, the newest in the lowest bit.
    last: u32,
    /// Windows with the difference less those without, since the sum was last zero; never negative (Page 1954).
    excess: u64,
    /// Begin of the window with which the excess began.
    excess_since_ns: i64,
    verdict: ShadowVerdict,
}

impl MeasureTest {
    /// Adds a test to a family.
    pub(super) fn new(family: &mut TestFamily, error_rate: f64) -> Self {
        MeasureTest {
            test: SignTest::new(),
            threshold: family.threshold(error_rate),
            with_difference: 0,
            last: 0,
            excess: 0,
            excess_since_ns: 0,
            verdict: ShadowVerdict::None,
        }
    }

    /// Takes the sign of a window. Returns whether the verdict became another one.
    pub(super) fn observe(&mut self, (from_ns, until_ns): (i64, i64), differs: bool) -> bool {
        self.test.observe(differs);
        self.with_difference += u64::from(differs);
        self.last = self.last << 1 | u32::from(differs);
        if self.excess == 0 && differs {
            self.excess_since_ns = from_ns;
        }
        self.excess = match differs {
            true => self.excess + 1,
            false => self.excess.saturating_sub(1),
        };
        let recent = (self.last & ((1 << LAST_WINDOWS) - 1)).count_ones();
        let verdict = match self.verdict {
            ShadowVerdict::None if self.test.e_value() >= self.threshold => {
                ShadowVerdict::Present {
                    since_ns: self.excess_since_ns,
                    found_ns: until_ns,
                }
            }
            ShadowVerdict::Present { since_ns, found_ns }
            | ShadowVerdict::Returned {
                since_ns, found_ns, ..
            } if recent * 2 < LAST_WINDOWS => ShadowVerdict::Past {
                since_ns,
                found_ns,
                until_ns,
            },
            ShadowVerdict::Past {
                since_ns, found_ns, ..
            } if recent == LAST_WINDOWS => ShadowVerdict::Returned {
                since_ns,
                found_ns,
                returned_ns: until_ns,
            },
            unchanged => unchanged,
        };
        let changes = std::mem::discriminant(&verdict) != std::mem::discriminant(&self.verdict);
        self.verdict = verdict;
        changes
    }

    pub(super) fn verdict(&self) -> ShadowVerdict {
        self.verdict
    }

    pub(super) fn report(&self, measure: ShadowMeasure) -> ShadowTest {
        ShadowTest {
            measure,
            verdict: self.verdict,
            windows: self.test.observations(),
            windows_with_difference: self.with_difference,
            e_value: self.test.e_value(),
            threshold: self.threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_names_the_begin_and_the_end_of_a_difference() {
        let mut test = MeasureTest::new(&mut TestFamily::default(), 0.05);
        let mut changes = Vec::new();
        for window in 0..60 {
            let differs = (20..40).contains(&window);
            if test.observe((window * 10, window * 10 + 10), differs) {
                changes.push(test.verdict());
            }
        }
        let [
            ShadowVerdict::Present { since_ns, found_ns },
            ShadowVerdict::Past { until_ns, .. },
        ] = changes[..]
        else {
            panic!("{changes:?}");
        };
        assert_eq!(since_ns, 200);
        assert!((300..400).contains(&found_ns), "{found_ns}");
        assert_eq!(until_ns, 440);
    }

    /// Six windows in a row are no proof: 64 fair windows have such a row with a probability of more than a third.
    #[test]
    fn verdict_on_a_difference_that_returns_is_no_proof() {
        let mut test = MeasureTest::new(&mut TestFamily::default(), 0.05);
        let mut changes = Vec::new();
        for window in 0..80 {
            let differs = (20..40).contains(&window) || (50..60).contains(&window);
            if test.observe((window * 10, window * 10 + 10), differs) {
                let verdict = test.verdict();
                changes.push((verdict.is_proof(), verdict.is_present()));
            }
        }
        let expected = [(true, true), (false, false), (false, true), (false, false)];
        assert_eq!(changes, expected);
        assert!(test.verdict().is_finding());
    }
}
