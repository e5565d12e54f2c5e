//! Text on the contents of an evidence bundle.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::text::style::{TextStyle, Tone};
use study::export_evidence::{EvidenceArtefact, EvidenceReport};

/// Renders the artefacts by topic, with the missing ones and reasons; with `all`, every artefact in
/// a line.
pub fn render_text(view: &EvidenceReport, all: bool, style: &TextStyle) -> String {
    let mut out = String::new();
    let of = view.got + view.missing;
    let title = style.paint(Tone::Heading, &format!("Evidence of {}", view.run));
    let _ = writeln!(out, "{title}: {} of {of} artefacts.\n", view.got);
    if all {
        let width = view.artefacts.iter().map(|one| one.name.len()).max();
        for one in &view.artefacts {
            let what = match (&one.missing, one.bytes) {
                (Some(why), _) => format!("not got: {why}"),
                (None, bytes) => format!("{} bytes, {}", bytes.unwrap_or(0), one.how),
            };
            let name = format!("{:width$}", one.name, width = width.unwrap_or(0));
            let _ = writeln!(out, "  {name}  {:6}  {what}", one.moment);
        }
    } else {
        topics(&mut out, view);
        missing(&mut out, view);
    }
    if !view.left_out.is_empty() {
        out.push_str("\nLeft out:\n");
        for what in &view.left_out {
            let _ = writeln!(out, "  {what}");
        }
    }
    out
}

fn topic(one: &EvidenceArtefact) -> &str {
    one.name.split('/').next().unwrap_or(&one.name)
}

fn topics(out: &mut String, view: &EvidenceReport) {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for one in &view.artefacts {
        let count = counts.entry(topic(one)).or_default();
        count.0 += usize::from(one.file.is_some());
        count.1 += 1;
    }
    for (topic, (got, of)) in counts {
        let _ = writeln!(out, "  {topic:10} {got:>4} of {of}");
    }
}

/// Lists missing artefacts by reason, because one reason may apply to many.
fn missing(out: &mut String, view: &EvidenceReport) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in &view.artefacts {
        let Some(why) = &one.missing else { continue };
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) if names.contains(&one.name.as_str()) => {}
            Some((_, names)) => names.push(&one.name),
            None => reasons.push((why, vec![&one.name])),
        }
    }
    if reasons.is_empty() {
        return;
    }
    out.push_str("\nNot got:\n");
    for (why, names) in reasons {
        let _ = writeln!(out, "  {}\n      {why}", names.join(", "));
    }
}
