//! An instance of the downloader, from within: a poller that claims, a bounded channel, a pool of workers. It is a
//! process of its own, which may be killed at any moment; what it had claimed and not written is lost with it then.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use postgres::Client;

use super::limiter::{Limiter, PUT_OFF};
use super::messages::{Report, Task, hear, say};
use super::tally::{Tally, add};
use super::worker::{Job, work};
use super::{Connect, connections};
use crate::LabError;
use crate::error::reason;

/// How long a poller waits that found nothing.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it says what it does.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// What its threads share.
pub(super) struct Inner {
    connect: Connect,
    number: usize,
    /// Where links are fetched.
    pub(super) links: SocketAddr,
    pub(super) tally: Tally,
    limiter: Mutex<Limiter>,
    /// Claimed and not done.
    pub(super) held: AtomicI64,
    ends: AtomicBool,
}

impl Inner {
    pub(super) fn connect(&self, role: &str) -> Result<Client, postgres::Error> {
        (self.connect)(&format!("downloader-{} {role}", self.number))
    }

    pub(super) fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> Report {
        Report {
            held: self.held.load(Ordering::Acquire),
            target_per_s: self.limiter().target_per_s(),
            counts: self.tally.counts(),
            ..Report::default()
        }
    }
}

/// The program of an instance: reads what it is told, works, and says what it does, until `input` ends. Then it claims
/// no more, does what it has, and ends; so it does where nobody hears it any more.
///
/// # Errors
/// Where it is told nothing that makes sense, or a part of it broke off; that is said as well.
pub fn instance(
    mut input: impl BufRead + Send + 'static,
    output: &mut impl Write,
) -> Result<(), LabError> {
    let task = match hear::<Task>(&mut input) {
        Ok(Some(task)) => task,
        Ok(None) => return Err(untold("nothing".to_owned())),
        Err(error) => return Err(untold(error.to_string())),
    };
    let number = task.number;
    let inner = Arc::new(Inner {
        connect: connections(&task.url),
        number,
        links: task.links,
        tally: Tally::default(),
        limiter: Mutex::new(Limiter::new(task.rate_per_s, Instant::now())),
        held: AtomicI64::new(0),
        ends: AtomicBool::new(false),
    });
    let threads = start(&inner, &task);
    let mine = inner.clone();
    // It ends with the process where nobody hears this one any more.
    thread::spawn(move || {
        let _ = input.read_to_end(&mut Vec::new());
        mine.ends.store(true, Ordering::Release);
    });
    while !inner.ends.load(Ordering::Acquire) {
        if say(&inner.report(), output).is_err() {
            inner.ends.store(true, Ordering::Release);
        }
        thread::sleep(REPORT_EVERY);
    }
    let ended: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().expect("a part of it does not panic"))
        .collect();
    let failure = ended
        .iter()
        .find_map(|ended| ended.as_ref().err().map(reason));
    let last = Report {
        failure: failure.clone(),
        is_last: true,
        ..inner.report()
    };
    // Nobody may be there to hear it.
    let _ = say(&last, output);
    match failure {
        Some(reason) => Err(LabError::Client { number, reason }),
        None => Ok(()),
    }
}

fn untold(what: String) -> LabError {
    LabError::Client {
        number: 0,
        reason: format!(
            "an instance is told in a line on its standard input what to do, and was told: {what}"
        ),
    }
}

fn start(inner: &Arc<Inner>, task: &Task) -> Vec<JoinHandle<Result<(), postgres::Error>>> {
    let (sender, receiver) = bounded(task.channel);
    let mut threads = Vec::new();
    for _ in 0..task.workers {
        let (inner, receiver) = (inner.clone(), receiver.clone());
        threads.push(thread::spawn(move || work(&inner, &receiver)));
    }
    let (mine, claim) = (inner.clone(), task.claim.clone());
    threads.push(thread::spawn(move || poll(&mine, &claim, &sender)));
    threads
}

/// The poller: claims, lets through what the limiter allows, and puts off the rest.
fn poll(instance: &Inner, claim: &str, jobs: &Sender<Job>) -> Result<(), postgres::Error> {
    let mut client = instance.connect("poller")?;
    let claim = client.prepare(claim)?;
    let put_off = client.prepare(PUT_OFF)?;
    let tally = &instance.tally;
    while !instance.ends.load(Ordering::Acquire) {
        let rows = client.query(&claim, &[])?;
        add(&tally.claims, 1);
        add(&tally.claimed, rows.len() as u64);
        instance.held.fetch_add(rows.len() as i64, Ordering::AcqRel);
        if rows.is_empty() {
            thread::sleep(PAUSE);
            continue;
        }
        let mut claimed: Vec<Job> = rows
            .iter()
            .map(|row| Job {
                id: row.get(0),
                link: row.get(1),
                attempts: row.get(2),
            })
            .collect();
        let let_through = instance.limiter().take(claimed.len(), Instant::now());
        let too_many: Vec<i64> = claimed.drain(let_through..).map(|job| job.id).collect();
        for job in claimed {
            // Waits for room. Without workers nobody takes it.
            if jobs.send(job).is_err() {
                return Ok(());
            }
        }
        if !too_many.is_empty() {
            client.execute(&put_off, &[&too_many])?;
            add(&tally.put_off, too_many.len() as u64);
            instance
                .held
                .fetch_sub(too_many.len() as i64, Ordering::AcqRel);
        }
    }
    Ok(())
}
