//! The table of results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::case::CaseResult;

/// Results by kind.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<&'static str, Row>,
}

#[derive(Default)]
struct Row {
    troubles: usize,
    healthy: usize,
    failed: usize,
    causes: usize,
    named: usize,
    changes: usize,
    quiet: usize,
    applied: usize,
    harmful: usize,
    innocent: usize,
    cleared: usize,
    diagnosis_s: f64,
    whole_s: f64,
}

impl Table {
    /// Adds a result.
    pub fn add(&mut self, kind: &'static str, result: &CaseResult) {
        let row = self.rows.entry(kind).or_default();
        if result.is_trouble {
            row.troubles += 1;
            row.causes += usize::from(result.is_cause_first);
            row.named += usize::from(result.place > 0);
            row.changes += usize::from(result.is_change_right);
        } else {
            row.healthy += 1;
            row.quiet += usize::from(result.is_cause_first);
        }
        row.applied += result.applied;
        row.harmful += result.harmful;
        row.innocent += result.innocent;
        row.cleared += result.cleared;
        row.diagnosis_s = row.diagnosis_s.max(result.diagnosis_s);
        row.whole_s = row.whole_s.max(result.whole_s);
    }

    /// Adds a case that could not be run to its end.
    pub fn add_failure(&mut self, kind: &'static str) {
        self.rows.entry(kind).or_default().failed += 1;
    }

    /// Returns the table as Markdown.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "| kind | right cause first | named | right change first | harmful | innocent cleared | diagnosis | case |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        let mut sum = Row::default();
        for (kind, row) in &self.rows {
            line(&mut text, kind, row);
            sum.troubles += row.troubles;
            sum.healthy += row.healthy;
            sum.failed += row.failed;
            sum.causes += row.causes;
            sum.named += row.named;
            sum.changes += row.changes;
            sum.quiet += row.quiet;
            sum.applied += row.applied;
            sum.harmful += row.harmful;
            sum.innocent += row.innocent;
            sum.cleared += row.cleared;
            sum.diagnosis_s = sum.diagnosis_s.max(row.diagnosis_s);
            sum.whole_s = sum.whole_s.max(row.whole_s);
        }
        line(&mut text, "**all**", &sum);
        let _ = writeln!(
            text,
            "\nTroubles: {}. Healthy applications: {}, of them without a finding: {}. Failed: {}.",
            sum.troubles, sum.healthy, sum.quiet, sum.failed
        );
        text
    }
}

fn line(text: &mut String, kind: &str, row: &Row) {
    let of = |part: usize, whole: usize| match whole {
        0 => "–".to_owned(),
        _ => format!("{part} of {whole}"),
    };
    let failed = match row.failed {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    let (causes, changes) = match row.troubles {
        0 => (
            format!("quiet: {}", of(row.quiet, row.healthy)),
            "–".to_owned(),
        ),
        all => (of(row.causes, all), of(row.changes, all)),
    };
    let _ = writeln!(
        text,
        "| {kind}{failed} | {causes} | {} | {changes} | {} | {} | {:.0} s | {:.0} s |",
        of(row.named, row.troubles),
        of(row.harmful, row.applied),
        of(row.cleared, row.innocent),
        row.diagnosis_s,
        row.whole_s
    );
}
