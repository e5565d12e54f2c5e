//! Values of a sequence by rank. A workload may have any number, so each result outside of `i64` is `None`.

/// Returns the value of rank 0 of a sequence that has this value at this rank.
pub(super) fn first_value(value: i64, increment: i64, rank: usize) -> Option<i64> {
    value.checked_sub(distance(increment, rank)?)
}

/// Returns the value at a rank of a sequence that has this value at rank 0.
pub(super) fn value_at(first: i64, increment: i64, rank: usize) -> Option<i64> {
    first.checked_add(distance(increment, rank)?)
}

/// Whether a number of increments, of either sign, leads from one value to the other.
pub(super) fn is_reachable(first: i64, increment: i64, value: i64) -> bool {
    let difference = value.checked_sub(first);
    difference.and_then(|difference| difference.checked_rem(increment)) == Some(0)
}

fn distance(increment: i64, rank: usize) -> Option<i64> {
    increment.checked_mul(i64::try_from(rank).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_of_the_range_are_none() {
        assert_eq!(first_value(21, 5, 4), Some(1));
        assert_eq!(value_at(1, 5, 4), Some(21));
        assert_eq!(first_value(i64::MIN, 1, 1), None);
        assert_eq!(first_value(i64::MAX, -1, 1), None);
        assert_eq!(value_at(i64::MAX, 1, 1), None);
        assert_eq!(value_at(0, i64::MAX, 2), None);
        assert!(is_reachable(1, 5, 21) && !is_reachable(1, 5, 22));
        assert!(!is_reachable(i64::MAX, 1, i64::MIN));
        assert!(!is_reachable(0, -1, i64::MIN));
    }
}
