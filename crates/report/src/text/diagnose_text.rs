//! Text on a diagnosis, on one screen or in full.

use std::collections::BTreeMap;

use compare::proof::Verdict;
use diagnose::{
    CauseStatus, Change, Finding, Form, Outcome, RuleResult, Severity, StatementAccount, Subject,
    SubjectKind, Suspect, SuspectVerdict, SuspectedChange, ThresholdSetting, TrialOutcome,
};

use crate::text::account_text::{measured_lines, trial_lines};
use crate::text::line::{cut, one_line, wrapped};
use crate::text::proof_text::{BY_PROCESSOR, with_interval};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{count, counted, duration, percent, quantity};
use sql::Fingerprint;
use study::diagnosis_report::{DiagnosisReport, FindingProof};
use study::statement_senders::StatementSenders;

/// Maximum number of findings on one screen.
const SHOWN_MAX: usize = 6;
/// Maximum number of facts for each finding.
const FACTS_MAX: usize = 4;

/// Renders the diagnosis, ending with a line feed: about forty lines at most, or everything.
pub fn render_text(report: &DiagnosisReport, verbose: bool, style: &TextStyle) -> String {
    let width = style.columns();
    let heading = format!("Diagnosis of {}", one_line(&report.source, 60));
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.push(format!(
        "  {}: {} in {}, of {}",
        report.whole,
        duration(report.whole_ns / 1e3),
        duration(report.elapsed_s * 1e6),
        counted(report.statements, "different statement")
    ));
    for one in &report.thresholds_set {
        lines.push(format!(
            "  {} is {} (default {})",
            one.threshold.name, one.value, one.threshold.value
        ));
    }
    for suspect in &report.suspects {
        lines.extend(suspect_lines(suspect, verbose, *style));
    }
    let is_note = |one: &&Finding| one.severity == Severity::Note;
    let findings = &report.diagnosis.findings;
    let notes = findings.iter().filter(is_note).count();
    let shown = match verbose {
        true => findings.len(),
        // Findings that require no action come after those that do.
        false => findings.len().min(SHOWN_MAX),
    };
    if findings.is_empty() {
        lines.push("  Nothing was found.".to_owned());
    }
    for hidden in &report.hidden {
        let line = format!("! not seen: {}; {}", hidden.description, hidden.grant);
        lines.extend(wrapped(&line, "  ", "    ", width));
    }
    let mut ordered: Vec<&Finding> = findings.iter().collect();
    ordered.sort_by_key(is_note);
    for one in ordered.iter().take(shown) {
        lines.extend(finding_lines(one, &report.senders, verbose, *style));
    }
    let more = findings.len() - shown;
    if more > 0 {
        lines.push(format!(
            "  and {} more ({} in all are notes); --verbose shows all",
            count(more as u64),
            count(notes as u64)
        ));
    }
    lines.extend(proof_lines(&report.proofs, *style));
    lines.extend(measured_lines(&report.diagnosis.accounts, verbose, width));
    if verbose {
        lines.extend(account_lines(&report.diagnosis.accounts, width));
    }
    lines.push(String::new());
    lines.extend(rule_lines(&report.diagnosis.rules, verbose, width));
    lines.push(String::new());
    lines.join("\n")
}

fn finding_lines(
    one: &Finding,
    senders: &[StatementSenders],
    verbose: bool,
    style: TextStyle,
) -> Vec<String> {
    let width = style.columns();
    let (tone, severity) = match one.severity {
        Severity::Problem => (Tone::Bad, "problem"),
        Severity::Warning => (Tone::Care, "warning"),
        Severity::Note => (Tone::Aside, "note"),
    };
    let won = match (one.max_gain, one.status) {
        (None, _) => "what it can win is not known".to_owned(),
        (Some(share), CauseStatus::Hypothesis) => format!("at most {} to win", percent(share, 1.0)),
        (Some(share), CauseStatus::Confirmed) => {
            format!(
                "confirmed by experiment, wins up to {} of the time",
                percent(share, 1.0)
            )
        }
    };
    let title = one_line(&one.title, usize::MAX);
    let first = format!("{severity}: {title}; {won}  [{}]", one.rule);
    let mut lines = vec![String::new()];
    lines.extend(
        wrapped(&first, "", "  ", width)
            .iter()
            .map(|line| style.paint(tone, line)),
    );
    if one.subject.kind == SubjectKind::Statement {
        lines.push(statement_line(&one.subject, width));
        lines.extend(sender_line(one.subject.fingerprint, senders, width));
    }
    lines.extend(match verbose {
        true => full_lines(one, width),
        false => brief_lines(one, width),
    });
    lines
}

/// Describes a finding with its cost, all facts with their sources, and all changes.
fn full_lines(one: &Finding, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(cost) = one.cost {
        let cpu = cost.cpu_share.map_or_else(String::new, |share| {
            format!(", {} of processor time", percent(share, 1.0))
        });
        lines.push(format!(
            "  costs {} ({}){cpu}",
            duration(cost.ns / 1e3),
            percent(cost.share, 1.0)
        ));
    }
    for fact in &one.evidence {
        let what = format!(
            "{}: {} (from {})",
            fact.what,
            quantity(fact.number, fact.unit),
            fact.source
        );
        lines.extend(wrapped(&what, "  - ", "    ", width));
        if let Some(check) = &fact.check {
            lines.extend(wrapped(
                &format!("check: {check}"),
                "      ",
                "      ",
                width,
            ));
        }
    }
    for change in &one.changes {
        lines.extend(wrapped(
            &format!("try: {}", change.words),
            "  ",
            "    ",
            width,
        ));
        let text = change.form.text().unwrap_or_default();
        lines.extend(text.lines().map(|line| format!("      {line}")));
        let option = change.option();
        lines.extend(option.map(|option| format!("      rehearse prove … {option}")));
        let trial = change.trial.iter();
        lines.extend(trial.flat_map(|trial| trial_lines(trial, width)));
    }
    lines.extend(wrapped(&format!("risk: {}", one.risk), "  ", "    ", width));
    lines
}

/// Describes a finding with its first facts, and the changes to make.
fn brief_lines(one: &Finding, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let first = one.changes.first().and_then(|change| change.trial.as_ref());
    let is_measured = first.is_some_and(|trial| trial.total().is_some());
    let facts: Vec<String> = one
        .evidence
        .iter()
        // The line of the measurement says these.
        .filter(|fact| !(is_measured && fact.what.ends_with(" the change")))
        .take(FACTS_MAX)
        .map(|fact| format!("{}: {}", fact.what, quantity(fact.number, fact.unit)))
        .collect();
    lines.extend(wrapped(&facts.join("; "), "  ", "    ", width));
    if let Some(change) = one.changes.first() {
        // It is never cut: half a change cannot be copied.
        let is_useless =
            (change.trial.as_ref()).is_some_and(|trial| trial.outcome == TrialOutcome::NoEffect);
        let verb = if is_useless {
            "tried, no effect"
        } else {
            "try"
        };
        let line = format!("{verb}: {}", suggestion(change));
        lines.extend(wrapped(&line, "  ", "    ", width));
        let trial = change.trial.iter();
        lines.extend(trial.flat_map(|trial| trial_lines(trial, width)));
    }
    for change in one.changes.iter().skip(1) {
        let removing = change.trial.as_ref();
        let removing = removing.filter(|trial| trial.outcome == TrialOutcome::RemovesCause);
        if let Some(trial) = removing {
            let line = format!("or: {}", suggestion(change));
            lines.extend(wrapped(&line, "  ", "    ", width));
            lines.extend(trial_lines(trial, width));
        }
    }
    let has_risk = !one.risk.is_empty() && !one.risk.starts_with("none");
    if has_risk && one.severity != Severity::Note {
        lines.extend(wrapped(&format!("risk: {}", one.risk), "  ", "    ", width));
    }
    lines
}

/// Describes a change on one line.
fn suggestion(change: &Change) -> String {
    match (&change.form, change.option()) {
        (Form::Sql(sql), _) => one_line(sql, usize::MAX),
        (Form::Setting(name, value), _) => format!(
            "ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf(); ({})",
            change.words
        ),
        (_, Some(option)) => format!("{} ({option})", change.words),
        (_, None) => change.words.clone(),
    }
}

fn statement_line(statement: &Subject, width: usize) -> String {
    let fingerprint = statement.fingerprint.map(|one| one.to_string());
    let line = format!(
        "  {}  {}",
        fingerprint.unwrap_or_default(),
        one_line(&statement.name, width)
    );
    cut(&line, width)
}

/// Lists the places of the application that sent a statement.
fn sender_line(
    statement: Option<Fingerprint>,
    senders: &[StatementSenders],
    width: usize,
) -> Option<String> {
    let sent = senders
        .iter()
        .find(|sent| Some(sent.fingerprint) == statement)?;
    let places = sent.senders.iter();
    let places = places.map(|one| format!("{} ({})", one.place, percent(one.share, 1.0)));
    let line = format!("  sent by {}", places.collect::<Vec<_>>().join(", "));
    Some(cut(&line, width))
}

/// Lists the statements with the most time, and how much of it the findings explain.
fn account_lines(accounts: &[StatementAccount], width: usize) -> Vec<String> {
    let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
    for one in accounts {
        let explained = match (one.needs_explanation, one.explained_by.as_slice()) {
            (false, []) => "fits its rows".to_owned(),
            (true, []) => "not explained".to_owned(),
            (_, rules) => {
                let share = percent(one.explained_share, 1.0);
                format!("{share} by {}", rules.join(", "))
            }
        };
        table.row([
            format!("  {}", percent(one.share, 1.0)),
            explained,
            one_line(&one.sql, width),
        ]);
    }
    let lines = table.lines();
    let heading = "Time of the statements that take 95 % of it, and how much findings explain";
    [String::new(), heading.to_owned()]
        .into_iter()
        .chain(lines.into_iter().map(|line| cut(&line, width)))
        .collect()
}

/// Lists measured gains, and findings that were not measured.
fn proof_lines(proofs: &[FindingProof], style: TextStyle) -> Vec<String> {
    let width = style.columns();
    let unproved: Vec<_> = proofs.iter().filter(|one| one.verdict.is_none()).collect();
    let measured: Vec<_> = proofs
        .iter()
        .filter_map(|one| Some((one, one.verdict?)))
        .collect();
    let mut lines = Vec::new();
    if !measured.is_empty() {
        lines.push(String::new());
        lines.push(
            "Measured, each compared with the unchanged server on the same traffic".to_owned(),
        );
    }
    for (one, verdict) in measured {
        let tone = match verdict {
            Verdict::Won | Verdict::Same => Tone::Good,
            Verdict::Lost => Tone::Bad,
            Verdict::NotProven => Tone::Care,
        };
        let most = one.max_gain.map_or_else(String::new, |share| {
            format!(" (expected: at most {})", percent(share, 1.0))
        });
        let first = format!("{}  {}{most}  [{}]", verdict.name(), one.title, one.rule);
        lines.extend(
            wrapped(&first, "  ", "    ", width)
                .iter()
                .map(|line| style.paint(tone, line)),
        );
        for change in &one.changes {
            let effect = change.effect.as_ref().map_or_else(
                || "too few blocks to say anything".to_owned(),
                |effect| format!("× {}", with_interval(effect)),
            );
            let others = match change.slower {
                0 if change.is_worse => "; something else got worse".to_owned(),
                0 if change.verdict.is_clear() => "; no statement got slower".to_owned(),
                0 => String::new(),
                some => format!("; {} got slower", counted(some, "statement")),
            };
            let is_wide = change
                .effect
                .is_some_and(|effect| effect.low <= 1.0 && effect.high >= 1.0);
            let by_work = match change.verdict {
                Verdict::Won | Verdict::Lost if is_wide => BY_PROCESSOR,
                _ => "",
            };
            let line = format!(
                "{}{by_work}: {effect}  {}{others}",
                change.verdict.name(),
                one_line(&change.name, 160)
            );
            lines.extend(wrapped(&line, "    ", "      ", width));
        }
        for change in &one.unmeasured {
            let name = one_line(&change.name, 160);
            let line = format!("not measured: {name} ({})", change.reason);
            lines.extend(wrapped(&line, "    ", "      ", width));
        }
        if let Some(proof) = &one.proof {
            lines.push(format!("    {proof}"));
        }
    }
    lines.extend(unproved_lines(&unproved, width));
    lines
}

/// Lists the findings that were not proved, by the reason.
fn unproved_lines(unproved: &[&FindingProof], width: usize) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in unproved {
        let reason = one.not_measured_reason.as_deref().unwrap_or_default();
        let titles = by_reason.entry(reason).or_default();
        if !titles.contains(&one.title.as_str()) {
            titles.push(&one.title);
        }
    }
    let mut lines = Vec::new();
    if !by_reason.is_empty() {
        lines.push(String::new());
        lines.push("Not proved with the whole traffic".to_owned());
    }
    for (reason, titles) in by_reason {
        let line = format!("{reason}: {}", titles.join("; "));
        lines.extend(wrapped(&line, "  ", "    ", width));
    }
    lines
}

fn suspect_lines(one: &Suspect, verbose: bool, style: TextStyle) -> Vec<String> {
    let width = style.columns();
    let mut lines = vec![String::new()];
    let pattern = one_line(&one.pattern, 60);
    let verdict = one.verdict.words();
    let tone = match one.verdict {
        SuspectVerdict::Cleared => Tone::Good,
        SuspectVerdict::CouldMatter => Tone::Bad,
        SuspectVerdict::NotSeen => Tone::Care,
    };
    if one.verdict == SuspectVerdict::NotSeen {
        lines.push(style.paint(tone, &format!("Suspect '{pattern}': {verdict}")));
        lines.push(
            "  no statement's normal form is like this pattern; % stands for any text".to_owned(),
        );
        return lines;
    }
    let first = format!(
        "Suspect '{pattern}': {verdict}; removing it could bring at most {} (cleared below {})",
        percent(one.max_gain, 1.0),
        percent(one.threshold, 1.0)
    );
    lines.extend(
        wrapped(&first, "", "  ", width)
            .iter()
            .map(|line| style.paint(tone, line)),
    );
    let statements = counted(one.statements.len() as u64, "statement");
    let is_change = SuspectedChange::parse(&one.pattern).is_some();
    lines.push(match one.calls {
        0 if is_change => format!("  {statements} clearly faster without it"),
        0 => format!("  {statements}; how often they were called was not counted"),
        calls => format!(
            "  {} of {statements}, {} of all calls",
            counted(calls, "call"),
            percent(one.calls_share, 1.0)
        ),
    });
    for share in &one.shares {
        let time = share
            .ns
            .map_or_else(String::new, |ns| format!(", {}", duration(ns / 1e3)));
        let line = format!(
            "{} of the {}{time} (from {}{})",
            percent(share.share, 1.0),
            share.of,
            share.source,
            match share.counts {
                true => "",
                false => "; with the way to the client, so that it does not count",
            }
        );
        lines.extend(wrapped(&line, "  ", "    ", width));
    }
    for unknown in &one.unknown {
        lines.extend(wrapped(
            &format!("not known: {unknown}"),
            "  ",
            "    ",
            width,
        ));
    }
    if verbose {
        let statements = one.statements.iter();
        lines.extend(statements.map(|statement| statement_line(statement, width)));
    }
    lines
}

fn rule_lines(rules: &[RuleResult], verbose: bool, width: usize) -> Vec<String> {
    let well: Vec<_> = rules
        .iter()
        .filter(|one| one.outcome == Outcome::Well)
        .collect();
    let blind: Vec<_> = rules
        .iter()
        .filter_map(|one| match &one.outcome {
            Outcome::CouldNotLook { reason } => Some((one.rule.name, reason)),
            Outcome::Well | Outcome::Found { .. } => None,
        })
        .collect();
    let mut lines = Vec::new();
    if verbose {
        lines.push("Checked, nothing found".to_owned());
        for one in &well {
            let line = format!("{}: {}", one.rule.name, one.rule.looks_at);
            lines.extend(wrapped(&line, "  ", "    ", width));
        }
        lines.push("Could not look".to_owned());
        for (name, reason) in &blind {
            let line = format!("{name}: because {reason}");
            lines.extend(wrapped(&line, "  ", "    ", width));
        }
        return lines;
    }
    lines.push(format!(
        "{} of {} looked and found nothing",
        count(well.len() as u64),
        counted(rules.len() as u64, "rule")
    ));
    if !blind.is_empty() {
        let names: Vec<&str> = blind.iter().map(|(name, _)| *name).collect();
        let line = format!(
            "{} could not look (--verbose says why): {}",
            count(blind.len() as u64),
            names.join(", ")
        );
        lines.extend(wrapped(&line, "", "  ", width));
    }
    lines
}

/// Renders all thresholds, ending with a line feed.
pub fn render_thresholds(thresholds: &[ThresholdSetting], style: &TextStyle) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut lines = vec![style.paint(Tone::Heading, "Thresholds; --threshold NAME=VALUE sets one")];
    for one in thresholds {
        let threshold = one.threshold;
        table.row([
            format!("  {}", threshold.name),
            one.value.to_string(),
            format!(
                "{}; {} ({})",
                threshold.unit, threshold.decides, threshold.source
            ),
        ]);
    }
    lines.extend(table.lines());
    lines.push(String::new());
    lines.join("\n")
}
