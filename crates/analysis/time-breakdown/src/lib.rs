//! Breaks down the time of a run by what was observed of the server.
//!
//! [`observed::ObservationSummary`] sums the observations of probes, [`waiting::Waiting`] sums the waits
//! of sessions by event and statement, and [`time_model::break_down_time`] divides response times into
//! parts.

pub mod observed;
mod sampling;
pub mod time_model;
pub mod waiting;
