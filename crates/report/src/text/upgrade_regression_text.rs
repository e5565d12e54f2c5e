//! Text on the statements that are worse after an upgrade, with cause and remedy.

use sql::Fingerprint;
use statistics::Measure;
use study::upgrade_rehearsal::{RemedyProof, UpgradeDecision, UpgradeReport};
use study::upgrade_remedies::{
    MeasuredFactor, RegressionSign, RemedyStatus, TrialWork, UpgradeRegression,
};

use crate::text::line::{one_line, wrapped};
use crate::text::proof_text::{statement_text, with_interval};
use crate::text::units::{count, counted, ratio};
use crate::text::upgrade_text::error_text;

/// Maximum number of characters of a statement.
const TEXT_MAX: usize = 1_000;
/// Maximum number of characters of an entry of a list in a sentence.
const ENTRY_MAX: usize = 300;
/// Maximum number of entries of a list in a sentence.
const LISTED_MAX: usize = 5;

/// Title of the statements that only the replays with the remedies show as slower.
pub(crate) const SLOWER_ONLY_WITH_REMEDIES: &str =
    "Slower with the remedies, and not found worse without them";

/// Whether a statement is in no entry with a cause.
pub(crate) fn is_unlisted(report: &UpgradeReport, fingerprint: Fingerprint) -> bool {
    let fingerprint = fingerprint.to_string();
    let mut known = report.regressions.iter();
    !known.any(|one| one.fingerprint == fingerprint)
}

/// Returns the lines on all regressions.
pub(crate) fn lines(report: &UpgradeReport, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.regressions.is_empty() {
        lines.push("Worse on the new version:".to_owned());
    }
    lines.extend(entries(&report.regressions, facts, width));
    if let Some(proof) = &report.remedied {
        lines.extend(wrapped(&proof_text(proof), "", "  ", width));
        let title = format!("{}:", execute_title(report));
        lines.extend(wrapped(&title, "", "  ", width));
        let statements = proof.statements.iter();
        lines.extend(statements.map(|text| format!("  {};", one_line(text, TEXT_MAX))));
        if !proof.slower_only_with_remedies.is_empty() {
            lines.push(format!("{SLOWER_ONLY_WITH_REMEDIES}:"));
        }
        let slower = &proof.slower_only_with_remedies;
        lines.extend(entries(slower, facts_without_search, width));
    }
    lines
}

/// Returns the lines on statements that are worse.
fn entries(
    all: &[UpgradeRegression],
    facts: fn(&UpgradeRegression) -> Vec<String>,
    width: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, one) in (1..).zip(all) {
        let title = format!("{number}. {}: {}", sign_text(one), one_line(&one.sql, 300));
        lines.extend(wrapped(&title, "  ", "     ", width));
        for text in facts(one) {
            lines.extend(wrapped(&text, "     ", "       ", width));
        }
        for statement in one.remedy.iter().flat_map(|remedy| &remedy.statements) {
            lines.push(format!("       {}", one_line(statement, TEXT_MAX)));
        }
        let risk = one.remedy.as_ref().filter(|one| !one.risk.is_empty());
        if let Some(remedy) = risk {
            let text = one_line(&remedy.risk, TEXT_MAX);
            lines.extend(wrapped(&text, "     ", "       ", width));
        }
    }
    lines
}

/// Returns the title of the statements that were executed before the replays with all remedies.
pub(crate) fn execute_title(report: &UpgradeReport) -> &'static str {
    match report.decision {
        _ if !is_replayed(report) => {
            "Found, and not proved in replays: rehearse again before you execute this list"
        }
        UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => "Execute on the new server",
        UpgradeDecision::NoGo => {
            "All remedies, which do not suffice for the upgrade: see the reasons above"
        }
        UpgradeDecision::Undecided if is_analyze_only(report) => {
            "All remedies: ANALYZE is needed, unless the real upgrade keeps these statistics; the upgrade is not decided"
        }
        UpgradeDecision::Undecided => {
            "All remedies, and not decided: rehearse again before you execute this list"
        }
    }
}

fn is_analyze_only(report: &UpgradeReport) -> bool {
    let mut statements = report.remedied.iter().flat_map(|proof| &proof.statements);
    statements.all(|text| text.starts_with("ANALYZE "))
}

/// Whether replays with the statements allow to execute them.
pub(crate) fn may_execute(report: &UpgradeReport) -> bool {
    is_replayed(report) && report.decision != UpgradeDecision::NoGo
}

/// Whether a round of replays with all remedies was completed.
fn is_replayed(report: &UpgradeReport) -> bool {
    report
        .remedied
        .as_ref()
        .is_some_and(|proof| proof.blocks > 0)
}

/// Returns the sign of a regression in words.
pub(crate) fn sign_text(one: &UpgradeRegression) -> &'static str {
    match one.sign {
        RegressionSign::Slower => "Slower",
        RegressionSign::Suspected => "Looks slower",
        RegressionSign::Work => "More work",
        RegressionSign::OtherRows => "Other rows",
        RegressionSign::OtherOrder => "Other order",
    }
}

/// Returns cause, measurements and status in sentences.
pub(crate) fn facts(one: &UpgradeRegression) -> Vec<String> {
    let mut facts = measured_facts(one);
    facts.push(status_text(one));
    facts
}

/// Returns the measurements of a statement that only the replays with the remedies show as slower.
pub(crate) fn facts_without_search(one: &UpgradeRegression) -> Vec<String> {
    let mut facts = measured_facts(one);
    facts.push(
        "No remedy was searched, since only the replays with the remedies show it.".to_owned(),
    );
    facts
}

fn measured_facts(one: &UpgradeRegression) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(remedy) = &one.remedy {
        facts.push(format!("Cause: {}", one_line(&remedy.cause, TEXT_MAX)));
    }
    if let Some(note) = &one.note {
        facts.push(one_line(note, TEXT_MAX));
    }
    if let Some(text) = replays(one) {
        facts.push(text);
    }
    if let (Some(old), Some(new)) = (one.old_work, one.new_work) {
        let mut text = format!("Alone: old {}, new {}", work_text(old), work_text(new));
        if let Some(with) = one.remedied_work {
            text.push_str(&format!(", new with the remedy {}", work_text(with)));
        }
        facts.push(format!("{text}."));
    }
    facts
}

/// Returns the ratios in the paired replays.
fn replays(one: &UpgradeRegression) -> Option<String> {
    let before = one.before.as_ref().map(factor_text);
    let after = one.after.as_ref();
    let after = after.map(|after| format!("with the remedies {}", factor_text(after)));
    let ratios: Vec<String> = before.into_iter().chain(after).collect();
    (!ratios.is_empty()).then(|| format!("Replays, new / old: {}.", ratios.join(", ")))
}

fn factor_text(factor: &MeasuredFactor) -> String {
    let measure = factor.measure.map_or("", Measure::name);
    let text = match (factor.low, factor.high) {
        (Some(low), Some(high)) => {
            format!(
                "{measure} × {} ({} – {})",
                ratio(factor.ratio),
                ratio(low),
                ratio(high)
            )
        }
        _ => format!("{measure} × {}", ratio(factor.ratio)),
    };
    text.trim_start().to_owned()
}

fn work_text(work: TrialWork) -> String {
    let pages = counted(work.blocks as u64, "page");
    format!("{:.2} ms, {pages} read", work.ms)
}

/// Returns the proof of the remedy in words.
pub(crate) fn status_text(one: &UpgradeRegression) -> String {
    match one.status {
        RemedyStatus::Proved => "Remedy, proved in paired replays:".to_owned(),
        RemedyStatus::Refuted => "Remedy, which did not suffice in paired replays:".to_owned(),
        RemedyStatus::Screened => {
            "Remedy, which helped the statement alone and was not proved in replays:".to_owned()
        }
        RemedyStatus::Resolved => {
            "It has no remedy of its own. With those of the others, the slowdown is gone."
                .to_owned()
        }
        RemedyStatus::NotFound => match one.tried.len() as u64 {
            0 => "No remedy was found.".to_owned(),
            tried => format!("No remedy was found; {} tried.", candidates_were(tried)),
        },
        RemedyStatus::Untried => {
            let open = one.tried.iter().filter(|tried| !tried.is_judged).count() as u64;
            match open {
                0 => "No remedy was found yet.".to_owned(),
                open => format!(
                    "No remedy was found yet; {} not judged.",
                    candidates_were(open)
                ),
            }
        }
    }
}

fn candidates_were(number: u64) -> String {
    match number {
        1 => "1 candidate was".to_owned(),
        _ => format!("{} were", counted(number, "candidate")),
    }
}

/// Returns the result of the replays with all remedies.
pub(crate) fn proof_text(proof: &RemedyProof) -> String {
    let effect = match &proof.effect {
        Some(effect) => format!(
            "response time of all statements, new / old: × {}, {}{}",
            with_interval(effect),
            counted(u64::from(effect.blocks), "round"),
            match proof.blocks.saturating_sub(effect.blocks) {
                0 => String::new(),
                more => format!(", and {more} more to decide single statements"),
            }
        ),
        None => {
            return format!(
                "With all remedies: no round of runs was completed. Replays: {}.",
                one_line(&proof.proof, 200)
            );
        }
    };
    let errors = proof.errors.iter().filter(|one| one.regression);
    format!(
        "With all remedies: {effect}; {} of {} are shown to be slower, faster or the same; {} slower, {} suspected, {} with other rows.{}{}{} Replays: {}.",
        count(proof.evidence.judged),
        counted(proof.evidence.statements(), "statement"),
        count(proof.slower.len() as u64),
        count(proof.suspected.len() as u64),
        count(proof.other_rows),
        listed("Slower", proof.slower.iter().map(statement_text)),
        listed("Suspected", proof.suspected.iter().map(statement_text)),
        listed("New or more frequent errors", errors.map(error_text)),
        one_line(&proof.proof, 200)
    )
}

/// Returns a sentence with the first entries of a list; empty without any.
pub(super) fn listed(title: &str, entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.map(|text| one_line(&text, ENTRY_MAX)).collect();
    let shown = &entries[..entries.len().min(LISTED_MAX)];
    match entries.len() - shown.len() {
        _ if entries.is_empty() => String::new(),
        0 => format!(" {title}: {}.", shown.join("; ")),
        more => format!(" {title}: {}; and {more} more.", shown.join("; ")),
    }
}
