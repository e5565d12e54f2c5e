//! Text on a lab case.

use std::fmt::Write;

use crate::text::line::wrapped;
use crate::text::style::{TextStyle, Tone};
use crate::view::case::CaseReport;

/// Renders the case, ending with a line feed.
pub fn render_text(view: &CaseReport, style: &TextStyle) -> String {
    let mut out = String::new();
    let paragraph = |out: &mut String, indent: &str, text: &str| {
        for line in wrapped(text, indent, indent, style.columns()) {
            let _ = writeln!(out, "{line}");
        }
    };
    let title = format!("{}: {}", view.name, view.title);
    let _ = writeln!(out, "{}", style.paint(Tone::Heading, &title));
    let _ = writeln!(
        out,
        "after \"{}\"; PostgreSQL {}, {} processors, scale {}\n",
        view.source, view.server_version, view.processors, view.scale
    );
    for sentence in &view.measured {
        paragraph(&mut out, "", sentence);
    }
    out.push_str("\nWhat had to be seen\n");
    for check in &view.checks {
        let (word, tone) = match check.holds {
            true => ("seen    ", Tone::Good),
            false => ("not seen", Tone::Bad),
        };
        let word = style.paint(tone, word);
        let _ = writeln!(out, "  {word}  {}", check.what);
        let _ = writeln!(out, "            {}", check.measured);
    }
    for unseen in &view.unseen {
        let _ = writeln!(out, "  {}", style.paint(Tone::Aside, "not looked at"));
        paragraph(&mut out, "            ", unseen);
    }
    if !view.numbers.is_empty() {
        out.push_str("\nPublished and here\n");
        for number in &view.numbers {
            let published = number.published.as_deref().unwrap_or("no number");
            let _ = writeln!(
                out,
                "  {}: {published}; here {}",
                number.what, number.measured
            );
            if !number.why.is_empty() {
                paragraph(&mut out, "    ", &number.why);
            }
        }
    }
    out
}
