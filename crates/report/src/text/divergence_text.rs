//! Text on the divergence of a replay from its capture.

use inspect::{
    Difference, DifferenceKind, Divergence, DivergenceRoot, DivergenceVerdict, FirstDifference,
};
use workload::Sqlstate;

use crate::text::line::{one_line, statement_name, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{count, counted, percent};
use crate::text::unrepeatable_text::calls;

/// Maximum number of differences.
const DIFFERENCES_MAX: usize = 8;

/// Returns the section, starting with an empty line.
pub(super) fn lines(view: &Divergence, style: TextStyle) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        style.paint(Tone::Heading, "Compared with the capture"),
    ];
    let (tone, verdict) = verdict(view);
    for line in wrapped(&verdict, "  ", "  ", style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    for line in wrapped(&rows_line(view), "  ", "  ", style.columns()) {
        lines.push(line);
    }
    let roots = view.roots();
    for root in roots.iter().take(DIFFERENCES_MAX) {
        lines.extend(difference(root, style));
    }
    let rest = roots.len().saturating_sub(DIFFERENCES_MAX);
    if rest > 0 {
        lines.push(format!("  and {} more; --json has all", count(rest as u64)));
    }
    for one in &view.explanations {
        let first = format!("  {}: ", one.sqlstate);
        let text = format!("{}.", one.explanation);
        lines.extend(wrapped(&text, &first, "         ", style.columns()));
    }
    lines
}

fn verdict(view: &Divergence) -> (Tone, String) {
    let mut parts = vec![format!(
        "{} of {} the same",
        count(view.same),
        counted(view.statements, "statement")
    )];
    let mut part = |number: u64, always: bool, what: String| {
        if number > 0 || always {
            parts.push(what);
        }
    };
    let following = |number: u64| match number {
        0 => String::new(),
        number => format!(" (and {} that only followed)", count(number)),
    };
    let lost = counted(view.lost + view.lost_unsent, "statement");
    part(
        view.lost + view.lost_unsent,
        false,
        format!("{lost} lost with the connection"),
    );
    let new = counted(view.errors_new, "new error");
    part(view.errors_new, true, new + &following(view.following));
    part(
        view.errors_other,
        false,
        format!("{} of another kind", counted(view.errors_other, "error")),
    );
    part(
        view.rows_differ,
        false,
        format!("{} with another number of rows", count(view.rows_differ)),
    );
    part(
        view.values_differ,
        false,
        format!("{} with other values", count(view.values_differ)),
    );
    let gone = format!("{} gone", counted(view.errors_gone, "error"));
    part(
        view.errors_gone,
        true,
        gone + &following(view.following_gone),
    );
    part(
        view.unknown,
        false,
        format!("{} of which the capture does not tell", count(view.unknown)),
    );
    part(
        view.skipped,
        false,
        format!("{} not sent", count(view.skipped)),
    );
    let (tone, word) = match view.verdict {
        DivergenceVerdict::Same if view.lost_unsent + view.skipped + view.unknown == 0 => {
            (Tone::Good, "The replay did what the capture did")
        }
        DivergenceVerdict::Same => (Tone::Good, "What was replayed did what the capture did"),
        DivergenceVerdict::Differs => (Tone::Bad, "The replay did not do all that the capture did"),
        DivergenceVerdict::Unknown => (Tone::Care, "Nothing could be compared with the capture"),
    };
    (tone, format!("{word}: {}.", parts.join(", ")))
}

fn rows_line(view: &Divergence) -> String {
    let sent = view.statements - (view.lost_unsent + view.skipped).min(view.statements);
    match view.rows_compared {
        0 if sent == 0 => "No statement was sent: neither errors nor numbers of rows were compared.".to_owned(),
        0 if sent == view.unknown => {
            "Neither errors nor numbers of rows were compared: the capture tells of no statement that was sent what became of it.".to_owned()
        }
        0 => "Errors were compared, numbers of rows were not: the capture did not know any (no log does).".to_owned(),
        some if view.digests_compared == 0 => {
            format!("Rows were compared for {}.", counted(some, "statement"))
        }
        some => format!(
            "Numbers of rows were compared for {}, the values in them for {}.",
            counted(some, "statement"),
            count(view.digests_compared)
        ),
    }
}

/// Share of statements above which new failures lead the summary: one in a hundred.
const LEADING_SHARE: u64 = 100;

/// Returns the lines that lead the summary if more than one in a hundred statements failed that did not fail in the
/// capture: how many, and the root of most of them.
pub(super) fn leading_lines(view: &Divergence, style: TextStyle) -> Vec<String> {
    let failed = view.failed_here_only();
    if failed * LEADING_SHARE <= view.statements {
        return Vec::new();
    }
    let head = format!(
        "{} of the statements failed that did not fail in the capture: {} of {}.",
        percent(failed as f64, view.statements as f64),
        count(failed),
        count(view.statements)
    );
    let mut lines = vec![style.paint(Tone::Bad, &head)];
    let roots = view.roots();
    let Some(root) = roots.iter().max_by_key(|root| root.failed_here_only) else {
        return lines;
    };
    let of = format!("Root of {} of them:", count(root.failed_here_only));
    lines.push(style.paint(Tone::Bad, &of));
    lines.extend(difference(root, style));
    lines.push("  The times below are of another load than the captured one. Check the copy first (docs/how-to/make-the-copy.md).".to_owned());
    lines.push(String::new());
    lines
}

/// Returns two or three lines: kind, count and statement; the first place and message; what followed.
fn difference(root: &DivergenceRoot<'_>, style: TextStyle) -> Vec<String> {
    let one: &Difference = root.first;
    let code = |code: Option<Sqlstate>| code.map_or_else(String::new, |code| code.to_string());
    let (sqlstate, captured) = (code(one.sqlstate), code(one.captured_sqlstate));
    let what = match one.kind {
        DifferenceKind::Lost => format!("connection lost {sqlstate}"),
        DifferenceKind::ErrorNew => format!("new {sqlstate}"),
        DifferenceKind::ErrorOther => format!("{sqlstate} instead of {captured}"),
        DifferenceKind::Rows => "other rows".to_owned(),
        DifferenceKind::Values => "other values in as many rows".to_owned(),
        DifferenceKind::ErrorGone => format!("gone {captured}"),
    };
    let sql = one.fingerprint.map_or_else(String::new, |fingerprint| {
        statement_name(one.sql.as_deref(), fingerprint).into_owned()
    });
    let head = format!("{what} × {}", count(one.count));
    let width = style.columns();
    let painted = style.paint(Tone::Heading, &head);
    let room = width.saturating_sub(head.chars().count() + 4);
    let mut second = vec![format!("first {}", place(&one.first))];
    if let Some(rows) = one.rows {
        let mut sums = Vec::new();
        for (executions, sum, word) in [
            (rows.more, rows.rows_more, "more"),
            (rows.fewer, rows.rows_fewer, "fewer"),
        ] {
            if executions > 0 {
                sums.push(format!(
                    "{word} in {}, {} in all",
                    count(executions),
                    counted(sum, "row")
                ));
            }
        }
        sums.push(format!(
            "at most {} → {}",
            count(rows.largest_captured),
            count(rows.largest_replayed)
        ));
        second.insert(0, sums.join("; "));
    }
    if root.refused > 0 {
        second.push(format!("{} only followed", count(root.refused)));
    }
    if !one.unrepeatable.is_empty() {
        let mut sources: Vec<&str> = one
            .unrepeatable
            .iter()
            .map(|call| call.source.description())
            .collect();
        sources.dedup();
        let names = one.unrepeatable.iter().map(|call| call.name);
        second.insert(
            0,
            format!("depends on {} ({})", sources.join(", "), calls(names)),
        );
    }
    second.extend(one.first.message.clone());
    let mut lines = vec![
        format!("  {painted}  {}", one_line(&sql, room)),
        format!("    {}", one_line(&second.join("; "), width - 4)),
    ];
    if root.executions > 0 {
        lines.push(format!(
            "    {} of {} follow from it",
            counted(root.executions, "execution"),
            counted(root.statements, "other statement")
        ));
    }
    lines
}

/// Formats a place: `file:line`, or session and sequence.
fn place(first: &FirstDifference) -> String {
    match (&first.source, first.line) {
        (Some(source), Some(line)) => format!("{source}:{line}"),
        _ => format!("session {}, event {}", first.session, first.sequence),
    }
}
