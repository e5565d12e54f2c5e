//! Lock waits by object and mode, and temporary files by statement.

use inspect::{Inspection, LockExample};
use workload::ServerEventKind;

use super::statements::name_of;
use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{bytes, count, counted, duration};

/// Maximum number of rows.
const ROWS_MAX: usize = 8;

/// Lists the lock waits by object and mode, each with its longest.
pub(super) fn lock_waits(view: &Inspection, style: TextStyle) -> Vec<String> {
    if view.lock_waits.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["  waits", "total", "longest", "lock"].map(String::from));
    for one in view.lock_waits.iter().take(ROWS_MAX) {
        table.row([
            format!("  {}", count(one.waits)),
            duration(one.waited_us as f64),
            duration(one.longest_us as f64),
            format!("{} on {}", one.mode.name(), one.object.name()),
        ]);
    }
    let title = "Waits for locks, longer than deadlock_timeout";
    let mut lines = vec![String::new(), style.paint(Tone::Heading, title)];
    let mut rows = table.lines().into_iter();
    lines.extend(rows.next());
    for (row, one) in rows.zip(&view.lock_waits) {
        lines.push(row);
        for example in &one.examples {
            let text = one_line(&describe(example, view), style.columns().saturating_sub(6));
            lines.push(style.paint(Tone::Aside, &format!("      {text}")));
        }
    }
    let more = view.lock_waits.len().saturating_sub(ROWS_MAX);
    if more > 0 {
        lines.push(format!(
            "  and {} of locks",
            counted(more as u64, "more kind")
        ));
    }
    lines
}

fn describe(example: &LockExample, view: &Inspection) -> String {
    let time = clock::utc_text(view.start_wall_us.saturating_add(example.at_us));
    let mut text = format!(
        "{} for {} from {}",
        duration(example.waited_us as f64),
        example.subject,
        time.trim_end_matches(" UTC"),
    );
    if let Some(holders) = &example.holders {
        text.push_str(&format!(", held by process {holders}"));
    }
    if let Some(statement) = view.statement_of(example.fingerprint) {
        text.push_str(&format!(": {}", name_of(statement)));
    }
    text
}

/// Lists the temporary files by statement.
pub(super) fn temporary_files(view: &Inspection, style: TextStyle) -> Vec<String> {
    if view.temporary_files.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right]);
    table.row(["  files", "total", "largest"].map(String::from));
    for one in view.temporary_files.iter().take(ROWS_MAX) {
        table.row([
            format!("  {}", count(one.files)),
            bytes(one.bytes),
            bytes(one.largest_bytes),
        ]);
    }
    let title = "Temporary files, by the statement that made them";
    let mut lines = vec![String::new(), style.paint(Tone::Heading, title)];
    let mut rows = table.lines().into_iter();
    lines.extend(rows.next().map(|heads| format!("{heads}  statement")));
    for (row, one) in rows.zip(&view.temporary_files) {
        let room = style.columns().saturating_sub(row.chars().count() + 2);
        let name = match view.statement_of(one.fingerprint) {
            Some(statement) => name_of(statement).into_owned(),
            None => "(unknown)".to_owned(),
        };
        lines.push(format!("{row}  {}", one_line(&name, room.max(20))));
    }
    let more = files_beyond(view, ROWS_MAX);
    if more > 0 {
        lines.push(format!(
            "  and {} of other statements",
            counted(more, "file")
        ));
    }
    lines
}

/// Returns the number of temporary files of statements after the first `most`, with those that are not listed.
pub(crate) fn files_beyond(view: &Inspection, most: usize) -> u64 {
    let shown = view.temporary_files.iter().take(most);
    let shown: u64 = shown.map(|one| one.files).sum();
    (view.server.of(ServerEventKind::TemporaryFile)).saturating_sub(shown)
}
