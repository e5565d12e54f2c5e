//! Text on a capture from log files: the account of all lines.

use capture_log::LogReport;

use crate::text::line::{one_line, wrapped};
use crate::text::mask_text;
use crate::text::series_text;
use crate::text::slice_text;
use crate::text::sources_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{count, counted, duration};
use crate::view::workload::CaptureReport;

/// Maximum number of unreadable lines.
const UNREADABLE_MAX: usize = 5;

/// Renders the account, ending with a line feed.
pub fn render_text(captured: &CaptureReport<LogReport>, style: &TextStyle) -> String {
    let width = style.columns();
    let account = &captured.report.reconciliation;
    let mut lines = vec![heading(captured, *style)];
    let mut table = AccountTable::new();
    table.row("lines read", count(account.lines), "");
    table.row(
        "became events",
        count(account.lines_in_events),
        match account.server_events {
            0 => counted(account.events, "event"),
            server => format!(
                "{} and {} of the server's own",
                counted(account.events, "event"),
                count(server)
            ),
        },
    );
    table.row("skipped", count(account.lines_skipped()), "");
    let mut reasons: Vec<_> = account.skipped.iter().collect();
    reasons.sort_by_key(|(_, skipped)| std::cmp::Reverse(skipped.lines));
    for (reason, skipped) in reasons {
        table.row("", count(skipped.lines), reason.explanation());
    }
    table.row("unreadable", count(account.unreadable.lines), "");
    lines.extend(table.lines(width));
    for line in account.unreadable.first.iter().take(UNREADABLE_MAX) {
        let file = std::path::Path::new(&line.file).file_name();
        let file = file.map_or(line.file.as_str().into(), std::ffi::OsStr::to_string_lossy);
        // The reason comes last, so the line is not cut.
        let text = format!("{file}:{}: {}", line.at.line, line.reason.explanation());
        lines.extend(wrapped(
            &one_line(&text, usize::MAX),
            "    ",
            "      ",
            width,
        ));
    }
    let shown = account.unreadable.first.len().min(UNREADABLE_MAX) as u64;
    if account.unreadable.lines > shown && shown > 0 {
        lines.push(format!(
            "    and {} more",
            count(account.unreadable.lines - shown)
        ));
    }
    lines.extend(sources_text::lines(&captured.report, width));
    if !account.adds_up() {
        let text = "  the lines do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines.extend(transformations(captured, *style));
    lines.extend(
        captured
            .written_series
            .iter()
            .flat_map(|series| series_text::lines(series, width)),
    );
    lines.push(String::new());
    lines.join("\n")
}

/// Describes the workload and its contents.
pub(super) fn heading<R>(captured: &CaptureReport<R>, style: TextStyle) -> String {
    let found = format!(
        "{} of {}",
        counted(captured.statements, "statement"),
        counted(captured.sessions, "session")
    );
    let heading = match &captured.workload {
        None => format!("{found}; nothing was written"),
        Some(workload) => format!(
            "{}: {found} over {}",
            one_line(workload, 60),
            duration(captured.span_us as f64)
        ),
    };
    style.paint(Tone::Heading, &heading)
}

/// Returns the accounts of the slice and the masking, if there are any.
pub(super) fn transformations<R>(captured: &CaptureReport<R>, style: TextStyle) -> Vec<String> {
    let slice = captured.slice.iter();
    let mask = captured.mask.iter();
    slice
        .flat_map(|slice| slice_text::account(slice, style))
        .chain(mask.flat_map(|mask| mask_text::account(mask, style)))
        .collect()
}
