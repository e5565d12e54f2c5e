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
mod case;
mod checks;
mod cost;
mod definition;
mod event;
mod ingest;
mod measurements;
mod patterns;
mod questions;
mod store;
mod story;

use std::collections::BTreeMap;

use backlog::{Backlog, BacklogPlan, measure_single_row_rate};
pub(crate) use case::run;
use cost::{Caches, Cost};
use event::Event;
use ingest::{IngestCounts, Pool, ingest, ingest_for};
use patterns::PatternCost;
use questions::{QueryResult, run_queries};
use store::{Size, Store, create};

use crate::case::Case;

/// Connections of the ingester's pool, which receive the rows of a table in turn.
const POOL: usize = 16;
/// Partitions, each with a consumer.
const PARTITIONS: usize = 4;
/// Rows per statement of the fix.
const BATCH: u32 = 50;
/// Rewriting of the captured workload. Rows wait for the whole capture, which is short.
const REWRITE: &str = "batch-inserts=50,window=10m";
/// Events produced while the backlog grows, as a multiple of those that can be written singly.
const MORE: f64 = 3.0;
/// Numbers of regular expressions: as many as a backend keeps compiled (`MAX_CACHED_RES` of `regexp.c`), and more.
const PATTERNS: [u32; 2] = [32, 34];

/// The case.
pub(crate) const CASE: Case = Case {
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
