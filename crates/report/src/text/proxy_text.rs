//! A capture by the proxy for people: every byte that passed is somewhere.

use clock::utc_text;

use crate::text::amount::{bytes, count, counted, duration};
use crate::text::conversation_text;
use crate::text::line::{cut, one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::proxy::{ProxyView, RecordingView};

/// As many stretches that are not all there are shown.
const INCOMPLETE_MAX: usize = 5;

/// The account as text, ending with a line feed.
pub fn render_text(view: &ProxyView, style: &TextStyle) -> String {
    let mut lines = Vec::new();
    let refused = match view.refused {
        0 => String::new(),
        refused => format!(
            ", {} of them refused, since it could not be reached",
            count(refused)
        ),
    };
    lines.push(format!(
        "{} to {}{refused}; {} of clients and {} of the server passed",
        counted(view.connections, "connection"),
        one_line(&view.upstream, 60),
        bytes(view.client_bytes),
        bytes(view.server_bytes),
    ));
    if view.recordings.is_empty() {
        lines.push("nothing was recorded".to_owned());
    }
    for recording in &view.recordings {
        lines.extend(recorded(recording, style));
    }
    if let Some(reason) = &view.broken_down {
        let text = format!(
            "the capture broke down: {}; this is an error of ours, please report it",
            one_line(reason, 200)
        );
        lines.push(style.paint(Tone::Bad, &text));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn recorded(view: &RecordingView, style: &TextStyle) -> Vec<String> {
    let width = style.columns();
    let heading = format!(
        "{}: {} of {} over {}",
        one_line(&view.workload, 60),
        counted(view.statements, "statement"),
        counted(view.sessions, "session"),
        duration((view.to_us - view.from_us) as f64)
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, amount: u64, what: String| {
        table.row([format!("  {name}"), bytes(amount), what]);
    };
    row(
        "passed",
        view.forwarded_bytes,
        format!("{} bytes", count(view.forwarded_bytes)),
    );
    row(
        "read",
        view.read_bytes,
        format!(
            "{} of {}",
            counted(view.events, "event"),
            counted(view.conversation.connections, "new connection")
        ),
    );
    row(
        "lost",
        view.lost_bytes,
        match view.lost_bytes {
            0 => String::new(),
            _ => "recording could not keep up; what passed was not touched".to_owned(),
        },
    );
    if view.passed_bytes > 0 {
        let what = "of replication connections, which are not read".to_owned();
        row("passed over", view.passed_bytes, what);
    }
    lines.extend(table.lines().iter().map(|line| cut(line, width)));
    for stretch in view.incomplete.iter().take(INCOMPLETE_MAX) {
        let text = format!(
            "incomplete from {} to {}: {} bytes",
            utc_text(stretch.from_us),
            utc_text(stretch.to_us),
            count(stretch.bytes)
        );
        lines.extend(wrapped(&text, "  ", "    ", width));
    }
    let more = view.incomplete.len().saturating_sub(INCOMPLETE_MAX);
    if more > 0 {
        lines.push(format!("  and {} more such stretches", count(more as u64)));
    }
    lines.extend(conversation_text::lines(&view.conversation, width));
    if let Some(failure) = &view.failure {
        let workload = one_line(&view.workload, 200);
        let what_is_left = if view.recovered {
            "what was written by then is there".to_owned()
        } else if view.gone {
            format!("nothing of it is left: {workload}.partial was taken away while it was written")
        } else {
            format!("keep what there is with: rehearse recover {workload}.partial")
        };
        let text = format!(
            "it ended early, at {}: {}; {what_is_left}",
            utc_text(view.to_us),
            one_line(failure, 300),
        );
        for line in wrapped(&text, "  ", "    ", width) {
            lines.push(style.paint(Tone::Bad, &line));
        }
    }
    if !view.adds_up() {
        let text = "  the bytes do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}
