//! Text on a slice: its contents, and the account of all events.

use workload::SliceAccount;

use crate::text::line::one_line;
use crate::text::mask_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{count, counted, duration};
use crate::view::workload::TransformReport;

/// Renders the slice, ending with a line feed.
pub fn render_text(sliced: &TransformReport<SliceAccount>, style: &TextStyle) -> String {
    let heading = format!(
        "{}: {} of {} over {} from {}",
        one_line(&sliced.workload, 60),
        counted(sliced.statements, "statement"),
        counted(sliced.account.sessions_kept, "session"),
        duration(sliced.span_us as f64),
        clock::utc_text(sliced.start_wall_us)
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    lines.extend(account(&sliced.account, *style));
    if let Some(mask) = &sliced.mask {
        lines.extend(mask_text::account(mask, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the account of all events.
pub(crate) fn account(account: &SliceAccount, style: TextStyle) -> Vec<String> {
    let mut table = AccountTable::new();
    let there_were = counted(account.sessions, "session");
    table.row(
        "events met",
        count(account.events),
        format!("of {there_were}"),
    );
    let for_state = match account.kept_for_state {
        0 => String::new(),
        some => format!(
            "{} of them were not asked for: transactions, settings and the like",
            count(some)
        ),
    };
    table.row("kept", count(account.kept), for_state);
    if account.prelude > 0 {
        let mut what = format!(
            "what {} did before and still held",
            counted(account.sessions_before, "session")
        );
        if account.transactions_resumed > 0 {
            let open = counted(account.transactions_resumed, "open transaction");
            what.push_str(&format!(", with {open}"));
        }
        table.row("put at the start", count(account.prelude), what);
    }
    table.row("left out", count(account.events_left_out()), "");
    let mut reasons: Vec<_> = account.left_out.iter().collect();
    reasons.sort_by_key(|(_, events)| std::cmp::Reverse(**events));
    for (reason, events) in reasons {
        table.row("", count(*events), reason.explanation());
    }
    let width = style.columns();
    let mut lines = table.lines(width);
    for (number, what, more) in [
        (
            account.transactions_open,
            "transaction",
            "left open at its end: a replay ends by closing the connection, and the server rolls back",
        ),
        (
            account.temporary_objects,
            "temporary table or the like",
            "recreated at the start, without what was in it",
        ),
        (
            account.preludes_cut,
            "session",
            "not quite where it was at the start: it held too much (docs/reference/slices.md)",
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
    if !account.adds_up() {
        let text = "  the events do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}
