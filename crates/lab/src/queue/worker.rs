//! A worker: takes a link out of the channel, fetches it, and writes what became of it.

use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use postgres::{Client, Statement};

use super::fetch::{Fetched, Fetcher};
use super::instance::Inner;
use super::tally::add;

/// A link whose attempts fail so often is given up.
const ATTEMPTS_MAX: i32 = 5;

/// Fetched again a day later, to pick up changes.
const DONE: &str = "UPDATE image_links SET queued_at = NULL, download_after = now() + interval '1 day', attempts = 0, failure = NULL \
     WHERE id = $1";
/// Tried again, each time later.
const RETRY: &str = "UPDATE image_links SET queued_at = NULL, attempts = attempts + 1, failure = $2, \
     download_after = now() + interval '5 s' * power(2, attempts) WHERE id = $1";
/// Never again; the customer sees why.
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

/// Works until the channel is closed and empty.
pub(super) fn work(instance: &Inner, jobs: &Receiver<Job>) -> Result<(), postgres::Error> {
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
        let failed = matches!(fetched, Fetched::Failed(_));
        instance.limiter().record(failed);
        write(&mut client, &outcomes, instance, &job, &fetched)?;
        instance.held.fetch_sub(1, Ordering::AcqRel);
    }
    Ok(())
}

fn write(
    client: &mut Client,
    outcomes: &Outcomes,
    instance: &Inner,
    job: &Job,
    fetched: &Fetched,
) -> Result<(), postgres::Error> {
    let tally = &instance.tally;
    match fetched {
        Fetched::Image(_) => {
            client.execute(&outcomes.done, &[&job.id])?;
            add(&tally.downloaded, 1);
        }
        Fetched::Failed(why) if job.attempts + 1 < ATTEMPTS_MAX => {
            client.execute(&outcomes.retry, &[&job.id, why])?;
            add(&tally.retried, 1);
        }
        Fetched::Missing(why) | Fetched::Failed(why) => {
            client.execute(&outcomes.given_up, &[&job.id, why])?;
            add(&tally.given_up, 1);
        }
    }
    Ok(())
}
