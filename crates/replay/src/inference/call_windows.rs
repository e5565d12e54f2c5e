//! Windows of the places that a call of a sequence may have among all calls.

use super::sequence_values::{Call, Precision};

/// Returns the numbers of calls before and after each one that may have been made after and before it. The calls are in
/// order. `end_of`: time at which a call is over.
pub(super) fn windows(
    calls: &[Call],
    precision: Precision,
    end_of: impl Fn(&Call) -> i64,
) -> Vec<(usize, usize)> {
    let mut windows = vec![(0, 0); calls.len()];
    let mut open: Vec<usize> = Vec::new();
    for (rank, call) in calls.iter().enumerate() {
        open.retain(|other| {
            let other = &calls[*other];
            let continued = precision.has_positions && other.next_position <= call.position;
            let is_over = end_of(other) + precision.tolerance_us <= call.began_us;
            !continued && !is_over
        });
        // The rows of one statement are in order.
        let uncertain = open
            .iter()
            .filter(|other| calls[**other].statement != call.statement);
        for other in uncertain {
            windows[rank].0 += 1;
            windows[*other].1 += 1;
        }
        open.push(rank);
    }
    windows
}
