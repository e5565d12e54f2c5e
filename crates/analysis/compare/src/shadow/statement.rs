//! One statement of a shadow comparison.

use std::collections::VecDeque;

use sql::Fingerprint;
use statistics::SplitMix64;
use statistics::sequential::TestFamily;

use super::measure_test::MeasureTest;
use super::report::{ShadowMeasure, ShadowOptions, ShadowStatement};

/// Most executions of a statement that are kept of a window; of more, a uniform sample (Vitter 1985).
const SAMPLES_MAX: usize = 1_024;
/// Number of last windows whose ratios are kept.
const RATIOS_MAX: usize = 30;
/// Least number of windows that a baseline has.
const BASELINE_WINDOWS_MIN: usize = 6;
/// Least captured duration of a ratio, in nanoseconds: logs have microseconds.
const CAPTURED_NS_MIN: u64 = 1_000;

/// Differences of one execution from the capture.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Differences {
    /// Captured duration and replayed service time, in nanoseconds, if both are known.
    pub(super) times: Option<(u64, u64)>,
    /// +1: it failed in the replay only; −1: in the capture only.
    pub(super) error: i64,
    /// Sign of replayed less captured rows.
    pub(super) rows: i64,
}

impl Differences {
    /// Returns the differences of an execution that failed in the replay only.
    pub(super) fn new_error() -> Self {
        Differences {
            error: 1,
            ..Differences::default()
        }
    }
}

/// Executions of a statement in the current window.
#[derive(Debug, Default)]
struct Window {
    executions: u64,
    times: Vec<(u64, u64)>,
    timed: u64,
    new_errors: u64,
    vanished_errors: u64,
    fewer_rows: u64,
    more_rows: u64,
}

/// Reference of the replayed times.
#[derive(Debug)]
enum Reference {
    /// The captured times.
    Captured,
    /// The baseline is being measured.
    Measuring(Baseline),
    /// Ratio of the baseline.
    Baseline(f64),
}

/// Baseline that is being measured. It begins with the first compared window in which the statement is executed, and windows
/// that are not compared do not count: an outage makes it neither shorter nor different.
#[derive(Debug)]
struct Baseline {
    /// Number of compared windows that it lasts.
    length: u64,
    /// Number of compared windows of the whole comparison at its end, once it has begun.
    end: Option<u64>,
    /// Ratios of its windows with executions.
    ratios: Vec<f64>,
}

impl Baseline {
    fn new(options: &ShadowOptions, length_ns: i64) -> Self {
        let (length, window) = (length_ns.unsigned_abs(), options.window_ns.unsigned_abs());
        Baseline {
            length: length.div_ceil(window.max(1)),
            end: None,
            ratios: Vec::new(),
        }
    }

    /// Adds the ratio of compared window `number`, from 1. Returns the reference if the baseline is complete.
    fn add(&mut self, number: u64, ratio: f64) -> Option<f64> {
        let end = *self.end.get_or_insert(number - 1 + self.length);
        self.ratios.push(ratio);
        (number >= end && self.ratios.len() >= BASELINE_WINDOWS_MIN)
            .then(|| upper_median(&mut self.ratios))
    }
}

/// State of a statement.
#[derive(Debug)]
pub(super) struct StatementShadow {
    fingerprint: Fingerprint,
    window: Window,
    reference: Reference,
    ratios: VecDeque<f64>,
    calls: u64,
    new_errors: u64,
    vanished_errors: u64,
    other_rows: u64,
    captured_ns: u64,
    replayed_ns: u64,
    /// Sum of replayed times, for the order of a report.
    pub(super) total_ns: u64,
    tests: [Option<MeasureTest>; 4],
    random: SplitMix64,
}

impl StatementShadow {
    pub(super) fn new(fingerprint: Fingerprint, options: &ShadowOptions) -> Self {
        StatementShadow {
            fingerprint,
            window: Window::default(),
            reference: match options.baseline_ns {
                None => Reference::Captured,
                Some(length_ns) => Reference::Measuring(Baseline::new(options, length_ns)),
            },
            ratios: VecDeque::new(),
            calls: 0,
            new_errors: 0,
            vanished_errors: 0,
            other_rows: 0,
            captured_ns: 0,
            replayed_ns: 0,
            total_ns: 0,
            tests: [const { None }; 4],
            random: SplitMix64::new(fingerprint.0),
        }
    }

    /// Adds an execution to the current window.
    pub(super) fn add(&mut self, differences: Differences) {
        let window = &mut self.window;
        window.executions += 1;
        window.new_errors += u64::from(differences.error > 0);
        window.vanished_errors += u64::from(differences.error < 0);
        window.fewer_rows += u64::from(differences.rows < 0);
        window.more_rows += u64::from(differences.rows > 0);
        let Some(times) = differences.times else {
            return;
        };
        window.timed += 1;
        if window.times.len() < SAMPLES_MAX {
            window.times.push(times);
        } else if let at @ 0..SAMPLES_MAX = self.random.below(window.timed) as usize {
            window.times[at] = times;
        }
    }

    /// Returns the number of executions in the current window so far.
    pub(super) fn executions_of_window(&self) -> u64 {
        self.window.executions
    }

    /// Discards the current window.
    pub(super) fn discard_window(&mut self) {
        self.window = Window::default();
    }

    /// Ends the current window, which is compared window `number` of all, from 1, and tests what it has. Returns the measures
    /// whose verdict became another one.
    pub(super) fn end_window(
        &mut self,
        number: u64,
        range_ns: (i64, i64),
        options: &ShadowOptions,
        family: &mut TestFamily,
    ) -> Vec<ShadowMeasure> {
        let window = std::mem::take(&mut self.window);
        self.calls += window.timed;
        self.new_errors += window.new_errors;
        self.vanished_errors += window.vanished_errors;
        self.other_rows += window.fewer_rows + window.more_rows;
        let slower = self.compare_times(&window, number, options);
        let excess = |more: u64, less: u64| (more != less).then_some(more > less);
        let rows = excess(window.more_rows, window.fewer_rows);
        let signs = [
            slower,
            excess(window.new_errors, window.vanished_errors),
            rows.map(|more| !more),
            rows,
        ];
        let mut changed = Vec::new();
        for ((measure, sign), test) in
            (ShadowMeasure::ALL.into_iter().zip(signs)).zip(&mut self.tests)
        {
            let Some(differs) = sign else { continue };
            let test = test.get_or_insert_with(|| MeasureTest::new(family, options.error_rate));
            if test.observe(range_ns, differs) {
                changed.push(measure);
            }
        }
        changed
    }

    /// Returns whether the window is slower than the reference; `None` without executions, or while the reference is
    /// measured.
    fn compare_times(
        &mut self,
        window: &Window,
        number: u64,
        options: &ShadowOptions,
    ) -> Option<bool> {
        if window.times.is_empty() {
            return None;
        }
        let median = |side: fn(&(u64, u64)) -> u64| {
            let mut values: Vec<u64> = window.times.iter().map(side).collect();
            let middle = values.len() / 2;
            *values.select_nth_unstable(middle).1
        };
        self.captured_ns = median(|times| times.0);
        self.replayed_ns = median(|times| times.1);
        self.total_ns =
            (self.total_ns).saturating_add(self.replayed_ns.saturating_mul(window.timed));
        let ratio = self.replayed_ns as f64 / self.captured_ns.max(CAPTURED_NS_MIN) as f64;
        if self.ratios.len() == RATIOS_MAX {
            self.ratios.pop_front();
        }
        self.ratios.push_back(ratio);
        let factor = match &mut self.reference {
            Reference::Captured => 1.0,
            Reference::Baseline(factor) => *factor,
            Reference::Measuring(baseline) => {
                if let Some(factor) = baseline.add(number, ratio) {
                    self.reference = Reference::Baseline(factor);
                }
                return None;
            }
        };
        let limit =
            self.captured_ns.max(CAPTURED_NS_MIN) as f64 * factor * (1.0 + options.tolerance);
        Some(self.replayed_ns as f64 > limit + options.allowance_ns as f64)
    }

    pub(super) fn is_finding(&self) -> bool {
        let mut tests = self.tests.iter().flatten();
        tests.any(|test| test.verdict().is_finding())
    }

    pub(super) fn test(&self, measure: ShadowMeasure) -> Option<&MeasureTest> {
        self.tests[measure as usize].as_ref()
    }

    pub(super) fn report(&self, sql: String) -> ShadowStatement {
        let mut ratios: Vec<f64> = self.ratios.iter().copied().collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ShadowStatement {
            fingerprint: self.fingerprint,
            sql,
            calls: self.calls,
            captured_ns: self.captured_ns,
            replayed_ns: self.replayed_ns,
            ratio: ratios.get(ratios.len() / 2).copied().unwrap_or(1.0),
            reference: match self.reference {
                Reference::Baseline(factor) => Some(factor),
                _ => None,
            },
            in_baseline: matches!(self.reference, Reference::Measuring(..)),
            new_errors: self.new_errors,
            vanished_errors: self.vanished_errors,
            other_rows: self.other_rows,
            tests: (ShadowMeasure::ALL.into_iter().zip(&self.tests))
                .filter_map(|(measure, test)| Some(test.as_ref()?.report(measure)))
                .collect(),
        }
    }
}

/// Returns the upper end of the 95 % interval of the median, by its order statistics (normal approximation; Conover,
/// *Practical Nonparametric Statistics*, 1999, section 3.2). A baseline that was low by chance would make every later
/// window slower.
fn upper_median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    let rank = (count / 2.0 + 1.96 * count.sqrt() / 2.0).ceil() as usize;
    values[rank.min(values.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_median_is_above_the_median_and_within_the_values() {
        let mut hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(upper_median(&mut hundred), 61.0);
        assert_eq!(upper_median(&mut [1.0, 3.0, 2.0]), 3.0);
    }
}
