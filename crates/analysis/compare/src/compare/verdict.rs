//! Decides which slower statements are noticeable, and the verdict of a comparison.

use crate::error_change::ErrorChange;
use crate::judgement::{Finding, InsufficientData};
use statistics::LatencySummary;
use statistics::Measure;
use statistics::bootstrap::MEASURES;

use super::comparison::{StatementComparison, TimesComparison, Verdict};

/// Minimum share of all service time that a slower statement must add to be a regression.
pub const NOTICEABLE_SHARE: f64 = 0.001;

/// Minimum added time of a call, in nanoseconds, that makes a slower statement a regression in any
/// case. A tenth of a second is where people begin to notice (Miller 1968; Nielsen, "Usability
/// Engineering", 1993).
pub const NOTICEABLE_CALL_NS: f64 = 100_000_000.0;

/// Minimum added time of a call, in nanoseconds, for any regression. The network and the scheduler
/// cause as much difference between any two runs.
pub const NOTICEABLE_CALL_NS_MIN: f64 = 20_000.0;

/// Maximum difference of the numbers of calls, as a share, for judging all statements together.
/// Statements that only one run executed would otherwise look like a difference in time.
const OVERALL_CALLS_DIFFERENCE: f64 = 0.01;

/// Whether a statement is noticeably slower. `all_ns` is the service time of all statements before.
pub(super) fn is_regression(times: &TimesComparison, all_ns: f64) -> bool {
    match times.finding {
        Finding::Slower { measure } => is_noticeable(times, measure, all_ns),
        _ => false,
    }
}

/// Whether a measure's interval is clear of its margin and noticeably slower, but may be chance. `margins` are given by
/// measure: median, mean, 99th percentile.
pub(super) fn is_suspected(times: &TimesComparison, margins: [f64; MEASURES], all_ns: f64) -> bool {
    let may_be_chance = Finding::InsufficientData {
        reason: InsufficientData::MayBeChance,
    };
    let measures = [Measure::Median, Measure::Mean, Measure::P99];
    times.finding == may_be_chance
        && measures.into_iter().zip(margins).any(|(measure, margin)| {
            let interval = times.ratio(measure).and_then(|ratio| ratio.interval);
            interval.is_some_and(|interval| interval.low > 1.0 + margin)
                && is_noticeable(times, measure, all_ns)
        })
}

/// Whether a slower statement adds enough time to be noticed.
fn is_noticeable(times: &TimesComparison, measure: Measure, all_ns: f64) -> bool {
    let (Some(before), Some(after)) = (times.before, times.after) else {
        return false;
    };
    let longer_ns = after.measure_ns(measure) - before.measure_ns(measure);
    let added_ns = times.added_ns.unwrap_or(0.0);
    longer_ns >= NOTICEABLE_CALL_NS_MIN
        && (longer_ns >= NOTICEABLE_CALL_NS || added_ns >= NOTICEABLE_SHARE * all_ns)
}

/// Returns the verdict of a comparison.
pub(super) fn verdict(
    all: &TimesComparison,
    statements: &[StatementComparison],
    errors: &[ErrorChange],
    all_ns: f64,
) -> Verdict {
    let slower = statements.iter().filter(|one| one.regression).count();
    let errors = errors.iter().filter(|change| change.regression).count();
    let done = |side: Option<LatencySummary>| side.map_or(0, |latency| latency.count);
    let (before, after) = (done(all.before), done(all.after));
    let alike = before.abs_diff(after) as f64 <= OVERALL_CALLS_DIFFERENCE * before as f64;
    let overall = alike && is_regression(all, all_ns);
    if slower > 0 || errors > 0 || overall {
        return Verdict::Regression {
            slower,
            errors,
            overall,
        };
    }
    let known =
        |times: &TimesComparison| !matches!(times.finding, Finding::InsufficientData { .. });
    if !known(all) && !statements.iter().any(|one| known(&one.service)) {
        return Verdict::InsufficientData;
    }
    let faster = |one: &&StatementComparison| matches!(one.service.finding, Finding::Faster { .. });
    Verdict::NoRegression {
        faster: statements.iter().filter(faster).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::{Interval, Ratio};

    /// Times of which the mean is 6 to 9 % longer, which may be chance.
    fn slightly_slower() -> TimesComparison {
        let times = |mean_ns: f64| LatencySummary {
            count: 1_000,
            total_ns: 1_000.0 * mean_ns,
            mean_ns,
            p50_ns: mean_ns as u64,
            p95_ns: mean_ns as u64,
            p99_ns: mean_ns as u64,
            max_ns: mean_ns as u64,
        };
        TimesComparison {
            before: Some(times(10e6)),
            after: Some(times(10.8e6)),
            median_ratio: None,
            mean_ratio: Some(Ratio {
                value: 1.08,
                interval: Some(Interval {
                    low: 1.06,
                    high: 1.09,
                }),
            }),
            p99_ratio: None,
            added_ns: Some(800e6),
            p_value: Some(0.2),
            finding: Finding::InsufficientData {
                reason: InsufficientData::MayBeChance,
            },
        }
    }

    #[test]
    fn suspicion_is_measured_by_the_margin_of_the_comparison() {
        let times = slightly_slower();
        assert!(is_suspected(&times, [0.05; MEASURES], 1e9));
        assert!(!is_suspected(&times, [0.10; MEASURES], 1e9));
        assert!(!is_suspected(&times, [0.05, 0.10, 0.05], 1e9));
    }
}
