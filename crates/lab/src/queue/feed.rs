//! What customers send: links that are new, and links that are there already, which are referenced once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Connect;
use super::schema::link;
use super::tally::{Tally, add};

/// From one import to the next.
const EVERY: Duration = Duration::from_millis(100);

/// New ones are due at once. The unique index on the link is what tells the two apart.
const IMPORT: &str = "INSERT INTO image_links (image_link, download_after, referenced_at) \
     SELECT link, clock_timestamp(), now() FROM unnest($1::text[]) AS link \
     ON CONFLICT (image_link) DO UPDATE SET referenced_at = now()";

/// What the importer goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feed {
    /// Links that are there: new ones have greater numbers.
    pub(super) links: u32,
    pub(super) arrivals_per_s: u32,
}

/// Imports until it is over. A moment that was missed is made up for.
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
        // One of those that were referenced lately and are due later (see the table's making).
        let known = u64::from(round) * 700 % u64::from(feed.links) / 100 * 100 + 85;
        links.push(link(known));
        client.execute(&statement, &[&links])?;
        add(&tally.arrived, each);
    }
    Ok(())
}
