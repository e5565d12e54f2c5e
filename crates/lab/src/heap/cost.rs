//! CPU time of the server for each event, by rows of a statement, with cold and with warm caches.

use std::thread;

use postgres::Client;

use super::event::Events;
use super::ingest::insert;
use super::store::Store;
use crate::error::reason;
use crate::{Connect, LabError, ProcessorTime};

/// Number of concurrent connections.
const CONNECTIONS: u32 = 2;

/// State of the backends' relation caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// No statement reaches a backend that has accessed its table before: a connection that has written every table
    /// once is replaced. This resembles tens of thousands of tables, most of which a backend has never accessed.
    Cold,
    /// Every connection has already written to every table.
    Warm,
}

/// Measurement of one combination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Rows of a statement.
    pub rows: u32,
    /// State of the caches.
    pub caches: Caches,
    /// Number of events written.
    pub events: u64,
    /// CPU time of the server's processes for each event, as the kernel counts it, in microseconds. With cold caches
    /// it includes the new connections.
    pub cpu_us: f64,
}

/// Writes the given number of statements on each connection, and measures. `None` if the server's processes cannot be
/// observed.
///
/// # Errors
/// If the server refuses.
pub fn measure_cost(
    connect: &Connect<'_>,
    processor_time: &ProcessorTime<'_>,
    store: &Store,
    (rows, caches): (u32, Caches),
    statements: u32,
    first_event: u64,
) -> Result<Option<Cost>, LabError> {
    let customers = store.size.customers;
    let failed = |number: u32| {
        move |error: postgres::Error| LabError::Client {
            number: number as usize,
            reason: reason(&error),
        }
    };
    let events_of =
        |number: u32| Events::new(customers, first_event + (u64::from(number + 1) << 32));
    let write = |client: &mut Client, events: &mut Events, customer: u32, rows: u32| {
        let rows: Vec<_> = (0..rows).map(|_| events.of(customer)).collect();
        client.batch_execute(&insert(customer, &rows))
    };
    let mut connections: Vec<(u32, Option<Client>, Events)> = Vec::new();
    for number in 0..CONNECTIONS {
        let mut events = events_of(number);
        let client = match caches {
            Caches::Cold => None,
            Caches::Warm => {
                let mut client = connect("warm").map_err(failed(number))?;
                for customer in 0..customers {
                    write(&mut client, &mut events, customer, 1).map_err(failed(number))?;
                }
                Some(client)
            }
        };
        connections.push((number, client, events));
    }
    let begun = processor_time();
    let ends: Vec<Result<Option<Client>, LabError>> = thread::scope(|scope| {
        let all: Vec<_> = connections
            .into_iter()
            .map(|(number, mut client, mut events)| {
                let write = &write;
                let failed = &failed;
                scope.spawn(move || {
                    for at in 0..statements {
                        if caches == Caches::Cold && at % customers == 0 {
                            client = Some(connect("cold").map_err(failed(number))?);
                        }
                        let Some(client) = &mut client else { continue };
                        // The two connections never write to the same table at the same time.
                        let customer = (at + number * customers / CONNECTIONS) % customers;
                        write(client, &mut events, customer, rows).map_err(failed(number))?;
                    }
                    Ok(client)
                })
            })
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("a client does not panic"))
            .collect()
    });
    // Read while the last connections are open, since the kernel attributes their time to live processes.
    let ended = processor_time();
    ends.into_iter().collect::<Result<Vec<_>, _>>()?;
    let events = u64::from(statements) * u64::from(CONNECTIONS) * u64::from(rows);
    Ok(begun.zip(ended).map(|(begun, ended)| Cost {
        rows,
        caches,
        events,
        cpu_us: ended.saturating_sub(begun) as f64 / 1e3 / events.max(1) as f64,
    }))
}
