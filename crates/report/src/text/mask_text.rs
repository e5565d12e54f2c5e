//! A masking for people: how many values, and which stayed by which rule.

use std::collections::BTreeMap;

use crate::text::amount::{count, counted};
use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::mask::MaskView;

/// The masking as text, ending with a line feed.
pub fn render_text(view: &MaskView, style: &TextStyle) -> String {
    let heading = one_line(&view.workload, 60);
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(account(view, *style));
    lines.push(String::new());
    lines.join("\n")
}

/// What became of every value.
pub(crate) fn account(view: &MaskView, style: TextStyle) -> Vec<String> {
    let mut lines = vec![format!("  masked with the key {}", view.key)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, values) in view.values.iter().filter(|(_, values)| values.values > 0) {
        let mut what = format!("of {}", count(values.values));
        if values.guessed > 0 {
            what.push_str(&format!(
                ", {} of a type that was guessed",
                count(values.guessed)
            ));
        }
        if values.opaque > 0 {
            what.push_str(&format!(
                ", {} in a form that is not understood: a server may refuse them",
                count(values.opaque)
            ));
        }
        table.row([
            format!("  {}", name.replace('_', " ")),
            count(values.masked),
            what,
        ]);
        for kept in values.kept.values() {
            *reasons.entry(&kept.explanation).or_default() += kept.values;
        }
    }
    let kept: u64 = reasons.values().sum();
    table.row(["  left as they are".to_owned(), count(kept), String::new()]);
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, values)| std::cmp::Reverse(*values));
    for (reason, values) in reasons {
        table.row(["  ".to_owned(), count(values), reason.to_owned()]);
    }
    let width = style.columns();
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    if view.comments > 0 {
        lines.push(format!(
            "  {} blanked out",
            counted(view.comments, "comment")
        ));
    }
    if view.digests > 0 {
        lines.push(format!(
            "  {} of a result taken out",
            counted(view.digests, "checksum")
        ));
    }
    if !view.adds_up() {
        let text = "  the values do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}
