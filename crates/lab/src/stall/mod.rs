//! *stall*: one statement becomes slow, with effects on unrelated sessions.
//!
//! A shop's programs read single orders. One program searches for the orders of a customer. On the target the index
//! for that search is missing. In a replay with one order for all sessions, every statement queues after the search,
//! and the target receives a fraction of the traffic. With a connection for each session, only the searching session
//! is late.

mod case;
mod rates;
mod shop;
mod story;
mod traffic;

pub(crate) use case::run;
use rates::{SendRates, Window};
use shop::{INDEX, Shop, create, drop_index, warm};
use traffic::{SEARCHER, TrafficPlan, run_programs};

use crate::case::Case;

/// The case.
pub(crate) const CASE: Case = Case {
    name: "stall",
    title: "A replay that waits: one slow statement, and everybody in one queue",
    source: "Building a PostgreSQL load tester (pgreplay-go)",
};
