//! Page of a shadow comparison. While the replay runs, the file is replaced and the browser reloads it.

use askama::Template;
use compare::shadow::{ShadowMeasure, ShadowStatement};
use run::SeriesGap;
use study::shadow_comparison::{ShadowState, ShadowView};

use super::frame::{Frame, render};
use super::status::Status;
use crate::text::line::one_line;
use crate::text::shadow_text::{
    claim, gap_text, headline, numbers, shadow_statement_name, state_text, statements_text,
    time_text, tone, validity_text, verdict_text, windows_text,
};
use crate::text::style::Tone;
use crate::text::units::{count, ratio};

/// Width of a statement.
const STATEMENT_COLUMNS: usize = 2_000;

struct Finding {
    name: String,
    differences: Vec<String>,
}

#[derive(Template)]
#[template(path = "shadow.html")]
struct Page {
    frame: Frame,
    reload_s: Option<u64>,
    status: Status,
    headline: String,
    validity: Option<String>,
    place: String,
    claim: String,
    windows: String,
    statements: String,
    series_gaps: Vec<String>,
    gaps: Vec<String>,
    gap_count: u64,
    findings: Vec<Finding>,
    rows: Vec<[String; 5]>,
}

/// Renders the page. `reload_s` is the interval in seconds at which the file is replaced.
pub fn render_html(view: &ShadowView, reload_s: u64) -> String {
    let report = &view.report;
    let (found, others): (Vec<_>, Vec<_>) =
        (report.statements.iter()).partition(|statement| statement.is_finding());
    let page = Page {
        frame: Frame::new(Vec::new()),
        reload_s: (view.state == ShadowState::InProgress).then_some(reload_s.max(1)),
        status: match tone(view) {
            Tone::Bad => Status::Bad,
            Tone::Good => Status::Good,
            _ => Status::Unsure,
        },
        validity: validity_text(view),
        headline: headline(view),
        place: one_line(
            &format!(
                "{} on {} (PostgreSQL {}), {} to {}; {}.",
                view.workload,
                view.target,
                view.server_version,
                time_text(view.started_wall_us, 0),
                time_text(view.started_wall_us, report.until_ns),
                state_text(view.state)
            ),
            STATEMENT_COLUMNS,
        ),
        claim: claim(report),
        windows: windows_text(report),
        statements: statements_text(report),
        series_gaps: (view.series_gaps.iter().rev())
            .map(SeriesGap::sentence)
            .collect(),
        gaps: (report.gaps.iter().rev())
            .map(|gap| gap_text(gap, view.started_wall_us))
            .collect(),
        gap_count: report.gap_count,
        findings: found
            .into_iter()
            .map(|statement| finding(statement, view.started_wall_us))
            .collect(),
        rows: others.into_iter().map(row).collect(),
    };
    render(&page)
}

fn finding(statement: &ShadowStatement, started_wall_us: i64) -> Finding {
    let tests = statement
        .tests
        .iter()
        .filter(|test| test.verdict.is_finding());
    Finding {
        name: shadow_statement_name(statement, STATEMENT_COLUMNS),
        differences: tests
            .map(|test| {
                let verdict = verdict_text(test, started_wall_us);
                format!("{verdict}: {}", numbers(statement, test.measure))
            })
            .collect(),
    }
}

fn row(statement: &ShadowStatement) -> [String; 5] {
    let mut tests = statement.tests.iter();
    let slower = tests.find(|test| test.measure == ShadowMeasure::Slower);
    let cell = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), count);
    [
        count(statement.calls),
        ratio(statement.ratio),
        cell(slower.map(|test| test.windows)),
        cell(slower.map(|test| test.windows_with_difference)),
        shadow_statement_name(statement, STATEMENT_COLUMNS),
    ]
}
