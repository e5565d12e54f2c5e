//! Decision from the parts of a report.

use compare::proof::{Effect, Verdict};
use compare::{ErrorChange, StatementComparison};

use super::MARGIN;
use super::result::{UpgradeDecision, UpgradeRemedy, UpgradeReport};
use crate::upgrade_inspect::{NewServerKind, UpgradeCheck, UpgradeInspection, UpgradeSeverity};
use crate::upgrade_remedies::{RegressionSign, RemedyStatus};

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

/// Outcome of paired replays: those with all remedies if they were completed, else those without.
struct Outcome<'a> {
    verdict: Option<Verdict>,
    work: Option<&'a Effect>,
    slower: usize,
    suspected: usize,
    errors: &'a [ErrorChange],
    other_rows: u64,
}

impl<'a> Outcome<'a> {
    fn of(report: &'a UpgradeReport) -> Self {
        match report.remedied.as_ref().filter(|one| one.blocks > 0) {
            Some(with) => Outcome {
                verdict: Some(with.verdict),
                work: with.work.as_ref(),
                slower: with.slower.len(),
                suspected: with.suspected.len(),
                errors: &with.errors,
                other_rows: with.other_rows,
            },
            None => Outcome {
                verdict: report.verdict,
                work: report.work.as_ref(),
                slower: report.slower.len(),
                suspected: report.suspected.len(),
                errors: &report.errors,
                other_rows: report.other_rows,
            },
        }
    }
}

/// Decides, and gives the reasons.
pub(super) fn decide(report: &UpgradeReport) -> (UpgradeDecision, Vec<String>) {
    let outcome = Outcome::of(report);
    let with_remedies = with_remedies(report);
    if has_only_screened(report) && is_otherwise_good(report, &outcome) {
        let reason = format!(
            "{with_remedies}The remedies helped each statement alone, and were not proved in replays; see the notes."
        );
        return (UpgradeDecision::Undecided, vec![reason]);
    }
    let mut against = against(report, &outcome);
    if !against.is_empty() {
        against.extend((!with_remedies.is_empty()).then(|| with_remedies.trim().to_owned()));
        return (UpgradeDecision::NoGo, against);
    }
    let unclear = unclear(report, &outcome);
    if !unclear.is_empty() {
        return (UpgradeDecision::Undecided, unclear);
    }
    let with = match with_remedies.is_empty() {
        true => String::new(),
        false => format!("{with_remedies}With the remedies: "),
    };
    let shown = match outcome.verdict {
        Some(Verdict::NotProven) => {
            "No statement is slower, fails more often or returns other rows, and the work of the runs is the same. The noise \
             of the machine is too large to show the same of their total response time."
        }
        _ => "Response times, errors and answers of the workload are no worse on the new version.",
    };
    let mut reasons = vec![format!("{with}{shown}")];
    match report.remedies.len() {
        0 if with_remedies.is_empty() => return (UpgradeDecision::Go, reasons),
        0 => {}
        1 => reasons.push("The inspection names one remedy.".to_owned()),
        number => reasons.push(format!("The inspection names {number} remedies.")),
    }
    (UpgradeDecision::GoWithRemedies, reasons)
}

/// Introduces what was shown with the remedies of regressions; empty without any.
fn with_remedies(report: &UpgradeReport) -> String {
    let mut worse = 0;
    let mut remedied = 0;
    for one in &report.regressions {
        worse += 1;
        remedied += usize::from(one.remedy.is_some());
    }
    match (worse, remedied) {
        (_, 0) => String::new(),
        (1, _) => {
            "1 statement is worse without a remedy, and a remedy was found for it. ".to_owned()
        }
        (worse, remedied) => format!(
            "{worse} statements are worse without remedies, and remedies were found for {remedied} of them. "
        ),
    }
}

/// Whether every regression has a remedy, and there were no replays with them.
fn has_only_screened(report: &UpgradeReport) -> bool {
    let all = &report.regressions;
    let is_proved = report.remedied.as_ref().is_some_and(|one| one.blocks > 0);
    !is_proved && !all.is_empty() && all.iter().all(|one| one.status == RemedyStatus::Screened)
}

/// Whether nothing but the regressions with remedies speaks against the upgrade.
fn is_otherwise_good(report: &UpgradeReport, outcome: &Outcome<'_>) -> bool {
    let is_known = |one: &StatementComparison| {
        let fingerprint = one.fingerprint.to_string();
        let mut known = report.regressions.iter();
        known.any(|known| known.fingerprint == fingerprint)
    };
    let rows = report.regressions.iter();
    let rows = rows
        .filter(|one| one.sign == RegressionSign::OtherRows)
        .count();
    report.restore_errors.is_empty()
        && !outcome.errors.iter().any(|one| one.regression)
        && report.slower.iter().all(is_known)
        && outcome.other_rows <= rows as u64
}

/// Returns what speaks against the upgrade.
fn against(report: &UpgradeReport, outcome: &Outcome<'_>) -> Vec<String> {
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
    let errors = outcome.errors.iter().filter(|one| one.regression);
    add(
        errors.count(),
        "error is new or more frequent on the new version.",
        "errors are new or more frequent on the new version.",
    );
    add(
        usize::try_from(outcome.other_rows).unwrap_or(usize::MAX),
        "statement returns other rows or values.",
        "statements return other rows or values.",
    );
    add(
        outcome.slower,
        "statement is slower.",
        "statements are slower.",
    );
    let without_remedy = |wanted: RegressionSign| {
        let all = report.regressions.iter();
        all.filter(|one| one.sign == wanted && one.remedy.is_none())
            .count()
    };
    add(
        without_remedy(RegressionSign::Work),
        "statement does more work with another plan, and no remedy was found.",
        "statements do more work with other plans, and no remedy was found.",
    );
    add(
        without_remedy(RegressionSign::OtherOrder),
        "statement with ORDER BY returns its rows in another order, since the collations differ.",
        "statements with ORDER BY return their rows in another order, since the collations differ.",
    );
    if outcome.verdict == Some(Verdict::Lost) {
        reasons.push("All statements together got slower than the margin allows.".to_owned());
    }
    reasons
}

/// Returns what was not shown.
fn unclear(report: &UpgradeReport, outcome: &Outcome<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    match outcome.verdict {
        None => reasons.push("The replays on both versions were not completed.".to_owned()),
        // Work is compared before time.
        Some(Verdict::NotProven) if is_work_equal(outcome.work.map(|work| work.high)) => {}
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
    match outcome.suspected {
        0 => {}
        1 => reasons.push(
            "1 statement looks slower, and chance could not be ruled out; give more time with --within."
                .to_owned(),
        ),
        number => reasons.push(format!(
            "{number} statements look slower, and chance could not be ruled out; give more time with --within."
        )),
    }
    let screened = report.regressions.iter();
    let screened = screened.filter(|one| one.status == RemedyStatus::Screened);
    if screened.count() > 0 {
        reasons.push("Remedies were not proved in replays; see the notes.".to_owned());
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
    use crate::upgrade_rehearsal::{RemedyProof, UpgradeCoverage};
    use crate::upgrade_remedies::{RegressionRemedy, RemedyKind, UpgradeRegression};

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
            regressions: Vec::new(),
            remedied: None,
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

    fn regression(sign: RegressionSign, status: RemedyStatus) -> UpgradeRegression {
        let has_remedy = !matches!(status, RemedyStatus::NotFound | RemedyStatus::Resolved);
        UpgradeRegression {
            fingerprint: "0000000000000001".to_owned(),
            sql: String::new(),
            sign,
            before: None,
            after: None,
            old_work: None,
            new_work: None,
            remedied_work: None,
            note: None,
            remedy: has_remedy.then(|| RegressionRemedy {
                kind: RemedyKind::Analyze,
                cause: String::new(),
                statements: vec!["ANALYZE t".to_owned()],
                setting: None,
                risk: String::new(),
            }),
            status,
            tried: Vec::new(),
        }
    }

    fn proof(verdict: Verdict, other_rows: u64) -> RemedyProof {
        RemedyProof {
            statements: vec!["ANALYZE t".to_owned()],
            verdict,
            effect: None,
            work: None,
            blocks: 3,
            slower: Vec::new(),
            suspected: Vec::new(),
            errors: Vec::new(),
            other_rows,
            proof: String::new(),
        }
    }

    #[test]
    fn proved_remedies_of_regressions_decide_instead_of_the_replays_without_them() {
        let decided = |report: &UpgradeReport| decide(report).0;
        let mut worse = report(Some(Verdict::Lost));
        worse.regressions = vec![regression(RegressionSign::Slower, RemedyStatus::Proved)];
        worse.remedied = Some(proof(Verdict::Same, 0));
        assert_eq!(decided(&worse), UpgradeDecision::GoWithRemedies);
        worse.remedied = Some(proof(Verdict::Same, 1));
        assert_eq!(decided(&worse), UpgradeDecision::NoGo);
        worse.remedied = Some(proof(Verdict::Lost, 0));
        assert_eq!(decided(&worse), UpgradeDecision::NoGo);
        // Without replays with them, remedies decide nothing.
        worse.remedied = None;
        worse.regressions[0].status = RemedyStatus::Screened;
        assert_eq!(decided(&worse), UpgradeDecision::Undecided);
        worse.restore_errors = vec!["x".to_owned()];
        assert_eq!(decided(&worse), UpgradeDecision::NoGo);
    }

    #[test]
    fn regression_without_a_remedy_is_a_no_go() {
        for sign in [RegressionSign::Work, RegressionSign::OtherOrder] {
            let mut worse = report(Some(Verdict::Same));
            worse.regressions = vec![regression(sign, RemedyStatus::NotFound)];
            assert_eq!(decide(&worse).0, UpgradeDecision::NoGo, "{sign:?}");
        }
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
