//! Statements that only the replays with the remedies show as slower. The search, which came before, did not find them worse.

use std::collections::HashMap;

use sql::Fingerprint;

use super::result::RemedyProof;
use crate::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedySearchResult, SeenAlone, UpgradeRegression,
};

/// Ratios of statements, by fingerprint.
type Factors = HashMap<String, MeasuredFactor>;

/// Returns the statements that are or look slower with the remedies, are no regression without them, and were not `known` as slower.
/// `without` and `with` have the ratios of both replays.
pub(super) fn slower_with_remedies(
    proof: &RemedyProof,
    found: &RemedySearchResult,
    known: &HashMap<Fingerprint, RegressionSign>,
    (without, with): (&Factors, &Factors),
) -> Vec<UpgradeRegression> {
    let slower = proof.slower.iter().map(|one| (one, RegressionSign::Slower));
    let suspected = proof.suspected.iter();
    let suspected = suspected.map(|one| (one, RegressionSign::Suspected));
    let statements = slower.chain(suspected).map(|(one, sign)| SlowerStatement {
        fingerprint: one.fingerprint,
        sql: one.sql.as_deref(),
        sign,
    });
    entries(statements, found, known, (without, with))
}

/// Statement that is or looks slower with the remedies.
struct SlowerStatement<'a> {
    fingerprint: Fingerprint,
    sql: Option<&'a str>,
    sign: RegressionSign,
}

fn entries<'a>(
    statements: impl Iterator<Item = SlowerStatement<'a>>,
    found: &RemedySearchResult,
    known: &HashMap<Fingerprint, RegressionSign>,
    (without, with): (&Factors, &Factors),
) -> Vec<UpgradeRegression> {
    let new = statements.filter(|one| !known.contains_key(&one.fingerprint));
    let has_others = found.has_other_remedies();
    let all = new.map(|one| {
        let fingerprint = one.fingerprint.to_string();
        let seen = found.seen_alone(&fingerprint);
        let works = seen.works();
        let sql = one.sql.unwrap_or(&fingerprint);
        UpgradeRegression {
            before: without.get(&fingerprint).copied(),
            after: with.get(&fingerprint).copied(),
            old_work: works.map(|[old, _]| old),
            new_work: works.map(|[_, new]| new),
            has_old_plan: seen.has_old_plan(),
            note: Some(note(&seen, has_others)),
            ..UpgradeRegression::new(fingerprint.as_str(), sql, one.sign)
        }
    });
    let is_listed = |one: &UpgradeRegression| {
        let mut listed = found.regressions.iter();
        listed.any(|listed| listed.fingerprint == one.fingerprint)
    };
    all.filter(|one| !is_listed(one)).collect()
}

/// Describes what the search saw of a statement alone.
fn note(seen: &SeenAlone<'_>, has_other_remedies: bool) -> String {
    let with = "with the statistics and indexes that were put in place first";
    let text = match seen {
        SeenAlone::Not(reason) => return format!("It was not compared alone: {reason}."),
        SeenAlone::SamePlans => format!("Planned alone {with}, it has the plan of the old server."),
        SeenAlone::Executed(work) => match &work.other_plans {
            None => format!("Executed alone {with}, it has the plan of the old server."),
            Some([old, new]) if old == new => format!(
                "Executed alone {with}, it has another plan with the same scans and joins ({new}). It differs in conditions, sorts, \
                 aggregates or other operations."
            ),
            Some([old, new]) => format!(
                "Executed alone {with}, it has another plan: {new}. On the old server: {old}."
            ),
        },
    };
    match has_other_remedies {
        true => format!(
            "{text} Other remedies, such as settings, were not in force then and may be the cause."
        ),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_remedies::{TrialWork, WorkOfBoth};

    fn work(other_plans: Option<[&str; 2]>) -> WorkOfBoth {
        WorkOfBoth {
            old: TrialWork::default(),
            new: TrialWork::default(),
            other_plans: other_plans.map(|both| both.map(str::to_owned)),
        }
    }

    #[test]
    fn plan_alone_is_described() {
        let [same, like, other] = [None, Some(["a", "a"]), Some(["a", "b"])].map(work);
        for (seen, words) in [
            (
                SeenAlone::Not("no time".to_owned()),
                "not compared alone: no time.",
            ),
            (SeenAlone::SamePlans, "Planned alone"),
            (SeenAlone::Executed(&same), "the plan of the old server"),
            (SeenAlone::Executed(&like), "differs in conditions"),
            (
                SeenAlone::Executed(&other),
                "another plan: b. On the old server: a.",
            ),
        ] {
            let text = note(&seen, false);
            assert!(text.contains(words), "{text}");
        }
        assert!(note(&SeenAlone::SamePlans, true).contains("may be the cause"));
    }

    #[test]
    fn statements_that_were_slower_before_have_no_second_entry() {
        let fingerprints = [1, 2, 3].map(Fingerprint);
        let [known, regression, new] = fingerprints;
        let mut found = RemedySearchResult::default();
        let worse = UpgradeRegression::new(regression.to_string(), "", RegressionSign::Work);
        found.regressions.push(worse);
        let factor = MeasuredFactor {
            ratio: 1.2,
            ..MeasuredFactor::default()
        };
        let with = Factors::from([(new.to_string(), factor)]);
        let statements = fingerprints.map(|fingerprint| SlowerStatement {
            fingerprint,
            sql: None,
            sign: RegressionSign::Suspected,
        });
        let signs = HashMap::from([(known, RegressionSign::Slower)]);
        let factors = (&Factors::new(), &with);
        let entries = entries(statements.into_iter(), &found, &signs, factors);
        let [one] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert_eq!(one.fingerprint, new.to_string());
        assert_eq!((one.before, one.after), (None, Some(factor)));
        assert!(one.note.as_ref().unwrap().contains("not compared alone"));
    }
}
