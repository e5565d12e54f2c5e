//! Text on a series that was captured: the account of its parts.

use capture_sink::series::SeriesStatus;

use crate::text::table::AccountTable;
use crate::text::units::{bytes, count, counted};

/// Returns the lines of the account.
pub(super) fn lines(status: &SeriesStatus, width: usize) -> Vec<String> {
    let mut table = AccountTable::new();
    table.row(
        "parts written",
        count(status.parts_written),
        format!(
            "{} of {}",
            bytes(status.bytes_written),
            counted(status.events, "event")
        ),
    );
    table.row(
        "removed",
        count(status.parts_removed),
        match status.parts_removed {
            0 => String::new(),
            _ => format!("{}, by the retention", bytes(status.bytes_removed)),
        },
    );
    table.row(
        "in the series",
        count(status.parts_kept),
        bytes(status.bytes_kept),
    );
    if status.removals_failed > 0 {
        let what = "times a part stayed beyond the limits, since it was being read or could not be removed";
        table.row("not removed", count(status.removals_failed), what);
    }
    if status.late_events > 0 {
        let what =
            "events that ended after the part of their time was complete; they are in a later part";
        table.row("late", count(status.late_events), what);
    }
    if status.events_ahead > 0 {
        let what = "events have times more than a minute ahead of this machine's clock; check the clock of the server";
        table.row("ahead", count(status.events_ahead), what);
    }
    if status.repeated_events > 0 {
        let what = "events were left out, since the series has them from an earlier capture";
        table.row("repeated", count(status.repeated_events), what);
    }
    if status.repeated_in_gaps > 0 {
        let what = "of these ended in a gap of the series, so it may not have them";
        table.row("in gaps", count(status.repeated_in_gaps), what);
    }
    if status.preludes_cut > 0 {
        let what =
            "times a session began in a part with an incomplete state, since it was too large";
        table.row("state cut", count(status.preludes_cut), what);
    }
    table.lines(width)
}
