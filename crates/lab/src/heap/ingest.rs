//! The ingester: consumers, one for each partition, and a round-robin connection pool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use super::by_customer;
use super::definition::table;
use super::event::{Event, Events};
use super::store::Store;
use crate::error::reason;
use crate::{Connect, LabError};

/// The `application_name` of the ingester.
const APPLICATION: &str = "ingester";

/// Builds one `INSERT` for rows of one customer.
pub fn insert(customer: u32, rows: &[Event]) -> String {
    let rows: Vec<String> = rows.iter().map(Event::row).collect();
    format!(
        "INSERT INTO {} (event_id, user_id, visit_id, time, type, path, hierarchy, properties) VALUES {}",
        table(customer),
        rows.join(", ")
    )
}

/// A round-robin pool of connections. Rows of each table reach every connection.
pub struct Pool {
    connections: Vec<Mutex<Client>>,
    next: AtomicUsize,
}

impl Pool {
    /// Opens a number of new connections.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn open(connect: &Connect<'_>, size: usize) -> Result<Self, LabError> {
        let connections: Result<Vec<_>, _> = (0..size)
            .map(|_| connect(APPLICATION).map(Mutex::new))
            .collect();
        Ok(Pool {
            connections: connections.map_err(LabError::server("the pool cannot connect"))?,
            next: AtomicUsize::new(0),
        })
    }

    /// Writes a row into each table on every connection, so that each backend has all indexes in its relation cache.
    ///
    /// # Errors
    /// If the server refuses one.
    pub fn warm_caches(&self, store: &Store, first_event: u64) -> Result<(), LabError> {
        let mut events = Events::new(store.size.customers, first_event);
        for customer in 0..store.size.customers {
            for _ in &self.connections {
                let row = [events.of(customer)];
                self.execute(&insert(customer, &row))
                    .map_err(LabError::server("the pool cannot write"))?;
            }
        }
        Ok(())
    }

    /// Executes a statement on the next connection.
    fn execute(&self, sql: &str) -> Result<(), postgres::Error> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let connection = &self.connections[turn];
        let mut client = connection.lock().unwrap_or_else(PoisonError::into_inner);
        client.batch_execute(sql)
    }

    /// Writes events in statements of up to `rows` of one customer. Returns the number of statements.
    ///
    /// # Errors
    /// If the server refuses one.
    pub fn write(&self, events: Vec<Event>, rows: usize) -> Result<u64, postgres::Error> {
        let mut statements = 0;
        for (customer, events) in by_customer(events) {
            for batch in events.chunks(rows.max(1)) {
                self.execute(&insert(customer, batch))?;
                statements += 1;
            }
        }
        Ok(statements)
    }
}

/// Counts of what was written.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct IngestCounts {
    /// Number of events.
    pub events: u64,
    /// Number of statements.
    pub statements: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl IngestCounts {
    /// Returns the events written a second.
    pub fn per_s(&self) -> f64 {
        self.events as f64 / self.seconds.max(1e-9)
    }
}

/// Runs a consumer for each partition until `more` returns false. `more` is called before each event with the counts
/// so far. Rows of a customer are buffered until there are `rows` of them; those in the buffer at the end are not
/// written.
fn consume(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    (partitions, rows): (usize, usize),
    more: &(dyn Fn(u64, Duration) -> bool + Sync),
) -> Result<IngestCounts, LabError> {
    let begun = Instant::now();
    let consumer = |number: usize| -> Result<(u64, u64), LabError> {
        // The first numbers are far apart, so that event numbers are unique.
        let first = first_event + ((number as u64 + 1) << 32);
        let events = Events::new(store.size.customers, first);
        let mut events = events.of_partition(number as u32, partitions as u32);
        let mut waiting: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        let (mut written, mut statements) = (0, 0);
        while more(written, begun.elapsed()) {
            let Some(event) = events.next() else { break };
            let batch = waiting.entry(event.customer).or_default();
            let customer = event.customer;
            batch.push(event);
            if batch.len() < rows {
                continue;
            }
            let batch = std::mem::take(batch);
            let done = pool.execute(&insert(customer, &batch));
            done.map_err(|error| LabError::Client {
                number,
                reason: reason(&error),
            })?;
            written += batch.len() as u64;
            statements += 1;
        }
        Ok((written, statements))
    };
    let results: Vec<Result<(u64, u64), LabError>> = thread::scope(|scope| {
        let consumer = &consumer;
        let all: Vec<_> = (0..partitions)
            .map(|number| scope.spawn(move || consumer(number)))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("a consumer does not panic"))
            .collect()
    });
    let mut all = IngestCounts {
        seconds: begun.elapsed().as_secs_f64(),
        ..IngestCounts::default()
    };
    for result in results {
        let (events, statements) = result?;
        all.events += events;
        all.statements += statements;
    }
    Ok(all)
}

/// Writes the given number of events of each partition as single rows, as fast as the server accepts them.
///
/// # Errors
/// If a consumer breaks off.
pub fn ingest(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    partitions: usize,
    each: u64,
) -> Result<IngestCounts, LabError> {
    let more = |written: u64, _: Duration| written < each;
    consume(pool, store, first_event, (partitions, 1), &more)
}

/// Writes for a duration, with the given number of rows of a statement, as fast as the server accepts them.
///
/// # Errors
/// If a consumer breaks off.
pub fn ingest_for(
    pool: &Pool,
    store: &Store,
    first_event: u64,
    (partitions, rows): (usize, usize),
    time: Duration,
) -> Result<IngestCounts, LabError> {
    let more = |_, elapsed: Duration| elapsed < time;
    consume(pool, store, first_event, (partitions, rows), &more)
}
