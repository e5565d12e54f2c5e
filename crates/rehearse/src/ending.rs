//! How a command ends, and which exit code says so.

use std::process::ExitCode;

pub use study::{Failure, FailureKind};

/// A command that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Exit code 0: done, and nothing found.
    Done,
    /// Exit code 1: done, and found what the user should know of: a regression that `--fail-on`
    /// asked for, lines that could not be read, a replay that was stopped.
    Found,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => ExitCode::SUCCESS,
            Ending::Found => ExitCode::from(1),
        }
    }
}

/// Returns the exit code of a command that could not be done.
pub fn exit_code(failure: &Failure) -> ExitCode {
    match failure.kind {
        FailureKind::Usage => ExitCode::from(2),
        FailureKind::CouldNot => ExitCode::from(3),
    }
}
