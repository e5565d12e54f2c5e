//! Processor profiles of a server: what its processes were doing, a hundred times a second of processor time.
//!
//! A [`Profiling`] is started before a replay's first statement (or for a while), told where the run's time begins and
//! which session speaks with which backend, and ended after the last statement. `perf` records, a spool holds what it
//! gives, `perf script` turns that into text, [`script`] reads the text, and stacks and samples go into the run's tables
//! as they come. Nothing here fails a replay: what cannot be had is the profile's reason for being off, or a note.
//!
//! It does not know what stacks mean, nor which statement a sample belongs to (found by time and backend when a profile
//! is read), and records on this machine only.

mod beside_kernel;
mod counting;
mod cpu_usage;
mod perf;
pub mod phases;
pub mod proc;
mod processes;
mod profiling;
pub mod script;
mod spool;
pub mod stacks;
mod watching;

pub use cpu_usage::{CpuUsage, postmaster_of};
pub use profiling::{FREQUENCY_HZ, ProfileOptions, Profiling, server_cpu_ns};
