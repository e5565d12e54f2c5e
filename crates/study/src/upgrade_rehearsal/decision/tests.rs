mod reasons;

use compare::InconclusiveReason;
use compare::proof::{ERROR, PairedBlock, effect};

use super::*;
use crate::plan_check::{CheckedSide, Coverage, PlanCheck, PlannerSource};
use crate::upgrade_inspect::{UncheckedPart, UpgradeFinding, UpgradeMethod, UpgradeObject};
use crate::upgrade_rehearsal::{DataComparison, DifferingTable, RemedyProof, UpgradeCoverage};
use crate::upgrade_remedies::{
    RegressionRemedy, RemedyKind, SampleDependence, SearchCoverage, TrialWork, UpgradeRegression,
};

fn decide(report: &UpgradeReport) -> (UpgradeDecision, Vec<String>) {
    super::decide(report, None)
}

/// Change of a report.
type Alteration<'a> = &'a dyn Fn(&mut UpgradeReport);

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

fn evidence() -> RehearsalEvidence {
    RehearsalEvidence {
        judged: 3,
        unjudged: 1,
        answers: 9,
        checksums: 9,
        ..RehearsalEvidence::default()
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
        from_server: String::new(),
        to_server: None,
        from_version: String::new(),
        to_version: String::new(),
        coverage: Some(UpgradeCoverage {
            statements: 9,
            sent: 9,
            rehearsed: 9,
            ..UpgradeCoverage::default()
        }),
        margin: 0.05,
        is_restored: true,
        data: None,
        other_data: Vec::new(),
        evidence: evidence(),
        verdict,
        effect: None,
        work: None,
        blocks: 3,
        advised_time: None,
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: 0,
        errors: Vec::new(),
        other_rows: 0,
        regressions: Vec::new(),
        remedied: None,
        plans: None,
        restore_errors: Vec::new(),
        restore_errors_of_both: Vec::new(),
        inspection: inspection(&[]),
        proof: String::new(),
        notes: Vec::new(),
    }
}

#[test]
fn remedies_have_each_statement_once_and_mark_those_that_the_rehearsal_performed() {
    let found = remedies(&inspection(&[
        (UpgradeCheck::SystemViews, UpgradeSeverity::Blocks),
        (UpgradeCheck::Statistics, UpgradeSeverity::MendAfter),
        (UpgradeCheck::ReplicationSlots, UpgradeSeverity::MendAfter),
        (UpgradeCheck::ChangedDefaults, UpgradeSeverity::Note),
    ]));
    let found_in_order = found.iter();
    let names: Vec<(&str, bool, bool)> = found_in_order
        .map(|one| (&*one.check, one.before, one.performed))
        .collect();
    assert_eq!(
        names,
        [
            ("system-views", true, false),
            ("statistics", false, true),
            ("replication-slots", false, false)
        ]
    );
    assert_eq!(found[0].objects, ["one", "two"]);
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
    let has_remedy = !matches!(
        status,
        RemedyStatus::NotFound | RemedyStatus::Untried | RemedyStatus::Resolved
    );
    UpgradeRegression {
        remedy: has_remedy.then(|| RegressionRemedy {
            kind: RemedyKind::Analyze,
            cause: String::new(),
            statements: vec!["ANALYZE t".to_owned()],
            setting: None,
            role: None,
            risk: String::new(),
        }),
        status,
        ..UpgradeRegression::new("0000000000000001", "", sign)
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
        slower_only_with_remedies: Vec::new(),
        settled: Vec::new(),
        errors: Vec::new(),
        other_rows,
        evidence: evidence(),
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
fn regression_whose_candidates_were_not_all_tried_is_undecided() {
    let mut worse = report(Some(Verdict::Same));
    worse.regressions = vec![regression(RegressionSign::Work, RemedyStatus::Untried)];
    let (decision, reasons) = decide(&worse);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert!(reasons.concat().contains("not tried"), "{reasons:?}");
}

#[test]
fn search_of_less_than_nine_tenths_of_the_captured_time_is_undecided() {
    let examined = |examined_captured_us| {
        let mut report = report(Some(Verdict::Same));
        report.evidence.search = Some(SearchCoverage {
            statements: 200,
            captured_us: 1_000,
            examined: 20,
            examined_captured_us,
            ..SearchCoverage::default()
        });
        decide(&report)
    };
    assert_eq!(examined(900).0, UpgradeDecision::Go);
    let (decision, reasons) = examined(899);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert!(
        reasons
            .concat()
            .contains("20 of 200 statements, which are 89 % of the captured time"),
        "{reasons:?}"
    );
}

/// Returns an effect whose interval ends there.
fn up_to(high: f64) -> Effect {
    let block = PairedBlock {
        before: [1.0, 1.01],
        after: [1.0, 1.01],
        ..PairedBlock::default()
    };
    let mut effect = effect(&[block; 3], ERROR).unwrap();
    (effect.ratio, effect.low, effect.high) = (high / 1.1, high / 1.2, high);
    effect
}

/// Returns a check in which no plan changed.
fn plans() -> PlanCheck {
    let side = || CheckedSide {
        server_version: String::new(),
        change: None,
        settings: Vec::new(),
        planner: None,
    };
    PlanCheck {
        workload: String::new(),
        planner: PlannerSource {
            path: String::new(),
            server_version: String::new(),
            database: String::new(),
            exported_at: String::new(),
        },
        before: side(),
        after: side(),
        coverage: Coverage {
            statements: 4,
            plans: 4,
            executions: 4,
            captured_us: 4,
            unchecked_statements: 0,
            unchecked_executions: 0,
            unchecked_captured_us: 0,
            without_plan: 0,
        },
        limitations: Vec::new(),
        statements: Vec::new(),
        unchecked: Vec::new(),
        conditions: Vec::new(),
        undecided: None,
        perturbed_copies: 0,
    }
}

#[test]
fn equal_blocks_decide_only_with_equal_processor_time_or_without_a_doubling() {
    let by_work = |high: f64, change: &dyn Fn(&mut UpgradeReport)| {
        let mut report = report(Some(Verdict::NotProven));
        report.work = Some(up_to(1.01));
        report.effect = Some(up_to(high));
        report.plans = Some(plans());
        report.evidence.processor_time = Some(up_to(1.04));
        change(&mut report);
        decide(&report)
    };
    let (decision, reasons) = by_work(1.4, &|_| {});
    assert_eq!(decision, UpgradeDecision::Go);
    assert!(reasons[0].contains("at most × 1.40"), "{reasons:?}");
    assert!(reasons[0].contains("3 of 4 statements"), "{reasons:?}");
    let slow = |report: &mut UpgradeReport| report.evidence.processor_time = Some(up_to(1.3));
    let counted = |report: &mut UpgradeReport| {
        slow(report);
        report.evidence.excludes_doubling = true;
    };
    assert_eq!(by_work(1.4, &counted).0, UpgradeDecision::Go);
    let unclear: [(f64, Alteration<'_>); 6] = [
        (1.4, &slow),
        (2.15, &counted),
        (1.4, &|report| report.work = Some(up_to(1.2))),
        (1.4, &|report| report.evidence.temporary_files = Some(3.0)),
        (1.4, &|report| report.plans = None),
        (1.4, &|report| {
            report.evidence.inconclusive = Some(InconclusiveReason::TooLittleData);
        }),
    ];
    for (number, (high, change)) in unclear.into_iter().enumerate() {
        let (decision, reasons) = by_work(high, change);
        assert_eq!(decision, UpgradeDecision::Undecided, "{number}");
        assert!(reasons[0].contains("--within"), "{number}: {reasons:?}");
        assert!(reasons[0].contains(&format!("{high:.2}")), "{reasons:?}");
    }
}

#[test]
fn workload_that_was_not_rehearsed_or_not_compared_is_undecided() {
    let unclear: [(&str, Alteration<'_>); 9] = [
        ("select ctid from t (ctid)", &|report| {
            let unknown = &mut report.evidence.rows_of_unknown_reason;
            unknown.push("select ctid from t (ctid)".to_owned());
        }),
        ("89 % of the workload's statements", &|report| {
            report.coverage.as_mut().unwrap().rehearsed = 1;
        }),
        ("12 % of the captured time", &|report| {
            let coverage = report.coverage.as_mut().unwrap();
            (coverage.captured_us, coverage.rehearsed_captured_us) = (100, 88);
        }),
        ("captured outcome", &|report| {
            report.coverage.as_mut().unwrap().rehearsed = 0;
        }),
        ("No answer", &|report| report.evidence.answers = 0),
        ("differ between runs of one version", &|report| {
            report.evidence.unsteady = vec!["select 1".to_owned(); 3];
        }),
        ("Give --restore", &|report| report.is_restored = false),
        ("into both versions", &|report| {
            report.restore_errors_of_both = vec!["x".to_owned()];
        }),
        ("public.ev has 100000 and 60000 rows", &|report| {
            report.data = Some(DataComparison {
                differing: vec![DifferingTable {
                    name: "public.ev".to_owned(),
                    rows: Some([100_000, 60_000]),
                    bytes: [0, 0],
                }],
                ..DataComparison::default()
            });
        }),
    ];
    for (expected, change) in unclear {
        let mut report = report(Some(Verdict::Same));
        change(&mut report);
        let (decision, reasons) = decide(&report);
        assert_eq!(decision, UpgradeDecision::Undecided, "{expected}");
        assert!(reasons[0].contains(expected), "{expected}: {reasons:?}");
    }
}

#[test]
fn part_that_can_block_and_was_not_read_is_undecided() {
    for (part, decision) in [
        ("tables", UpgradeDecision::Undecided),
        ("large objects", UpgradeDecision::Go),
    ] {
        let mut report = report(Some(Verdict::Same));
        report.inspection.unchecked.push(UncheckedPart {
            on_new_server: false,
            database: None,
            part: part.to_owned(),
            reason: String::new(),
        });
        assert_eq!(decide(&report).0, decision, "{part}");
    }
}

#[test]
fn missing_table_or_database_of_the_upgraded_server_is_a_no_go_that_names_it() {
    for (check, decision) in [
        (UpgradeCheck::MissingTables, UpgradeDecision::NoGo),
        (UpgradeCheck::Databases, UpgradeDecision::NoGo),
        (
            UpgradeCheck::MissingObjects,
            UpgradeDecision::GoWithRemedies,
        ),
    ] {
        let mut report = report(Some(Verdict::Same));
        report.inspection = inspection(&[(check, UpgradeSeverity::MendAfter)]);
        report.remedies = remedies(&report.inspection);
        let (decided, reasons) = decide(&report);
        assert_eq!(decided, decision, "{check:?}");
        let is_named = reasons.iter().any(|reason| reason.contains("one, two"));
        assert_eq!(is_named, decision == UpgradeDecision::NoGo, "{reasons:?}");
    }
}

#[test]
fn times_on_unequal_hosts_are_undecided_and_other_reasons_stay_a_no_go() {
    let decided = |report: &UpgradeReport| super::decide(report, Some("unequal hosts"));
    let lost = report(Some(Verdict::Lost));
    assert_eq!(decide(&lost).0, UpgradeDecision::NoGo);
    let (decision, reasons) = decided(&lost);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert_eq!(reasons[0], "unequal hosts");
    assert!(reasons[1].contains("slower"), "{reasons:?}");
    assert_eq!(
        decided(&report(Some(Verdict::Same))).0,
        UpgradeDecision::Undecided
    );
    let mut other_rows = lost.clone();
    other_rows.other_rows = 1;
    assert_eq!(decided(&other_rows).0, UpgradeDecision::NoGo);
    let work = |blocks| Some(TrialWork { ms: 9.0, blocks });
    for (blocks, decision) in [
        (100.0, UpgradeDecision::Undecided),
        (900.0, UpgradeDecision::NoGo),
    ] {
        let mut worse = report(Some(Verdict::Same));
        let mut one = regression(RegressionSign::Work, RemedyStatus::NotFound);
        (one.old_work, one.new_work) = (work(100.0), work(blocks));
        worse.regressions = vec![one];
        assert_eq!(decided(&worse).0, decision, "{blocks}");
        assert_eq!(decide(&worse).0, UpgradeDecision::NoGo, "{blocks}");
    }
}

#[test]
fn finding_without_the_remedies_that_the_replays_with_them_do_not_judge_is_undecided() {
    let mut remedied = report(Some(Verdict::Lost));
    remedied.regressions = vec![regression(RegressionSign::Slower, RemedyStatus::Proved)];
    remedied.remedied = Some(proof(Verdict::Same, 0));
    assert_eq!(decide(&remedied).0, UpgradeDecision::GoWithRemedies);
    remedied.other_rows = 1;
    let (decision, reasons) = decide(&remedied);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert!(reasons[0].contains("without the remedies"), "{reasons:?}");
    let other = regression(RegressionSign::OtherRows, RemedyStatus::Proved);
    remedied.regressions.push(other);
    assert_eq!(decide(&remedied).0, UpgradeDecision::GoWithRemedies);
}

#[test]
fn plan_that_depends_on_the_sample_of_analyze_is_undecided_and_another_one_a_no_go() {
    for (dependence, decision) in [
        (
            Some(SampleDependence {
                samples: 5,
                old_with_new_plan: 1,
                new_with_old_plan: 0,
            }),
            UpgradeDecision::Undecided,
        ),
        (None, UpgradeDecision::NoGo),
    ] {
        let mut worse = report(Some(Verdict::Same));
        let mut one = regression(RegressionSign::Work, RemedyStatus::NotFound);
        one.sample_dependence = dependence;
        worse.regressions = vec![one];
        let (decided, reasons) = decide(&worse);
        assert_eq!(decided, decision, "{reasons:?}");
        let is_named = reasons.iter().any(|one| one.contains("ANALYZE"));
        assert_eq!(is_named, dependence.is_some(), "{reasons:?}");
    }
}

#[test]
fn faster_total_of_runs_in_which_this_program_stalled_is_undecided() {
    let mut faster = report(Some(Verdict::NotProven));
    faster.effect = Some(up_to(0.99));
    assert_eq!(decide(&faster).0, UpgradeDecision::Go);
    faster.evidence.is_disturbed = true;
    let (decision, reasons) = decide(&faster);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert!(reasons[0].contains("stalled"), "{reasons:?}");
}

#[test]
fn worse_plan_of_a_part_of_the_values_without_a_remedy_is_undecided() {
    let mut remedied = report(Some(Verdict::Lost));
    remedied.regressions = vec![
        regression(RegressionSign::Work, RemedyStatus::Proved),
        UpgradeRegression {
            is_of_other_values: true,
            ..regression(RegressionSign::Suspected, RemedyStatus::NotFound)
        },
    ];
    remedied.remedied = Some(proof(Verdict::Same, 0));
    let (decision, reasons) = decide(&remedied);
    assert_eq!(decision, UpgradeDecision::Undecided);
    assert!(reasons[0].contains("a part of its values"), "{reasons:?}");
    // Replays with enough executions clear it.
    remedied.regressions[1].after = Some(MeasuredFactor {
        ratio: 1.0,
        low: Some(0.98),
        high: Some(1.02),
        mean: Some(1.0),
        mean_high: Some(1.04),
        ..MeasuredFactor::default()
    });
    assert_eq!(decide(&remedied).0, UpgradeDecision::GoWithRemedies);
}
