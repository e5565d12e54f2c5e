//! Ratios of the times of each statement in replays, new / old.

use std::collections::HashMap;

use compare::{Comparison, Finding, TimesComparison};
use statistics::Measure;

use super::MARGIN;
use crate::upgrade_remedies::MeasuredFactor;

/// Returns the ratio of each statement, by fingerprint: of the measure that its finding or suspicion rests on.
pub(super) fn first_factors(comparison: &Comparison) -> HashMap<String, MeasuredFactor> {
    factors(comparison, |times| first_measure(times, MARGIN))
}

/// Returns the measure that a finding of *slower* rests on, or the first one that is clear of the margin and may be chance; otherwise
/// the median.
fn first_measure(times: &TimesComparison, margin: f64) -> Measure {
    let is_clear = |measure: &Measure| {
        let found = times.ratio(*measure).and_then(|found| found.interval);
        found.is_some_and(|interval| interval.low > 1.0 + margin)
    };
    let mut measures = [Measure::Median, Measure::Mean, Measure::P99].into_iter();
    match times.finding {
        Finding::Slower { measure } => measure,
        Finding::InsufficientData { .. } => measures.find(is_clear).unwrap_or(Measure::Median),
        Finding::Faster { .. } | Finding::Same => Measure::Median,
    }
}

/// Returns the ratio of each statement's median, by fingerprint.
pub(super) fn median_factors(comparison: &Comparison) -> HashMap<String, MeasuredFactor> {
    factors(comparison, |_| Measure::Median)
}

/// Returns the ratio of each statement, by fingerprint, of this measure.
fn factors(
    comparison: &Comparison,
    measure_of: impl Fn(&TimesComparison) -> Measure,
) -> HashMap<String, MeasuredFactor> {
    let all = comparison.statements.iter();
    all.filter_map(|one| {
        let measure = measure_of(&one.service);
        let found = one.service.ratio(measure)?;
        let factor = MeasuredFactor::new(measure, found, one.service.mean_ratio);
        Some((one.fingerprint.to_string(), factor))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use compare::InsufficientData;
    use statistics::{Interval, Ratio};

    use super::*;

    fn times(finding: Finding, lows: [f64; 3]) -> TimesComparison {
        let [median_ratio, mean_ratio, p99_ratio] = lows.map(|low| {
            let interval = Some(Interval { low, high: 2.0 });
            Some(Ratio {
                value: 1.5,
                interval,
            })
        });
        TimesComparison {
            before: None,
            after: None,
            median_ratio,
            mean_ratio,
            p99_ratio,
            added_ns: None,
            p_value: None,
            finding,
        }
    }

    #[test]
    fn ratio_is_of_the_measure_that_a_statement_is_suspected_by() {
        let chance = Finding::InsufficientData {
            reason: InsufficientData::MayBeChance,
        };
        let slower = Finding::Slower {
            measure: Measure::Mean,
        };
        for (finding, lows, expected) in [
            (slower, [1.2, 1.2, 1.2], Measure::Mean),
            (chance, [1.2, 1.2, 1.2], Measure::Median),
            (chance, [1.0, 1.2, 1.2], Measure::Mean),
            (chance, [1.0, 1.0, 1.2], Measure::P99),
            (chance, [1.0, 1.0, 1.0], Measure::Median),
            (Finding::Same, [1.0, 1.2, 1.2], Measure::Median),
        ] {
            assert_eq!(first_measure(&times(finding, lows), 0.05), expected);
        }
    }
}
