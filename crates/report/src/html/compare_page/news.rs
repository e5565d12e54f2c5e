//! What else differs: errors and rows, as text in cells.

use std::collections::HashSet;

use super::NEWS_MAX;
use crate::sqlstate::condition_name;
use crate::text::amount::{count, counted};
use crate::text::line::one_line;
use crate::view::compare::{CompareView, StatementCompareView};

/// The statements that can be opened.
fn fingerprints<'a>(kept: &[&'a StatementCompareView]) -> HashSet<&'a str> {
    let all = kept.iter();
    all.map(|one| one.fingerprint.as_str()).collect()
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
}

pub(super) fn errors(view: &CompareView, kept: &[&StatementCompareView]) -> Vec<ErrorRow> {
    let known = fingerprints(kept);
    let errors = view.errors.iter().take(NEWS_MAX);
    errors
        .map(|one| {
            let fingerprint = one.fingerprint.clone().unwrap_or_default();
            ErrorRow {
                direction: one.direction,
                bad: one.regression,
                code: one.sqlstate.clone(),
                name: condition_name(&one.sqlstate),
                counts: format!("{} → {}", count(one.before), count(one.after)),
                captured: match one.captured {
                    0 => String::new(),
                    captured => count(captured),
                },
                statement: match (one.sql.as_str(), fingerprint.as_str()) {
                    ("", "") => "connecting".to_owned(),
                    ("", fingerprint) => fingerprint.to_owned(),
                    (sql, _) => one_line(sql, 200),
                },
                linked: known.contains(fingerprint.as_str()),
                fingerprint,
                message: one_line(&one.message, 300),
            }
        })
        .collect()
}

pub(super) struct RowsRow {
    pub(super) change: String,
    pub(super) compared: String,
    pub(super) fingerprint: String,
    pub(super) statement: String,
    pub(super) linked: bool,
}

pub(super) fn rows(view: &CompareView, kept: &[&StatementCompareView]) -> Vec<RowsRow> {
    let known = fingerprints(kept);
    let rows = view.rows.iter().take(NEWS_MAX);
    rows.map(|one| RowsRow {
        change: match one.only_values {
            true => format!("other values in {}", counted(one.after, "row")),
            false => format!("{} → {}", count(one.before), counted(one.after, "row")),
        },
        compared: count(one.compared),
        fingerprint: one.fingerprint.clone(),
        statement: match one.sql.as_str() {
            "" => one.fingerprint.clone(),
            sql => one_line(sql, 200),
        },
        linked: known.contains(one.fingerprint.as_str()),
    })
    .collect()
}

pub(super) fn rows_note(view: &CompareView) -> String {
    if view.rows_compared == 0 {
        return "Rows were not compared: no execution was done in both runs of one workload."
            .to_owned();
    }
    let digests = match view.digests_compared {
        0 => "their values were not (--digest rows at the capture and the replays makes checksums of them)".to_owned(),
        digests => format!("of {} also checksums of their values", count(digests)),
    };
    let found = match view.rows.len() {
        0 => "None differs".to_owned(),
        1 => "Those of 1 statement differ".to_owned(),
        found => format!("Those of {} statements differ", count(found as u64)),
    };
    format!(
        "The numbers of rows of {} done on both sides were compared; {digests}. {found}.",
        counted(view.rows_compared, "execution")
    )
}
