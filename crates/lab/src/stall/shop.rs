//! The shop's orders, and the index that the search needs.

use std::time::{Duration, Instant};

use postgres::Client;

use crate::{LabError, Scale};

/// Name of the index that is missing on the target.
pub const INDEX: &str = "orders_customer";

/// Number of timed searches, of which the fastest counts: a replay must not be faster than that.
const PROBES: i32 = 7;

/// The created shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shop {
    /// Number of orders.
    pub orders: u32,
    /// Number of customers. Each has the same number of orders.
    pub customers: u32,
    /// Minimum duration of a search without its index.
    pub slow: Duration,
}

/// Creates the shop, times the search without its index, and creates the index.
///
/// # Errors
/// If the server refuses.
pub fn create(client: &mut Client, scale: Scale) -> Result<Shop, LabError> {
    let failed = LabError::server("the shop cannot be made");
    let orders: u32 = match scale {
        Scale::Small => 400_000,
        Scale::Full => 4_000_000,
    };
    let customers = orders / 40;
    let filled = format!(
        "CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, state text NOT NULL, note text NOT NULL);
         INSERT INTO orders SELECT n, n % {customers}, 'paid', repeat('x', 120) FROM generate_series(1, {orders}) n"
    );
    // Sent one by one, since VACUUM cannot be part of a multi-statement message.
    for sql in [
        filled.as_str(),
        "VACUUM (ANALYZE) orders",
        // Parallel workers would make a search faster, in a replay as here.
        "ALTER TABLE orders SET (parallel_workers = 0)",
    ] {
        client.batch_execute(sql).map_err(&failed)?;
    }
    let mut times = Vec::new();
    for customer in 0..PROBES {
        let begun = Instant::now();
        client
            .query(super::traffic::SEARCH, &[&customer])
            .map_err(&failed)?;
        times.push(begun.elapsed());
    }
    client
        .batch_execute(&format!(
            "CREATE INDEX {INDEX} ON orders (customer); CHECKPOINT"
        ))
        .map_err(&failed)?;
    Ok(Shop {
        orders,
        customers,
        slow: times.into_iter().min().unwrap_or_default(),
    })
}

/// Drops the index of the search.
///
/// # Errors
/// If the server refuses.
pub fn drop_index(client: &mut Client) -> Result<(), LabError> {
    client
        .batch_execute(&format!("DROP INDEX {INDEX}"))
        .map_err(LabError::server("the index cannot be dropped"))
}

/// Reads the table, so that every replay starts with it in the cache.
///
/// # Errors
/// If the server refuses.
pub fn warm(client: &mut Client) -> Result<(), LabError> {
    client
        .batch_execute("CHECKPOINT; SELECT count(note) FROM orders")
        .map_err(LabError::server("the table cannot be read"))
}
