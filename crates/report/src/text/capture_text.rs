//! A capture's reconciliation for people: every line is somewhere.

use crate::text::amount::{count, counted, duration};
use crate::text::line::{cut, one_line, wrapped};
use crate::text::mask_text;
use crate::text::slice_text;
use crate::text::sources_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::capture::CaptureView;

/// The most unreadable lines that are shown.
const UNREADABLE_MAX: usize = 5;

/// The reconciliation as text, ending with a line feed.
pub fn render_text(view: &CaptureView, style: &TextStyle) -> String {
    let width = style.columns();
    let found = format!(
        "{} of {}",
        counted(view.statements, "statement"),
        counted(view.sessions, "session")
    );
    let heading = if view.workload.is_empty() {
        format!("{found}; nothing was written")
    } else {
        format!(
            "{}: {found} over {}",
            one_line(&view.workload, 60),
            duration(view.span_us as f64)
        )
    };
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, lines: u64, what: String| {
        table.row([format!("  {name}"), count(lines), what]);
    };
    row("lines read", view.lines, String::new());
    row(
        "became events",
        view.lines_in_events,
        match view.server_events {
            0 => counted(view.events, "event"),
            server => format!(
                "{} and {} of the server's own",
                counted(view.events, "event"),
                count(server)
            ),
        },
    );
    row("skipped", view.skipped_lines(), String::new());
    let mut reasons: Vec<_> = view.skipped.iter().collect();
    reasons.sort_by_key(|(_, skipped)| std::cmp::Reverse(skipped.lines));
    for (reason, skipped) in reasons {
        let words = match skipped.explanation.as_str() {
            "" => reason.replace('_', " "),
            explanation => explanation.to_owned(),
        };
        row("", skipped.lines, words);
    }
    row("unreadable", view.unreadable.lines, String::new());
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    for line in view.unreadable.first.iter().take(UNREADABLE_MAX) {
        let file = std::path::Path::new(&line.file).file_name();
        let file = file.map_or(line.file.as_str().into(), std::ffi::OsStr::to_string_lossy);
        // What is cut off would be the reason.
        let text = format!("{file}:{}: {}", line.line, line.reason);
        lines.extend(wrapped(&one_line(&text, 400), "    ", "      ", width));
    }
    let shown = view.unreadable.first.len().min(UNREADABLE_MAX) as u64;
    if view.unreadable.lines > shown && shown > 0 {
        lines.push(format!(
            "    and {} more",
            count(view.unreadable.lines - shown)
        ));
    }
    lines.extend(sources_text::lines(&view.sources, width));
    if !view.adds_up() {
        let text = "  the lines do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    if let Some(slice) = &view.slice {
        lines.extend(slice_text::account(slice, *style));
    }
    if let Some(mask) = &view.mask {
        lines.extend(mask_text::account(mask, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}
