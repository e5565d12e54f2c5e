//! A case of the lab, in a terminal.

use std::fmt::Write;

use crate::text::style::{TextStyle, Tone};
use crate::view::case::CaseView;

/// The case as text, ending with a line feed.
pub fn render_text(view: &CaseView, style: &TextStyle) -> String {
    let mut out = String::new();
    let title = format!("{}: {}", view.name, view.title);
    let _ = writeln!(out, "{}", style.paint(Tone::Heading, &title));
    let _ = writeln!(
        out,
        "after \"{}\"; PostgreSQL {}, {} processors, scale {}\n",
        view.source, view.server_version, view.processors, view.scale
    );
    for sentence in &view.measured {
        paragraph(&mut out, "", sentence, style);
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
    if !view.numbers.is_empty() {
        out.push_str("\nPublished and here\n");
        for number in &view.numbers {
            let published = number.published.as_deref().unwrap_or("no number");
            let _ = writeln!(out, "  {}: {published}; here {}", number.what, number.here);
            if !number.why.is_empty() {
                paragraph(&mut out, "    ", &number.why, style);
            }
        }
    }
    out
}

/// Wrapped at blanks.
fn paragraph(out: &mut String, indent: &str, text: &str, style: &TextStyle) {
    let width = style.columns() - indent.len();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            let _ = writeln!(out, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{indent}{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_keeps_all_its_words() {
        let style = TextStyle {
            width: 60,
            colour: false,
        };
        let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
        let mut out = String::new();
        paragraph(&mut out, "  ", text, &style);
        assert!(out.lines().all(|line| line.len() <= 60), "{out}");
        assert_eq!(out.split_whitespace().collect::<Vec<_>>().join(" "), text);
    }
}
