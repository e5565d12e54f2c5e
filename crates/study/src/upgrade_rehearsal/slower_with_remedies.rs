//! Statements that only the replays with the remedies show as slower. The search, which came before, did not find them worse.

use std::collections::HashMap;

use super::result::RemedyProof;
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedySearchResult, RemedyStatus, UpgradeRegression, WorkOfBoth,
};

/// Ratios of statements, by fingerprint.
type Factors = HashMap<String, MeasuredFactor>;

/// Returns the statements that are or look slower with the remedies and are no regression without them. `without` and `with` have the
/// ratios of both replays.
pub(super) fn slower_with_remedies(
    proof: &RemedyProof,
    found: &RemedySearchResult,
    (without, with): (&Factors, &Factors),
) -> Vec<UpgradeRegression> {
    let slower = proof.slower.iter().map(|one| (one, RegressionSign::Slower));
    let suspected = proof.suspected.iter();
    let suspected = suspected.map(|one| (one, RegressionSign::Suspected));
    let all = slower.chain(suspected).map(|(one, sign)| {
        let fingerprint = one.fingerprint.to_string();
        let work = found.works.get(&fingerprint);
        let executed = work.and_then(Option::as_ref);
        let sql = one.sql.as_deref().unwrap_or(&fingerprint);
        UpgradeRegression {
            before: without.get(&fingerprint).copied(),
            after: with.get(&fingerprint).copied(),
            old_work: executed.map(|work| work.old),
            new_work: executed.map(|work| work.new),
            note: Some(seen_alone(work)),
            status: RemedyStatus::Untried,
            ..UpgradeRegression::new(fingerprint.as_str(), sql, sign)
        }
    });
    let is_known = |one: &UpgradeRegression| {
        let mut known = found.regressions.iter();
        known.any(|known| known.fingerprint == one.fingerprint)
    };
    all.filter(|one| !is_known(one)).collect()
}

/// Describes what the search saw of a statement alone.
fn seen_alone(work: Option<&Option<WorkOfBoth>>) -> String {
    let with = "with the statistics and indexes of the remedies";
    match work {
        None => "It was not executed alone.".to_owned(),
        Some(None) => format!("Planned alone {with}, it has the plan of the old server."),
        Some(Some(work)) => match &work.other_plans {
            None => format!("Executed alone {with}, it has the plan of the old server."),
            Some([old, new]) if old == new => format!(
                "Executed alone {with}, it has another plan with the same scans and joins, by other conditions or in another \
                 order: {new}."
            ),
            Some([old, new]) => format!(
                "Executed alone {with}, it has another plan: {new}. On the old server: {old}."
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_remedies::TrialWork;

    #[test]
    fn plan_alone_is_described() {
        let work = |other_plans: Option<[&str; 2]>| {
            Some(WorkOfBoth {
                old: TrialWork::default(),
                new: TrialWork::default(),
                other_plans: other_plans.map(|both| both.map(str::to_owned)),
            })
        };
        for (work, words) in [
            (None, "not executed alone"),
            (Some(None), "Planned alone"),
            (Some(work(None)), "the plan of the old server"),
            (Some(work(Some(["a", "a"]))), "other conditions"),
            (
                Some(work(Some(["a", "b"]))),
                "another plan: b. On the old server: a.",
            ),
        ] {
            let text = seen_alone(work.as_ref());
            assert!(text.contains(words), "{text}");
        }
    }
}
