//! Output of the program: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressDrawTarget;
use report::{TextStyle, UNLIMITED, message_lines, safe_text};

use crate::log;
use crate::options::observing::LogLevel;

/// Largest line width of progress. Wider lines are hard to read.
const COLUMNS_MAX: usize = 140;
/// Line width if the terminal's is unknown.
const COLUMNS: usize = 100;

/// Whether a result could not be written, for example to a full disk.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a result. What a terminal would execute is replaced, except for this program's colours. A closed pipe (`| head`) is not an error. Other errors are reported, and
/// [`lost`] returns true afterwards.
pub fn say(text: &str) {
    let text = safe_text(text, style().colour);
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

/// Returns whether a result could not be written.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes a result followed by a newline.
pub fn say_line(text: &str) {
    say(text);
    say("\n");
}

/// Reports on standard error what the program is doing.
pub fn note(text: &str) {
    if log::is_json() {
        return log::tell(LogLevel::Info, text, &[]);
    }
    let _ = writeln!(io::stderr().lock(), "{}", message_lines(text));
}

/// Reports why a command failed.
pub fn complain(message: &str) {
    if log::is_json() {
        return log::tell(LogLevel::Error, message, &[]);
    }
    let _ = writeln!(io::stderr().lock(), "rehearse: {}", message_lines(message));
}

/// Writes an explanation of several lines to standard error.
pub fn explain(text: &str) {
    if log::is_json() {
        return log::tell(LogLevel::Error, text.trim_end(), &[]);
    }
    let _ = write!(io::stderr().lock(), "{}", safe_text(text, false));
}

/// Returns the target of progress bars: standard error if it is a terminal and the log is text.
pub fn progress_target() -> ProgressDrawTarget {
    match log::is_json() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr_with_hz(5),
    }
}

/// Returns the style of texts on standard output.
pub fn style() -> TextStyle {
    TextStyle {
        width: columns(),
        colour: io::stdout().is_terminal() && !wants_no_colour(),
    }
}

/// Returns the style of progress on standard error; `None` if it is not a terminal, or the log
/// is JSON.
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

/// Returns whether NO_COLOR is set and not empty, see <https://no-color.org>.
fn wants_no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns the width for standard output. What a program or a file gets is not cut, unless COLUMNS is set.
fn columns() -> usize {
    if let Some(columns) = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        return columns;
    }
    if !io::stdout().is_terminal() {
        return UNLIMITED;
    }
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(COLUMNS, |(terminal_size::Width(columns), _)| columns.into())
}
