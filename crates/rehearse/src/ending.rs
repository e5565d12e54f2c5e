//! How a command ends, and which exit code says so.

use std::process::ExitCode;

use archive::ArchiveError;

/// A command that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Exit code 0: done, and nothing found.
    Done,
    /// Exit code 1: done, and found what the user should know of: a regression that `--fail-on`
    /// asked for, lines that could not be read, a replay that was stopped.
    Found,
}

/// A command that could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whose doing it was.
    pub kind: FailureKind,
    /// What was given, what is allowed, what to do next.
    pub message: String,
}

/// Whose doing a failure was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Exit code 2: what was asked for makes no sense.
    Usage,
    /// Exit code 3: it made sense and could not be done.
    CouldNot,
}

impl Failure {
    /// What was asked for makes no sense.
    pub fn usage(message: impl ToString) -> Self {
        Failure {
            kind: FailureKind::Usage,
            message: message.to_string(),
        }
    }

    /// It made sense and could not be done.
    pub fn could_not(message: impl ToString) -> Self {
        Failure {
            kind: FailureKind::CouldNot,
            message: message.to_string(),
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::NotFound { .. }
            | ArchiveError::Foreign { .. }
            | ArchiveError::Exists(_)
            | ArchiveError::Locked { .. } => Failure::usage(error),
            _ => Failure::could_not(error),
        }
    }
}

impl From<sandbox::Error> for Failure {
    fn from(error: sandbox::Error) -> Self {
        Failure::could_not(error)
    }
}

impl From<replay::TargetError> for Failure {
    fn from(error: replay::TargetError) -> Self {
        Failure::usage(error)
    }
}

impl From<replay::ReplayError> for Failure {
    fn from(error: replay::ReplayError) -> Self {
        match error {
            replay::ReplayError::Archive(error) => error.into(),
            replay::ReplayError::Target(error) => error.into(),
            error @ replay::ReplayError::Resume { .. } => Failure::usage(error),
            error => Failure::could_not(error),
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => ExitCode::SUCCESS,
            Ending::Found => ExitCode::from(1),
        }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::Usage => ExitCode::from(2),
            FailureKind::CouldNot => ExitCode::from(3),
        }
    }
}
