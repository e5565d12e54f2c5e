//! Details of a statement: the distribution of its times, their course over time, and the slowest
//! executions.

use schemars::JsonSchema;
use serde::Serialize;

use crate::anomaly::medians;
use crate::slowest::SlowExecution;
use statistics::STRETCHES_MAX;
use statistics::bootstrap::Resampler;
use statistics::series::value_of;

/// Histogram bins in each decade.
pub const BINS_PER_DECADE: u32 = 10;

/// Maximum number of statements with details, those with the most time first. A page with more
/// would open slowly.
pub const DETAILED_MAX: usize = 5_000;

/// Details of a statement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Details {
    /// Index of the first bin of both histograms: bin `n` holds service times from `10^(n/10)` to
    /// `10^((n+1)/10)` nanoseconds.
    pub first_bin: u32,
    /// Calls in each bin before, estimated from a uniform sample if there are very many.
    pub bins_before: Vec<u64>,
    /// Calls in each bin after, in the same bins.
    pub bins_after: Vec<u64>,
    /// Median service time in each stretch before, in nanoseconds; `None` without calls.
    pub medians_before_ns: Vec<Option<u64>>,
    /// Median service time in each stretch after, in the same stretches.
    pub medians_after_ns: Vec<Option<u64>>,
    /// Slowest executions before, in descending order.
    pub slowest_before: Vec<SlowExecution>,
    /// Slowest executions after, in descending order.
    pub slowest_after: Vec<SlowExecution>,
}

impl Details {
    /// Computes the details from the service times of both sides; `used` is the number of stretches
    /// that are not empty. The caller adds the slowest executions.
    pub(crate) fn new(before: &[Resampler], after: &[Resampler], used: usize) -> Self {
        let (before_bins, after_bins) = (bins(before), bins(after));
        let all = || before_bins.iter().zip(&after_bins);
        let any = |(before, after): (&u64, &u64)| before + after > 0;
        let first = all().position(any).unwrap_or(0);
        let last = all().rposition(any).map_or(first, |last| last + 1);
        let over_time = |runs: &[Resampler]| -> Vec<Option<u64>> {
            let medians = medians(runs, 0);
            let used = &medians[..used.min(STRETCHES_MAX)];
            used.iter()
                .map(|median| median.map(|ns| ns.round() as u64))
                .collect()
        };
        Self {
            first_bin: first as u32,
            bins_before: before_bins[first..last].to_vec(),
            bins_after: after_bins[first..last].to_vec(),
            medians_before_ns: over_time(before),
            medians_after_ns: over_time(after),
            slowest_before: Vec::new(),
            slowest_after: Vec::new(),
        }
    }
}

/// Number of bins: up to 10^13 ns, which is almost three hours.
const BINS: usize = 13 * BINS_PER_DECADE as usize + 1;

fn bins(runs: &[Resampler]) -> Vec<u64> {
    let mut found = vec![0.0; BINS];
    for run in runs {
        let calls: u64 = run.sums().iter().map(|sum| sum.count).sum();
        let each = calls as f64 / run.sorted().len().max(1) as f64;
        // The samples are sorted, so each bin is found by binary search, without a logarithm for
        // each sample.
        let mut rest = run.sorted();
        for (bin, sum) in found.iter_mut().enumerate() {
            let end = if bin + 1 == BINS {
                f64::INFINITY
            } else {
                edge(bin + 1)
            };
            let here = rest.partition_point(|sample| value_of(*sample) < end);
            *sum += here as f64 * each;
            rest = &rest[here..];
        }
    }
    found.iter().map(|count| count.round() as u64).collect()
}

/// Returns the lower bound of a bin, in nanoseconds.
fn edge(bin: usize) -> f64 {
    10f64.powf(bin as f64 / f64::from(BINS_PER_DECADE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::SAMPLES_MAX;
    use statistics::series::Series;

    #[test]
    fn bins_contain_every_call_from_the_first_bin() {
        let mut before = Series::new(1);
        for number in 0..1_000u64 {
            before.record(1_000_000 + number * 1_000, (number / 100) as u8);
        }
        let mut after = Series::new(2);
        after.record(5_000_000, 3);
        let (before, after) = ([Resampler::new(&before)], [Resampler::new(&after)]);
        let details = Details::new(&before, &after, 10);
        assert_eq!(details.first_bin, 60);
        assert_eq!(details.bins_before.iter().sum::<u64>(), 1_000);
        assert_eq!(details.bins_after.iter().sum::<u64>(), 1);
        assert_eq!(details.bins_before.len(), details.bins_after.len());
        assert_eq!(details.bins_before[0], 259, "from 1 ms to 1.2589 ms");
        assert_eq!(details.medians_before_ns.len(), 10);
        assert!(details.medians_before_ns[0].unwrap().abs_diff(1_049_000) < 10);
        assert_eq!(details.medians_after_ns.iter().flatten().count(), 1);
    }

    #[test]
    fn sampled_bins_represent_all_calls() {
        let mut series = Series::new(1);
        for number in 0..SAMPLES_MAX as u64 * 2 {
            series.record(2_000 + number % 7, 0);
        }
        let one = [Resampler::new(&series)];
        let details = Details::new(&one, &one, 1);
        assert_eq!(details.bins_before, [SAMPLES_MAX as u64 * 2]);
    }
}
