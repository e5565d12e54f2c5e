//! What keeps the queue in order: the reaper, which takes back what was claimed by somebody who is gone, and
//! retention, which deletes what nobody references any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Connect;
use super::tally::{Tally, add};

/// Links that were not referenced for so long are deleted. Those past 36 hours are not fetched any more, which is
/// the claim's condition.
const RETENTION: &str = "DELETE FROM image_links WHERE referenced_at < now() - interval '7 days'";
/// How often it is looked whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The age of a claim tells stuck work.
fn reaper_sql(after: Duration) -> String {
    format!(
        "UPDATE image_links SET queued_at = NULL WHERE queued_at < now() - interval '{} s'",
        after.as_secs_f64()
    )
}

/// Keeps order every so often, until it is over.
pub(super) fn keep_order(
    connect: &Connect,
    every: Duration,
    reap_after: Duration,
    tally: &Tally,
    is_over: &AtomicBool,
) -> Result<(), postgres::Error> {
    let mut client = connect("upkeep")?;
    let reaper = client.prepare(&reaper_sql(reap_after))?;
    let retention = client.prepare(RETENTION)?;
    let mut last = Instant::now();
    loop {
        thread::sleep(LOOK_EVERY);
        if is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        if last.elapsed() >= every {
            last = Instant::now();
            add(&tally.reaped, client.execute(&reaper, &[])?);
            add(&tally.expired, client.execute(&retention, &[])?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reaper_goes_by_the_age_of_a_claim() {
        let sql = reaper_sql(Duration::from_millis(2_500));
        assert!(
            sql.ends_with("queued_at < now() - interval '2.5 s'"),
            "{sql}"
        );
    }
}
