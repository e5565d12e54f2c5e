//! What a log is good for, for people: a line for each use, then what to change.

use crate::text::line::wrapped;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::fitness::{AdviceView, FitnessView};

/// The fitness as text, ending with a line feed. Where the workload is `of_a_part` of the log, says
/// that this is of the whole.
pub fn render_text(view: &FitnessView, of_a_part: bool, style: &TextStyle) -> String {
    let width = style.columns();
    let title = match of_a_part {
        true => "What this log is good for (all of it, not the slice alone)",
        false => "What this log is good for",
    };
    let mut lines = vec![style.paint(Tone::Heading, title)];
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]);
    for of in &view.uses {
        table.row([format!("  {}", of.name), of.extent.clone(), of.says.clone()]);
    }
    for (line, of) in table.lines().iter().zip(&view.uses) {
        let tone = match of.extent.as_str() {
            "yes" => Tone::Good,
            "no" => Tone::Bad,
            _ => Tone::Care,
        };
        let painted = style.paint(tone, &of.extent);
        lines.push(line.replacen(&format!(" {} ", of.extent), &format!(" {painted} "), 1));
    }
    if view.findings.is_empty() {
        lines.push(String::new());
        return lines.join("\n");
    }
    lines.push(style.paint(
        Tone::Heading,
        "What it lacks, and what to set for the next one",
    ));
    for finding in &view.findings {
        let text = format!("{}.", finding.says);
        lines.extend(wrapped(&text, "  - ", "    ", width));
        let sets = finding.settings.iter();
        lines.extend(sets.map(|advice| format!("      set {}", assignment(advice))));
    }
    if view
        .findings
        .iter()
        .any(|finding| !finding.settings.is_empty())
    {
        lines.push(
            "`rehearse capture settings` prints all settings as SQL; with --for rds, aurora, cloudsql,".to_owned(),
        );
        lines.push("alloydb or azure, as commands for these.".to_owned());
    }
    lines.push(String::new());
    lines.join("\n")
}

/// As in postgresql.conf.
fn assignment(advice: &AdviceView) -> String {
    let AdviceView { name, value } = advice;
    let plain = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match plain {
        true => format!("{name} = {value}"),
        false => format!("{name} = '{value}'"),
    }
}
