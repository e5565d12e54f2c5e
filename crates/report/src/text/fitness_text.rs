//! Text on the suitability of a log for a replay: a line for each use, then the recommended
//! settings.

use capture_log::{Advice, Extent, Finding, LogQuality, LogUse};

use crate::text::fitness_finding_text::{sentence, share};
use crate::text::line::wrapped;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};

/// Facts that no log has, whatever its settings.
const UNKNOWN_SETTINGS: &str = "No log has the settings that clients sent when they connected (PGOPTIONS, a search_path in the driver's URL), nor those of ALTER ROLE or DATABASE … SET. If there were any, replay with --startup-options '-c search_path=…'.";

/// Renders the suitability, ending with a line feed. If the workload is `of_a_part` of the log, the
/// title says that the whole log is meant.
pub fn render_text(fitness: &LogQuality, of_a_part: bool, style: &TextStyle) -> String {
    let width = style.columns();
    let title = match of_a_part {
        true => "What this log is good for (all of it, not the slice alone)",
        false => "What this log is good for",
    };
    let mut lines = vec![style.paint(Tone::Heading, title)];
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
    let uses = &fitness.uses;
    let uses = [
        ("replay", LogUse::Replay, uses.replay),
        ("latencies", LogUse::Latencies, uses.latencies),
        ("pacing", LogUse::Pacing, uses.pacing),
        ("sessions", LogUse::Sessions, uses.sessions),
        ("failures", LogUse::Failures, uses.failures),
    ]
    .map(|(name, of, extent)| match extent {
        Extent::Yes => (name, of, "yes", Tone::Good),
        Extent::Partly => (name, of, "partly", Tone::Care),
        Extent::No => (name, of, "no", Tone::Bad),
    });
    for (name, of, extent, _) in uses {
        table.row([format!("  {name}"), extent.to_owned(), numbers(of, fitness)]);
    }
    for (line, (.., extent, tone)) in table.lines().iter().zip(uses) {
        let painted = style.paint(tone, extent);
        lines.push(line.replacen(&format!(" {extent} "), &format!(" {painted} "), 1));
    }
    if fitness.tallies.statements > 0 {
        lines.extend(wrapped(UNKNOWN_SETTINGS, "  ", "  ", width));
    }
    if fitness.findings.is_empty() {
        lines.push(String::new());
        return lines.join("\n");
    }
    lines.push(style.paint(
        Tone::Heading,
        "What it lacks, and what to set for the next one",
    ));
    for finding in &fitness.findings {
        let text = format!("{}.", sentence(finding));
        lines.extend(wrapped(&text, "  - ", "    ", width));
        let sets = finding.settings().iter();
        lines.extend(sets.map(|advice| format!("      set {}", assignment(*advice))));
    }
    if fitness
        .findings
        .iter()
        .any(|finding| !finding.settings().is_empty())
    {
        lines.push(
            "`rehearse capture settings` prints all settings as SQL; with --provider rds, aurora, cloudsql,".to_owned(),
        );
        lines.push("alloydb or azure, as commands for these.".to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the numbers that an assessment is based on.
fn numbers(of: LogUse, fitness: &LogQuality) -> String {
    let tallies = &fitness.tallies;
    match of {
        LogUse::Replay if tallies.statements == 0 => "it holds no statement".to_owned(),
        LogUse::Replay => format!(
            "{} statements in it can be sent again as they were{}",
            share(tallies.replayable(), tallies.statements),
            match fitness.findings.iter().any(Finding::hides_statements) {
                true => "; others are missing",
                false => "",
            }
        ),
        LogUse::Latencies if tallies.succeeded() == 0 => "no statement succeeded".to_owned(),
        LogUse::Latencies => format!(
            "durations are known for {} that succeeded{}",
            share(tallies.timed, tallies.succeeded()),
            match fitness.uses.latencies {
                Extent::Partly if tallies.timed == tallies.succeeded() => "; others are missing",
                _ => "",
            }
        ),
        LogUse::Pacing => match fitness.uses.pacing {
            Extent::Yes => "times to the millisecond".to_owned(),
            Extent::Partly => "times to the second".to_owned(),
            Extent::No => "it holds no statement".to_owned(),
        },
        LogUse::Sessions if tallies.sessions == 0 => "it holds no session".to_owned(),
        LogUse::Sessions => format!(
            "{} begin and end in it",
            share(tallies.whole, tallies.sessions)
        ),
        LogUse::Failures if tallies.statements == 0 => "it holds no statement".to_owned(),
        LogUse::Failures if tallies.failed == 0 => "no statement in it failed".to_owned(),
        LogUse::Failures => format!(
            "{} failures have their error code",
            share(tallies.failed - tallies.uncoded, tallies.failed)
        ),
    }
}

/// Formats a setting as in postgresql.conf.
fn assignment((name, value): Advice) -> String {
    let plain = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match plain {
        true => format!("{name} = {value}"),
        false => format!("{name} = '{value}'"),
    }
}
