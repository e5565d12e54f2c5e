//! A shop for the demo: its tables, and the traffic of its application.

mod tables;
mod traffic;

pub use tables::{INDEX_TO_DROP, Sizes, create, warm};
pub use traffic::{TrafficCounts, TrafficError, TrafficOptions, run_traffic};
