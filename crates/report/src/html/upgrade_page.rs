//! Page of a rehearsal of an upgrade.

use askama::Template;
use study::upgrade_rehearsal::{UpgradeDecision, UpgradeReport};

use super::frame::{Frame, render};
use super::status::Status;
use crate::text::line::one_line;
use crate::text::proof_text::statement_text;
use crate::text::upgrade_inspect_text::{subject, unchecked_text};
use crate::text::upgrade_text::{
    changed_plans, coverage_text, error_text, heading, measured, plan_change, remedy_text,
};

/// Width of a text.
const COLUMNS: usize = 2_000;

struct Remedy {
    text: String,
    statements: Vec<String>,
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
    measured: String,
    coverage: Option<String>,
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
            UpgradeDecision::NoGo => Status::Bad,
            UpgradeDecision::GoWithRemedies | UpgradeDecision::Undecided => Status::Unsure,
        },
        headline: heading(report),
        reasons: report.reasons.clone(),
        measured: measured(report),
        coverage: report.coverage.as_ref().map(coverage_text),
        slower: (report.slower.iter())
            .map(|one| (statement_text(one), plan_change(report, one.fingerprint)))
            .collect(),
        suspected: report.suspected.iter().map(statement_text).collect(),
        errors: (report.errors.iter().filter(|one| one.regression))
            .map(error_text)
            .collect(),
        restore_errors: (report.restore_errors.iter())
            .map(|text| one_line(text, COLUMNS))
            .collect(),
        remedies: (report.remedies.iter())
            .map(|one| Remedy {
                text: remedy_text(one),
                statements: one
                    .statements
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
