//! Page of a rehearsal of an upgrade.

use askama::Template;
use study::upgrade_rehearsal::{RehearsalMethod, UpgradeDecision, UpgradeReport};
use study::upgrade_remedies::UpgradeRegression;

use super::frame::{Frame, render};
use super::status::Status;
use crate::text::line::one_line;
use crate::text::proof_text::statement_text;
use crate::text::upgrade_inspect_text::{subject, unchecked_text};
use crate::text::upgrade_regression_text::{
    SLOWER_ONLY_WITH_REMEDIES, execute_title, facts, facts_without_search, is_unlisted,
    may_execute, proof_text, sign_text,
};
use crate::text::upgrade_text::{
    changed_plans, coverage_text, differing_tables, error_text, evidence_text, first_change,
    heading, measured, plan_change, remedy_details, remedy_text, scope_text, servers_text,
};

/// Width of a text.
const COLUMNS: usize = 2_000;

struct Remedy {
    text: String,
    statements: Vec<String>,
}

struct Regression {
    sign: &'static str,
    sql: String,
    facts: Vec<String>,
    statements: Vec<String>,
    risk: Option<String>,
    plan: Option<String>,
    tried: Vec<(String, String)>,
}

impl Regression {
    fn of(report: &UpgradeReport, one: &UpgradeRegression) -> Self {
        let remedy = one.remedy.as_ref();
        let statements = remedy.iter().flat_map(|remedy| &remedy.statements);
        let plans = report.plans.iter().flat_map(|plans| &plans.statements);
        let mut plans = plans.filter(|plan| plan.fingerprint == one.fingerprint);
        Regression {
            sign: sign_text(one),
            sql: one_line(&one.sql, COLUMNS),
            facts: facts(one),
            statements: statements.map(|text| one_line(text, COLUMNS)).collect(),
            risk: remedy
                .filter(|remedy| !remedy.risk.is_empty())
                .map(|remedy| one_line(&remedy.risk, COLUMNS)),
            plan: plans.next().and_then(first_change),
            tried: one
                .tried
                .iter()
                .map(|tried| {
                    (
                        one_line(&tried.statements.join("; "), COLUMNS),
                        one_line(&tried.result, COLUMNS),
                    )
                })
                .collect(),
        }
    }
}

struct Finding {
    title: String,
    reason: String,
    objects: Vec<String>,
}

#[derive(Template)]
#[template(path = "upgrade.html")]
struct Page {
    frame: Frame,
    status: Status,
    headline: String,
    reasons: Vec<String>,
    servers: String,
    measured: String,
    coverage: Option<String>,
    evidence: String,
    scope: String,
    planned: &'static str,
    differing: Vec<String>,
    restore_errors_of_both: Vec<String>,
    regressions: Vec<Regression>,
    remedied: Option<String>,
    slower_only_with_remedies: Vec<Regression>,
    title_of_slower_only: &'static str,
    execute: Vec<String>,
    execute_title: &'static str,
    /// Whether the list is to be executed, or may be after another rehearsal. It comes first then.
    may_execute: bool,
    slower: Vec<(String, Option<String>)>,
    suspected: Vec<String>,
    errors: Vec<String>,
    restore_errors: Vec<String>,
    remedies: Vec<Remedy>,
    plans: Vec<(String, String)>,
    findings: Vec<Finding>,
    notes: Vec<String>,
}

/// Renders the page.
pub fn render_html(report: &UpgradeReport) -> String {
    let inspection = &report.inspection;
    let page = Page {
        frame: Frame::new(Vec::new()),
        status: match report.decision {
            UpgradeDecision::Go => Status::Good,
            UpgradeDecision::GoWithRemedies if report.is_blocked() => Status::Unsure,
            UpgradeDecision::GoWithRemedies => Status::Conditional,
            UpgradeDecision::NoGo => Status::Bad,
            UpgradeDecision::Undecided => Status::Unsure,
        },
        headline: heading(report),
        reasons: report.reasons.clone(),
        servers: servers_text(report),
        measured: measured(report),
        coverage: report.coverage.as_ref().map(coverage_text),
        evidence: evidence_text(report),
        scope: scope_text(report),
        planned: match report.method {
            RehearsalMethod::Dump | RehearsalMethod::PgUpgrade => {
                "Planned on both versions with the statistics of the old one."
            }
            RehearsalMethod::Target => {
                "Planned on each version with its own statistics and settings."
            }
        },
        differing: differing_tables(report),
        restore_errors_of_both: (report.restore_errors_of_both.iter())
            .map(|text| one_line(text, COLUMNS))
            .collect(),
        regressions: (report.regressions.iter())
            .map(|one| Regression::of(report, one))
            .collect(),
        remedied: report.remedied.as_ref().map(proof_text),
        slower_only_with_remedies: (report.remedied.iter())
            .flat_map(|proof| &proof.slower_only_with_remedies)
            .map(|one| Regression {
                // That of the report is the one without remedies.
                plan: None,
                facts: facts_without_search(one),
                ..Regression::of(report, one)
            })
            .collect(),
        title_of_slower_only: SLOWER_ONLY_WITH_REMEDIES,
        execute: (report.remedied.iter().flat_map(|proof| &proof.statements))
            .map(|text| one_line(text, COLUMNS))
            .collect(),
        execute_title: execute_title(report),
        may_execute: may_execute(report),
        slower: (report.slower.iter())
            .filter(|one| is_unlisted(report, one.fingerprint))
            .map(|one| (statement_text(one), plan_change(report, one.fingerprint)))
            .collect(),
        suspected: (report.suspected.iter())
            .filter(|one| is_unlisted(report, one.fingerprint))
            .map(statement_text)
            .collect(),
        errors: (report.errors.iter().filter(|one| one.regression))
            .map(error_text)
            .collect(),
        restore_errors: (report.restore_errors.iter())
            .map(|text| one_line(text, COLUMNS))
            .collect(),
        remedies: (report.remedies.iter())
            .map(|one| Remedy {
                text: remedy_text(one),
                statements: remedy_details(one)
                    .iter()
                    .map(|text| one_line(text, COLUMNS))
                    .collect(),
            })
            .collect(),
        plans: changed_plans(report),
        findings: (inspection.findings.iter())
            .map(|one| Finding {
                title: format!("{} ({})", one.message, one.check.name()),
                reason: format!("{} {}", one.reason, one.remedy),
                objects: one.objects.iter().map(subject).collect(),
            })
            .collect(),
        notes: (report.notes.iter().map(|text| one_line(text, COLUMNS)))
            .chain(inspection.unchecked.iter().map(unchecked_text))
            .collect(),
    };
    render(&page)
}
