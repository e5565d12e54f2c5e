//! Asynchronous reads of version 18 as a possible cause of statements that are slower with the plan of the old server.

use super::result::UpgradeReport;
use crate::upgrade_inspect::{IO_METHOD, UpgradeCheck, UpgradeObject};
use crate::upgrade_remedies::{RegressionSign, RemedyStatus, UpgradeRegression};

/// Sentence at such a statement. Measured in `docs/benchmarks/upgrades.md`.
const SENTENCE: &str = "The new server reads pages asynchronously (io_method), which the old version does not. If its I/O workers wait for busy \
     processors, reads are slower: try io_method = sync, which needs a restart, and rehearse again.";

/// Adds the possible cause to the statements that are or look slower in replays, have the plan of the old server alone, and no remedy.
pub(super) fn add_asynchronous_reads(report: &mut UpgradeReport) {
    let findings = report.inspection.findings.iter();
    let defaults = findings.filter(|one| one.check == UpgradeCheck::ChangedDefaults);
    let mut objects = defaults.flat_map(|one| &one.objects);
    if !objects.any(reads_by_workers) {
        return;
    }
    let with = report.remedied.iter_mut();
    let with = with.flat_map(|proof| &mut proof.slower_only_with_remedies);
    for one in report.regressions.iter_mut().chain(with) {
        if is_unexplained(one) {
            let known = one
                .note
                .take()
                .map_or_else(String::new, |note| format!("{note} "));
            one.note = Some(format!("{known}{SENTENCE}"));
        }
    }
}

/// Whether an object is the setting with which other processes read pages for a session.
fn reads_by_workers(object: &UpgradeObject) -> bool {
    let detail = object.detail.as_deref();
    object.name == IO_METHOD && detail.is_some_and(|detail| detail.ends_with("worker"))
}

fn is_unexplained(one: &UpgradeRegression) -> bool {
    matches!(one.sign, RegressionSign::Slower | RegressionSign::Suspected)
        && one.has_old_plan
        && one.old_work.is_none_or(|work| work.blocks > 0.0)
        && one.remedy.is_none()
        && one.status == RemedyStatus::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slower_statement_with_the_old_plan_and_no_remedy_is_unexplained() {
        let slower = UpgradeRegression {
            has_old_plan: true,
            ..UpgradeRegression::new("1", "", RegressionSign::Slower)
        };
        assert!(is_unexplained(&slower));
        for change in [
            |one: &mut UpgradeRegression| one.has_old_plan = false,
            |one: &mut UpgradeRegression| one.status = RemedyStatus::Resolved,
            |one: &mut UpgradeRegression| one.sign = RegressionSign::Work,
        ] {
            let mut other = slower.clone();
            change(&mut other);
            assert!(!is_unexplained(&other));
        }
    }
}
