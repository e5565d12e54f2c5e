//! *planning*: the half of a query's time that is not measured by default, for fear of a cliff.
//!
//! `pg_stat_statements` keeps an entry for each statement, and every call takes its spin lock; with
//! `track_planning` twice. Where hundreds of thousands of calls of one statement come in a second, sessions wait for
//! each other there. How far one's own server is from that, nobody says: [`Headroom`] does.

mod application;
mod counting;
mod headroom;
mod statistics;

pub use application::application;
pub use counting::{Plans, Protocol, account, account_with_branch, busy, plans};
pub use headroom::{Advice, FAR, Headroom, NEAR};
pub use statistics::{Statistics, statistics};

use crate::Case;

/// The case.
pub const CASE: Case = Case {
    name: "planning",
    title: "The half that nobody measures: planning, and the cliff that speaks against counting it",
    source: "Postgres.FM on pg_stat_statements.track_planning and performance cliffs",
};

/// A way to have the server count statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counting {
    /// What it is called here.
    pub name: &'static str,
    /// The settings that make it.
    pub settings: &'static [(&'static str, &'static str)],
}

/// Not at all, statements, and their planning too.
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
