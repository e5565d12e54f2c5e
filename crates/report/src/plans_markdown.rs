//! Renders a check of plans as a pull-request comment, like [`crate::compare_markdown`].

use study::plan_check::{CheckedStatement, PlanCheck, PlanVerdict};

use crate::compare_markdown::{Page, code, escape};
use crate::text::line::one_line;
use crate::text::plans_check_text::{
    UNSTABLE_TITLE, coverage, heading, limitation_texts, plan_changes, statement_risks,
    undecided_text, unstable_statements,
};
use crate::text::units::count;

/// First line of a comment, by which an earlier comment is found and replaced.
pub const MARK: &str = "<!-- rehearse plans check -->";

/// Maximum number of statements in the table.
const CHANGED_MAX: usize = 40;
/// Maximum number of entries of the other lists.
const LISTED_MAX: usize = 20;
/// Maximum number of characters of a statement.
const SQL_MAX: usize = 200;
/// Maximum number of characters of a change.
const CHANGE_MAX: usize = 500;

/// Renders the check as Markdown, ending with a line feed.
pub fn render_markdown(check: &PlanCheck) -> String {
    let mut page = Page::default();
    page.line(MARK);
    page.line(&format!("### {}", escape(&heading(check))));
    page.line("");
    page.line(&escape(&coverage(&check.coverage)));
    page.line("");
    for condition in check.conditions.iter().filter(|one| one.holds) {
        page.line(&format!("> **{} holds**", code(&condition.condition, 80)));
        page.line("");
    }
    if let Some(text) = undecided_text(check) {
        page.line(&format!("> **{}**", escape(&text)));
        page.line("");
    }
    let changed: Vec<&CheckedStatement> = check
        .statements
        .iter()
        .filter(|one| one.verdict != PlanVerdict::Same)
        .collect();
    if !changed.is_empty() {
        page.line("| statement | executions | change | risks |");
        page.line("|---|---:|---|---|");
        page.list(changed.into_iter().map(row), CHANGED_MAX);
    }
    let unstable = unstable_statements(check);
    details(
        &mut page,
        UNSTABLE_TITLE,
        unstable
            .iter()
            .map(|one| format!("- {}", code(&one.sql, SQL_MAX))),
    );
    details(
        &mut page,
        "Not checked",
        check.unchecked.iter().map(|one| {
            format!(
                "- {}: {}",
                code(&one.sql, SQL_MAX),
                escape(&one_line(&one.reason, CHANGE_MAX))
            )
        }),
    );
    let limits = limitation_texts(check);
    details(
        &mut page,
        "Different from the exported server",
        limits.iter().map(|text| format!("- {}", escape(text))),
    );
    page.text
}

fn row(statement: &CheckedStatement) -> String {
    let changes: Vec<String> = plan_changes(statement)
        .iter()
        .map(|change| {
            format!(
                "{}: {}",
                escape(&change.values),
                escape(&one_line(&change.text, CHANGE_MAX))
            )
        })
        .collect();
    let risks: Vec<String> = statement_risks(statement)
        .iter()
        .map(|risk| escape(risk))
        .collect();
    format!(
        "| {} | {} | {} | {} |",
        code(&statement.sql, SQL_MAX),
        count(statement.executions),
        changes.join("<br>"),
        risks.join("<br>")
    )
}

fn details(page: &mut Page, title: &str, lines: impl ExactSizeIterator<Item = String>) {
    if lines.len() == 0 {
        return;
    }
    page.line(&format!("<details><summary>{title}</summary>"));
    page.line("");
    page.list(lines, LISTED_MAX);
    page.line("</details>");
    page.line("");
}
