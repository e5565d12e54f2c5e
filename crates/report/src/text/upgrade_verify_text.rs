//! Text on the verification of a real upgrade.

use study::upgrade_inspect::UpgradeSeverity;
use study::upgrade_verify::{
    TimeJudgement, UpgradeVerification, VerificationVerdict, VerifiedStatement,
};

use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone, readable};
use crate::text::units::{count, counted};
use crate::text::upgrade_inspect_text::{subject, unchecked_text};

/// Maximum number of entries of a list.
const LISTED_MAX: usize = 20;
/// Maximum number of characters of a text.
const TEXT_MAX: usize = 300;

/// Renders a verification, ending with a line feed.
pub fn render_text(result: &UpgradeVerification, style: &TextStyle) -> String {
    let width = readable(style.columns());
    let (tone, verdict) = match result.verdict {
        VerificationVerdict::AsRehearsed => (Tone::Good, "AS REHEARSED"),
        VerificationVerdict::Differs => (Tone::Bad, "DIFFERS FROM THE REHEARSAL"),
        VerificationVerdict::NotObserved => (Tone::Care, "NOT OBSERVED"),
    };
    let head = format!(
        "{verdict}: PostgreSQL {} at {}, observed for {}",
        one_line(&result.inspection.to_version, 40),
        one_line(&result.server, 100),
        clock::duration_text((result.observed_s.round() * 1e9) as i64)
    );
    let mut lines = wrapped(&style.paint(tone, &head), "", "  ", width);
    for reason in &result.reasons {
        lines.extend(wrapped(reason, "  ", "  ", width));
    }
    let mut list = |title: &str, texts: Vec<String>| {
        if texts.is_empty() {
            return;
        }
        lines.push(String::new());
        lines.push(title.to_owned());
        for text in texts.iter().take(LISTED_MAX) {
            lines.extend(wrapped(text, "  - ", "    ", width));
        }
        if let Some(left) = texts.len().checked_sub(LISTED_MAX + 1) {
            lines.push(format!("  - and {} more (--json lists all)", left + 1));
        }
    };
    list("Remedies of the rehearsal:", remedies(result));
    list("Plans that differ:", plans(result));
    list("Plans not compared:", uncompared(result));
    let judged = |wanted: TimeJudgement| {
        let all = result.statements.iter();
        all.filter(move |one| one.judgement == wanted)
    };
    list(
        "Slower than expected:",
        judged(TimeJudgement::Slower).map(time_text).collect(),
    );
    list(
        "Longer than expected, chance not ruled out:",
        judged(TimeJudgement::Unclear).map(time_text).collect(),
    );
    list(
        "Times as expected:",
        judged(TimeJudgement::AsExpected).map(time_text).collect(),
    );
    list("To mend:", findings(result));
    lines.push(String::new());
    lines.extend(wrapped(&coverage(result), "", "  ", width));
    let mut list = |title: &str, texts: Vec<String>| {
        if !texts.is_empty() {
            lines.push(title.to_owned());
        }
        for text in texts {
            lines.extend(wrapped(&text, "  - ", "    ", width));
        }
    };
    list("Notes:", notes(result));
    lines.push(String::new());
    lines.join("\n")
}

fn remedies(result: &UpgradeVerification) -> Vec<String> {
    let all = result.remedies.iter();
    all.map(|one| {
        let state = match one.in_place {
            Some(true) => "in place",
            Some(false) => "MISSING",
            None => "unknown",
        };
        format!(
            "{state}: {} – {}",
            one_line(&one.statement, TEXT_MAX),
            one_line(&one.found, TEXT_MAX)
        )
    })
    .collect()
}

fn plans(result: &UpgradeVerification) -> Vec<String> {
    let all = result.differing_plans.iter();
    all.map(|one| {
        format!(
            "{} ({}) – rehearsed: {}; now: {}",
            one_line(&one.sql, TEXT_MAX),
            counted(one.values, "value"),
            one_line(&one.expected, TEXT_MAX),
            one_line(&one.found, TEXT_MAX)
        )
    })
    .collect()
}

fn uncompared(result: &UpgradeVerification) -> Vec<String> {
    let all = result.uncompared_plans.iter();
    all.map(|one| {
        format!(
            "{}: {}",
            counted(one.plans, "plan"),
            one_line(&one.reason, TEXT_MAX)
        )
    })
    .collect()
}

fn time_text(one: &VerifiedStatement) -> String {
    let ms = |us: f64| format!("{:.3} ms", us / 1e3);
    let expected = one.expected_us.map_or_else(String::new, |us| {
        let limit = one.limit_us.map_or_else(String::new, ms);
        format!(" (expected {}, at most {limit})", ms(us))
    });
    let chance = one.p_value.filter(|_| {
        matches!(
            one.judgement,
            TimeJudgement::Slower | TimeJudgement::Unclear
        )
    });
    let chance = chance.map_or_else(String::new, |p| format!(", p = {p:.2e}"));
    format!(
        "{}{expected}{chance}, {}: {}",
        ms(one.mean_us),
        counted(one.calls, "call"),
        one_line(&one.sql, TEXT_MAX)
    )
}

fn findings(result: &UpgradeVerification) -> Vec<String> {
    let all = result.inspection.findings.iter();
    let all = all.filter(|one| one.severity == UpgradeSeverity::MendAfter);
    all.map(|one| {
        let objects: Vec<String> = one.objects.iter().take(3).map(subject).collect();
        format!(
            "{} ({}) – {}",
            one_line(&one.message, TEXT_MAX),
            one.check.name(),
            one_line(&objects.join("; "), 2 * TEXT_MAX)
        )
    })
    .collect()
}

fn coverage(result: &UpgradeVerification) -> String {
    let number = |wanted: TimeJudgement| {
        let all = result.statements.iter();
        count(all.filter(|one| one.judgement == wanted).count() as u64)
    };
    format!(
        "Coverage: {} of {} compared; {} of {} observed ({} with too few executions, {} without an expected time).",
        count(result.plans_checked),
        counted(result.plans_expected, "plan"),
        count(result.statements.len() as u64),
        counted(result.statements_expected, "statement"),
        number(TimeJudgement::TooFew),
        number(TimeJudgement::NoExpectation),
    )
}

fn notes(result: &UpgradeVerification) -> Vec<String> {
    let notes = result.notes.iter().map(|text| one_line(text, TEXT_MAX));
    notes
        .chain(result.inspection.unchecked.iter().map(unchecked_text))
        .collect()
}
