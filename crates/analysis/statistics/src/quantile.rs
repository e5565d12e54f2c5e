//! Definition of quantiles.
//!
//! Nearest rank: the smallest value such that at least the given share of all values is not
//! greater, `x[⌈q·n⌉]` counted from 1. This is definition 1 of Hyndman & Fan, "Sample Quantiles in
//! Statistical Packages", The American Statistician 50 (1996). It always returns a measured value,
//! and gives the same result for plain, weighted and binned data.
//!
//! Quantiles are given in thousandths, so that ranks are exact integer arithmetic.

/// The median.
pub const P50: u64 = 500;
/// The 95th percentile.
pub const P95: u64 = 950;
/// The 99th percentile.
pub const P99: u64 = 990;

/// Returns the rank, counted from 1, of the quantile `per_mille` among `count` values; 0 if there
/// are none.
pub fn rank(per_mille: u64, count: u64) -> u64 {
    let exact = (u128::from(count) * u128::from(per_mille)).div_ceil(1_000);
    // At most `count` for quantiles up to 1,000.
    (exact as u64).clamp(count.min(1), count)
}

/// Returns the quantile `per_mille` of values in ascending order.
pub fn of_sorted<T: Copy>(sorted: &[T], per_mille: u64) -> Option<T> {
    let rank = rank(per_mille, sorted.len() as u64);
    sorted.get((rank as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_a_measured_value() {
        let twenty: Vec<u32> = (1..=20).collect();
        assert_eq!(of_sorted(&twenty, P50), Some(10));
        assert_eq!(of_sorted(&twenty, P95), Some(19));
        assert_eq!(of_sorted(&twenty, P99), Some(20));
        assert_eq!(of_sorted(&[7], P50), Some(7));
        assert_eq!(of_sorted(&[7, 9], P50), Some(7));
        assert_eq!(of_sorted::<u32>(&[], P50), None);
    }

    #[test]
    fn rank_is_at_most_the_count() {
        assert_eq!(rank(0, 5), 1);
        assert_eq!(rank(1_000, 5), 5);
        assert_eq!(rank(P99, 0), 0);
        assert_eq!(rank(P50, u64::MAX), u64::MAX / 2 + 1);
    }
}
