//! Connections that a replay lost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time between two losses that are in one range at most, in nanoseconds.
const NEAR_NS: i64 = 1_000_000_000;
/// Most ranges of a run. The last one has the rest.
const RANGES_MAX: usize = 1_000;

/// Range of time in which connections were lost for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionLosses {
    /// First loss, in nanoseconds from the replay's start.
    pub from_ns: i64,
    /// Last loss.
    pub until_ns: i64,
    /// SQLSTATE; 08006 if the server sent none.
    pub sqlstate: String,
    /// Number of connections.
    pub connections: u64,
}

impl ConnectionLosses {
    /// Adds losses to a list: to a range that is near, or as a new one.
    pub fn add_to(self, ranges: &mut Vec<ConnectionLosses>) {
        let is_full = ranges.len() >= RANGES_MAX;
        let same = ranges.iter_mut().rev().find(|range| {
            let is_near = self.from_ns <= range.until_ns.saturating_add(NEAR_NS);
            range.sqlstate == self.sqlstate && (is_near || is_full)
        });
        match same {
            Some(range) => {
                range.from_ns = range.from_ns.min(self.from_ns);
                range.until_ns = range.until_ns.max(self.until_ns);
                range.connections += self.connections;
            }
            None => ranges.push(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_are_near_are_one_range_and_their_number_is_limited() {
        let loss = |at_s: i64| ConnectionLosses {
            from_ns: at_s * NEAR_NS,
            until_ns: at_s * NEAR_NS,
            sqlstate: "57P01".to_owned(),
            connections: 1,
        };
        let mut ranges = Vec::new();
        for at_s in [5, 6, 10] {
            loss(at_s).add_to(&mut ranges);
        }
        let found: Vec<_> = (ranges.iter())
            .map(|range| {
                (
                    range.from_ns / NEAR_NS,
                    range.until_ns / NEAR_NS,
                    range.connections,
                )
            })
            .collect();
        assert_eq!(found, [(5, 6, 2), (10, 10, 1)]);
        (0..5_000).for_each(|at| loss(20 + at * 10).add_to(&mut ranges));
        assert_eq!(ranges.len(), RANGES_MAX);
        assert_eq!(
            ranges.iter().map(|range| range.connections).sum::<u64>(),
            5_003
        );
    }
}
