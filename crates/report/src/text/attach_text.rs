//! Text on a capture by probes: the account of all bytes that they saw.

use capture_attach::AttachStatus;

use crate::text::line::{one_line, wrapped};
use crate::text::recording_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::units::{bytes, counted};

/// Renders the account, ending with a line feed.
pub fn render_text(status: &AttachStatus, style: &TextStyle) -> String {
    let counters = &status.counters;
    let width = style.columns();
    let [of_clients, of_server] = counters.bytes;
    let mut lines = vec![format!(
        "{}, attached {}; {} of clients and {} of the server seen",
        one_line(&status.server, 60),
        counted(counters.attached, "time"),
        bytes(of_clients),
        bytes(of_server),
    )];
    let captured = counters
        .existing
        .saturating_sub(counters.left_out_existing + counters.left_out_replication);
    let facts = [
        (
            captured,
            "existed before: captured from the second request on",
        ),
        (
            counters.left_out_existing,
            "existed before and left out (--wait-for-new-sessions)",
        ),
        (
            counters.left_out_replication,
            "existed before and left out: replication",
        ),
    ];
    let facts = facts
        .into_iter()
        .chain([(counters.left_out_own, "of this command itself left out")]);
    for (sessions, fact) in facts.filter(|(sessions, _)| *sessions > 0) {
        let text = format!("{} {fact}", counted(sessions, "session"));
        lines.extend(wrapped(&text, "  ", "    ", width));
    }
    if counters.lost_beginnings > 0 {
        let text = format!(
            "{} of which the beginning was not seen: captured from a later request on",
            counted(counters.lost_beginnings, "session")
        );
        lines.push(style.paint(Tone::Bad, &format!("  {text}")));
    }
    if counters.untracked_calls > 0 {
        let text = format!(
            "{} of further sessions are not captured: more sessions than the probes can track",
            counted(counters.untracked_calls, "call")
        );
        lines.push(style.paint(Tone::Bad, &format!("  {text}")));
    }
    let left_out = "of sessions that are left out";
    lines.extend(recording_text::lines(&status.capture, left_out, style));
    if let Some(warning) = &status.probe_warning {
        for line in wrapped(&format!("warning: {warning}"), "", "  ", width) {
            lines.push(style.paint(Tone::Bad, &line));
        }
    }
    if let Some(reason) = &status.prober_failure {
        let text = format!(
            "the prober ended, and with it the capture: {}",
            one_line(reason, 400)
        );
        for line in wrapped(&text, "", "  ", width) {
            lines.push(style.paint(Tone::Bad, &line));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}
