//! Four published cases, each a real program against a real server: schema, load, trouble and cure, and
//! what has to be looked at to see them. What was published stands beside what is measured.
//!
//! Who drives: the program (`rehearse lab`), which captures, replays, compares and reports with the
//! same code as its commands. Deliberately absent: all of that, and any number of a result.

#![forbid(unsafe_code)]

mod error;
pub mod heap;
pub mod planning;
pub mod queue;
mod scale;
pub mod shop;
pub mod stall;

pub use error::LabError;
pub use scale::Scale;

/// A case, and where it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// As it is called on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
}

/// Opens a connection for an application of a name.
pub type Connect<'c> = dyn Fn(&str) -> Result<postgres::Client, postgres::Error> + Sync + 'c;

/// What the server's processes have used of the processors so far, in nanoseconds; `None` where that is not known.
pub type ProcessorTime<'t> = dyn Fn() -> Option<u64> + Sync + 't;
