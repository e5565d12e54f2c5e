//! An instance of the downloader: a poller that claims, a bounded channel, and a pool of workers. It runs as a
//! separate process, which may be killed at any time. Links that it had claimed and not written are then lost with
//! it.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use postgres::Client;

use super::limiter::{Limiter, POSTPONE};
use super::messages::{InstanceParameters, Report, read_message, write_message};
use super::tally::{Tally, add};
use super::worker::{Job, work};
use super::{Connect, connections};
use crate::LabError;
use crate::error::reason;

/// Pause of a poller that found nothing.
const PAUSE: Duration = Duration::from_millis(20);
/// Interval between two reports.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// Shared state of its threads.
pub(super) struct InstanceState {
    connect: Connect,
    number: usize,
    /// Address of the links' server.
    pub(super) links: SocketAddr,
    pub(super) tally: Tally,
    limiter: Mutex<Limiter>,
    /// Number of links that are claimed and not finished.
    pub(super) held: AtomicI64,
    ends: AtomicBool,
}

impl InstanceState {
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

/// Runs an instance: reads its parameters, works, and reports, until `input` ends. Then it claims no more, finishes
/// its links, and ends. It does the same if `output` is closed.
///
/// # Errors
/// If the parameters are invalid, or a thread failed; the failure is also reported.
pub fn run_instance(
    mut input: impl BufRead + Send + 'static,
    output: &mut impl Write,
) -> Result<(), LabError> {
    let task = match read_message::<InstanceParameters>(&mut input) {
        Ok(Some(task)) => task,
        Ok(None) => return Err(invalid_parameters("nothing".to_owned())),
        Err(error) => return Err(invalid_parameters(error.to_string())),
    };
    let number = task.number;
    let inner = Arc::new(InstanceState {
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
    // This thread ends with the process if nobody reads the reports any more.
    thread::spawn(move || {
        let _ = input.read_to_end(&mut Vec::new());
        mine.ends.store(true, Ordering::Release);
    });
    while !inner.ends.load(Ordering::Acquire) {
        if write_message(&inner.report(), output).is_err() {
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
    // The parent process may be gone.
    let _ = write_message(&last, output);
    match failure {
        Some(reason) => Err(LabError::Client { number, reason }),
        None => Ok(()),
    }
}

fn invalid_parameters(what: String) -> LabError {
    LabError::Client {
        number: 0,
        reason: format!(
            "an instance reads its parameters from a line on its standard input, and received: {what}"
        ),
    }
}

fn start(
    inner: &Arc<InstanceState>,
    task: &InstanceParameters,
) -> Vec<JoinHandle<Result<(), postgres::Error>>> {
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

/// Polls: claims links, passes on what the limiter allows, and postpones the rest.
fn poll(instance: &InstanceState, claim: &str, jobs: &Sender<Job>) -> Result<(), postgres::Error> {
    let mut client = instance.connect("poller")?;
    let claim = client.prepare(claim)?;
    let put_off = client.prepare(POSTPONE)?;
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
            // Waits for room. The channel is closed if all workers have ended.
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
