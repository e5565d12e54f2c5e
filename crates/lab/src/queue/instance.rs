//! An instance of the downloader: a poller that claims, a bounded channel, a pool of workers. It ends in order, or
//! dies: its connections are dropped, and what it had claimed and not written is lost with it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TrySendError, bounded};
use postgres::Client;

use super::Connect;
use super::claim::claim_sql;
use super::downloader::Plan;
use super::limiter::{Limiter, PUT_OFF};
use super::tally::{Tally, add};
use super::worker::{Job, work};
use crate::LabError;
use crate::error::reason;

/// How long a poller waits that found nothing.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a poller tries again where the channel is full.
const FULL: Duration = Duration::from_millis(2);

/// What its threads share.
pub(super) struct Inner {
    connect: Connect,
    number: usize,
    /// Where links are fetched.
    pub(super) links: SocketAddr,
    pub(super) tally: Arc<Tally>,
    limiter: Mutex<Limiter>,
    /// Claimed and not done.
    pub(super) held: AtomicI64,
    ends: AtomicBool,
    dead: AtomicBool,
}

impl Inner {
    pub(super) fn connect(&self, role: &str) -> Result<Client, postgres::Error> {
        (self.connect)(&format!("downloader-{} {role}", self.number))
    }

    /// It does nothing any more, and writes nothing.
    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub(super) fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_dead() || self.ends.load(Ordering::Acquire)
    }
}

/// One that runs.
pub(super) struct Instance {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<Result<(), postgres::Error>>>,
}

impl Instance {
    pub(super) fn start(
        connect: &Connect,
        number: usize,
        plan: &Plan,
        links: SocketAddr,
        tally: &Arc<Tally>,
    ) -> Self {
        let inner = Arc::new(Inner {
            connect: connect.clone(),
            number,
            links,
            tally: tally.clone(),
            limiter: Mutex::new(Limiter::new(plan.rate_per_s, Instant::now())),
            held: AtomicI64::new(0),
            ends: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        });
        let (sender, receiver) = bounded(plan.channel);
        let mut threads = Vec::new();
        for _ in 0..plan.workers {
            let (inner, receiver) = (inner.clone(), receiver.clone());
            threads.push(thread::spawn(move || work(&inner, &receiver)));
        }
        let claim = claim_sql(plan.batch, plan.locks);
        let mine = inner.clone();
        threads.push(thread::spawn(move || poll(&mine, &claim, &sender)));
        Instance { inner, threads }
    }

    /// Links that it has claimed and not done.
    pub(super) fn held(&self) -> i64 {
        self.inner.held.load(Ordering::Acquire)
    }

    /// How many a second its limiter lets through now.
    pub(super) fn target_per_s(&self) -> f64 {
        self.inner.limiter().target_per_s()
    }

    /// It dies. Returns how many links it had claimed, as far as it knew.
    pub(super) fn kill(self) -> i64 {
        self.inner.dead.store(true, Ordering::Release);
        let held = self.held();
        for thread in self.threads {
            // What it would have said died with it.
            let _ = thread.join();
        }
        held
    }

    /// It claims no more, does what it has, and ends.
    ///
    /// # Errors
    /// Where a program of it broke off.
    pub(super) fn end(self) -> Result<(), LabError> {
        self.inner.ends.store(true, Ordering::Release);
        let number = self.inner.number;
        for thread in self.threads {
            let ended = thread.join().expect("a program does not panic");
            ended.map_err(|error| LabError::Client {
                number,
                reason: reason(&error),
            })?;
        }
        Ok(())
    }
}

/// The poller: claims, lets through what the limiter allows, and puts off the rest.
fn poll(instance: &Inner, claim: &str, jobs: &Sender<Job>) -> Result<(), postgres::Error> {
    let mut client = instance.connect("poller")?;
    let claim = client.prepare(claim)?;
    let put_off = client.prepare(PUT_OFF)?;
    let tally = &instance.tally;
    while !instance.is_over() {
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
            if !send(instance, jobs, job) {
                return Ok(());
            }
        }
        if !too_many.is_empty() {
            if instance.is_dead() {
                return Ok(());
            }
            client.execute(&put_off, &[&too_many])?;
            add(&tally.put_off, too_many.len() as u64);
            instance
                .held
                .fetch_sub(too_many.len() as i64, Ordering::AcqRel);
        }
    }
    Ok(())
}

/// Waits for room; false where the instance is dead.
fn send(instance: &Inner, jobs: &Sender<Job>, job: Job) -> bool {
    let mut job = job;
    loop {
        if instance.is_dead() {
            return false;
        }
        match jobs.try_send(job) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) => {
                job = back;
                thread::sleep(FULL);
            }
            Err(TrySendError::Disconnected(_)) => return false,
        }
    }
}
