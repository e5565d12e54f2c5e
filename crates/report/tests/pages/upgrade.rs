//! Page and text of a rehearsal of an upgrade: one report per decision.

use compare::StatementComparison;
use compare::proof::{Effect, PairedBlock, Verdict, effect};
use report::{TextStyle, upgrade_page, upgrade_text};
use study::upgrade_inspect::{
    NewServerKind, UpgradeCheck, UpgradeFinding, UpgradeInspection, UpgradeMethod, UpgradeObject,
    UpgradeSeverity,
};
use study::upgrade_rehearsal::{
    RehearsalEvidence, RehearsalMethod, RemedyProof, UpgradeCoverage, UpgradeDecision,
    UpgradeRemedy, UpgradeReport,
};
use study::upgrade_remedies::{
    MeasuredFactor, RegressionRemedy, RegressionSign, RemedyKind, RemedyStatus, TrialWork,
    TriedRemedy, UpgradeRegression,
};

use crate::tab::Tab;
use crate::{plans, shop_runs};

fn measured() -> Option<Effect> {
    let block = PairedBlock {
        before: [1.0, 1.01],
        after: [1.1, 1.12],
        ..PairedBlock::default()
    };
    effect(&[block; 3], 0.000_1)
}

fn slower() -> StatementComparison {
    let mut one = shop_runs::compared(true).statements.remove(0);
    let columns = "a_long_column, ".repeat(60);
    one.sql = Some(format!("select {columns} 1 from <orders> where id = $1"));
    one
}

fn regression() -> UpgradeRegression {
    let work = |ms, blocks| Some(TrialWork { ms, blocks });
    UpgradeRegression {
        fingerprint: "00000000000000ff".to_owned(),
        sql: "select <name> from customers where region = $1".to_owned(),
        is_of_other_values: false,
        sign: RegressionSign::Slower,
        before: Some(MeasuredFactor {
            ratio: 2.1,
            low: Some(1.9),
            high: Some(2.4),
            ..MeasuredFactor::default()
        }),
        after: None,
        old_work: work(1.0, 1.0),
        new_work: work(9.0, 3_120.0),
        remedied_work: work(1.1, 12.0),
        has_old_plan: false,
        note: None,
        sample_dependence: None,
        remedy: Some(RegressionRemedy {
            kind: RemedyKind::Setting,
            cause: "work_mem is 4MB, and 32MB on the old server.".to_owned(),
            statements: vec!["ALTER DATABASE shop SET work_mem = '32MB'".to_owned()],
            setting: None,
            role: None,
            risk: "Each sort may take more memory.".to_owned(),
        }),
        status: RemedyStatus::Proved,
        tried: vec![TriedRemedy {
            statements: vec!["ANALYZE public.customers".to_owned()],
            work: None,
            has_old_plan: false,
            is_judged: true,
            result: "It does not help.".to_owned(),
        }],
    }
}

fn proof() -> RemedyProof {
    RemedyProof {
        statements: vec!["ALTER DATABASE shop SET work_mem = '32MB'".to_owned()],
        verdict: Verdict::Same,
        effect: measured(),
        work: None,
        blocks: 3,
        slower: vec![slower()],
        suspected: Vec::new(),
        slower_only_with_remedies: Vec::new(),
        settled: Vec::new(),
        errors: Vec::new(),
        other_rows: 0,
        evidence: RehearsalEvidence::default(),
        proof: "monday.upgrade/remedies.proof".to_owned(),
    }
}

fn locale_remedy() -> UpgradeRemedy {
    UpgradeRemedy {
        check: UpgradeCheck::DatabaseLocale.name().to_owned(),
        before: false,
        performed: false,
        problem: "Databases of the new server have another locale".to_owned(),
        remedy: "Create the databases with the locale of the old server.".to_owned(),
        objects: Vec::new(),
        statements: vec!["CREATE DATABASE shop_new LC_COLLATE 'C'".to_owned()],
    }
}

fn inspection() -> UpgradeInspection {
    UpgradeInspection {
        from_version: "18.6".to_owned(),
        to_version: "19rc1".to_owned(),
        new_server: NewServerKind::Private,
        method: UpgradeMethod::Dump,
        databases: vec!["shop".to_owned()],
        findings: vec![UpgradeFinding {
            check: UpgradeCheck::ChangedDefaults,
            severity: UpgradeSeverity::Note,
            message: "Defaults changed".to_owned(),
            reason: "The new version has others.".to_owned(),
            remedy: "Decide which to keep.".to_owned(),
            objects: vec![UpgradeObject {
                name: "jit".to_owned(),
                detail: Some("on → off".to_owned()),
                ..UpgradeObject::default()
            }],
        }],
        unchecked: Vec::new(),
    }
}

/// Returns a report with a worse statement, its remedy, and the replays with it.
fn report(decision: UpgradeDecision) -> UpgradeReport {
    let mut evidence = RehearsalEvidence::default();
    (evidence.judged, evidence.unjudged, evidence.answers) = (7, 42, 4_499);
    let has_remedies = decision != UpgradeDecision::Go;
    UpgradeReport {
        decision,
        reasons: vec!["The reason of the decision.".to_owned()],
        remedies: vec![locale_remedy()],
        workload: "shop.workload".to_owned(),
        database: "shop".to_owned(),
        method: RehearsalMethod::Dump,
        from_server: "old".to_owned(),
        to_server: None,
        from_version: "18.6".to_owned(),
        to_version: "19rc1".to_owned(),
        coverage: Some(UpgradeCoverage {
            statements: 4_499,
            sent: 4_499,
            rehearsed: 4_499,
            ..UpgradeCoverage::default()
        }),
        margin: 0.05,
        is_restored: true,
        data: None,
        other_data: Vec::new(),
        evidence,
        verdict: Some(Verdict::Same),
        effect: measured(),
        work: None,
        blocks: 3,
        advised_time: None,
        slower: Vec::new(),
        suspected: Vec::new(),
        faster: 0,
        errors: Vec::new(),
        other_rows: 0,
        regressions: Vec::from_iter(has_remedies.then(regression)),
        remedied: has_remedies.then(proof),
        plans: Some(plans::check(vec![plans::changed()])),
        restore_errors: Vec::new(),
        restore_errors_of_both: Vec::new(),
        inspection: inspection(),
        proof: "monday.upgrade/replays.proof".to_owned(),
        notes: vec!["a note".to_owned()],
    }
}

/// Returns the words of the text in one line.
fn text_of(report: &UpgradeReport) -> String {
    let text = upgrade_text::render_text(report, &TextStyle::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the class of the headline, and whether its icon is round, a diamond or a triangle.
fn status(page: &str) -> (&str, &str) {
    let (_, rest) = page.split_once("<div class=\"verdict ").unwrap();
    let (class, rest) = rest.split_once('"').unwrap();
    let (_, path) = rest.split_once("<path d=\"").unwrap();
    (class, &path[..5])
}

#[test]
fn upgrade_page_of_each_decision_has_its_colour_and_what_to_execute() {
    const DIAMOND: &str = "M12 .";
    let cases = [
        (UpgradeDecision::Go, "GO: ", ("good", "M12 1"), None),
        (
            UpgradeDecision::GoWithRemedies,
            "GO WITH THESE REMEDIES: ",
            ("good", DIAMOND),
            Some("Execute on the new server"),
        ),
        (
            UpgradeDecision::NoGo,
            "NO-GO: ",
            ("bad", "M12 1"),
            Some("All remedies, which do not suffice for the upgrade: see the reasons above"),
        ),
        (
            UpgradeDecision::Undecided,
            "UNDECIDED: ",
            ("unsure", DIAMOND),
            Some("All remedies, and not decided: rehearse again before you execute this list"),
        ),
    ];
    for (decision, heading, expected, title) in cases {
        let report = report(decision);
        let page = upgrade_page::render_html(&report);
        let text = text_of(&report);
        assert!(page.contains(&format!("<h1>{heading}")), "{decision:?}");
        assert!(text.starts_with(heading), "{text}");
        assert_eq!(status(&page), expected, "{decision:?}");
        let place = page.find("id=\"execute\"");
        assert_eq!(place.is_some(), title.is_some(), "{decision:?}");
        let Some(title) = title else { continue };
        assert!(page.contains(title) && text.contains(title), "{text}");
        // Nothing to execute comes first on a no-go.
        let is_after_worse = place > page.find("id=\"worse\"");
        assert_eq!(is_after_worse, decision == UpgradeDecision::NoGo);
    }
    let mut analyzed = report(UpgradeDecision::Undecided);
    if let Some(proof) = &mut analyzed.remedied {
        proof.statements = vec!["ANALYZE public.customers".to_owned()];
    }
    let title = "ANALYZE is needed, unless the real upgrade keeps these statistics; the upgrade is not decided";
    assert!(upgrade_page::render_html(&analyzed).contains(title));
    let mut blocked = report(UpgradeDecision::GoWithRemedies);
    blocked.remedies[0].before = true;
    assert_eq!(status(&upgrade_page::render_html(&blocked)).0, "unsure");
}

#[test]
fn list_of_an_upgrade_without_replays_is_not_to_be_executed() {
    for decision in [
        UpgradeDecision::Go,
        UpgradeDecision::NoGo,
        UpgradeDecision::Undecided,
    ] {
        let mut report = report(decision);
        let unproved = RemedyProof {
            blocks: 0,
            effect: None,
            slower: Vec::new(),
            ..proof()
        };
        report.remedied = Some(unproved);
        let title = "Found, and not proved in replays: rehearse again before you execute this list";
        let text = text_of(&report);
        assert!(text.contains(title), "{decision:?}: {text}");
        assert!(!text.contains("0 statements slower"), "{text}");
        let page = upgrade_page::render_html(&report);
        assert!(page.find("id=\"execute\"") > page.find("id=\"worse\""));
        assert!(page.contains(title));
    }
}

#[test]
fn statement_that_is_slower_only_with_the_remedies_has_its_ratio_and_plan_alone() {
    let mut report = report(UpgradeDecision::Undecided);
    let known = regression();
    let one = UpgradeRegression {
        sql: "select <note> from orders where customer = $1".to_owned(),
        sign: RegressionSign::Suspected,
        before: None,
        after: known.before,
        remedied_work: None,
        remedy: None,
        status: RemedyStatus::NotFound,
        note: Some("Executed alone, it has another plan: Seq Scan.".to_owned()),
        tried: Vec::new(),
        ..known
    };
    if let Some(proof) = &mut report.remedied {
        proof.slower_only_with_remedies = vec![one];
    }
    let text = text_of(&report);
    let page = upgrade_page::render_html(&report);
    assert!(page.contains("&#60;note&#62;") && !page.contains("<note>"));
    let page = page.replace("&#60;", "<").replace("&#62;", ">");
    for expected in [
        "Slower with the remedies, and not found worse without them",
        "select <note> from orders",
        "Executed alone, it has another plan: Seq Scan.",
        "Replays, new / old: with the remedies × 2.10 (1.90 – 2.40).",
        "Alone: old 1.00 ms, 1 page read, new 9.00 ms, 3,120 pages read.",
        "No remedy was searched, since only the replays with the remedies show it.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
fn upgrade_report_on_one_major_version_is_no_go_to_another() {
    let mut same = report(UpgradeDecision::Go);
    (same.from_version, same.to_version) = ("18.6".to_owned(), "18.7".to_owned());
    let text = text_of(&same);
    assert!(
        text.starts_with("NO DIFFERENCE FOUND, NO MAJOR UPGRADE: "),
        "{text}"
    );
}

#[test]
fn upgrade_report_names_risks_units_confidence_and_the_time_of_a_remedy() {
    let mut report = report(UpgradeDecision::NoGo);
    let mut compiled = plans::changed();
    compiled.plans[0].risks = vec![::plans::PlanRisk::Jit];
    report.plans = Some(plans::check(vec![compiled, plans::changed()]));
    report.evidence.unsteady = vec!["select random()".to_owned()];
    let text = text_of(&report);
    let page = upgrade_page::render_html(&report);
    for expected in [
        "orders_customer_idx is not used any more; ",
        "it would be JIT-compiled; ",
        "differ between runs of one version (1 statement): select random().",
        "interval of &gt;99.9 % confidence",
        "4,499 of 4,499 executions",
        "old 1.00 ms, 1 page read, new 9.00 ms, 3,120 pages read",
        ", 3 rounds; ",
        "[database-locale, before the data are restored]",
    ] {
        let plain = expected.replace("&gt;", ">");
        assert!(text.contains(&plain), "{plain}: {text}");
        let escaped = page.replace("&#62;", "&gt;");
        assert!(escaped.contains(expected), "{expected}");
    }
    assert!(text.contains("Changed plans:"), "{text}");
    // A list in a sentence has the beginning of each statement.
    assert!(
        text.contains("a_long_column") && !text.contains("from <orders>"),
        "{text}"
    );
}

#[test]
fn upgrade_page_is_readable_in_each_colour_and_on_a_phone() {
    for (decision, name) in [
        (UpgradeDecision::GoWithRemedies, "upgrade-remedies"),
        (UpgradeDecision::NoGo, "upgrade-no-go"),
    ] {
        let Some(mut tab) = Tab::open(&upgrade_page::render_html(&report(decision))) else {
            return;
        };
        assert!(
            tab.text("#execute + p")
                .contains("ALTER DATABASE shop SET work_mem")
        );
        assert!(tab.text("#worse ~ p").contains("<name>"));
        tab.assert_readable();
        tab.picture(&format!("{name}-light"), true);
        tab.colours("dark");
        tab.assert_readable();
        tab.picture(&format!("{name}-dark"), true);
        tab.size(390, 844);
        tab.assert_no_sideways_scrolling();
        tab.picture(&format!("{name}-narrow"), true);
        tab.assert_clean();
    }
}
