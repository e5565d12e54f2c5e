//! Four published cases, each a real program against a real server. A case has a schema, a load, a problem, its fix,
//! and the queries that show them. The published results are documented next to the measured ones.
//!
//! The command `rehearse lab` drives the cases. It captures, replays, compares and reports with the same code as
//! other commands. This crate contains none of that, and no expected result.

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

/// Opens a connection with the given `application_name`.
pub type Connect<'c> = dyn Fn(&str) -> Result<postgres::Client, postgres::Error> + Sync + 'c;

/// Reads the CPU time that the server's processes have used so far, in nanoseconds; `None` if it is not known.
pub type ProcessorTime<'t> = dyn Fn() -> Option<u64> + Sync + 't;
