//! Four published cases, each a real program against a real server. A case has a schema, a load, a problem, its fix,
//! and the queries that show them. The published results are documented next to the measured ones.
//!
//! [`run_case()`] runs a case in a private server: it runs the system, captures its log, replays, compares, diagnoses and
//! proves with the operations of `study`, and writes a page with `report`. The program provides the displays. No
//! expected result is in this crate, only the limits that each check requires.
//!
//! Each case has the same modules: `case` (the steps), `measurements`, `checks`, `story` (the report), and those of
//! its system. [`shop`] is the system of the demo.

#![forbid(unsafe_code)]

mod case;
mod error;
mod heap;
mod planning;
mod queue;
mod report_parts;
mod run_case;
pub mod shop;
mod stage;
mod stall;

pub use case::{CaseName, CaseRequest, Context, Scale};
pub use error::LabError;
pub use queue::run_instance;
pub use run_case::run_case;
pub use stage::{LOGGING, server_settings};

/// Opens a connection with the given `application_name`.
pub type Connect<'c> = dyn Fn(&str) -> Result<postgres::Client, postgres::Error> + Sync + 'c;

/// Reads the CPU time that the server's processes have used so far, in nanoseconds; `None` if it is not known.
type ProcessorTime<'t> = dyn Fn() -> Option<u64> + Sync + 't;
