//! Changed errors and rows, as table cells.

use std::collections::HashSet;

use compare::{Comparison, StatementComparison};
use sql::Fingerprint;

use super::CHANGES_MAX;
use crate::sqlstate::condition_name;
use crate::text::compare_text::{error_notes, error_subject};
use crate::text::line::{one_line, statement_name};
use crate::text::rows_text::{
    rows_change_text, rows_columns_text, rows_reason_text, uncompared_rows_text,
};
use crate::text::units::{count, counted};

/// Returns the fingerprints of the statements on the page, which have details.
fn fingerprints(kept: &[&StatementComparison]) -> HashSet<Fingerprint> {
    kept.iter().map(|one| one.fingerprint).collect()
}

pub(super) struct ErrorRow {
    pub(super) direction: &'static str,
    pub(super) bad: bool,
    pub(super) code: String,
    pub(super) name: &'static str,
    pub(super) counts: String,
    pub(super) captured: String,
    pub(super) fingerprint: String,
    pub(super) statement: String,
    pub(super) linked: bool,
    pub(super) message: String,
    pub(super) notes: String,
}

pub(super) fn errors(view: &Comparison, kept: &[&StatementComparison]) -> Vec<ErrorRow> {
    let known = fingerprints(kept);
    let errors = view.errors.iter().take(CHANGES_MAX);
    errors
        .map(|one| ErrorRow {
            direction: one.direction.name(),
            bad: one.regression,
            code: one.sqlstate.to_string(),
            name: condition_name(one.sqlstate.as_str()),
            counts: format!("{} → {}", count(one.before), count(one.after)),
            captured: match one.captured {
                0 => String::new(),
                captured => count(captured),
            },
            statement: one_line(&error_subject(one), 200),
            linked: one.fingerprint.is_some_and(|one| known.contains(&one)),
            fingerprint: one
                .fingerprint
                .map_or_else(String::new, |one| one.to_string()),
            message: one_line(one.message.as_deref().unwrap_or_default(), 300),
            notes: error_notes(one).join("; "),
        })
        .collect()
}

pub(super) struct RowsRow {
    pub(super) change: String,
    pub(super) reason: String,
    pub(super) fingerprint: String,
    pub(super) statement: String,
    pub(super) linked: bool,
}

pub(super) fn rows(view: &Comparison, kept: &[&StatementComparison]) -> Vec<RowsRow> {
    let known = fingerprints(kept);
    let rows = view.rows.changes.iter().take(CHANGES_MAX);
    rows.map(|one| RowsRow {
        change: rows_change_text(one),
        reason: match rows_columns_text(one) {
            Some(columns) => format!("{columns}. {}", rows_reason_text(one)),
            None => rows_reason_text(one),
        },
        fingerprint: one.fingerprint.to_string(),
        statement: one_line(&statement_name(one.sql.as_deref(), one.fingerprint), 200),
        linked: known.contains(&one.fingerprint),
    })
    .collect()
}

pub(super) fn rows_note(view: &Comparison) -> String {
    if view.rows.compared == 0 {
        return "Rows were not compared: no execution was done in both runs of one workload."
            .to_owned();
    }
    let digests = match view.rows.digests {
        0 => "their values were not (--checksum-results rows at the capture and the replays makes checksums of them)".to_owned(),
        digests => format!("of {} also checksums of their values", count(digests)),
    };
    let found = match view.rows.changes.len() {
        0 => "None differs".to_owned(),
        1 => "Those of 1 statement differ".to_owned(),
        found => format!("Those of {} statements differ", count(found as u64)),
    };
    let ignored =
        uncompared_rows_text(&view.rows).map_or_else(String::new, |text| format!(" {text}"));
    format!(
        "The numbers of rows of {} done on both sides were compared; {digests}. {found}.{ignored}",
        counted(view.rows.compared, "execution")
    )
}
