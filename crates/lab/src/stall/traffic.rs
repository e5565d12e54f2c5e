//! The shop's programs: readers of single orders, and one that searches.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use super::Shop;
use crate::error::{LabError, reason};

/// `application_name` of the searching program. Only its sessions may be late.
pub const SEARCHER: &str = "searcher";

/// The search, which needs the index.
pub(super) const SEARCH: &str = "SELECT id, state FROM orders WHERE customer = $1";
const READ: &str = "SELECT state, note FROM orders WHERE id = $1";

/// Parameters of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficPlan {
    /// Programs that read single orders.
    pub readers: usize,
    /// Interval between two reads of a program.
    pub read_every: Duration,
    /// Interval between two searches.
    pub search_every: Duration,
    /// Duration.
    pub duration: Duration,
}

impl TrafficPlan {
    /// Sets the interval of searches so that a search without its index takes `slower` times as long. In one queue,
    /// one second of traffic then takes that many seconds.
    pub fn for_shop(shop: &Shop, slower: u32, duration: Duration) -> Self {
        TrafficPlan {
            readers: 6,
            read_every: Duration::from_millis(20),
            search_every: (shop.slow / slower).max(Duration::from_millis(2)),
            duration,
        }
    }
}

/// Counts of the traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// Number of reads of single orders.
    pub reads: u64,
    /// Number of searches.
    pub searches: u64,
}

/// Runs the programs. `connect` opens a connection with the given `application_name`.
///
/// # Errors
/// If one breaks off.
pub fn run_programs(
    connect: &(dyn Fn(&str) -> Result<Client, postgres::Error> + Sync),
    shop: &Shop,
    plan: &TrafficPlan,
) -> Result<QueryCounts, LabError> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let program = |number: usize| {
            let (application, sql, every) = match number {
                0 => (SEARCHER, SEARCH, plan.search_every),
                _ => ("reader", READ, plan.read_every),
            };
            let most = match number {
                0 => shop.customers,
                _ => shop.orders,
            };
            // Programs start at different times.
            let first = every * number as u32 / (plan.readers as u32 + 1);
            let result = || -> Result<u64, postgres::Error> {
                let mut client = connect(application)?;
                let statement = client.prepare(sql)?;
                let mut sent: u64 = 0;
                loop {
                    let due = first + every * u32::try_from(sent).unwrap_or(u32::MAX);
                    if due >= plan.duration {
                        return Ok(sent);
                    }
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                    // Keys are accessed in no order, and each exists.
                    let key =
                        (sent.wrapping_mul(7_919) + number as u64 * 104_729) % u64::from(most);
                    client.query(&statement, &[&(key as i32)])?;
                    sent += 1;
                }
            };
            result().map_err(|error| LabError::Client {
                number,
                reason: reason(&error),
            })
        };
        let programs: Vec<_> = (0..=plan.readers)
            .map(|number| (number, scope.spawn(move || program(number))))
            .collect();
        let mut driven = QueryCounts::default();
        for (number, program) in programs {
            let sent = program.join().expect("a program does not panic")?;
            match number {
                0 => driven.searches += sent,
                _ => driven.reads += sent,
            }
        }
        Ok(driven)
    })
}
