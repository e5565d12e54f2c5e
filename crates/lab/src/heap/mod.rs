//! *heap*: an event store whose customers define events over raw data; each definition is a partial index on
//! the customer's table, and every insert opens all of them.
//!
//! The regular expressions of the definitions were believed to cause the CPU load. A flame graph showed that opening
//! indexes did: a row that reaches a backend which has not accessed its table opens each index anew. Fifty rows of a
//! table in one statement open them once.
//!
//! ```text
//! definitions (data) ─► partial indexes on each customer's table ─► questions use them
//! partitions ─► consumers ─► a pool of connections, round robin ─► inserts of 1 or of many rows
//! ```

mod backlog;
mod cost;
mod definition;
mod event;
mod ingest;
mod patterns;
mod questions;
mod store;

use std::collections::BTreeMap;

pub use backlog::{Backlog, BacklogPlan, LagPoint, measure_backlog, measure_single_row_rate};
pub use cost::{Caches, Cost, measure_cost};
pub use definition::Definition;
pub use event::{Event, Events};
pub use ingest::{IngestCounts, Pool, ingest, ingest_for, insert};
pub use patterns::{PatternCost, measure_patterns};
pub use questions::{QueryResult, run_queries};
pub use store::{Size, Store, create};

use crate::Case;

/// The case.
pub const CASE: Case = Case {
    name: "heap",
    title: "Many partial indexes, and one row at a time",
    source: "How Basic Performance Analysis Saved Us Millions (Heap)",
};

/// Groups events by customer, in the order of customers.
fn by_customer(events: Vec<Event>) -> BTreeMap<u32, Vec<Event>> {
    let mut all: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
    for event in events {
        all.entry(event.customer).or_default().push(event);
    }
    all
}
