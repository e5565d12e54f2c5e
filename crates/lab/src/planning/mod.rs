//! *planning*: the half of a query's time that is not measured by default, because of contention at high call rates.
//!
//! `pg_stat_statements` keeps an entry for each statement, and every call takes its spin lock, twice with
//! `track_planning`. At hundreds of thousands of calls of one statement a second, sessions contend for that lock.
//! [`Headroom`] measures how far a server is from that.

mod application;
mod case;
mod checks;
mod counting;
mod headroom;
mod measurements;
mod statistics;
mod story;

pub(crate) use case::run;
use counting::{PlanCounts, Protocol, account_join_query, account_query, run_load};
use headroom::{Advice, Headroom};
use statistics::ExtensionSamples;

use crate::case::Case;

/// Captured reads as texts, their replay, and the proof.
const WORKLOAD: &str = "texts.workload";
const RUN: &str = "texts.run";
const PROOF: &str = "prepared.proof";
/// Rewriting that prepares each text once per session.
const PREPARE: &str = "prepare";

/// The case.
pub(crate) const CASE: Case = Case {
    name: "planning",
    title: "The half that nobody measures: planning, and the cliff that speaks against counting it",
    source: "Postgres.FM on pg_stat_statements.track_planning and performance cliffs",
};

/// A configuration of statement statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counting {
    /// Name of the configuration.
    name: &'static str,
    /// Its settings.
    settings: &'static [(&'static str, &'static str)],
}

impl Counting {
    /// Returns the name in file names.
    fn file_name(self) -> String {
        self.name.replace(' ', "-")
    }
}

/// Without statistics, with statistics of execution, and with statistics of planning too.
const COUNTINGS: [Counting; 3] = [
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
