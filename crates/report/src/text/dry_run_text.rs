//! What a replay would do, for people.

use crate::text::amount::{count, counted, duration};
use crate::text::line::{cut, one_line};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::dry_run::DryRunView;

/// The forecast as text, ending with a line feed.
pub fn render_text(view: &DryRunView, style: &TextStyle) -> String {
    let heading = format!(
        "Dry run of {} against {}, PostgreSQL {}: the logins work, nothing was sent.",
        one_line(&view.workload, 60),
        one_line(&view.target, 60),
        view.server_version
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, number: u64, what: String| {
        table.row([format!("  {name}"), count(number), what]);
    };
    let over = view.span_us.map_or_else(
        || "at full speed".to_owned(),
        |span_us| format!("due over {}", duration(span_us)),
    );
    let of = counted(view.sessions, "session");
    row("statements", view.statements, format!("of {of}, {over}"));
    row("to be sent", view.sent, String::new());
    let writes = match view.read_only {
        true => "may write; the server would refuse them",
        false => "may write, and would",
    };
    row("", view.writes, writes.to_owned());
    let skipped: u64 = view.skipped.values().map(|skipped| skipped.count).sum();
    row("to be skipped", skipped, String::new());
    for skipped in view.skipped.values() {
        row("", skipped.count, skipped.explanation.to_owned());
    }
    let width = style.columns();
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    if view.idle_skipped_us > 0 {
        lines.push(format!(
            "  {} of silence would be cut",
            duration(view.idle_skipped_us as f64)
        ));
    }
    lines.extend(super::run_text::options_line(&view.options));
    lines.push(String::new());
    lines.join("\n")
}
