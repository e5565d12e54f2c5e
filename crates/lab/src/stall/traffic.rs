//! The shop's programs: readers of single orders, and one that searches.

use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use super::Shop;
use crate::error::{LabError, reason};

/// The application name of the program that searches: its sessions are those that may be late.
pub const SEARCHER: &str = "searcher";

/// Needs the index.
pub(super) const SEARCH: &str = "SELECT id, state FROM orders WHERE customer = $1";
const READ: &str = "SELECT state, note FROM orders WHERE id = $1";

/// How many of what come how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Programs that read single orders.
    pub readers: usize,
    /// From one read of a program to its next.
    pub read_every: Duration,
    /// From one search to the next.
    pub search_every: Duration,
    /// For how long.
    pub duration: Duration,
}

impl Plan {
    /// So that a search without its index takes `slower` times as long as there is from one to the next:
    /// in one queue, all that users sent in a second then takes so many seconds.
    pub fn for_shop(shop: &Shop, slower: u32, duration: Duration) -> Self {
        Plan {
            readers: 6,
            read_every: Duration::from_millis(20),
            search_every: (shop.slow / slower).max(Duration::from_millis(2)),
            duration,
        }
    }
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Driven {
    /// Reads of single orders.
    pub reads: u64,
    /// Searches.
    pub searches: u64,
}

/// Has the programs run. `connect` opens a connection for an application of a name.
///
/// # Errors
/// Where one breaks off.
pub fn drive(
    connect: &(dyn Fn(&str) -> Result<Client, postgres::Error> + Sync),
    shop: &Shop,
    plan: &Plan,
) -> Result<Driven, LabError> {
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
            // Programs do not begin at once.
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
                    // Keys come in no order, and each is there.
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
        let mut driven = Driven::default();
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
