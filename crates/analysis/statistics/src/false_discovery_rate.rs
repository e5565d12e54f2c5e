//! Controls the false discovery rate over many statements.
//!
//! With 1,000 statements and a test at the 5 % level, 50 unchanged statements would be called
//! slower. Benjamini and Hochberg, "Controlling the False Discovery Rate", Journal of the Royal
//! Statistical Society B 57 (1995), find the greatest level at which the expected share of false
//! discoveries is at most the given rate. If nothing differs, this share is the probability of any
//! false alarm. The procedure holds for tests that are independent or positively dependent
//! (Benjamini and Yekutieli 2001), as those of statements on one server are.

/// Maximum expected share of statements called slower or faster that are neither.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// Returns the level up to which p-values are discoveries; `None` if there are none. `tests` is the
/// number of tests. `p_values` may leave out p-values of 1, and those of discoveries that are
/// already counted in `found`.
pub fn rejection_level(p_values: &[f64], (tests, found): (usize, usize), rate: f64) -> Option<f64> {
    let mut sorted = p_values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted
        .iter()
        .enumerate()
        .rposition(|(at, p)| *p <= rate * (found + at + 1) as f64 / tests as f64)?;
    Some(rate * (found + count + 1) as f64 / tests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_example_has_four_discoveries() {
        // Benjamini & Hochberg 1995, section 4: 15 p-values, of which 4 are discoveries at 5 %.
        let published = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = rejection_level(&published, (15, 0), 0.05).unwrap();
        assert_eq!(published.iter().filter(|p| **p <= found).count(), 4);
    }

    #[test]
    fn omitted_tests_count() {
        assert_eq!(rejection_level(&[0.01], (1, 0), 0.05), Some(0.05));
        assert_eq!(rejection_level(&[0.01], (100, 0), 0.05), None);
        assert!(rejection_level(&[0.01], (100, 30), 0.05).is_some());
        assert_eq!(rejection_level(&[], (100, 0), 0.05), None);
        assert_eq!(
            rejection_level(&[0.0001, 0.9], (100, 0), 0.05),
            Some(0.0005)
        );
    }
}
