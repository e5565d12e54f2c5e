//! What connections said and what of it could not be read, for people.

use crate::text::amount::counted;
use crate::text::line::wrapped;
use crate::view::conversation::ConversationView;

/// What there is to say beside the statements that were recorded, one a line.
pub(crate) fn lines(view: &ConversationView, width: usize) -> Vec<String> {
    let unreadable = view.unreadable.values().map(|unreadable| {
        format!(
            "{} {}",
            counted(unreadable.connections, "connection"),
            unreadable.explanation
        )
    });
    let mut said: Vec<String> = unreadable.collect();
    if view.statements_unrecorded > 0 {
        said.push(format!(
            "{} seen and not recorded: of transactions that had begun before, or outside of the recording",
            counted(view.statements_unrecorded, "statement")
        ));
    }
    if view.statements_unknown > 0 {
        said.push(format!(
            "{} without a text: it was prepared or sent in what was lost, or before the capture began",
            counted(view.statements_unknown, "statement")
        ));
    }
    if view.refused > 0 {
        said.push(format!(
            "{} not taken by the server: a wrong password, no such database, too many clients",
            counted(view.refused, "connection")
        ));
    }
    if view.too_long > 0 {
        said.push(format!(
            "{} of more than 64 MiB: passed over",
            counted(view.too_long, "message")
        ));
    }
    if view.function_calls > 0 {
        said.push(format!(
            "{} by message, as for large objects: no events",
            counted(view.function_calls, "function call")
        ));
    }
    if view.cancels > 0 {
        let for_nobody = match view.cancels_for_nobody {
            0 => String::new(),
            some => format!("; {some} for sessions that are not recorded"),
        };
        said.push(format!(
            "{}{for_nobody}",
            counted(view.cancels, "request") + " to cancel"
        ));
    }
    said.iter()
        .flat_map(|line| wrapped(line, "  ", "    ", width))
        .collect()
}
