//! Many statements, few false alarms: the false discovery rate.
//!
//! With 1,000 statements and a test that errs once in 20 times, 50 would be called slower that are
//! not. Benjamini and Hochberg, "Controlling the False Discovery Rate", Journal of the Royal
//! Statistical Society B 57 (1995): the greatest level is found at which, of what is called, at most
//! the wanted share is expected to be wrong. Where nothing differs, that share is the chance of any
//! false alarm at all. It holds for tests that are independent or depend on each other positively
//! (Benjamini and Yekutieli 2001), as those of statements on one server do.

/// Of statements called slower or faster, at most this share is expected to be neither.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// The level up to which p-values are discoveries; `None` where none is. `tests` are all that were
/// made, of which `p_values` may leave out those that are 1, and those that are `found` already.
pub fn level(p_values: &[f64], (tests, found): (usize, usize), rate: f64) -> Option<f64> {
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
    fn the_published_example_has_four_discoveries() {
        // Benjamini & Hochberg 1995, section 4: 15 p-values, of which 4 are discoveries at 5 %.
        let published = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let found = level(&published, (15, 0), 0.05).unwrap();
        assert_eq!(published.iter().filter(|p| **p <= found).count(), 4);
    }

    #[test]
    fn tests_that_are_left_out_count() {
        assert_eq!(level(&[0.01], (1, 0), 0.05), Some(0.05));
        assert_eq!(level(&[0.01], (100, 0), 0.05), None);
        assert!(level(&[0.01], (100, 30), 0.05).is_some());
        assert_eq!(level(&[], (100, 0), 0.05), None);
        assert_eq!(level(&[0.0001, 0.9], (100, 0), 0.05), Some(0.0005));
    }
}
