//! The shop's orders, and the index that the search needs.

use std::time::{Duration, Instant};

use postgres::Client;

use crate::{LabError, Scale};

/// What the target lacks.
pub const INDEX: &str = "orders_customer";

/// Searches are timed this often, for the fastest: a replay must not be faster than that.
const PROBES: i32 = 7;

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shop {
    /// Orders.
    pub orders: u32,
    /// Customers; each has as many orders.
    pub customers: u32,
    /// How long a search takes here without its index, at least.
    pub slow: Duration,
}

/// Makes the shop, times the search without its index, and makes that.
///
/// # Errors
/// Where the server refuses.
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
    // One by one: a VACUUM takes no others beside it.
    for sql in [
        filled.as_str(),
        "VACUUM (ANALYZE) orders",
        // In a replay as here: with workers beside it a search would be faster.
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

/// The trouble.
///
/// # Errors
/// Where the server refuses.
pub fn drop_index(client: &mut Client) -> Result<(), LabError> {
    client
        .batch_execute(&format!("DROP INDEX {INDEX}"))
        .map_err(LabError::server("the index cannot be dropped"))
}

/// Reads the table, so that every replay begins with it in memory.
///
/// # Errors
/// Where the server refuses.
pub fn warm(client: &mut Client) -> Result<(), LabError> {
    client
        .batch_execute("CHECKPOINT; SELECT count(note) FROM orders")
        .map_err(LabError::server("the table cannot be read"))
}
