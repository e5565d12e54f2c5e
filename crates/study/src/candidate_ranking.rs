//! Ranking of the index candidates that a proof measures, by the planner's estimates.
//!
//! The planner does not know what an index costs writes. An update of a column that an index has cannot be HOT. So candidates
//! differ in kind by the updates that they slow down, and the best of each kind comes before a second one of the same kind.

use std::collections::{BTreeSet, HashMap};

use diagnose::IndexCandidate;
use sql::Fingerprint;

use crate::screening::ScreeningResult;

/// Least gain of a plan's cost that counts.
const MIN_GAIN: f64 = 0.05;
/// Least share of all time that a candidate must be expected to save, since margins of proofs are wider.
const MIN_SHARE: f64 = 0.02;
/// Relative difference below which two estimates are the same.
const SAME_ESTIMATE: f64 = 0.01;

/// Returns the time that a candidate saves, if times (in nanoseconds, by statement) change in proportion to the
/// planner's costs.
pub fn expected_saving_ns(screened: &ScreeningResult, ns: &HashMap<Fingerprint, f64>) -> f64 {
    let of = screened.expected.iter().filter(|one| one.uses);
    let saved = of.map(|one| {
        let gain = match one.before > 0.0 {
            true => 1.0 - one.after / one.before,
            false => 0.0,
        };
        match gain >= MIN_GAIN {
            true => gain * ns.get(&one.fingerprint).copied().unwrap_or(0.0),
            false => 0.0,
        }
    });
    // The sum of no floating-point numbers is -0.
    saved.fold(0.0, |all, one| all + one)
}

/// Returns the indexes of up to `most` candidates, the one with the greatest expected saving first.
pub fn rank_candidates(
    candidates: &[IndexCandidate],
    screened: &[Option<ScreeningResult>],
    ns: &HashMap<Fingerprint, f64>,
    most: usize,
) -> Vec<usize> {
    let least_ns = MIN_SHARE * ns.values().sum::<f64>();
    let mut all: Vec<(usize, f64)> = screened
        .iter()
        .enumerate()
        .filter_map(|(at, one)| Some((at, expected_saving_ns(one.as_ref()?, ns))))
        .filter(|(_, saved)| *saved > least_ns)
        .collect();
    let bytes = |at: usize| screened[at].as_ref().and_then(|one| one.bytes);
    // Savings are compared in steps. Candidates within the same step are ordered by size.
    let greatest = all.iter().map(|(_, saved)| *saved).fold(0.0, f64::max);
    let step = |saved: f64| (saved / greatest / SAME_ESTIMATE).round() as i64;
    all.sort_by(|(a, saved_a), (b, saved_b)| {
        step(*saved_b)
            .cmp(&step(*saved_a))
            .then_with(|| {
                bytes(*a)
                    .unwrap_or(u64::MAX)
                    .cmp(&bytes(*b).unwrap_or(u64::MAX))
            })
            .then_with(|| {
                candidates[*b]
                    .is_classical
                    .cmp(&candidates[*a].is_classical)
            })
            .then(a.cmp(b))
    });
    let kind = |at: usize| {
        let one = &candidates[at];
        let updated: BTreeSet<&String> = one.updated.iter().collect();
        (&one.database, one.table_name(), updated)
    };
    let mut chosen: Vec<usize> = Vec::new();
    for (at, _) in &all {
        if chosen.len() < most && !chosen.iter().any(|other| kind(*other) == kind(*at)) {
            chosen.push(*at);
        }
    }
    for (at, _) in &all {
        let is_new = !chosen.contains(at)
            && !chosen.iter().any(|other| {
                kind(*other) == kind(*at) && has_same_estimates(&screened[*other], &screened[*at])
            });
        if chosen.len() < most && is_new {
            chosen.push(*at);
        }
    }
    chosen.sort_by_key(|at| all.iter().position(|(other, _)| other == at));
    chosen
}

/// Reports whether the planner estimates the same for both, for each statement.
fn has_same_estimates(one: &Option<ScreeningResult>, other: &Option<ScreeningResult>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
    one.expected.len() == other.expected.len()
        && one.expected.iter().all(|expected| {
            let same = other
                .expected
                .iter()
                .find(|one| one.fingerprint == expected.fingerprint);
            same.is_some_and(|same| {
                (same.after - expected.after).abs() <= SAME_ESTIMATE * expected.after
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screening::CostEstimate;
    use diagnose::ScreeningMethod;

    fn candidate(columns: &[&str], updated: &[&str]) -> IndexCandidate {
        IndexCandidate {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            table: "t".to_owned(),
            columns: columns.iter().map(|one| (*one).to_owned()).collect(),
            include: Vec::new(),
            predicate: Vec::new(),
            predicate_columns: Vec::new(),
            updated: updated.iter().map(|one| (*one).to_owned()).collect(),
            is_classical: false,
            serves: vec![Fingerprint(1)],
        }
    }

    fn screened(after: f64, bytes: u64, uses: bool) -> Option<ScreeningResult> {
        Some(ScreeningResult {
            method: ScreeningMethod::Built,
            bytes: Some(bytes),
            expected: vec![CostEstimate {
                fingerprint: Fingerprint(1),
                before: 1_000.0,
                after,
                uses,
            }],
            refusal_reason: None,
        })
    }

    #[test]
    fn rank_candidates_puts_the_best_of_each_kind_first() {
        let candidates = [
            candidate(&["a", "b"], &["a"]),
            candidate(&["b", "a"], &["a"]),
            candidate(&["b"], &[]),
            candidate(&["c"], &[]),
            candidate(&["d"], &[]),
        ];
        let all = [
            screened(10.0, 5, true),
            screened(50.0, 5, true),
            screened(400.0, 5, true),
            // Not used: its cost does not matter.
            screened(1.0, 5, false),
            // No gain.
            screened(990.0, 5, true),
        ];
        let ns = HashMap::from([(Fingerprint(1), 1e9)]);
        assert_eq!(rank_candidates(&candidates, &all, &ns, 1), [0]);
        assert_eq!(rank_candidates(&candidates, &all, &ns, 2), [0, 2]);
        assert_eq!(rank_candidates(&candidates, &all, &ns, 5), [0, 1, 2]);
        assert!((expected_saving_ns(all[0].as_ref().unwrap(), &ns) - 0.99e9).abs() < 1.0);
    }

    #[test]
    fn rank_candidates_prefers_the_smaller_of_equal_savings() {
        let candidates = [candidate(&["a", "b"], &[]), candidate(&["a"], &[])];
        let all = [screened(10.0, 900, true), screened(10.0, 500, true)];
        let ns = HashMap::from([(Fingerprint(1), 1e9)]);
        assert_eq!(rank_candidates(&candidates, &all, &ns, 3), [1]);
    }
}
