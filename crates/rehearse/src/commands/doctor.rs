//! `rehearse doctor`: shows what this machine has of what the commands use.

use report::host_text;
use study::Failure;
use study::host_check::check_host;

use crate::exit_status::ExitStatus;
use crate::terminal;

/// Prints the checks. A command that lacks something says so itself, so nothing here is a failure.
pub fn run() -> Result<ExitStatus, Failure> {
    terminal::say(&host_text::render(&check_host(), &terminal::style()));
    Ok(ExitStatus::Success)
}
