//! The importer: customers send new links, and references to links that exist already.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Connect;
use super::schema::link;
use super::tally::{Tally, add};

/// Interval between two imports.
const EVERY: Duration = Duration::from_millis(100);

/// New links are due at once. The unique index on the link distinguishes new and existing links.
const IMPORT: &str = "INSERT INTO image_links (image_link, download_after, referenced_at) \
     SELECT link, clock_timestamp(), now() FROM unnest($1::text[]) AS link \
     ON CONFLICT (image_link) DO UPDATE SET referenced_at = now()";

/// Parameters of the importer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feed {
    /// Number of initial links. New ones have greater numbers.
    pub(super) links: u32,
    pub(super) arrivals_per_s: u32,
}

/// Imports links until the system ends. A missed import is made up for.
pub(super) fn import(
    connect: &Connect,
    feed: Feed,
    tally: &Tally,
    is_over: &AtomicBool,
) -> Result<(), postgres::Error> {
    let mut client = connect("importer")?;
    let statement = client.prepare(IMPORT)?;
    let begun = Instant::now();
    let each = (feed.arrivals_per_s as f64 * EVERY.as_secs_f64()).ceil() as u64;
    let mut next = u64::from(feed.links) + 1;
    for round in 1_u32.. {
        thread::sleep((EVERY * round).saturating_sub(begun.elapsed()));
        if is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut links: Vec<String> = (next..next + each).map(link).collect();
        next += each;
        // One of the links that were referenced recently and are due later (see the creation of the table).
        let known = u64::from(round) * 700 % u64::from(feed.links) / 100 * 100 + 85;
        links.push(link(known));
        client.execute(&statement, &[&links])?;
        add(&tally.arrived, each);
    }
    Ok(())
}
