//! Text on a rewritten workload: the fate of every statement, and the limits of later comparisons.

use workload::RewriteNote;

use crate::text::line::{one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{count, counted, ratio};
use crate::view::workload::{Rewritings, TransformReport};

/// Renders the account, ending with a line feed.
pub fn render_text(rewritten: &TransformReport<Rewritings>, style: &TextStyle) -> String {
    let heading = format!(
        "{}: {}, of {}",
        one_line(&rewritten.workload, 60),
        counted(rewritten.statements, "statement"),
        one_line(&rewritten.source, 60)
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    for note in &rewritten.account.rewritings {
        for sentence in sentences(note) {
            lines.extend(wrapped(&sentence, "  ", "  ", style.columns()));
        }
        if !note.account.adds_up() {
            let text =
                "  the statements do not add up: this is an error in Rehearse, please report it";
            lines.push(style.paint(Tone::Bad, text));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Describes the effects of a rewriting, and the comparisons that it prevents.
pub fn sentences(note: &RewriteNote) -> Vec<String> {
    let account = &note.account;
    let mut all = vec![format!(
        "{}: {} before, {} after, {} unchanged.",
        one_line(&note.rewriting, 80),
        counted(account.statements, "statement"),
        count(account.statements_after()),
        count(account.unchanged)
    )];
    if account.batches > 0 {
        all.push(format!(
            "{} rows were put into {}, {} rows each on average. A batch is another statement than the inserts that it stands for: they cannot be compared one to one, and rows come later than they did.",
            count(account.merged),
            counted(account.batches, "batch").replace("batchs", "batches"),
            ratio(account.merged as f64 / account.batches as f64)
        ));
    }
    if account.dropped > 0 {
        all.push(format!(
            "{} not sent: their effects are missing for the statements after them.",
            counted(account.dropped, "statement")
        ));
    }
    if account.dropped == 0 && note.rewriting.starts_with("drop=") {
        all.push(
            "No statement holds this text, and nothing was left out: give a part of the normalised text as `rehearse inspect` shows it; * stands for any text."
                .to_owned(),
        );
    }
    if account.cached > 0 {
        all.push(format!(
            "{} not sent, as if a cache had answered; it knows of no writes, so that answers may be as old as it keeps them.",
            counted(account.cached, "read")
        ));
    }
    if account.reworded > 0 {
        all.push(format!(
            "{} sent in another form: the same statements by name, so that they can be compared one to one. Phases of the protocol that were not there before are part of their times.",
            counted(account.reworded, "statement")
        ));
    }
    if account.moved > 0 {
        all.push(format!(
            "{} sent by connections of a pool. A statement that has to wait for a connection is late by that: session lag is the pool's queue.",
            counted(account.moved, "statement")
        ));
    }
    if account.opened + account.added > 0 {
        all.push(format!(
            "{} at the beginning of sessions not sent; connections send {} in their place, with a ROLLBACK for each transaction that was left open.",
            counted(account.opened, "setting"),
            count(account.added)
        ));
    }
    if !account.left_alone.is_empty() {
        let mut reasons: Vec<(&String, &u64)> = account.left_alone.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let text: Vec<String> = reasons
            .iter()
            .map(|(reason, number)| format!("{} ({reason})", count(**number)))
            .collect();
        all.push(format!("Unchanged: {}.", text.join(", ")));
    }
    all
}
