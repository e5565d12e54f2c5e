//! Text on the recordings of live traffic: the account of all bytes that passed.

use capture_recorder::{CaptureStatus, FinishedRecording, RecordingAccount, RecordingState};
use clock::utc_text;

use crate::text::conversation_text;
use crate::text::line::{one_line, wrapped};
use crate::text::series_text;
use crate::text::style::{TextStyle, Tone};
use crate::text::table::AccountTable;
use crate::text::units::{bytes, count, counted, duration};

/// Maximum number of incomplete stretches, and of sessions with lost bytes.
const INCOMPLETE_MAX: usize = 5;

/// Returns the lines on all recordings of a capture. `left_out` describes the bytes that passed without capture.
pub(super) fn lines(capture: &CaptureStatus, left_out: &str, style: &TextStyle) -> Vec<String> {
    let mut lines = Vec::new();
    if capture.finished.is_empty() {
        lines.push("nothing was recorded".to_owned());
    }
    for recording in &capture.finished {
        lines.extend(recorded(recording, left_out, style));
    }
    if let Some(series) = &capture.series {
        lines.extend(series_text::lines(&series.status(), style.columns()));
    }
    if let Some(reason) = &capture.broken_down {
        let text = format!(
            "the capture broke down: {}; this is an error of ours, please report it",
            one_line(reason, 200)
        );
        lines.push(style.paint(Tone::Bad, &text));
    }
    lines
}

fn recorded(finished: &FinishedRecording, left_out: &str, style: &TextStyle) -> Vec<String> {
    let width = style.columns();
    let account = &finished.account;
    let heading = format!(
        "{}: {} of {} over {}",
        one_line(&finished.name, 60),
        counted(finished.statements, "statement"),
        counted(finished.sessions, "session"),
        duration((account.to_us - account.from_us) as f64)
    );
    let mut lines = vec![style.paint(Tone::Heading, &heading)];
    let mut table = AccountTable::new();
    table.row(
        "passed",
        bytes(account.forwarded_bytes),
        format!("{} bytes", count(account.forwarded_bytes)),
    );
    table.row(
        "read",
        bytes(account.read_bytes),
        format!(
            "{} of {}",
            counted(finished.events, "event"),
            counted(account.conversation.connections, "new connection")
        ),
    );
    table.row(
        "lost",
        bytes(account.lost_bytes),
        match account.lost_bytes {
            0 => "",
            _ => "recording could not keep up; what passed was not touched",
        },
    );
    if account.passed_bytes > 0 {
        table.row("passed over", bytes(account.passed_bytes), left_out);
    }
    lines.extend(table.lines(width));
    for stretch in account.incomplete.iter().take(INCOMPLETE_MAX) {
        let text = format!(
            "incomplete from {} to {}: {} bytes",
            utc_text(stretch.from_us),
            utc_text(stretch.to_us),
            count(stretch.bytes)
        );
        lines.extend(wrapped(&text, "  ", "    ", width));
    }
    let listed = account.incomplete.len().saturating_sub(INCOMPLETE_MAX) as u64;
    let more = listed + account.incomplete_left_out;
    if more > 0 {
        lines.push(format!("  and {} more such stretches", count(more)));
    }
    lines.extend(session_gaps(account, width));
    lines.extend(conversation_text::lines(&account.conversation, width));
    if let Some(failure) = &account.failure {
        let workload = one_line(&finished.name, 200);
        let what_is_left = match finished.state {
            RecordingState::Recovered => "what was written by then is there".to_owned(),
            RecordingState::Gone => format!(
                "nothing of it is left: {workload}.partial was taken away while it was written"
            ),
            RecordingState::Partial | RecordingState::Complete => {
                format!("keep the recorded part with: rehearse recover {workload}.partial")
            }
        };
        let text = format!(
            "it ended early, at {}: {}; {what_is_left}",
            utc_text(account.to_us),
            one_line(failure, 300),
        );
        for line in wrapped(&text, "  ", "    ", width) {
            lines.push(style.paint(Tone::Bad, &line));
        }
    }
    if !account.adds_up() {
        let text = "  the bytes do not add up: this is an error of ours, please report it";
        lines.push(style.paint(Tone::Bad, text));
    }
    lines
}

/// Returns a line for each of the first sessions that lost bytes.
fn session_gaps(account: &RecordingAccount, width: usize) -> Vec<String> {
    let gaps = account.session_gaps.listed();
    let mut lines = Vec::new();
    for gap in gaps.iter().take(INCOMPLETE_MAX) {
        let session = match gap.session {
            Some(session) => format!("session {session}"),
            None => "a session that was not recorded yet".to_owned(),
        };
        let sender = match gap.from_client {
            true => "its client",
            false => "the server",
        };
        let text = format!(
            "{session} lost {} bytes of {sender} between {} and {}",
            count(gap.range.bytes),
            utc_text(gap.range.from_us),
            utc_text(gap.range.to_us)
        );
        lines.extend(wrapped(&text, "  ", "    ", width));
    }
    let more = gaps.len().saturating_sub(INCOMPLETE_MAX) as u64 + account.session_gaps.omitted();
    if more > 0 {
        lines.push(format!(
            "  and {} more such losses; the first 1,000 are in the manifest",
            count(more)
        ));
    }
    lines
}
