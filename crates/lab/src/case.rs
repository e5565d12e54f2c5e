//! A case, and the request to run it.

use std::path::PathBuf;
use std::time::Duration;

use sandbox::ServerRequirements;
use study::observed_replay::ReplayDisplay;
use study::{FindInstallation, Interrupt};

/// A case, and its publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Address of the publication.
    pub source: &'static str,
}

/// Names of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseName {
    /// Many partial indexes.
    Heap,
    /// Planning time.
    Planning,
    /// A work queue.
    Queue,
    /// Head-of-line blocking in a replay.
    Stall,
}

/// Scale of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A minute or two on two processors.
    Small,
    /// The published duration and size, for a real machine.
    Full,
}

/// Request to run a case.
#[derive(Debug, Clone)]
pub struct CaseRequest {
    /// The case.
    pub name: CaseName,
    /// Its scale.
    pub scale: Scale,
    /// Directory of the results; `None` for `rehearse-lab/NAME`.
    pub output: Option<PathBuf>,
    /// Version and installation of the server.
    pub server: ServerRequirements,
}

/// Shows the progress of an observation, as [`study::observe_server`] calls it.
pub type ObservationDisplay = Box<dyn FnMut(Option<i64>)>;

/// Parts of a case that the program provides.
#[derive(Clone)]
pub struct Context {
    /// Stops the case before its next step.
    pub interrupt: Interrupt,
    /// Finds a PostgreSQL installation.
    pub find_installation: FindInstallation,
    /// Creates the display of a replay.
    pub replay_display: fn() -> Box<dyn ReplayDisplay>,
    /// Creates the display of an observation of this duration.
    pub observation_display: fn(Option<Duration>) -> ObservationDisplay,
}
