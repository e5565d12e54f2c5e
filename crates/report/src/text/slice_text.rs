//! A slice for people: what is in it, and what became of every event.

use crate::text::amount::{count, counted, duration};
use crate::text::line::{cut, one_line};
use crate::text::mask_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::view::slice::SliceView;

/// The slice as text, ending with a line feed.
pub fn render_text(view: &SliceView, style: &TextStyle) -> String {
    let heading = format!(
        "{}: {} of {} over {} from {}",
        one_line(&view.workload, 60),
        counted(view.statements, "statement"),
        counted(view.sessions_kept, "session"),
        duration(view.span_us as f64),
        clock::utc_text(view.start_wall_us)
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(account(view, *style));
    if let Some(mask) = &view.mask {
        lines.extend(mask_text::account(mask, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What became of every event.
pub(crate) fn account(view: &SliceView, style: TextStyle) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |name: &str, events: u64, what: String| {
        table.row([format!("  {name}"), count(events), what]);
    };
    let there_were = counted(view.sessions, "session");
    row("events met", view.events, format!("of {there_were}"));
    let for_state = match view.kept_for_state {
        0 => String::new(),
        some => format!(
            "{} of them were not asked for: transactions, settings and the like",
            count(some)
        ),
    };
    row("kept", view.kept, for_state);
    if view.prelude > 0 {
        let mut what = format!(
            "what {} did before and still held",
            counted(view.sessions_before, "session")
        );
        if view.transactions_resumed > 0 {
            let open = counted(view.transactions_resumed, "open transaction");
            what.push_str(&format!(", with {open}"));
        }
        row("put at the start", view.prelude, what);
    }
    row("left out", view.events_left_out(), String::new());
    let mut reasons: Vec<_> = view.left_out.values().collect();
    reasons.sort_by_key(|left_out| std::cmp::Reverse(left_out.events));
    for reason in reasons {
        row("", reason.events, reason.explanation.clone());
    }
    let width = style.columns();
    let mut lines: Vec<String> = table.lines().iter().map(|line| cut(line, width)).collect();
    for (number, what, more) in [
        (
            view.transactions_open,
            "transaction",
            "left open at its end: a replay ends by closing the connection, and the server rolls back",
        ),
        (
            view.temporary_objects,
            "temporary table or the like",
            "made anew at the start, without what was in it",
        ),
        (
            view.preludes_cut,
            "session",
            "not quite where it was at the start: it held too much (docs/slices.md)",
        ),
    ] {
        if number > 0 {
            let many = match (number, what) {
                (1, what) => format!("1 {what} is"),
                (_, "temporary table or the like") => {
                    format!("{} temporary tables or the like are", count(number))
                }
                (_, what) => format!("{} are", counted(number, what)),
            };
            lines.push(format!("  {many} {more}"));
        }
    }
    if !view.adds_up() {
        let text = "  the events do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}
