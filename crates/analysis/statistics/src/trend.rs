//! Trend test of a sequence of numbers.
//!
//! The test is that of Mann (1945) and Kendall ("Rank Correlation Methods", 1975): it compares the
//! number of ordered pairs with the number of inverted ones. The slope is that of Theil and Sen
//! (1968), the median of the slopes of all pairs. Neither assumes a distribution, and both are
//! robust against outliers.

use statrs::function::erf::erfc;

/// Minimum number of values for a trend.
const VALUES_MIN: usize = 8;

/// Monotonic trend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Change from the first value to the last, in the values' unit.
    pub change: f64,
    /// Two-sided p-value under the hypothesis of no trend.
    pub p: f64,
}

/// Returns the trend of equidistant values; `None` if there are too few.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let count = values.len();
    if count < VALUES_MIN {
        return None;
    }
    let (mut order, mut slopes) = (0_i64, Vec::with_capacity(count * (count - 1) / 2));
    for (at, early) in values.iter().enumerate() {
        for (later_by, late) in values[at + 1..].iter().enumerate() {
            order += match late.total_cmp(early) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
            };
            slopes.push((late - early) / (later_by + 1) as f64);
        }
    }
    let n = count as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    // Continuity correction: the statistic changes in steps of two.
    let z = (order.abs() - 1).max(0) as f64 / variance.sqrt();
    let middle = slopes.len() / 2;
    let slope = *slopes.select_nth_unstable_by(middle, f64::total_cmp).1;
    Some(Trend {
        change: slope * (n - 1.0),
        p: erfc(z / std::f64::consts::SQRT_2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rising_values_have_a_trend_with_its_change() {
        let rising: Vec<f64> = (0..16)
            .map(|at| f64::from(at) + f64::from(at % 3))
            .collect();
        let found = trend(&rising).unwrap();
        assert!(found.p < 1e-4, "{found:?}");
        assert!((found.change - 15.0).abs() < 2.0, "{found:?}");
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert!((trend(&falling).unwrap().change + found.change).abs() < 1e-9);
    }

    #[test]
    fn oscillating_values_have_no_trend() {
        let waves: Vec<f64> = (0..16).map(|at| f64::from(at % 4)).collect();
        assert!(trend(&waves).unwrap().p > 0.3);
        assert!(trend(&[1.0; 16]).unwrap().p > 0.9);
        assert_eq!(trend(&[1.0, 2.0, 3.0]), None);
    }
}
