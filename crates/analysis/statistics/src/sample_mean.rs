//! Mean of a sample that is known by its sums only, and a test of whether it is above a limit.

use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF;

use crate::variance_components::students_t;

/// Least coefficient of variation of a test. Values that are rounded seem equal.
const VARIATION_MIN: f64 = 0.1;

/// Mean of a sample of positive values, and their spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SampleMean {
    /// Number of values, at least 1.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Coefficient of variation: standard deviation / mean. `None` if it is unknown, such as of one value.
    pub variation: Option<f64>,
}

impl SampleMean {
    /// Creates the sample from the sum of its values and that of their squares. `None` without values.
    pub fn of_sums(count: u64, sum: f64, squares: Option<f64>) -> Option<Self> {
        let number = count as f64;
        let mean = sum / number;
        let squares = squares.filter(|_| count > 1 && mean > 0.0);
        let variation = squares.map(|squares| {
            let variance = (squares - number * mean * mean).max(0.0) / (number - 1.0);
            variance.sqrt() / mean
        });
        (count > 0).then_some(SampleMean {
            count,
            mean,
            variation,
        })
    }

    /// Returns the one-sided p-value under the hypothesis that the true mean is at most `limit`, which was computed from the mean
    /// of an earlier sample. `None` if neither spread is known. Both samples need 2 values.
    ///
    /// The test is Student's, of mean − limit. Its standard error is `s √(1/n + 1/m)`, for n and m values. The deviation s is the
    /// greater one of both samples, the earlier one's scaled to the limit. A sample that missed rare high values has a mean and a
    /// deviation that are too small, so that the deviation of the other one counts.
    pub fn p_value_above(&self, limit: f64, earlier: &SampleMean) -> Option<f64> {
        let deviations = [(self.variation, self.mean), (earlier.variation, limit)];
        let deviations = deviations.map(|(variation, mean)| Some(variation? * mean));
        let deviation = deviations.into_iter().flatten().reduce(f64::max)?;
        let (n, m) = (self.count as f64, earlier.count as f64);
        let error = deviation.max(VARIATION_MIN * limit) * (1.0 / n + 1.0 / m).sqrt();
        Some(students_t(n.min(m) - 1.0).sf((self.mean - limit) / error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_give_mean_and_variation() {
        let sample = SampleMean::of_sums(4, 20.0, Some(120.0)).unwrap();
        assert_eq!(sample.mean, 5.0);
        // The variance is (120 - 4 · 25) / 3.
        let variation = (20.0_f64 / 3.0).sqrt() / 5.0;
        assert!((sample.variation.unwrap() - variation).abs() < 1e-12);
        assert_eq!(
            SampleMean::of_sums(1, 5.0, Some(25.0)).unwrap().variation,
            None
        );
        assert_eq!(SampleMean::of_sums(0, 0.0, None), None);
    }

    #[test]
    fn p_value_is_that_of_students_t() {
        let sample = |count, mean| SampleMean {
            count,
            mean,
            variation: Some(1.0),
        };
        // The error is 1.4 √(2 / 50) = 0.28, and 0.4 is 1.43 of them: t with 49 degrees of freedom.
        let p = sample(50, 1.4).p_value_above(1.0, &sample(50, 1.0));
        assert!((p.unwrap() - 0.0797).abs() < 0.0005, "{p:?}");
        let p = sample(50, 1.0).p_value_above(1.0, &sample(50, 1.0));
        assert!((p.unwrap() - 0.5).abs() < 1e-9, "{p:?}");
    }
}
