//! A worker: takes a link from the channel, fetches it, and writes the result.

use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use postgres::{Client, Statement};

use super::fetch::{FetchResult, Fetcher};
use super::instance::InstanceState;
use super::tally::add;

/// Number of failed attempts after which a link is given up.
const ATTEMPTS_MAX: i32 = 5;

/// Marks a link as fetched; it is due again a day later.
const DONE: &str = "UPDATE image_links SET queued_at = NULL, download_after = now() + interval '1 day', attempts = 0, failure = NULL \
     WHERE id = $1";
/// Marks a link for another attempt, later each time.
const RETRY: &str = "UPDATE image_links SET queued_at = NULL, attempts = attempts + 1, failure = $2, \
     download_after = now() + interval '5 s' * power(2, attempts) WHERE id = $1";
/// Marks a link as given up, with the reason for the customer.
const GIVEN_UP: &str = "UPDATE image_links SET queued_at = NULL, download_after = NULL, attempts = attempts + 1, failure = $2 \
     WHERE id = $1";

/// A claimed link.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) id: i64,
    pub(super) link: String,
    pub(super) attempts: i32,
}

struct Outcomes {
    done: Statement,
    retry: Statement,
    given_up: Statement,
}

/// Processes links until the channel is closed and empty.
pub(super) fn work(instance: &InstanceState, jobs: &Receiver<Job>) -> Result<(), postgres::Error> {
    let mut client = instance.connect("worker")?;
    let outcomes = Outcomes {
        done: client.prepare(DONE)?,
        retry: client.prepare(RETRY)?,
        given_up: client.prepare(GIVEN_UP)?,
    };
    let mut fetcher = Fetcher::new(instance.links);
    for job in jobs {
        let attempt = u32::try_from(job.attempts).unwrap_or_default();
        let fetched = fetcher.fetch(&job.link, attempt);
        let failed = matches!(fetched, FetchResult::Failed(_));
        instance.limiter().record(failed);
        write(&mut client, &outcomes, instance, &job, &fetched)?;
        instance.held.fetch_sub(1, Ordering::AcqRel);
    }
    Ok(())
}

fn write(
    client: &mut Client,
    outcomes: &Outcomes,
    instance: &InstanceState,
    job: &Job,
    fetched: &FetchResult,
) -> Result<(), postgres::Error> {
    let tally = &instance.tally;
    match fetched {
        FetchResult::Image(_) => {
            client.execute(&outcomes.done, &[&job.id])?;
            add(&tally.downloaded, 1);
        }
        FetchResult::Failed(why) if job.attempts + 1 < ATTEMPTS_MAX => {
            client.execute(&outcomes.retry, &[&job.id, why])?;
            add(&tally.retried, 1);
        }
        FetchResult::Missing(why) | FetchResult::Failed(why) => {
            client.execute(&outcomes.given_up, &[&job.id, why])?;
            add(&tally.given_up, 1);
        }
    }
    Ok(())
}
