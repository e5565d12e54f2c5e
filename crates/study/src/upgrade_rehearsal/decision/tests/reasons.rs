//! Reasons of a decision: remedies, and statements that look slower.

use super::super::unclear::{beginning, looks_slower, unproved};
use super::*;
use crate::upgrade_rehearsal::remedied_side::ONE_ROLE_NOTE;

#[test]
fn objects_that_are_put_in_place_first_are_remedies_without_a_worse_statement() {
    let mut report = report(Some(Verdict::Lost));
    report.remedied = Some(proof(Verdict::Same, 0));
    let (decision, reasons) = decide(&report);
    assert_eq!(decision, UpgradeDecision::GoWithRemedies);
    assert!(reasons[0].starts_with("With the remedies: "), "{reasons:?}");
    report.remedied.as_mut().unwrap().blocks = 0;
    report.verdict = Some(Verdict::Same);
    let (decision, reasons) = decide(&report);
    assert_eq!(decision, UpgradeDecision::Go);
    assert!(!reasons[0].contains("remedies"), "{reasons:?}");
}

#[test]
fn statement_that_is_worse_in_two_ways_counts_once_and_is_remedied_if_both_are() {
    let mut report = report(Some(Verdict::Same));
    let mut other = regression(RegressionSign::OtherOrder, RemedyStatus::Proved);
    report.regressions = vec![
        regression(RegressionSign::Slower, RemedyStatus::Proved),
        other.clone(),
    ];
    assert_eq!(
        with_remedies(&report),
        "1 statement is worse without a remedy, and a remedy was found for it. "
    );
    report.regressions[1] = regression(RegressionSign::OtherOrder, RemedyStatus::NotFound);
    assert_eq!(with_remedies(&report), "");
    other.fingerprint = "0000000000000002".to_owned();
    report.regressions.push(other);
    assert_eq!(
        with_remedies(&report),
        "2 statements are worse without remedies, and remedies were found for 1 of them. "
    );
}

#[test]
fn reason_without_a_statement_that_could_be_judged_names_none_as_good() {
    let shown = |judged| {
        let mut report = report(Some(Verdict::NotProven));
        report.work = Some(up_to(1.01));
        report.effect = Some(up_to(1.4));
        report.plans = Some(plans());
        report.evidence.processor_time = Some(up_to(1.04));
        report.evidence.judged = judged;
        let (decision, reasons) = decide(&report);
        assert_eq!(decision, UpgradeDecision::Go);
        reasons.concat()
    };
    let good = "No statement that could be judged is slower";
    assert!(shown(3).contains(good), "{}", shown(3));
    let text = shown(0);
    assert!(!text.contains(good), "{text}");
    assert!(text.contains("No single statement is shown") && text.contains("at most × 1.40"));
}

#[test]
fn remedy_that_is_not_proved_has_the_reason_and_the_advice_for_it() {
    let mut report = report(Some(Verdict::Same));
    report.regressions = vec![regression(RegressionSign::Slower, RemedyStatus::Screened)];
    report.notes = vec!["the remedies were not proved: the disk is full".to_owned()];
    let text = unproved(&report).concat();
    assert!(
        text.contains("without a proof by replays: the disk is full."),
        "{text}"
    );
    assert!(decide(&report).1.concat().contains(&text));
    report.remedied = Some(proof(Verdict::Same, 0));
    let text = unproved(&report).concat();
    assert!(
        text.contains("do not show that this suffices; give more time"),
        "{text}"
    );
    report.regressions[0].note = Some(ONE_ROLE_NOTE.to_owned());
    let text = unproved(&report).concat();
    assert!(
        text.contains("no replay can have it") && !text.contains("time"),
        "{text}"
    );
}

#[test]
fn statements_that_look_slower_are_named_and_those_left_out_are_counted() {
    let names: Vec<String> = (1..=7).map(|number| format!("select {number}")).collect();
    let text = looks_slower(&names, " with all remedies", "rehearse longer").unwrap();
    assert_eq!(
        text,
        "7 statements look slower with all remedies, and chance could not be ruled out: select 1; select 2; select 3; select 4; \
         select 5; and 2 more. To decide, rehearse longer."
    );
    assert_eq!(looks_slower(&[], "", ""), None);
    assert_eq!(beginning("select\n  1"), "select 1");
    let long = beginning(&"é".repeat(500));
    assert!(
        long.ends_with("é…") && long.chars().count() == 121,
        "{long}"
    );
}

#[test]
fn time_of_a_statement_alone_is_no_objection_if_the_replays_judge_it() {
    let alone = |factor: Option<(f64, f64, f64)>| {
        let mut worse = report(Some(Verdict::Same));
        let mut one = regression(RegressionSign::Work, RemedyStatus::NotFound);
        let work = |ms| {
            Some(TrialWork {
                ms,
                blocks: 3_185.0,
            })
        };
        (one.old_work, one.new_work) = (work(17.8), work(27.6));
        one.sql = "select town".to_owned();
        one.before = factor.map(|(low, high, mean_high)| MeasuredFactor {
            ratio: 1.0,
            low: Some(low),
            high: Some(high),
            mean_high: Some(mean_high),
            ..MeasuredFactor::default()
        });
        worse.regressions = vec![one];
        decide(&worse)
    };
    assert_eq!(alone(None).0, UpgradeDecision::NoGo);
    assert_eq!(alone(Some((0.97, 1.03, 1.02))).0, UpgradeDecision::Go);
    // Rare values can be slower without another median.
    let rare = alone(Some((0.97, 1.03, 1.4))).0;
    assert_eq!(rare, UpgradeDecision::Undecided);
    let (decision, reasons) = alone(Some((0.84, 1.27, 1.2)));
    assert_eq!(decision, UpgradeDecision::Undecided);
    let expected = "1 statement looks slower alone, with another plan, but not in the replays, and chance could not be ruled out: \
        select town. To decide, give more time with --within.";
    assert_eq!(reasons, [expected]);
}

#[test]
fn response_time_that_is_not_slower_needs_no_proof_that_it_is_the_same() {
    let with_effect = |high: f64| {
        let mut report = report(Some(Verdict::NotProven));
        report.effect = Some(up_to(high));
        report.plans = Some(plans());
        decide(&report)
    };
    let (decision, reasons) = with_effect(0.99);
    assert_eq!(decision, UpgradeDecision::Go, "{reasons:?}");
    assert!(reasons[0].contains("are no worse"), "{reasons:?}");
    assert_eq!(with_effect(1.06).0, UpgradeDecision::Undecided);
}

#[test]
fn no_go_states_that_nothing_restored_the_data() {
    let mut report = report(Some(Verdict::Lost));
    for (is_restored, has_reason) in [(true, false), (false, true)] {
        report.is_restored = is_restored;
        let (decision, reasons) = decide(&report);
        assert_eq!(decision, UpgradeDecision::NoGo);
        let reasons = reasons.concat();
        assert_eq!(reasons.contains("Give --restore"), has_reason, "{reasons}");
    }
}
