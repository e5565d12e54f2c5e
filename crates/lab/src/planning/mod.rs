//! *planning*: the half of a query's time that is not measured by default, because of contention at high call rates.
//!
//! `pg_stat_statements` keeps an entry for each statement, and every call takes its spin lock, twice with
//! `track_planning`. At hundreds of thousands of calls of one statement a second, sessions contend for that lock.
//! [`Headroom`] measures how far a server is from that.

mod application;
mod counting;
mod headroom;
mod statistics;

pub use application::run_application;
pub use counting::{
    PlanCounts, Protocol, account_join_query, account_query, count_plans, run_load,
};
pub use headroom::{Advice, FAR, Headroom, NEAR};
pub use statistics::{ExtensionSamples, count_samples};

use crate::Case;

/// The case.
pub const CASE: Case = Case {
    name: "planning",
    title: "The half that nobody measures: planning, and the cliff that speaks against counting it",
    source: "Postgres.FM on pg_stat_statements.track_planning and performance cliffs",
};

/// A configuration of statement statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// Name of the configuration.
    pub name: &'static str,
    /// Its settings.
    pub settings: &'static [(&'static str, &'static str)],
}

/// Without statistics, with statistics of execution, and with statistics of planning too.
pub const COUNTINGS: [Counting; 3] = [
    Counting {
        name: "without",
        settings: &[],
    },
    Counting {
        name: "with it",
        settings: &[("shared_preload_libraries", "pg_stat_statements")],
    },
    Counting {
        name: "with planning",
        settings: &[
            ("shared_preload_libraries", "pg_stat_statements"),
            ("pg_stat_statements.track_planning", "on"),
        ],
    },
];
