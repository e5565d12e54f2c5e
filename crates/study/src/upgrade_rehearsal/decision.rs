//! Decision from the parts of a report.

use compare::proof::Verdict;

use super::MARGIN;
use super::result::{UpgradeDecision, UpgradeRemedy, UpgradeReport};
use crate::upgrade_inspect::{NewServerKind, UpgradeCheck, UpgradeInspection, UpgradeSeverity};

/// Checks whose remedy the rehearsal performs on private servers: the restore is followed by ANALYZE.
const PERFORMED: [UpgradeCheck; 2] = [UpgradeCheck::Statistics, UpgradeCheck::ExtendedStatistics];

/// Returns the remedies that the findings name.
pub(super) fn remedies(inspection: &UpgradeInspection) -> Vec<UpgradeRemedy> {
    let is_private = inspection.new_server == NewServerKind::Private;
    let is_performed = |check| is_private && PERFORMED.contains(&check);
    let findings = inspection
        .findings
        .iter()
        .filter(|one| one.severity != UpgradeSeverity::Note && !is_performed(one.check));
    findings
        .map(|one| {
            let mut statements: Vec<String> = Vec::new();
            for statement in one
                .objects
                .iter()
                .filter_map(|object| object.statement.as_ref())
            {
                if !statements.contains(statement) {
                    statements.push(statement.clone());
                }
            }
            UpgradeRemedy {
                check: one.check.name().to_owned(),
                before: one.severity == UpgradeSeverity::Blocks,
                problem: one.message.clone(),
                remedy: one.remedy.clone(),
                statements,
            }
        })
        .collect()
}

/// Decides, and gives the reasons.
pub(super) fn decide(report: &UpgradeReport) -> (UpgradeDecision, Vec<String>) {
    let against = against(report);
    if !against.is_empty() {
        return (UpgradeDecision::NoGo, against);
    }
    let unclear = unclear(report);
    if !unclear.is_empty() {
        return (UpgradeDecision::Undecided, unclear);
    }
    let shown = match report.verdict {
        Some(Verdict::NotProven) => {
            "No statement got slower, fails more often or returns other rows, and the work of the runs is the same. The noise \
             of the machine is too large to show the same of their total response time."
        }
        _ => "Response times, errors and answers of the workload are no worse on the new version.",
    };
    match report.remedies.len() {
        0 => (UpgradeDecision::Go, vec![shown.to_owned()]),
        number => (
            UpgradeDecision::GoWithRemedies,
            vec![
                shown.to_owned(),
                match number {
                    1 => "The inspection names one remedy.".to_owned(),
                    number => format!("The inspection names {number} remedies."),
                },
            ],
        ),
    }
}

/// Returns what speaks against the upgrade.
fn against(report: &UpgradeReport) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut add = |number: usize, one: &str, many: &str| match number {
        0 => {}
        1 => reasons.push(format!("1 {one}")),
        number => reasons.push(format!("{number} {many}")),
    };
    add(
        report.restore_errors.len(),
        "object could not be restored into the new version.",
        "objects could not be restored into the new version.",
    );
    let errors = report.errors.iter().filter(|one| one.regression);
    add(
        errors.count(),
        "error is new or more frequent on the new version.",
        "errors are new or more frequent on the new version.",
    );
    add(
        usize::try_from(report.other_rows).unwrap_or(usize::MAX),
        "statement returned other rows or values.",
        "statements returned other rows or values.",
    );
    add(
        report.slower.len(),
        "statement got slower.",
        "statements got slower.",
    );
    if report.verdict == Some(Verdict::Lost) {
        reasons.push("All statements together got slower than the margin allows.".to_owned());
    }
    reasons
}

/// Returns what was not shown.
fn unclear(report: &UpgradeReport) -> Vec<String> {
    let mut reasons = Vec::new();
    match report.verdict {
        None => reasons.push("The replays on both versions were not completed.".to_owned()),
        // Work is compared before time.
        Some(Verdict::NotProven) if is_work_equal(report.work.map(|work| work.high)) => {}
        Some(Verdict::NotProven) => reasons.push(
            "The runs do not show that the response time stays within the margin; give more time with --within."
                .to_owned(),
        ),
        Some(Verdict::Won | Verdict::Same | Verdict::Lost) => {}
    }
    if report
        .coverage
        .as_ref()
        .is_none_or(|coverage| coverage.sent == 0)
    {
        reasons.push("No statement of the workload was replayed on the new version.".to_owned());
    }
    match report.suspected.len() {
        0 => {}
        1 => reasons.push(
            "1 statement looks slower, and chance could not be ruled out; give more time with --within."
                .to_owned(),
        ),
        number => reasons.push(format!(
            "{number} statements look slower, and chance could not be ruled out; give more time with --within."
        )),
    }
    reasons
}

/// Whether the whole interval of the work of runs, up to this bound, is within the margin or better.
fn is_work_equal(high: Option<f64>) -> bool {
    high.is_some_and(|high| high <= 1.0 + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgrade_inspect::{UpgradeFinding, UpgradeMethod, UpgradeObject};
    use crate::upgrade_rehearsal::UpgradeCoverage;

    fn inspection(findings: &[(UpgradeCheck, UpgradeSeverity)]) -> UpgradeInspection {
        let finding = |&(check, severity): &(UpgradeCheck, UpgradeSeverity)| UpgradeFinding {
            check,
            severity,
            message: "found".to_owned(),
            reason: String::new(),
            remedy: "do".to_owned(),
            objects: ["one", "two"]
                .map(|name| UpgradeObject {
                    name: name.to_owned(),
                    statement: Some("ANALYZE t".to_owned()),
                    ..UpgradeObject::default()
                })
                .to_vec(),
        };
        UpgradeInspection {
            from_version: "15.1".to_owned(),
            to_version: "18.1".to_owned(),
            new_server: NewServerKind::Private,
            method: UpgradeMethod::Dump,
            databases: Vec::new(),
            findings: findings.iter().map(finding).collect(),
            unchecked: Vec::new(),
        }
    }

    fn report(verdict: Option<Verdict>) -> UpgradeReport {
        UpgradeReport {
            decision: UpgradeDecision::Undecided,
            reasons: Vec::new(),
            remedies: Vec::new(),
            workload: String::new(),
            database: String::new(),
            method: crate::upgrade_rehearsal::RehearsalMethod::Dump,
            from_version: String::new(),
            to_version: String::new(),
            coverage: Some(UpgradeCoverage {
                statements: 9,
                sent: 9,
                ..UpgradeCoverage::default()
            }),
            verdict,
            effect: None,
            work: None,
            blocks: 3,
            slower: Vec::new(),
            suspected: Vec::new(),
            faster: 0,
            errors: Vec::new(),
            other_rows: 0,
            plans: None,
            restore_errors: Vec::new(),
            inspection: inspection(&[]),
            proof: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn remedies_are_those_that_the_rehearsal_does_not_perform_with_each_statement_once() {
        let found = remedies(&inspection(&[
            (UpgradeCheck::SystemViews, UpgradeSeverity::Blocks),
            (UpgradeCheck::Statistics, UpgradeSeverity::MendAfter),
            (UpgradeCheck::ReplicationSlots, UpgradeSeverity::MendAfter),
            (UpgradeCheck::ChangedDefaults, UpgradeSeverity::Note),
        ]));
        let names: Vec<(&str, bool)> = found.iter().map(|one| (&*one.check, one.before)).collect();
        assert_eq!(
            names,
            [("system-views", true), ("replication-slots", false)]
        );
        assert_eq!(found[0].statements, ["ANALYZE t"]);
    }

    #[test]
    fn decision_is_go_only_if_everything_was_shown() {
        let decided = |report: &UpgradeReport| decide(report).0;
        let same = report(Some(Verdict::Same));
        assert_eq!(decided(&same), UpgradeDecision::Go);
        let with_remedies = UpgradeReport {
            remedies: remedies(&inspection(&[(
                UpgradeCheck::SystemViews,
                UpgradeSeverity::Blocks,
            )])),
            ..same.clone()
        };
        assert_eq!(decided(&with_remedies), UpgradeDecision::GoWithRemedies);
        assert_eq!(decided(&report(None)), UpgradeDecision::Undecided);
        assert_eq!(decided(&report(Some(Verdict::Lost))), UpgradeDecision::NoGo);
        let uncovered = UpgradeReport {
            coverage: None,
            ..same.clone()
        };
        assert_eq!(decided(&uncovered), UpgradeDecision::Undecided);
        let other_rows = UpgradeReport {
            other_rows: 1,
            ..with_remedies.clone()
        };
        assert_eq!(decided(&other_rows), UpgradeDecision::NoGo);
        let lost = UpgradeReport {
            restore_errors: vec!["x".to_owned()],
            ..same
        };
        assert_eq!(decided(&lost), UpgradeDecision::NoGo);
    }

    #[test]
    fn equal_or_less_work_decides_if_noise_hides_the_time() {
        assert!(is_work_equal(Some(1.01)));
        assert!(is_work_equal(Some(0.6)));
        assert!(!is_work_equal(Some(1.2)));
        assert!(!is_work_equal(None));
        let (decision, reasons) = decide(&report(Some(Verdict::NotProven)));
        assert_eq!(decision, UpgradeDecision::Undecided);
        assert!(reasons[0].contains("--within"), "{reasons:?}");
    }
}
