//! Text on a dry run of a replay.

use clock::duration_text;

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{count, counted, duration};
use crate::text::unrepeatable_text;
use crate::view::dry_run::DryRun;

/// Renders the dry run, ending with a line feed.
pub fn render_text(view: &DryRun, style: &TextStyle) -> String {
    let heading = format!(
        "Dry run of {} against {}, PostgreSQL {}: the logins work, nothing was executed.",
        one_line(&view.workload, 60),
        one_line(&view.target, 60),
        view.server_version
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = AccountTable::new();
    let over = view.span_ns.map_or_else(
        || "at full speed".to_owned(),
        |span_ns| format!("due over {}", duration_text(span_ns)),
    );
    let of = counted(view.sessions, "session");
    table.row(
        "statements",
        count(view.statements),
        format!("of {of}, {over}"),
    );
    table.row("to be sent", count(view.sent), "");
    let writes = match view.read_only {
        true => "may write; the server would refuse them",
        false => "may write, and would",
    };
    table.row("", count(view.writes), writes);
    table.row("to be skipped", count(view.skipped.values().sum()), "");
    for (reason, skipped) in &view.skipped {
        table.row("", count(*skipped), reason.explanation());
    }
    let width = style.columns();
    lines.extend(table.lines(width));
    if view.idle_skipped_us > 0 {
        lines.push(format!(
            "  {} of silence would be cut",
            duration(view.idle_skipped_us as f64)
        ));
    }
    lines.extend(unrepeatable_text::lines(&view.unrepeatable, *style));
    lines.extend(super::run_options::options_line(&view.options));
    lines.push(String::new());
    lines.join("\n")
}
