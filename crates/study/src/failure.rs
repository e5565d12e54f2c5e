//! Failures of operations.

use crate::error::ExperimentError;
use archive::ArchiveError;
use capture_sink::SinkError;
use transform::SliceError;

/// The reason why an operation failed, for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Category of the failure, which determines the exit code.
    pub kind: FailureKind,
    /// Message for the user: what failed, what is allowed, what to do next.
    pub message: String,
}

/// Category of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Exit code 2: the request is invalid.
    Usage,
    /// Exit code 3: the request is valid, but could not be carried out.
    CouldNot,
}

impl Failure {
    /// Creates a failure of an invalid request.
    pub fn usage(message: impl ToString) -> Self {
        Failure {
            kind: FailureKind::Usage,
            message: message.to_string(),
        }
    }

    /// Creates a failure of a valid request that could not be carried out.
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
            ArchiveError::OtherKind {
                ref path,
                ref found,
                ..
            } => Failure::usage(match command_that_reads(found) {
                Some(command) => format!(
                    "{error}; show it with `rehearse {command} {}`",
                    path.display()
                ),
                None => error.to_string(),
            }),
            ArchiveError::NotFound { .. }
            | ArchiveError::WrongKind { .. }
            | ArchiveError::Exists(_)
            | ArchiveError::Locked { .. } => Failure::usage(error),
            _ => Failure::could_not(error),
        }
    }
}

/// Returns the command that shows a result of this kind.
fn command_that_reads(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "workload" => "inspect",
        "run" => "show",
        "proof" => "prove",
        "sweep" => "sweep",
        _ => return None,
    })
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
            error @ (replay::ReplayError::Resume { .. } | replay::ReplayError::Shards(_)) => {
                Failure::usage(error)
            }
            error => Failure::could_not(error),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Usage(sentence) => Failure::usage(sentence),
            ExperimentError::Replay(error) => error.into(),
            ExperimentError::Target(error) => error.into(),
            ExperimentError::Sandbox(error) => error.into(),
            ExperimentError::Archive(error) => error.into(),
            error => Failure::could_not(error),
        }
    }
}

impl From<SinkError> for Failure {
    fn from(error: SinkError) -> Self {
        Failure::could_not(error)
    }
}

impl From<SliceError> for Failure {
    fn from(error: SliceError) -> Self {
        Failure::usage(error)
    }
}
