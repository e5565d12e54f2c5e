//! CPU profiles of a server: the activity of its processes, sampled about a hundred times per second of CPU
//! time.
//!
//! A [`Profiling`] is started before a replay's first statement (or for a period), receives the run's start
//! time and the backend of each session, and is ended after the last statement. `perf` records into a spool,
//! `perf script` converts the recording to text, [`script`] parses the text, and stacks and samples are
//! written to the run's tables as they come. A failure here does not fail a replay: it becomes the reason why
//! the profile is off, or a note.
//!
//! Samples are attributed to statements by time and backend when a profile is read. Only servers on this
//! machine can be recorded.

mod backend_sampler;
mod cpu_usage;
mod debug_symbols;
pub mod own_process;
mod perf;
pub mod phases;
pub mod proc;
mod processes;
mod profiling;
mod quiet_connection;
mod run_origin;
mod sample_coverage;
pub mod script;
mod spool;
pub mod stacks;
mod task_clock;

pub use cpu_usage::{CpuUsage, postmaster_of};
pub use processes::{may_watch_all, paranoid};
pub use profiling::{FREQUENCY_HZ, ProfileOptions, Profiling, server_cpu_ns};
