//! *queue*: a work queue in PostgreSQL whose claim lacks its index, so that workers starve while work is due.
//!
//! An image downloader. Several instances, a process each; each has one poller, which claims due links from a table and fills
//! a bounded channel, and a pool of workers, which fetch what comes out of it from a real HTTP server with
//! slow, missing and failing links, and write what became of it into the same table. A rate limiter that follows
//! the rate of errors sits behind the claim, and puts off what is too much: the suspect. What is claimed and
//! not done is the work of an instance that may die: a reaper takes it back.
//!
//! Beside it stand the key (random, counted up, ordered by time) and what a unique index on the link costs.

mod amplification;
mod claim;
mod downloader;
mod feed;
mod fetch;
mod instance;
mod keys;
mod limiter;
mod links;
mod messages;
mod metrics;
mod process;
mod schema;
mod tally;
mod upkeep;
mod worker;

pub use amplification::{Amplification, amplification};
pub use claim::{LockClause, claim_sql};
pub use downloader::{Drained, Driven, Kill, Plan, drain, drive};
pub use instance::instance;
pub use keys::{Key, KeyCosts, Migration, key_costs, migrate};
pub use limiter::{Limiter, PUT_OFF};
pub use links::Served;
pub use metrics::Sample;
pub use process::Deployment;
pub use schema::{
    COMPOSITE, Index, OBVIOUS, PARTIAL, Queue, SERIES, build, create, make_due, settle, warm,
};
pub use tally::Counts;

use crate::Case;

/// The case.
pub const CASE: Case = Case {
    name: "queue",
    title: "A work queue without the index of its claim: workers starve, and the suspect is innocent",
    source: "Postgres performance lessons, part 1: missing indexes and random keys (Channable)",
};

/// Opens a connection for an application of a name.
type Connect =
    std::sync::Arc<dyn Fn(&str) -> Result<postgres::Client, postgres::Error> + Send + Sync>;

/// Connections to a server.
fn connections(url: &str) -> Connect {
    let url = url.to_owned();
    std::sync::Arc::new(move |application: &str| {
        let mut config: postgres::Config = url.parse()?;
        config.application_name(application);
        config.connect(postgres::NoTls)
    })
}
