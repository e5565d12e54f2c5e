//! Upkeep of the queue: the reaper releases abandoned claims, and retention deletes links that are no longer
//! referenced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Connect;
use super::tally::{Tally, add};

/// Deletes links that were not referenced for seven days. Those past 36 hours are already excluded by the claim's
/// condition.
const RETENTION: &str = "DELETE FROM image_links WHERE referenced_at < now() - interval '7 days'";
/// Interval of checks whether the system ends.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Builds the statement of the reaper, which recognises abandoned work by the age of its claim.
fn reaper_sql(after: Duration) -> String {
    format!(
        "UPDATE image_links SET queued_at = NULL WHERE queued_at < now() - interval '{} s'",
        after.as_secs_f64()
    )
}

/// Runs the reaper and retention at an interval, until the system ends.
pub(super) fn run_upkeep(
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
    fn reaper_sql_selects_by_age_of_claim() {
        let sql = reaper_sql(Duration::from_millis(2_500));
        assert!(
            sql.ends_with("queued_at < now() - interval '2.5 s'"),
            "{sql}"
        );
    }
}
