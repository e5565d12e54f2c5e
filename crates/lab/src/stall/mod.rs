//! *stall*: one statement gets slow, and what that does to the sessions that have nothing to do with it.
//!
//! A shop's programs read single orders; one program looks for the orders of a customer. On the target
//! the index for that search is missing. In a replay that keeps one order for all sessions, everybody
//! queues behind the search, and the target is sent a fraction of what users sent; in one with a
//! session each, only the search's own session is late.

mod rates;
mod shop;
mod traffic;

pub use rates::{Rates, Window};
pub use shop::{INDEX, Shop, create, drop_index, warm};
pub use traffic::{Driven, Plan, SEARCHER, drive};

use crate::Case;

/// The case.
pub const CASE: Case = Case {
    name: "stall",
    title: "A replay that waits: one slow statement, and everybody in one queue",
    source: "Building a PostgreSQL load tester (pgreplay-go)",
};
