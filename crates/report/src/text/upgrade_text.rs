//! Text on a rehearsal of an upgrade.

use compare::ErrorChange;
use compare::proof::Effect;
use sql::Fingerprint;
use study::plan_check::CheckedStatement;
use study::upgrade_inspect::UpgradeCheck;
use study::upgrade_rehearsal::{
    RehearsalMethod, UpgradeCoverage, UpgradeDecision, UpgradeRemedy, UpgradeReport,
};
use study::upgrade_remedies::SearchCoverage;

use crate::text::line::{one_line, wrapped};
use crate::text::plans_check_text::{heading as plans_heading, plan_changes, statement_risks};
use crate::text::proof_text::{statement_text, with_interval};
use crate::text::style::{TextStyle, Tone, readable};
use crate::text::units::{count, counted, percent};
use crate::text::upgrade_inspect_text::unchecked_text;
use crate::text::upgrade_regression_text;

/// Maximum number of entries of a list.
const LISTED_MAX: usize = 10;
/// Maximum number of characters of an entry.
const TEXT_MAX: usize = 400;

/// Renders the report, ending with a line feed.
pub fn render_text(report: &UpgradeReport, style: &TextStyle) -> String {
    let width = readable(style.columns());
    let mut lines = wrapped(
        &style.paint(tone(report), &heading(report)),
        "",
        "  ",
        width,
    );
    for reason in &report.reasons {
        lines.extend(wrapped(reason, "  ", "  ", width));
    }
    lines.push(String::new());
    lines.extend(wrapped(&servers_text(report), "", "  ", width));
    lines.extend(wrapped(&measured(report), "", "  ", width));
    if let Some(coverage) = &report.coverage {
        lines.extend(wrapped(&coverage_text(coverage), "", "  ", width));
    }
    lines.extend(wrapped(&evidence_text(report), "", "  ", width));
    lines.extend(wrapped(&scope_text(report), "", "  ", width));
    lines.extend(upgrade_regression_text::lines(report, width));
    let unexplained = report
        .slower
        .iter()
        .filter(|one| upgrade_regression_text::is_unlisted(report, one.fingerprint));
    let statements = unexplained.map(|one| {
        let plan = plan_change(report, one.fingerprint);
        let text = statement_text(one);
        match plan {
            Some(plan) => format!("{text}; plan: {plan}"),
            None => text,
        }
    });
    lines.extend(list("Slower statements:", statements, width));
    lines.extend(list(
        "Suspected statements:",
        report
            .suspected
            .iter()
            .filter(|one| upgrade_regression_text::is_unlisted(report, one.fingerprint))
            .map(statement_text),
        width,
    ));
    let errors = report.errors.iter().filter(|one| one.regression);
    lines.extend(list(
        "New or more frequent errors:",
        errors.map(error_text),
        width,
    ));
    let restore = report
        .restore_errors
        .iter()
        .map(|text| one_line(text, TEXT_MAX));
    lines.extend(list("Errors of the restore:", restore, width));
    let restore_of_both = report.restore_errors_of_both.iter();
    lines.extend(list(
        "Errors of the restore into both versions:",
        restore_of_both.map(|text| one_line(text, TEXT_MAX)),
        width,
    ));
    lines.extend(list(
        "Tables with other data at the start, old and new:",
        differing_tables(report).into_iter(),
        width,
    ));
    for (number, remedy) in (1..).zip(&report.remedies) {
        if number == 1 {
            lines.push("Remedies:".to_owned());
        }
        let text = format!("{number}. {}", remedy_text(remedy));
        lines.extend(wrapped(&text, "  ", "     ", width));
        let details = remedy_details(remedy);
        let shown = details.iter().take(LISTED_MAX);
        lines.extend(shown.map(|one| format!("       {}", one_line(one, TEXT_MAX))));
        lines.extend(more(details.len(), "       "));
    }
    lines.extend(plan_lines(report, width));
    lines.extend(list(
        "Not checked:",
        report.inspection.unchecked.iter().map(unchecked_text),
        width,
    ));
    lines.extend(list(
        "Notes:",
        report.notes.iter().map(|one| one_line(one, TEXT_MAX)),
        width,
    ));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the number of changed plans, and the changes.
fn plan_lines(report: &UpgradeReport, width: usize) -> Vec<String> {
    let Some(plans) = &report.plans else {
        return Vec::new();
    };
    let heading = format!("Plans: {}.", plans_heading(plans));
    let mut lines = wrapped(&heading, "", "  ", width);
    let changed = changed_plans(report).into_iter();
    let changed = changed.map(|(sql, change)| format!("{change}: {sql}"));
    lines.extend(list("Changed plans:", changed, width));
    lines
}

/// Returns the decision and the versions.
pub(crate) fn heading(report: &UpgradeReport) -> String {
    let decision = match report.decision {
        UpgradeDecision::Go if report.has_one_major_version() => {
            "NO DIFFERENCE FOUND, NO MAJOR UPGRADE"
        }
        UpgradeDecision::Go => "GO",
        UpgradeDecision::GoWithRemedies => "GO WITH THESE REMEDIES",
        UpgradeDecision::NoGo => "NO-GO",
        UpgradeDecision::Undecided => "UNDECIDED",
    };
    format!(
        "{decision}: PostgreSQL {} to {}",
        short_version(&report.from_version),
        short_version(&report.to_version),
    )
}

/// Returns a version without the name of its package, such as `18.6` of `18.6 (Debian 18.6-3)`.
fn short_version(version: &str) -> String {
    one_line(version.split_whitespace().next().unwrap_or_default(), 40)
}

/// Names the servers, the workload and the database.
pub(crate) fn servers_text(report: &UpgradeReport) -> String {
    let old = one_line(&report.from_server, 200);
    let servers = match &report.to_server {
        None if report.method == RehearsalMethod::PgUpgrade => {
            format!(
                "Two private servers from a dump of {old}, the new one by pg_upgrade if it did not refuse."
            )
        }
        None => format!("Two private servers, restored from a dump of {old}."),
        Some(new) => format!("Old server: {old}. New server: {}.", one_line(new, 200)),
    };
    format!(
        "{servers} Database: {}. Workload: {}.",
        one_line(&report.database, 80),
        one_line(&report.workload, 200)
    )
}

/// Returns the tone of the decision.
fn tone(report: &UpgradeReport) -> Tone {
    match report.decision {
        UpgradeDecision::GoWithRemedies if report.is_blocked() => Tone::Care,
        UpgradeDecision::Go | UpgradeDecision::GoWithRemedies => Tone::Good,
        UpgradeDecision::NoGo => Tone::Bad,
        UpgradeDecision::Undecided => Tone::Care,
    }
}

/// Returns the measured effect on all statements.
pub(crate) fn measured(report: &UpgradeReport) -> String {
    let with_level = |effect: &Effect| {
        format!(
            "× {} (interval of {} confidence)",
            with_interval(effect),
            percent(1.0 - effect.error, 1.0)
        )
    };
    let effect = match &report.effect {
        Some(effect) => format!(
            "Response time of all statements, new / old: {}, from {} of runs; differences up to {:.0} % count as none.",
            with_level(effect),
            counted(u64::from(report.blocks), "round"),
            report.margin * 100.0
        ),
        None => "No effect on the response time was measured.".to_owned(),
    };
    let work = report.work.as_ref().map_or_else(String::new, |work| {
        format!(
            " Pages of tables and indexes read, new / old: × {}.",
            with_interval(work)
        )
    });
    let processor = report.evidence.processor_time.as_ref();
    let work = match processor {
        Some(time) => format!(
            "{work} Processor time of the server, new / old: × {}.",
            with_interval(time)
        ),
        None => work,
    };
    let without = match report.remedied.is_some() {
        true => "Without the remedies: ",
        false => "",
    };
    format!(
        "{without}{effect}{work} {} faster, {} slower, {} with other rows. Replays: {}.",
        counted(report.faster, "statement"),
        count(report.slower.len() as u64),
        count(report.other_rows),
        one_line(&report.proof, 200)
    )
}

/// Returns the share of the workload that was replayed.
pub(crate) fn coverage_text(coverage: &UpgradeCoverage) -> String {
    let mut text = format!(
        "Coverage: {} of {} were sent to the new server ({})",
        count(coverage.sent),
        counted(coverage.statements, "execution"),
        percent(coverage.sent as f64, coverage.statements as f64),
    );
    if coverage.captured_us > 0 {
        let share = percent(
            coverage.sent_captured_us as f64,
            coverage.captured_us as f64,
        );
        text.push_str(&format!(", with {share} of the captured time"));
    }
    text.push_str(&format!(
        ". In the run of both versions with the fewest, {} had the captured outcome ({})",
        count(coverage.rehearsed),
        percent(coverage.rehearsed as f64, coverage.statements as f64),
    ));
    if coverage.captured_us > 0 {
        let share = percent(
            coverage.rehearsed_captured_us as f64,
            coverage.captured_us as f64,
        );
        text.push_str(&format!(", with {share} of the captured time"));
    }
    text.push('.');
    for (title, numbers) in [
        ("Not sent", &coverage.not_sent),
        ("Failed, unlike in the capture", &coverage.failed),
    ] {
        let numbers = numbers.iter();
        let numbers: Vec<String> = numbers
            .map(|(name, number)| format!("{name} {}", count(*number)))
            .collect();
        if !numbers.is_empty() {
            text.push_str(&format!(" {title}: {}.", numbers.join(", ")));
        }
    }
    text
}

/// Returns the extent of the comparison.
pub(crate) fn evidence_text(report: &UpgradeReport) -> String {
    let evidence = &report.evidence;
    let mut text = format!(
        "Times: {} of {} are shown to be slower, faster or the same within the margin (the others have too few executions or too \
         much noise). Answers: those of {} were compared, {} of them by checksum.",
        count(evidence.judged),
        counted(evidence.statements(), "statement"),
        counted(evidence.answers, "execution"),
        count(evidence.checksums),
    );
    if !evidence.unsteady.is_empty() {
        let title = format!(
            "Not compared, since the answers differ between runs of one version ({})",
            counted(evidence.unsteady.len() as u64, "statement")
        );
        text.push_str(&upgrade_regression_text::listed(
            &title,
            evidence.unsteady.iter().cloned(),
        ));
    }
    if !evidence.rows_of_server.is_empty() {
        text.push_str(&format!(
            " Other rows since the servers differ (catalogues, settings, version): {}; see the notes.",
            counted(evidence.rows_of_server.len() as u64, "statement")
        ));
    }
    if evidence.incomplete > 0 {
        text.push_str(&format!(
            " Compared in part: {}.",
            counted(evidence.incomplete, "statement")
        ));
    }
    if let Some(search) = &evidence.search {
        text.push(' ');
        text.push_str(&search_text(search));
    }
    text
}

/// Returns the extent of the search of remedies. Shares are rounded down.
fn search_text(search: &SearchCoverage) -> String {
    let share = |share: f64| (100.0 * share).floor();
    let measure = match search.captured_us {
        0 => "statements",
        _ => "captured time",
    };
    let mut text = format!(
        "Executed or planned alone on both versions: {} of {} that a planner plans, {:.0} % of the {measure}. Plans that `rehearse upgrade verify` can \
         check after the upgrade: of {} statements, {:.0} %.",
        count(search.examined),
        counted(search.statements, "statement"),
        share(search.examined_share()),
        count(search.planned),
        share(search.planned_share()),
    );
    for (reason, number) in &search.not_examined {
        text.push_str(&format!(" Not examined: {}: {reason}.", count(*number)));
    }
    text
}

/// Returns the conditions under which the result holds.
pub(crate) fn scope_text(report: &UpgradeReport) -> String {
    match report.method {
        RehearsalMethod::Dump => {
            "Rehearsed by dump and restore, followed by ANALYZE. Objections of pg_upgrade were not checked; `rehearse upgrade \
             inspect` does that."
                .to_owned()
        }
        RehearsalMethod::PgUpgrade => {
            "Rehearsed by dump and restore into a server of the old version, and pg_upgrade of a copy of it. Statistics that \
             pg_upgrade does not keep were collected by ANALYZE. Other databases, and files of the production server, were not \
             checked; `rehearse upgrade inspect` does that."
                .to_owned()
        }
        RehearsalMethod::Target => {
            "Rehearsed on two servers as they were given: their machines, settings and statistics are a part of the comparison. \
             If the real upgrade keeps what the copies lack (pg_upgrade to 18 keeps the statistics of columns), differences by that \
             lack count here and will not be there: make the copies by the method of the real upgrade."
                .to_owned()
        }
    }
}

/// Describes the tables whose data differed before the replays.
pub(crate) fn differing_tables(report: &UpgradeReport) -> Vec<String> {
    let tables = report.data.iter().flat_map(|data| &data.differing);
    tables
        .map(|table| {
            let ([old, new], unit) = match table.rows {
                Some(rows) => (rows, "row"),
                None => (table.bytes, "byte"),
            };
            format!(
                "{}: {}, {}",
                one_line(&table.name, 200),
                count(old),
                counted(new, unit)
            )
        })
        .collect()
}

/// Returns the statements of a remedy, or its objects if it has none.
pub(crate) fn remedy_details(remedy: &UpgradeRemedy) -> &[String] {
    match remedy.statements.is_empty() {
        true => &remedy.objects,
        false => &remedy.statements,
    }
}

/// Describes how the plan of a statement changed, if it did.
pub(crate) fn plan_change(report: &UpgradeReport, fingerprint: Fingerprint) -> Option<String> {
    let plans = report.plans.as_ref()?;
    let known = plans
        .statements
        .iter()
        .find(|one| one.fingerprint == fingerprint.to_string())?;
    first_change(known)
}

/// Describes the risks of a statement's new plans, then the first plan that changed, and whether it changes with perturbed
/// statistics, too.
pub(crate) fn first_change(statement: &CheckedStatement) -> Option<String> {
    let mut parts = statement_risks(statement);
    let first = plan_changes(statement).into_iter().next();
    parts.extend(first.map(|change| change.text));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Describes the statements whose plan changed: each with its change, those with a new risk first.
pub(crate) fn changed_plans(report: &UpgradeReport) -> Vec<(String, String)> {
    let statements = report.plans.iter().flat_map(|plans| &plans.statements);
    let mut statements: Vec<&CheckedStatement> = statements.collect();
    statements.sort_by_key(|one| statement_risks(one).is_empty());
    let changed = statements.into_iter().filter_map(|one| {
        let change = first_change(one)?;
        Some((one_line(&one.sql, 2_000), one_line(&change, 800)))
    });
    changed.collect()
}

/// Describes an error.
pub(crate) fn error_text(error: &ErrorChange) -> String {
    format!(
        "{} {} → {} {} {}",
        error.sqlstate,
        count(error.before),
        count(error.after),
        one_line(error.message.as_deref().unwrap_or_default(), 200),
        one_line(error.sql.as_deref().unwrap_or_default(), TEXT_MAX)
    )
}

/// Describes a remedy.
pub(crate) fn remedy_text(remedy: &UpgradeRemedy) -> String {
    let time = match (remedy.before, remedy.performed) {
        (true, _) => "before the upgrade",
        // The locale of a database is fixed when it is created.
        (false, _) if remedy.check == UpgradeCheck::DatabaseLocale.name() => {
            "before the data are restored"
        }
        (false, false) => "after the upgrade",
        (false, true) => {
            "after the upgrade, before the traffic; the rehearsal did it, and its result holds only with it"
        }
    };
    one_line(
        &format!(
            "[{}, {time}] {} – {}",
            remedy.check, remedy.problem, remedy.remedy
        ),
        1_000,
    )
}

fn list(title: &str, texts: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![title.to_owned()];
    for text in texts.iter().take(LISTED_MAX) {
        lines.extend(wrapped(&one_line(text, 1_000), "  - ", "    ", width));
    }
    lines.extend(more(texts.len(), "  - "));
    lines
}

fn more(all: usize, indent: &str) -> Option<String> {
    let left = all.checked_sub(LISTED_MAX).filter(|left| *left > 0)?;
    Some(format!("{indent}and {left} more (report.json lists all)"))
}
