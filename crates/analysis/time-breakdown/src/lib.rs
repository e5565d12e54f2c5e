//! Where the time of a run went, from what was observed of the server.
//!
//! [`observed::ObservedSum`] sums up what probes saw, [`waiting::Waiting`] what sessions waited for and in which
//! statements, and [`time_model::time_model`] divides response times into parts.

pub mod observed;
mod sampling;
pub mod time_model;
pub mod waiting;
