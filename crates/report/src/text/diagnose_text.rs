//! What is wrong, for people: on one screen, or with all that was looked at.

use crate::text::amount::{bytes, count, counted, duration, percent, rate, ratio};
use crate::text::line::{cut, one_line, wrapped};
use crate::text::proof_text::with_interval;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::diagnose::{
    DiagnosisFindingView, DiagnosisView, FactView, FindingProofView, RuleView, SuspectView,
    ThresholdsView,
};

/// Findings that are shown on one screen.
const SHOWN_MAX: usize = 6;
/// Facts of each.
const FACTS_MAX: usize = 4;

/// The diagnosis as text, ending with a line feed: at most some forty lines, or all of it.
pub fn render_text(view: &DiagnosisView, verbose: bool, style: &TextStyle) -> String {
    let width = style.columns();
    let heading = format!("Diagnosis of {}", one_line(&view.of, 60));
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.push(format!(
        "  {}: {} in {}, of {}",
        view.whole,
        duration(view.whole_us),
        duration(view.elapsed_s * 1e6),
        counted(view.statements, "different statement")
    ));
    for one in &view.thresholds_set {
        lines.push(format!(
            "  {} is {} (of itself {})",
            one.name, one.value, one.default
        ));
    }
    for suspect in &view.suspects {
        lines.extend(suspect_lines(suspect, verbose, *style));
    }
    let notes = view.findings.iter().filter(|one| one.severity == "note");
    let notes = notes.count();
    let shown = match verbose {
        true => view.findings.len(),
        // What need not be acted on stands below what must be.
        false => view.findings.len().min(SHOWN_MAX),
    };
    if view.findings.is_empty() {
        lines.push("  Nothing was found.".to_owned());
    }
    let mut ordered: Vec<&DiagnosisFindingView> = view.findings.iter().collect();
    ordered.sort_by_key(|one| one.severity == "note");
    for one in ordered.iter().take(shown) {
        lines.extend(finding_lines(one, verbose, *style));
    }
    let more = view.findings.len() - shown;
    if more > 0 {
        lines.push(format!(
            "  and {} more ({} in all are notes); --verbose shows all",
            count(more as u64),
            count(notes as u64)
        ));
    }
    lines.extend(proof_lines(&view.proofs, verbose, *style));
    lines.push(String::new());
    lines.extend(rule_lines(&view.rules, verbose, width));
    lines.push(String::new());
    lines.join("\n")
}

fn finding_lines(one: &DiagnosisFindingView, verbose: bool, style: TextStyle) -> Vec<String> {
    let width = style.columns();
    let tone = match one.severity {
        "problem" => Tone::Bad,
        "warning" => Tone::Care,
        _ => Tone::Aside,
    };
    let won = one.most_to_win.map_or_else(
        || "what it can win is not known".to_owned(),
        |share| format!("at most {} to win", percent(share, 1.0)),
    );
    let first = format!("{}: {}; {won}  [{}]", one.severity, one.title, one.rule);
    let mut lines = vec![String::new()];
    lines.extend(
        wrapped(&first, "", "  ", width)
            .iter()
            .map(|line| style.paint(tone, line)),
    );
    if one.subject.kind == "statement" {
        let fingerprint = one.subject.fingerprint.as_deref().unwrap_or_default();
        lines.push(cut(
            &format!("  {fingerprint}  {}", one_line(&one.subject.name, 300)),
            width,
        ));
    }
    if verbose {
        if let Some(cost) = one.cost {
            let cpu = cost.cpu_share.map_or_else(String::new, |share| {
                format!(", {} of processor time", percent(share, 1.0))
            });
            lines.push(format!(
                "  costs {} ({}){cpu}",
                duration(cost.us),
                percent(cost.share, 1.0)
            ));
        }
        for fact in &one.evidence {
            let what = format!("{}: {} (from {})", fact.what, amount(fact), fact.from);
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
            let text = change.text.iter().flat_map(|text| text.lines());
            lines.extend(text.map(|line| format!("      {line}")));
            let option = change.option.iter();
            lines.extend(option.map(|option| format!("      rehearse prove … {option}")));
        }
        lines.extend(wrapped(&format!("risk: {}", one.risk), "  ", "    ", width));
    } else {
        let facts: Vec<String> = one
            .evidence
            .iter()
            .take(FACTS_MAX)
            .map(|fact| format!("{}: {}", fact.what, amount(fact)))
            .collect();
        lines.push(cut(&format!("  {}", facts.join("; ")), width));
        if let Some(change) = one.changes.first() {
            let text = match (change.kind, &change.text, &change.option) {
                ("sql", Some(sql), _) => one_line(sql, 400),
                (_, _, Some(option)) => format!("{} ({option})", change.words),
                _ => change.words.clone(),
            };
            lines.push(cut(&format!("  try: {text}"), width));
        }
    }
    lines
}

/// What was won, and what is still a belief.
fn proof_lines(proofs: &[FindingProofView], verbose: bool, style: TextStyle) -> Vec<String> {
    let width = style.columns();
    let (believed, measured): (Vec<_>, Vec<_>) =
        proofs.iter().partition(|one| one.outcome == "believed");
    let mut lines = Vec::new();
    if !measured.is_empty() {
        lines.push(String::new());
        lines.push("Measured, each beside what is unchanged on the same traffic".to_owned());
    }
    for one in measured {
        let tone = match one.outcome {
            "won" | "same" => Tone::Good,
            "lost" => Tone::Bad,
            _ => Tone::Care,
        };
        let most = one.most_to_win.map_or_else(String::new, |share| {
            format!(" (believed: at most {} to win)", percent(share, 1.0))
        });
        let first = format!("{}  {}{most}  [{}]", one.outcome, one.title, one.rule);
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
            let slower = match change.slower {
                0 if change.is_worse => "; something else got worse".to_owned(),
                0 => String::new(),
                some => format!("; {} got slower", counted(some, "statement")),
            };
            let line = format!(
                "{}: {effect}  {}{slower}",
                change.verdict,
                one_line(&change.name, 160)
            );
            lines.extend(wrapped(&line, "    ", "      ", width));
        }
        if let Some(proof) = &one.proof {
            lines.push(format!("    {proof}"));
        }
    }
    if !believed.is_empty() {
        lines.push(String::new());
        lines.push("Believed, and not measured".to_owned());
    }
    let shown = if verbose { believed.len() } else { SHOWN_MAX };
    for one in believed.iter().take(shown) {
        let because = one.because.as_deref().unwrap_or_default();
        let line = format!("{}: {because}  [{}]", one.title, one.rule);
        lines.extend(wrapped(&line, "  ", "    ", width));
    }
    if believed.len() > shown {
        lines.push(format!("  and {} more", believed.len() - shown));
    }
    lines
}

fn amount(fact: &FactView) -> String {
    let number = fact.number;
    match fact.unit {
        "count" => count(number.round().max(0.0) as u64),
        "ns" => duration(number / 1e3),
        "share" => percent(number, 1.0),
        "bytes" => bytes(number.round().max(0.0) as u64),
        "per_s" => format!("{} a second", rate(number)),
        "times" => format!("{} times", ratio(number)),
        _ => ratio(number),
    }
}

fn suspect_lines(one: &SuspectView, verbose: bool, style: TextStyle) -> Vec<String> {
    let width = style.columns();
    let mut lines = vec![String::new()];
    let pattern = one_line(&one.pattern, 60);
    if one.verdict == "not seen" {
        lines.push(style.paint(Tone::Care, &format!("Suspect '{pattern}': not seen")));
        lines.push(
            "  no statement's normal form is like this pattern; % stands for any text".to_owned(),
        );
        return lines;
    }
    let tone = if one.verdict == "cleared" {
        Tone::Good
    } else {
        Tone::Bad
    };
    let first = format!(
        "Suspect '{pattern}': {}; removing it could bring at most {} (cleared below {})",
        one.verdict,
        percent(one.most_to_win, 1.0),
        percent(one.threshold, 1.0)
    );
    lines.extend(
        wrapped(&first, "", "  ", width)
            .iter()
            .map(|line| style.paint(tone, line)),
    );
    let statements = counted(one.statements.len() as u64, "statement");
    lines.push(match one.calls {
        0 => format!("  {statements}; how often they were called was not counted"),
        calls => format!(
            "  {} of {statements}, {} of all calls",
            counted(calls, "call"),
            percent(one.calls_share, 1.0)
        ),
    });
    for share in &one.shares {
        let us = share
            .us
            .map_or_else(String::new, |us| format!(", {}", duration(us)));
        let line = format!(
            "{} of the {}{us} (from {})",
            percent(share.share, 1.0),
            share.of,
            share.from
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
        for statement in &one.statements {
            lines.push(cut(
                &format!(
                    "  {}  {}",
                    statement.fingerprint.as_deref().unwrap_or_default(),
                    one_line(&statement.name, 300)
                ),
                width,
            ));
        }
    }
    lines
}

fn rule_lines(rules: &[RuleView], verbose: bool, width: usize) -> Vec<String> {
    let of = |outcome: &str| -> Vec<&RuleView> {
        rules
            .iter()
            .filter(|rule| rule.outcome == outcome)
            .collect()
    };
    let (well, blind) = (of("well"), of("could_not_look"));
    let mut lines = Vec::new();
    if verbose {
        lines.push("Looked at, and well".to_owned());
        for rule in &well {
            lines.extend(wrapped(
                &format!("{}: {}", rule.rule, rule.looks_at),
                "  ",
                "    ",
                width,
            ));
        }
        lines.push("Could not look".to_owned());
        for rule in &blind {
            let because = rule.because.as_deref().unwrap_or_default();
            lines.extend(wrapped(
                &format!("{}: because {because}", rule.rule),
                "  ",
                "    ",
                width,
            ));
        }
        return lines;
    }
    lines.push(format!(
        "{} of {} looked and found nothing",
        count(well.len() as u64),
        counted(rules.len() as u64, "rule")
    ));
    if !blind.is_empty() {
        let names: Vec<&str> = blind.iter().map(|rule| rule.rule).collect();
        let line = format!(
            "{} could not look (--verbose says why): {}",
            count(blind.len() as u64),
            names.join(", ")
        );
        lines.extend(wrapped(&line, "", "  ", width));
    }
    lines
}

/// All thresholds, ending with a line feed.
pub fn render_thresholds(view: &ThresholdsView, style: &TextStyle) -> String {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut lines = vec![style.paint(Tone::Heading, "Thresholds; --threshold NAME=VALUE sets one")];
    for one in &view.thresholds {
        table.row([
            format!("  {}", one.name),
            one.value.to_string(),
            format!("{}; {} ({})", one.unit, one.decides, one.source),
        ]);
    }
    lines.extend(table.lines());
    lines.push(String::new());
    lines.join("\n")
}
