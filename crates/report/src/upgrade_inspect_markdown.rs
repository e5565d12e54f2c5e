//! Renders an inspection for an upgrade as Markdown, like [`crate::compare_markdown`].

use study::upgrade_inspect::{UpgradeFinding, UpgradeInspection, UpgradeObject};

use crate::compare_markdown::{Page, code, escape};
use crate::text::upgrade_inspect_text::{
    SEVERITIES, heading, scope, subject, title, unchecked_text,
};

/// First line of a comment, by which an earlier comment is found and replaced.
pub const MARK: &str = "<!-- rehearse upgrade inspect -->";

/// Maximum number of objects of a finding.
const OBJECTS_MAX: usize = 50;
/// Maximum number of characters of a statement.
const STATEMENT_MAX: usize = 400;

/// Renders the inspection as Markdown, ending with a line feed.
pub fn render_markdown(inspection: &UpgradeInspection) -> String {
    let mut page = Page::default();
    page.line(MARK);
    page.line(&format!("### {}", escape(&heading(inspection))));
    page.line("");
    page.line(&escape(&scope(inspection)));
    page.line("");
    for severity in SEVERITIES {
        let findings = inspection.findings.iter();
        let findings: Vec<&UpgradeFinding> =
            findings.filter(|one| one.severity == severity).collect();
        if findings.is_empty() {
            continue;
        }
        page.line(&format!("#### {}", title(severity)));
        page.line("");
        for one in findings {
            finding(&mut page, one);
        }
    }
    if !inspection.unchecked.is_empty() {
        page.line("#### Not checked:");
        page.line("");
        let parts = inspection.unchecked.iter();
        page.list(
            parts.map(|part| format!("- {}", escape(&unchecked_text(part)))),
            OBJECTS_MAX,
        );
    }
    page.text
}

fn finding(page: &mut Page, finding: &UpgradeFinding) {
    page.line(&format!(
        "**{}** ({}). {} {}",
        escape(&finding.message),
        finding.check.name(),
        escape(&finding.reason),
        escape(&finding.remedy)
    ));
    page.line("");
    page.list(finding.objects.iter().map(object), OBJECTS_MAX);
    page.line("");
}

fn object(object: &UpgradeObject) -> String {
    let statement = object.statement.as_ref();
    let statement = statement.map(|text| format!(": {}", code(text, STATEMENT_MAX)));
    format!(
        "- {}{}",
        escape(&subject(object)),
        statement.unwrap_or_default()
    )
}
