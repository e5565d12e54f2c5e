//! Exit codes of commands.

use std::process::ExitCode;

pub use study::{Failure, FailureKind};

/// Result of a command that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Exit code 0: completed without findings.
    Success,
    /// Exit code 1: completed with findings: a regression that `--fail-on` asked for, unreadable
    /// lines, an interrupted replay.
    Findings,
    /// Exit code 4: completed, and neither an effect nor its absence was proven, or too little was compared.
    NotProven,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Success => ExitCode::SUCCESS,
            ExitStatus::Findings => ExitCode::from(1),
            ExitStatus::NotProven => ExitCode::from(4),
        }
    }
}

/// Returns the exit code of a command that failed.
pub fn exit_code(failure: &Failure) -> ExitCode {
    match failure.kind {
        FailureKind::Usage => ExitCode::from(2),
        FailureKind::CouldNot => ExitCode::from(3),
    }
}
