//! Text on the messages of captured connections, and on those that could not be read.

use capture_wire::conversation::{DecoderAccount, UnreadableReason};

use crate::text::line::wrapped;
use crate::text::units::counted;

/// Describes connections that could not be read, with reason and remedy: a clause for each reason.
pub fn unreadable_connections(account: &DecoderAccount) -> impl Iterator<Item = String> {
    account.unreadable.iter().map(|(reason, connections)| {
        let (are, their) = match connections {
            1 => ("is", "its"),
            _ => ("are", "their"),
        };
        let what = match (reason, connections) {
            (UnreadableReason::Tls, _) => format!(
                "{are} encrypted with TLS: {their} statements cannot be read; capture with the proxy or from the log"
            ),
            (UnreadableReason::Gssapi, _) => format!(
                "{are} encrypted with GSSAPI: {their} statements cannot be read; capture from the log"
            ),
            (UnreadableReason::Replication, 1) => "replicates: it was passed over".to_owned(),
            (UnreadableReason::Replication, _) => "replicate: they were passed over".to_owned(),
            (UnreadableReason::NotTheProtocol, 1) => {
                "does not speak PostgreSQL's protocol, version 3".to_owned()
            }
            (UnreadableReason::NotTheProtocol, _) => {
                "do not speak PostgreSQL's protocol, version 3".to_owned()
            }
            (UnreadableReason::Lost, _) => {
                format!("lost bytes, and ended before {their} messages could be told again")
            }
        };
        format!("{} {what}", counted(*connections, "connection"))
    })
}

/// Returns lines on everything other than recorded statements.
pub(crate) fn lines(account: &DecoderAccount, width: usize) -> Vec<String> {
    let mut said: Vec<String> = unreadable_connections(account).collect();
    if account.statements_unrecorded > 0 {
        said.push(format!(
            "{} seen and not recorded: of transactions that had begun before, or outside of the recording",
            counted(account.statements_unrecorded, "statement")
        ));
    }
    if account.statements_unknown > 0 {
        said.push(format!(
            "{} without a text: it was prepared by SQL, in what was lost, or before the capture began",
            counted(account.statements_unknown, "statement")
        ));
    }
    if account.refused > 0 {
        said.push(format!(
            "{} not taken by the server: a wrong password, no such database, too many clients",
            counted(account.refused, "connection")
        ));
    }
    if account.too_long > 0 {
        said.push(format!(
            "{} of more than 64 MiB: passed over",
            counted(account.too_long, "message")
        ));
    }
    if account.function_calls > 0 {
        said.push(format!(
            "{} by OID, as for large objects",
            counted(account.function_calls, "function call")
        ));
    }
    if account.cancels > 0 {
        let for_nobody = match account.cancels_for_nobody {
            0 => String::new(),
            some => format!("; {some} for sessions that are not recorded"),
        };
        said.push(format!(
            "{}{for_nobody}",
            counted(account.cancels, "request") + " to cancel"
        ));
    }
    said.iter()
        .flat_map(|line| wrapped(line, "  ", "    ", width))
        .collect()
}
