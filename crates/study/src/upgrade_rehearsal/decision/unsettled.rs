//! Findings of the replays without remedies that those with all remedies do not settle. The second replays are shorter, so
//! that nothing is found in them proves little.

use compare::StatementComparison;

use super::super::result::{RemedyProof, UpgradeReport};
use super::unclear;
use crate::upgrade_remedies::{RegressionSign, RemedyStatus, UpgradeRegression};

/// Returns what was found without the remedies, and what the replays with them neither show again nor disprove.
pub(super) fn reasons(report: &UpgradeReport) -> Vec<String> {
    let Some(with) = report.remedied.as_ref().filter(|one| one.blocks > 0) else {
        return Vec::new();
    };
    let mut reasons = Vec::new();
    let slower = report.slower.iter().chain(&report.suspected);
    let slower = slower.filter(|one| is_unsettled(report, with, one));
    let names: Vec<String> = slower.map(unclear::name).collect();
    let advice = unclear::more_time(report);
    let again = format!("the shorter replays with them do not show it again; {advice}");
    let rest = format!(
        "the replays with them do not show that the difference is gone: {}. To decide, {advice}",
        unclear::joined(&names)
    );
    reasons.extend(counted(
        names.len(),
        "statement is or looks slower without the remedies",
        "statements are or look slower without the remedies",
        &rest,
    ));
    let errors = report.errors.iter().filter(|one| {
        let mut again = with.errors.iter();
        let is_again = again.any(|other| {
            other.regression
                && (other.fingerprint, other.sqlstate) == (one.fingerprint, one.sqlstate)
        });
        let fingerprint = one.fingerprint.map(|one| one.to_string());
        let is_remedied = report.regressions.iter().any(|known| {
            Some(&known.fingerprint) == fingerprint.as_ref() && known.status == RemedyStatus::Proved
        });
        one.regression && !is_again && !is_remedied
    });
    reasons.extend(counted(
        errors.count(),
        "error is new or more frequent without the remedies",
        "errors are new or more frequent without the remedies",
        &again,
    ));
    let remedied = report.regressions.iter();
    let remedied = remedied
        .filter(|one| one.sign == RegressionSign::OtherRows && one.status == RemedyStatus::Proved);
    let known = with.other_rows + remedied.count() as u64;
    reasons.extend(counted(
        usize::try_from(report.other_rows.saturating_sub(known)).unwrap_or(usize::MAX),
        "statement returns other rows without the remedies",
        "statements return other rows without the remedies",
        &again,
    ));
    reasons
}

/// Whether a statement that is slower without the remedies is neither slower with them nor shown not to be. A remedy that was
/// only screened is another reason.
fn is_unsettled(report: &UpgradeReport, with: &RemedyProof, one: &StatementComparison) -> bool {
    let mut again = with.slower.iter().chain(&with.suspected);
    if again.any(|other| other.fingerprint == one.fingerprint) {
        return false;
    }
    let fingerprint = one.fingerprint.to_string();
    !with.settled.contains(&fingerprint) && lacks_remedy(&report.regressions, &fingerprint)
}

/// Whether a statement that is slower has no remedy for some of its values.
fn lacks_remedy(all: &[UpgradeRegression], fingerprint: &str) -> bool {
    let slower = all.iter().filter(|one| {
        one.fingerprint == fingerprint
            && matches!(one.sign, RegressionSign::Slower | RegressionSign::Suspected)
    });
    let statuses: Vec<RemedyStatus> = slower.map(|one| one.status).collect();
    statuses.is_empty() || statuses.contains(&RemedyStatus::NotFound)
}

fn counted(number: usize, one: &str, many: &str, rest: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {one}, and {rest}.")),
        number => Some(format!("{number} {many}, and {rest}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_statement_with_values_without_a_remedy_is_not_settled() {
        let entry = |status| UpgradeRegression {
            status,
            ..UpgradeRegression::new("1", "", RegressionSign::Slower)
        };
        let proved = entry(RemedyStatus::Proved);
        let other_values = entry(RemedyStatus::NotFound);
        assert!(!lacks_remedy(std::slice::from_ref(&proved), "1"));
        assert!(lacks_remedy(&[proved.clone(), other_values], "1"));
        assert!(lacks_remedy(&[proved], "2"));
    }
}
