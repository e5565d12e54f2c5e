//! *queue*: a work queue in PostgreSQL whose claim lacks its index, so that workers starve while work is due.
//!
//! An image downloader with several instances, each a separate process. An instance has one poller, which claims due
//! links from a table and fills a bounded channel. Its pool of workers fetches them from a real HTTP server with
//! slow, missing and failing links, and writes the results into the same table. A rate limiter after the claim
//! follows the error rate and postpones the excess: the suspected statement. Links that are claimed and not finished
//! would be lost if the instance died, so a reaper releases them.
//!
//! The case also measures kinds of keys (random, sequential, time-ordered) and the cost of a unique index on the
//! link.

mod amplification;
mod case;
mod checks;
mod claim;
mod diagnosis;
mod downloader;
mod feed;
mod fetch;
mod instance;
mod keys;
mod limiter;
mod links;
mod measurements;
mod messages;
mod metrics;
mod process;
mod schema;
mod story;
mod tally;
mod upkeep;
mod worker;

use amplification::Amplification;
pub(crate) use case::run;
use claim::LockClause;
use downloader::{DrainResult, KillCondition, SystemPlan, SystemResult, drain_queue, run_system};
pub use instance::run_instance;
use keys::{Key, KeyCosts, Migration, measure_keys, measure_migration};
use metrics::Sample;
use process::Deployment;
use schema::{
    COMPOSITE, Index, OBVIOUS, PARTIAL, Queue, SERIES, create, create_index, make_due,
    postpone_all, warm,
};

use crate::case::Case;

/// Captured workload.
const WORKLOAD: &str = "downloader.workload";
/// Part of it that the proof replays.
const PART: &str = "part.workload";
/// Proof of the indexes.
const PROOF: &str = "indexes.proof";

/// The case.
pub(crate) const CASE: Case = Case {
    name: "queue",
    title: "A work queue without the index of its claim: workers starve, and the suspect is innocent",
    source: "Postgres performance lessons, part 1: missing indexes and random keys (Channable)",
};

/// Opens a connection with the given `application_name`.
type Connect =
    std::sync::Arc<dyn Fn(&str) -> Result<postgres::Client, postgres::Error> + Send + Sync>;

/// Returns a function that opens connections to a server.
fn connections(url: &str) -> Connect {
    let url = url.to_owned();
    std::sync::Arc::new(move |application: &str| {
        let mut config: postgres::Config = url.parse()?;
        config.application_name(application);
        config.connect(postgres::NoTls)
    })
}
