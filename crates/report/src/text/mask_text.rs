//! Text on a masking: the number of masked values, and of unmasked ones by reason.

use std::collections::BTreeMap;

use workload::KeepReason;

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{count, counted};
use crate::view::workload::{Masking, TransformReport};

/// Renders the masking, ending with a line feed.
pub fn render_text(masked: &TransformReport<Masking>, style: &TextStyle) -> String {
    let heading = one_line(&masked.workload, 60);
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(account(&masked.account, *style));
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the account of all values.
pub(crate) fn account(masking: &Masking, style: TextStyle) -> Vec<String> {
    let account = &masking.account;
    let mut lines = vec![format!("  masked with the key {}", masking.key)];
    let mut table = AccountTable::new();
    let mut reasons: BTreeMap<KeepReason, u64> = BTreeMap::new();
    for (name, values) in account.by_sort() {
        if values.values == 0 {
            continue;
        }
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
        table.row(name, count(values.masked), what);
        for (reason, kept) in &values.kept {
            *reasons.entry(*reason).or_default() += kept;
        }
    }
    let kept: u64 = reasons.values().sum();
    table.row("left as they are", count(kept), "");
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, values)| std::cmp::Reverse(*values));
    for (reason, values) in reasons {
        table.row("", count(values), reason.explanation());
    }
    let width = style.columns();
    lines.extend(table.lines(width));
    if account.comments > 0 {
        lines.push(format!(
            "  {} blanked out",
            counted(account.comments, "comment")
        ));
    }
    if account.digests > 0 {
        lines.push(format!(
            "  {} of a result taken out",
            counted(account.digests, "checksum")
        ));
    }
    if account.server_texts > 0 {
        lines.push(format!(
            "  {} of the server's messages and locks taken out",
            counted(account.server_texts, "text")
        ));
    }
    if !account.adds_up() {
        let text = "  the values do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}
