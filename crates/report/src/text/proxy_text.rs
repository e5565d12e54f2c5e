//! Text on a capture by the proxy: the account of all forwarded bytes.

use capture_proxy::ProxyStatus;

use crate::text::line::one_line;
use crate::text::recording_text;
use crate::text::style::TextStyle;
use crate::text::units::{bytes, count, counted};

/// Renders the account, ending with a line feed.
pub fn render_text(status: &ProxyStatus, style: &TextStyle) -> String {
    let mut lines = Vec::new();
    let refused = match status.refused {
        0 => String::new(),
        refused => format!(
            ", {} of them refused, since it could not be reached",
            count(refused)
        ),
    };
    lines.push(format!(
        "{} to {}{refused}; {} of clients and {} of the server passed",
        counted(status.accepted, "connection"),
        one_line(&status.upstream, 60),
        bytes(status.client_bytes),
        bytes(status.server_bytes),
    ));
    let left_out = "of replication connections, which are not read";
    lines.extend(recording_text::lines(&status.capture, left_out, style));
    lines.push(String::new());
    lines.join("\n")
}
