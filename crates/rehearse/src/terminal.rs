//! What is written to the terminal: results to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressDrawTarget;
use report::TextStyle;

use crate::log;
use crate::options::observing::LogLevel;

/// Wider lines are hard to follow.
const COLUMNS_MAX: usize = 140;
/// Where nothing is known of the terminal, or it is none.
const COLUMNS: usize = 100;

/// Whether a result could not be written, to a full disk, say.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a result. Nobody reading any more (`| head`) is no error; anything else is told, and known
/// from [`lost`] on.
pub fn say(text: &str) {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        complain(&format!(
            "the result cannot be written to standard output ({error}); make room, or send it elsewhere"
        ));
    }
}

/// Whether a result could not be written.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes a result and ends the line.
pub fn say_line(text: &str) {
    say(text);
    say("\n");
}

/// Tells what is being done, beside the results.
pub fn note(text: &str) {
    if log::is_json() {
        return log::tell(LogLevel::Info, text, &[]);
    }
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Tells why a command failed.
pub fn complain(message: &str) {
    if log::is_json() {
        return log::tell(LogLevel::Error, message, &[]);
    }
    let _ = writeln!(io::stderr().lock(), "rehearse: {message}");
}

/// Where progress is drawn: on standard error, if that is a terminal and for people.
pub fn progress_target() -> ProgressDrawTarget {
    match log::is_json() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr_with_hz(5),
    }
}

/// How texts for people are rendered here.
pub fn style() -> TextStyle {
    TextStyle {
        width: columns().min(COLUMNS_MAX),
        colour: io::stdout().is_terminal() && !wants_no_colour(),
    }
}

/// How progress is rendered on standard error; `None` where that is no terminal, or not for people.
pub fn progress_style() -> Option<TextStyle> {
    let stderr = io::stderr();
    if log::is_json() || !stderr.is_terminal() {
        return None;
    }
    let size = terminal_size::terminal_size_of(&stderr);
    let columns = size.map_or(COLUMNS, |(terminal_size::Width(columns), _)| columns.into());
    Some(TextStyle {
        // What fills the last column may be wrapped.
        width: columns.min(COLUMNS_MAX).saturating_sub(1),
        colour: !wants_no_colour(),
    })
}

/// <https://no-color.org>: any value but an empty one.
fn wants_no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn columns() -> usize {
    if let Some(columns) = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        return columns;
    }
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), _)) if io::stdout().is_terminal() => columns.into(),
        _ => COLUMNS,
    }
}
